#include "runtime/params_layout.h"

#include <fmt/format.h>

#include <cstddef>

#include "templates/kernels/params.cuh"

namespace lssar {

std::string params_layout() {
  using lssar_device::AttentionParams;
  using lssar_device::TmaParams;
  std::string text = fmt::format("{} {}:", sizeof(AttentionParams), sizeof(TmaParams));
#define LSSAR_AT(field) text += fmt::format(" " #field " {}", offsetof(AttentionParams, field))
  LSSAR_AT(q);
  LSSAR_AT(k);
  LSSAR_AT(v);
  LSSAR_AT(o);
  LSSAR_AT(grad_o);
  LSSAR_AT(grad_q);
  LSSAR_AT(grad_k);
  LSSAR_AT(grad_v);
  LSSAR_AT(saved_o);
  LSSAR_AT(saved_stats);
  LSSAR_AT(saved_x);
  LSSAR_AT(partial_o);
  LSSAR_AT(q_inv_norm);
  LSSAR_AT(k_inv_norm);
  LSSAR_AT(row_constants);
  LSSAR_AT(grad_q_sum);
  LSSAR_AT(dq_turns);
  LSSAR_AT(tickets);
  LSSAR_AT(seq_q);
  LSSAR_AT(seq_k);
  LSSAR_AT(batch);
  LSSAR_AT(heads);
  LSSAR_AT(kv_heads);
  LSSAR_AT(first_key);
  LSSAR_AT(num_keys);
  LSSAR_AT(query_shift);
  LSSAR_AT(sink);
  LSSAR_AT(grad_sink);
  LSSAR_AT(sink_terms);
#undef LSSAR_AT
  return text;
}

}  // namespace lssar
