/* The sizes and offsets of the C API's structs: part of the ABI, on 64-bit Linux. Included by a C99
 * and by a C++11 translation unit; defines check_layout(), which returns how many differ. */
#include <stddef.h>
#include <stdio.h>

#include "lssar/lssar.h"

struct layout_entry {
  const char* what;
  size_t actual;
  size_t expected;
};

#define SIZE_OF(type, bytes) \
  { "sizeof(" #type ")", sizeof(type), bytes }
#define OFFSET(type, field, bytes) \
  { #type "." #field, offsetof(type, field), bytes }

static int check_layout(const char* language) {
  static const struct layout_entry entries[] = {
      SIZE_OF(lssar_status, 4),
      SIZE_OF(lssar_context_options, 72),
      OFFSET(lssar_context_options, device, 8),
      OFFSET(lssar_context_options, device_ordinal, 12),
      OFFSET(lssar_context_options, compiler, 16),
      OFFSET(lssar_context_options, target, 24),
      OFFSET(lssar_context_options, cache_directory, 32),
      OFFSET(lssar_context_options, cache_max_bytes, 40),
      OFFSET(lssar_context_options, tuning_table, 48),
      OFFSET(lssar_context_options, parallel_for, 56),
      OFFSET(lssar_context_options, parallel_for_user, 64),
      SIZE_OF(lssar_context_info, 80),
      OFFSET(lssar_context_info, device, 8),
      OFFSET(lssar_context_info, device_name, 16),
      OFFSET(lssar_context_info, cache_misses, 72),
      SIZE_OF(lssar_problem, 168),
      OFFSET(lssar_problem, passes, 8),
      OFFSET(lssar_problem, dtype, 12),
      OFFSET(lssar_problem, head_dim, 16),
      OFFSET(lssar_problem, head_dim_v, 20),
      OFFSET(lssar_problem, seq_q, 24),
      OFFSET(lssar_problem, seq_k, 32),
      OFFSET(lssar_problem, batch, 40),
      OFFSET(lssar_problem, heads, 48),
      OFFSET(lssar_problem, kv_heads, 56),
      OFFSET(lssar_problem, causal, 64),
      OFFSET(lssar_problem, p, 68),
      OFFSET(lssar_problem, offset, 72),
      OFFSET(lssar_problem, alignment, 80),
      OFFSET(lssar_problem, score, 88),
      OFFSET(lssar_problem, varlen, 96),
      OFFSET(lssar_problem, has_window, 104),
      OFFSET(lssar_problem, window_left, 112),
      OFFSET(lssar_problem, window_right, 120),
      OFFSET(lssar_problem, window_sinks, 128),
      OFFSET(lssar_problem, prefix, 136),
      OFFSET(lssar_problem, chunk, 144),
      OFFSET(lssar_problem, invariant, 152),
      OFFSET(lssar_problem, rotary_dim, 160),
      OFFSET(lssar_problem, rotary_interleaved, 164),
      SIZE_OF(lssar_plan_options, 32),
      OFFSET(lssar_plan_options, tuning, 16),
      OFFSET(lssar_plan_options, determinism, 20),
      OFFSET(lssar_plan_options, tune, 24),
      SIZE_OF(lssar_tune_options, 72),
      OFFSET(lssar_tune_options, budget, 8),
      OFFSET(lssar_tune_options, determinism, 12),
      OFFSET(lssar_tune_options, parallel_compiles, 16),
      OFFSET(lssar_tune_options, callback, 24),
      OFFSET(lssar_tune_options, user, 32),
      OFFSET(lssar_tune_options, worker, 40),
      OFFSET(lssar_tune_options, lengths_q, 48),
      OFFSET(lssar_tune_options, lengths_k, 56),
      OFFSET(lssar_tune_options, num_lengths, 64),
      SIZE_OF(lssar_tune_progress, 72),
      OFFSET(lssar_tune_progress, problem, 8),
      OFFSET(lssar_tune_progress, stage, 16),
      OFFSET(lssar_tune_progress, best, 24),
      OFFSET(lssar_tune_progress, search, 32),
      OFFSET(lssar_tune_progress, num_searches, 36),
      OFFSET(lssar_tune_progress, done, 40),
      OFFSET(lssar_tune_progress, total, 44),
      OFFSET(lssar_tune_progress, best_ms, 48),
      OFFSET(lssar_tune_progress, elapsed_s, 56),
      OFFSET(lssar_tune_progress, limit_s, 64),
      SIZE_OF(lssar_schedule_info, 48),
      OFFSET(lssar_schedule_info, origin, 8),
      OFFSET(lssar_schedule_info, unaligned_origin, 12),
      OFFSET(lssar_schedule_info, reason, 16),
      OFFSET(lssar_schedule_info, schedule_json, 24),
      OFFSET(lssar_schedule_info, unaligned_reason, 32),
      OFFSET(lssar_schedule_info, unaligned_schedule_json, 40),
      SIZE_OF(lssar_sizes, 40),
      SIZE_OF(lssar_saved_sizes, 24),
      SIZE_OF(lssar_tensor, 32),
      OFFSET(lssar_tensor, strides, 8),
      SIZE_OF(lssar_range, 32),
      OFFSET(lssar_range, num_keys, 8),
      OFFSET(lssar_range, first_query, 16),
      OFFSET(lssar_range, num_queries, 24),
      SIZE_OF(lssar_call, 600),
      OFFSET(lssar_call, sizes, 8),
      OFFSET(lssar_call, q, 48),
      OFFSET(lssar_call, o, 144),
      OFFSET(lssar_call, grad_o, 176),
      OFFSET(lssar_call, grad_q, 208),
      OFFSET(lssar_call, saved_o, 304),
      OFFSET(lssar_call, saved_x, 320),
      OFFSET(lssar_call, workspace, 328),
      OFFSET(lssar_call, stream, 344),
      OFFSET(lssar_call, range, 352),
      OFFSET(lssar_call, row_stats, 384),
      OFFSET(lssar_call, partial_o, 392),
      OFFSET(lssar_call, num_threads, 400),
      OFFSET(lssar_call, sink, 408),
      OFFSET(lssar_call, grad_sink, 416),
      OFFSET(lssar_call, cu_seqlens_q, 424),
      OFFSET(lssar_call, seqused_k, 448),
      OFFSET(lssar_call, total_k, 464),
      OFFSET(lssar_call, rotary_cos, 472),
      OFFSET(lssar_call, rotary_positions, 488),
      OFFSET(lssar_call, alibi_slopes, 496),
      OFFSET(lssar_call, k_new, 504),
      OFFSET(lssar_call, seq_new, 568),
      OFFSET(lssar_call, total_new, 584),
      OFFSET(lssar_call, key_norms, 592),
  };
  int differences = 0;
  size_t i;
  for (i = 0; i < sizeof(entries) / sizeof(entries[0]); ++i) {
    if (entries[i].actual == entries[i].expected) continue;
    fprintf(stderr, "%s: %s is %zu, the ABI says %zu\n", language, entries[i].what,
            entries[i].actual, entries[i].expected);
    ++differences;
  }
  return differences;
}
