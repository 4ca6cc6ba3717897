// Decoding: adds what the chunks of keys contribute to a row's output, in a fixed order.
//
// A block computes one row. Each of its kWarps warps adds every kWarps-th chunk, and each lane adds
// two columns of every 64.
#pragma once

#include "templates/decode/memory.cuh"

namespace lssar_device {

template <class Config>
struct DecodeOutputShape {
  static constexpr int kWarps = Config::kRowThreads / kWarpThreads;
  static constexpr int kSharedBytes = kWarps * Config::kHeadDimVPadded * 4;
};

// The divisor of a row, in every lane of a warp: the sum of the chunks' parts. A divisor that is no
// sum is the same in every chunk, so the first one's is taken.
template <class Config>
LSSAR_DEVICE float decode_divisor(const DecodeMemory<Config>& memory) {
  if (memory.chunks == 0) return 0.0f;
  if constexpr (!Config::kIsGeneral || Config::kDivisorSum != 0) {
    float sum = 0.0f;
    for (i64 chunk = lane_index(); chunk < memory.chunks; chunk += kWarpThreads)
      sum += *memory.part(kPartDivisor, chunk);
    return warp_sum(sum);
  } else {
    return *memory.part(kPartDivisor, 0);
  }
}

template <class Config>
LSSAR_DEVICE void decode_outputs(const AttentionParams& params) {
  using Element = typename Config::Element;
  constexpr int kWarps = DecodeOutputShape<Config>::kWarps;
  const i64 queries = seq_q<Config>(params);
  const BlockPlace place = block_place<Config>(queries, params.heads);
  const i64 row = (i64{place.batch} * params.heads + place.head) * queries + place.tile_idx;
  const DecodeMemory<Config> memory(params, row);
  const u32 sums = dynamic_shared_address();
#pragma unroll
  for (int first = 0; first < Config::kHeadDimV; first += 2 * kWarpThreads) {
    const int col = first + 2 * lane_index();
    if (col >= Config::kHeadDimV) continue;
    float x = 0.0f, y = 0.0f;
#pragma unroll 4
    for (i64 chunk = warp_index(); chunk < memory.chunks; chunk += kWarps) {
      const float* const from = memory.outputs + chunk * Config::kHeadDimV + col;
      x += from[0];
      y += from[1];
    }
    store_shared(sums + (warp_index() * Config::kHeadDimVPadded + col) * 4, x, y);
  }
  const float z = decode_divisor(memory);
  block_barrier();
  Element* const out = row_pointer<Element>(params.o, place.batch, place.head, place.tile_idx);
  for (int col = 2 * thread_index(); col < Config::kHeadDimV; col += 2 * Config::kRowThreads) {
    float o[2] = {0.0f, 0.0f};
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      float of_warp[2];
      load_shared(of_warp, sums + (warp * Config::kHeadDimVPadded + col) * 4);
      o[0] += of_warp[0];
      o[1] += of_warp[1];
    }
    store_pair<Config::kIsAligned, Element>(out + col, z == 0.0f ? 0.0f : o[0] / z,
                                            z == 0.0f ? 0.0f : o[1] / z);
  }
  if (params.saved_stats == nullptr || thread_index() != 0) return;
  const i64 count = i64{params.batch} * params.heads * queries;
  // Without a second stage the divisor is r, which the first statistic is.
  const bool has_r = Config::kIsGeneral && Config::kSecondStage == 0;
  params.saved_stats[2 * count + row] = has_r && z != 0.0f && !is_nan(z) ? 1.0f : z;
  if (memory.chunks != 0) return;
  params.saved_stats[row] = params.saved_stats[count + row] = 0.0f;
  params.saved_stats[3 * count + row] = 0.0f;
}

}  // namespace lssar_device
