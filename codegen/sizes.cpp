// Bytes that depend on the sizes of a call: workspace, and what the forward for training saves.
#include "codegen/sizes.h"

#include <limits>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/pass_needs.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

// a * b * c * ..., or nothing if that exceeds a signed 64-bit size.
std::optional<size_t> product(std::initializer_list<int64_t> factors) {
  __int128 result = 1;
  for (const int64_t factor : factors) {
    if (factor < 0) return std::nullopt;
    result *= factor;
    if (result > std::numeric_limits<int64_t>::max()) return std::nullopt;
  }
  return static_cast<size_t>(result);
}

Status overflow(const char* what, const Sizes& s) {
  return invalid_argument(fmt::format(
      "{} of batch = {}, heads = {}, kv_heads = {}, seq_q = {}, seq_k = {}: the bytes must be at "
      "most 2^63 - 1 and no size negative",
      what, s.batch, s.heads, s.kv_heads, s.seq_q, s.seq_k));
}

// What rows have while blocks divide their keys: DecodeMemory in templates/decode/memory.cuh.
std::optional<size_t> decode_bytes(const Problem& problem, const Schedule& schedule,
                                   const Sizes& sizes) {
  const int64_t keys = schedule.split_keys;
  const int64_t chunks = sizes.seq_k / keys + (sizes.seq_k % keys != 0);
  return product({sizes.batch, sizes.heads, sizes.seq_q, chunks,
                  keys + lssar_constants::kDecodeParts + problem.head_dim_v, 4});
}

}  // namespace

nlohmann::json to_json(const Sizes& sizes) {
  return {{"batch", sizes.batch},
          {"heads", sizes.heads},
          {"kv_heads", sizes.kv_heads},
          {"seq_q", sizes.seq_q},
          {"seq_k", sizes.seq_k}};
}

Result<WorkspaceLayout> workspace_layout(const Problem& problem, const Schedule& schedule,
                                         const Sizes& sizes) {
  const bool is_backward = problem.pass == Pass::kBackward;
  const bool is_cpu = schedule.variant == Variant::kCpu;
  const bool has_sums = is_backward && sums_dq(schedule);
  const bool is_split = divides_keys(problem, schedule);
  // cpu_panel_slices multiplies these without a check.
  const auto slices = product({sizes.batch, sizes.kv_heads});
  if (!slices) return overflow("workspace", sizes);
  const int64_t panel_slices = is_cpu ? cpu_panel_slices(problem, schedule, sizes) : 0;
  const auto key_norms =
      is_cpu     ? product({panel_slices, cpu_slice_bytes(problem, schedule, sizes)})
      : is_split ? decode_bytes(problem, schedule, sizes)
                 : product({sizes.batch, sizes.kv_heads, key_norm_pitch(sizes.seq_k), 4});
  const auto query_norms =
      product({sizes.batch, sizes.heads, sizes.seq_q, is_backward && !is_cpu ? 4 : 0});
  const auto constants = product({sizes.batch, sizes.heads, sizes.seq_q, is_backward ? 32 : 0});
  const auto dq_sum =
      has_sums && is_cpu
          ? product({sizes.batch, sizes.heads, cpu_query_sum_bytes(problem, sizes.seq_q)})
          : product({sizes.batch, sizes.heads, sizes.seq_q, has_sums ? problem.head_dim : 0, 4});
  const bool is_ordered = is_backward && schedule.dq_mode == DqMode::kOrdered;
  const Tiling& dkdv = schedule.dkdv;
  const int64_t query_tiles = (sizes.seq_q + dkdv.block_cols - 1) / dkdv.block_cols;
  const auto turns =
      is_ordered && is_cpu
          ? product({sizes.batch, sizes.heads, cpu_turn_bytes(schedule, sizes.seq_q)})
          : product({sizes.batch, sizes.heads, is_ordered ? query_tiles : 0,
                     dkdv.block_rows / kWarpRows, 4});
  const bool has_sink_terms = is_backward && reads_sink(problem);
  const auto sink_terms = product({sizes.batch, sizes.heads, sizes.seq_q, has_sink_terms ? 8 : 0});
  const int64_t rotated_bytes =
      problem.rotary_dim == 0 || turns_tiles(problem, schedule)
          ? 0
          : problem.head_dim * dtype_bytes(problem.dtype);
  const auto rotated_q = product({sizes.batch, sizes.heads, sizes.seq_q, rotated_bytes});
  const auto rotated_k = product({sizes.batch, sizes.kv_heads, sizes.seq_k, rotated_bytes});
  if (!key_norms || !query_norms || !constants || !dq_sum || !turns || !sink_terms || !rotated_q ||
      !rotated_k)
    return overflow("workspace", sizes);

  WorkspaceLayout layout;
  size_t at = 0;
  const auto place = [&at](size_t& offset, size_t bytes) {
    offset = at;
    at += aligned_part(bytes);
    return at <= static_cast<size_t>(std::numeric_limits<int64_t>::max());
  };
  if (!place(layout.k_inv_norm, *key_norms) || !place(layout.q_inv_norm, *query_norms) ||
      !place(layout.row_constants, *constants) || !place(layout.grad_q_sum, *dq_sum) ||
      !place(layout.dq_turns, !is_ordered ? 0
                              : is_cpu    ? *turns
                                          : *turns + kTicketBytes) ||
      !place(layout.tickets, takes_tickets(problem, schedule) ? size_t{kTicketBytes} : 0) ||
      !place(layout.sink_terms, *sink_terms) || !place(layout.rotated_q, *rotated_q) ||
      !place(layout.rotated_k, *rotated_k))
    return overflow("workspace", sizes);
  layout.total_bytes = at;
  layout.turns_tiles = turns_tiles(problem, schedule);
  layout.panel_slices = panel_slices;
  return layout;
}

bool is_general(const Problem& problem) {
  return problem.p > kMaxPowerOfOwnKernels || problem.score != ScoreFunction();
}

int effective_power(const Problem& problem) { return problem.p == 0 ? 1 : problem.p; }

double effective_offset(const Problem& problem) {
  return problem.p == 0 && !problem.score.psi.expression ? 0.0 : problem.offset;
}

std::optional<Exponential> exponential_of(const Problem& problem) {
  if (!normalises_by_sum(problem.score)) return {};
  return as_exponential(problem.score.phi.expression);
}

double phi_sign(const Problem& problem) {
  const auto exponential = exponential_of(problem);
  const bool is_negative =
      exponential && exponential->factor < 0 && problem.score.normalizer == Normalizer::kSumAbs;
  return is_negative ? -1.0 : 1.0;
}

bool fuses_scale(const Problem& problem) {
  const auto exponential = exponential_of(problem);
  const ScoreScale& scale = problem.score.scale;
  const bool is_constant = scale.name == ScaleName::kInvSqrtDim || scale.name == ScaleName::kNumber;
  if (!exponential || problem.score.qk_norm || problem.p != 0 || problem.score.psi.expression ||
      !is_constant || changes_scores(problem))
    return false;
  constexpr double kLeast = 1e-30, kMost = 1e30;  // far from where a float32 is 0 or infinity
  const double factor = exponential->rate * scale_of(scale, problem.head_dim, 1);
  return factor > kLeast && factor < kMost;
}

bool divisor_is_sum(const Problem& problem, const Schedule& schedule) {
  return schedule.variant == Variant::kHopper && problem.pass != Pass::kBackward &&
         is_general(problem) && exponential_of(problem) && !has_pass_one(problem);
}

bool scales_weights(const Problem& problem) {
  if (!is_general(problem) || problem.dtype != DType::kFp16 || problem.p != 0) return false;
  return problem.score.psi.expression || !exponential_of(problem);
}

bool reads_sink(const Problem& problem) {
  return problem.score.sink != Sink::kNone && problem.pass != Pass::kRowSums;
}

bool reads_alibi(const Problem& problem) { return problem.score.alibi != Alibi::kNone; }

bool takes_new_keys(const Problem& problem) {
  return problem.varlen && problem.pass == Pass::kForward;
}

bool keeps_key_norms(const Problem& problem) {
  return takes_new_keys(problem) && problem.score.qk_norm && problem.rotary_dim == 0;
}

bool changes_scores(const Problem& problem) {
  return problem.score.soft_cap != 0 || problem.score.alibi != Alibi::kNone;
}

bool has_pass_one(const Problem& problem) {
  if (is_of_range(problem.pass)) return problem.pass == Pass::kRowSums;
  return !is_general(problem) || problem.p != 0 || problem.score.psi.expression;
}

bool needs_epsilon(const Problem& problem) {
  if (!normalises_by_sum(problem.score)) return false;
  if (problem.score.psi.expression) return true;
  return problem.p != 0 && static_cast<float>(problem.offset) != 0.0f;
}

bool may_abridge_softplus(const Problem& problem, const Schedule& schedule) {
  // X, too, is a sum of U^(p-1).
  const bool jumps = problem.pass == Pass::kBackward || sums_x(problem, schedule);
  return schedule.variant == Variant::kHopper && !is_general(problem) && (problem.p > 1 || !jumps);
}

bool saves_o(const Problem& problem) { return problem.dtype != DType::kFp32; }

bool saves_x(const Problem& problem, const Schedule& schedule) {
  return !is_general(problem) && needs_epsilon(problem) && schedule.epsilon == EpsilonFrom::kX;
}

bool sums_x(const Problem& problem, const Schedule& schedule) {
  return problem.pass == Pass::kForwardTrain && saves_x(problem, schedule);
}

bool takes_tickets(const Problem& problem, const Schedule& schedule) {
  return schedule.variant == Variant::kHopper && problem.pass != Pass::kBackward &&
         schedule.hopper.tickets;
}

Result<SavedBytes> saved_bytes(const Problem& problem, const Schedule& schedule,
                               const Sizes& sizes) {
  const int x_elem_bytes = !saves_x(problem, schedule) ? 0 : problem.dtype == DType::kFp32 ? 4 : 2;
  const int o_elem_bytes = saves_o(problem) ? 2 : 0;
  const auto o = product({sizes.batch, sizes.heads, sizes.seq_q, problem.head_dim_v, o_elem_bytes});
  const auto stats = product({sizes.batch, sizes.heads, sizes.seq_q, 4, 4});
  const auto x = product({sizes.batch, sizes.heads, sizes.seq_q, problem.head_dim_v, x_elem_bytes});
  const auto partial_o = product({sizes.batch, sizes.heads, sizes.seq_q, problem.head_dim_v, 4});
  if (!o || !stats || !x || !partial_o) return overflow("saved tensors", sizes);
  return SavedBytes{*o, *stats, *x, *partial_o};
}

}  // namespace lssar
