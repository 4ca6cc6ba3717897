// First launch of a call of sequences that have lengths of their own: checks the lengths, and lays
// out the blocks of the other launches.
//
// Sequences are sorted by work, queries times keys, the most first: into buckets, eight for each
// doubling. So no long sequence is left for the end of a launch. For each launch, first_tiles has
// the tiles of a head before each sequence in that order.
//
// If a length is negative, or rows lie outside the tensors, no launch has tiles. So nothing is
// computed, and no memory outside is touched. More new keys than a sequence has keys count as a bad
// length, too. With rotary positions, more queries than keys are one as well, because the first
// queries would stand before position 0.
//
// One block of kSequenceThreads threads. A thread has one bucket.
#pragma once

#include "templates/tile/sequences.cuh"

namespace lssar_device {

// The sum of `value` over the threads before this one; `total` is that of all threads. All threads
// of the block call it.
LSSAR_DEVICE int sum_before(int value, int& total) {
  __shared__ int sums[kSequenceThreads];
  const int thread = thread_index();
  int sum = value;
  sums[thread] = sum;
  block_barrier();
#pragma unroll 1
  for (int distance = 1; distance < kSequenceThreads; distance *= 2) {
    const int other = thread >= distance ? sums[thread - distance] : 0;
    block_barrier();
    sum += other;
    sums[thread] = sum;
    block_barrier();
  }
  total = sums[kSequenceThreads - 1];
  block_barrier();
  return sum - value;
}

// Whether the rows of sequence b lie within the tensors.
LSSAR_DEVICE bool has_good_rows(int b, const int* cu_seqlens, const int* used, i64 most,
                                i64 total) {
  i64 length = most;
  if (cu_seqlens != nullptr) {
    const i64 first = cu_seqlens[b], end = cu_seqlens[b + 1];
    if (first < 0 || end < first || end > total || end - first > most) return false;
    length = end - first;
  }
  return used == nullptr || (used[b] >= 0 && used[b] <= length);
}

// Whether all rows of sequence b stand at rotary positions. REQUIRES: has_good_rows.
template <class Config>
LSSAR_DEVICE bool has_good_positions(const SequencesParams& all, int b) {
  if constexpr (Config::kRotaryDim != 0) {
    return query_rows(all, b).length <= key_rows(all, b).length;
  } else {
    return true;
  }
}

// Whether the new keys of sequence b are its last ones. REQUIRES: has_good_rows.
template <class Config>
LSSAR_DEVICE bool has_good_new_keys(const SequencesParams& all, int b) {
  if constexpr (Config::kAppends) {
    return has_good_rows(b, all.cu_seqlens_new, nullptr, all.seq_new, all.total_new) &&
           new_rows(all, b).length <= key_rows(all, b).length;
  } else {
    return true;
  }
}

// 0 for the most work, the last bucket for none.
LSSAR_DEVICE int work_bucket(const SequencesParams& all, int b) {
  constexpr int kLast = kSequenceThreads - 1;
  const float work =
      static_cast<float>(query_rows(all, b).length) * static_cast<float>(key_rows(all, b).length);
  if (!(work >= 1.0f)) return kLast;
  // The exponent and three bits below it, from 1 to 2^63 as lengths are below 2^31.
  const u32 octaves = (bits_of_float(work) - bits_of_float(1.0f)) >> 20;
  return maximum(kLast - 1 - static_cast<int>(octaves), 0);
}

template <class Config>
LSSAR_DEVICE int tiles_of(const SequencesParams& all, const SequenceLaunch& launch, int b) {
  const bool are_keys = launch.rows_are != kQueryRows;
  i64 rows = are_keys ? key_rows(all, b).length : query_rows(all, b).length;
  if constexpr (Config::kAppends) {
    if (launch.rows_are == kNewRows) rows = new_rows(all, b).length;
  }
  return static_cast<int>(ceil_div(rows, launch.rows)) * launch.parts;
}

// Sorts the sequences by their buckets. Within a bucket they stay in order.
LSSAR_DEVICE void sort_by_bucket(const SequencesParams& all) {
  const int count = all.attention.batch;
  int in_bucket = 0, total;
  for (int b = 0; b < count; ++b)
    if (all.buckets[b] == thread_index()) ++in_bucket;
  int at = sum_before(in_bucket, total);
  for (int b = 0; b < count; ++b)
    if (all.buckets[b] == thread_index()) all.order[at++] = b;
  block_barrier();
}

template <class Config>
LSSAR_DEVICE void order_sequences(const SequencesParams& all) {
  const int count = all.attention.batch;
  if constexpr (Config::kOrderedDq) {
    if (thread_index() == 0) DqTurns<Config>::clear_tickets(all.attention);
  }
  int bad = 0, num_bad;
  for (int b = thread_index(); b < count; b += kSequenceThreads) {
    const bool is_good =
        has_good_rows(b, all.cu_seqlens_q, all.seqused_q, all.attention.seq_q, all.total_q) &&
        has_good_rows(b, all.cu_seqlens_k, all.seqused_k, all.attention.seq_k, all.total_k) &&
        has_good_positions<Config>(all, b) && has_good_new_keys<Config>(all, b);
    if (!is_good) ++bad;
    all.buckets[b] = work_bucket(all, b);
  }
  sum_before(bad, num_bad);
  sort_by_bucket(all);
  if (thread_index() == 0) *all.num_sequences = num_bad == 0 ? count : 0;
#pragma unroll 1
  for (int i = 0; i < kMaxSequenceLaunches; ++i) {
    const SequenceLaunch& launch = all.launches[i];
    if (launch.heads == 0) continue;
    int* first_tiles = all.first_tiles + i64{i} * (count + 1);
    int before = 0, total;
#pragma unroll 1
    for (int first = 0; first < count; first += kSequenceThreads) {
      const int n = first + thread_index();
      const bool has_tiles = n < count && num_bad == 0;
      const int here =
          sum_before(has_tiles ? tiles_of<Config>(all, launch, all.order[n]) : 0, total);
      if (n < count) first_tiles[n] = before + here;
      before += total;
    }
    if (thread_index() == 0) first_tiles[count] = before;
  }
}

}  // namespace lssar_device
