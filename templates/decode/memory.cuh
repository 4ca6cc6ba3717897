// What the workspace has of a row while blocks divide its keys (decode/scores.cuh), and how the
// parts of all chunks are added.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/ptx/sync.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/rows.cuh"

namespace lssar_device {

template <class Config>
LSSAR_DEVICE i64 num_chunks(const AttentionParams& params) {
  return ceil_div(seq_k<Config>(params), Config::kSplitKeys);
}

// The numbers that a chunk has for each row.
enum ChunkPart {
  kPartSum,      // of activations, or of their magnitudes
  kPartLargest,  // score, or for the power of the re-weighting activation
  kPartLowest,   // minus the lowest activation
  kPartDivisor,  // what the chunk adds to the divisor of o
};

template <class Config>
struct DecodeMemory {
  float* scores;   // [chunks, kSplitKeys]: scores, then weights
  float* parts;    // [kDecodeParts, chunks]
  float* outputs;  // [chunks, kHeadDimV]: what a chunk adds to o, undivided
  i64 chunks;

  // `row` counts [batch, heads, seq_q].
  LSSAR_DEVICE DecodeMemory(const AttentionParams& params, i64 row)
      : chunks(num_chunks<Config>(params)) {
    scores = params.k_inv_norm + row * decode_row_floats<Config>(seq_k<Config>(params));
    parts = scores + chunks * Config::kSplitKeys;
    outputs = parts + chunks * kDecodeParts;
  }

  LSSAR_DEVICE float* part(ChunkPart which, i64 chunk) const {
    return parts + which * chunks + chunk;
  }

  // The largest of all chunks, in every lane of the quad that shares the row. A chunk whose number
  // is NaN is left out.
  LSSAR_DEVICE float largest(ChunkPart which, bool has_row) const {
    float most = -infinity();
    if (has_row)
      for (i64 chunk = lane_index() % 4; chunk < chunks; chunk += 4)
        most = maximum(most, *part(which, chunk));
    return quad_maximum(most);
  }

  // The sum of all chunks, each times `factor_of(chunk)`, by Kahan's summation, because the sum
  // decides whether a row is dead, and a row may have 10^6 keys. Every lane of the quad gets it.
  template <class FactorOf>
  LSSAR_DEVICE float sum(ChunkPart which, bool has_row, const FactorOf& factor_of) const {
    float total = 0.0f, lost = 0.0f;
    if (has_row)
      for (i64 chunk = lane_index() % 4; chunk < chunks; chunk += 4) {
        const float term = *part(which, chunk) * factor_of(chunk) - lost;
        const float next = total + term;
        lost = (next - total) - term;
        total = next;
      }
    return quad_sum(total);
  }
};

// A lane's two rows, and their memory. `Rows`: those of a forward.
template <class Config, class Rows>
struct KeptRows : Rows {
  float least[2];  // lower weights count as 0

  LSSAR_DEVICE bool has(const AttentionParams& params, int half) const {
    return this->row[half] < seq_q<Config>(params);
  }
  LSSAR_DEVICE DecodeMemory<Config> memory(const AttentionParams& params, const BlockPlace& place,
                                           int half) const {
    return {params, this->saved_index(params, place, half)};
  }
};

// Weights of a row below this count as 0, if the row's largest is 1. All of them together then
// change the row's sum by less than its rounding.
template <class Config>
LSSAR_DEVICE float least_weight(float num_keys) {
  constexpr float kLeast = 1.0f / 16777216.0f;
  constexpr float kLeastSum = Config::kIsFp32 ? kLeast : 1.0f / 4096.0f;
  const float of_sum = kLeastSum / num_keys;
  return of_sum < kLeast ? of_sum : kLeast;
}

}  // namespace lssar_device
