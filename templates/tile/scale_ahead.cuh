// fp16's scale of dS' (tile/grad_scale.cuh), found before dS' is computed. One warp derives it from
// a bound of every row in a tile of queries:
//
//   |dS'_ij| <= |gain_i| |g_i| w_i s_i |v_j| + (|gain_delta_i| w_i + |epsilon_i|) s_i
//
// w_i is the row's largest base^(p-1), s_i its largest sigmoid. The row constants hold the other
// factors, and w_i and s_i approximately (RowLimits). The warp multiplies the constants by the
// scale and divides inverse_epsilon by it, so that dS' comes out scaled. (The linear form takes 1
// for the sigmoid of a weight. For the row's large weights this exceeds s_i only by rounding.) Rows
// or keys that saw NaN or infinity do not count, because all of their dS' are NaN or infinite.
#pragma once

#include "templates/ptx/convert.cuh"
#include "templates/ptx/mbarrier.cuh"
#include "templates/ptx/memory.cuh"
#include "templates/ptx/sync.cuh"
#include "templates/tile/key_scores.cuh"
#include "templates/tile/row_constants.cuh"

namespace lssar_device {

// What consumers must know about a stage.
struct StageScale {
  float ratio;  // for the sums so far
  u32 demand;   // the largest of the stage's rows
};

// For each stage of a ring: its StageScale, and a barrier that completes when its row constants are
// scaled. Beside them: the factor of the stage that was scaled last, and a barrier that completes
// when the norms of a work tile's values are there.
template <int kStages>
struct StageScales {
  static constexpr int kScalesOffset = (kStages + 1) * kBarrierBytes;
  static constexpr int kScaleBytes = 8;
  static constexpr int kFactorOffset = kScalesOffset + kStages * kScaleBytes;
  static constexpr int kBytes = kFactorOffset + 8;

  u32 base;

  LSSAR_DEVICE u32 ready(int stage) const { return base + stage * kBarrierBytes; }
  LSSAR_DEVICE u32 norms() const { return ready(kStages); }

  // Called by one thread before the others use them.
  LSSAR_DEVICE void init(int num_norms) const {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) mbarrier_init(ready(stage), 1);
    mbarrier_init(norms(), num_norms);
    store_shared(base + kFactorOffset, 1.0f);  // of sums without queries
  }

  LSSAR_DEVICE void store(int stage, const StageScale& scale) const {
    store_shared(address(stage), scale.ratio, float_from_bits(scale.demand));
  }
  LSSAR_DEVICE void store_factor(float factor) const { store_shared(base + kFactorOffset, factor); }
  LSSAR_DEVICE StageScale load(int stage) const {
    float words[2];
    load_shared(words, address(stage));
    return {words[0], bits_of_float(words[1])};
  }
  LSSAR_DEVICE float factor() const {
    float factor;
    load_shared(factor, base + kFactorOffset);
    return factor;
  }

 private:
  LSSAR_DEVICE u32 address(int stage) const { return base + kScalesOffset + stage * kScaleBytes; }
};

// The largest finite |x|^2 among kWarpRows rows of a SwizzledTile from row0 on. REQUIRES: called by
// a whole warp.
template <class Tile>
LSSAR_DEVICE float largest_row_square(const Tile& tile, int row0) {
  using Element = typename Tile::Element;
  constexpr int kRowLanes = kWarpThreads / kWarpRows;
  const int row = row0 + warp_group_lane() % kWarpRows;
  const int first_col = warp_group_lane() / kWarpRows * 8;
  float square = 0.0f;
#pragma unroll
  for (int chunk = 0; chunk < Tile::kCols; chunk += kRowLanes * 8) {
    if (chunk + first_col >= Tile::kCols) continue;
    u32 packed[4];
    load_shared(packed, tile.address(row, chunk + first_col));
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      float low, high;
      unpack(static_cast<Element*>(nullptr), packed[pair], low, high);
      square = fma(low, low, fma(high, high, square));
    }
  }
  static_assert(kRowLanes == 2, "of two lanes");
  square += shuffle_xor(square, kWarpRows);
  return float_from_bits(warp_maximum(square < infinity() ? bits_of_float(square) : 0));
}

// Calls `process` with the addresses of the low and the high half of each of the lane's rows.
template <int kQueries, class Process>
LSSAR_DEVICE void for_each_lane_row(const ScaledConstants<kQueries>& rows, const Process& process) {
  using Rows = ScaledConstants<kQueries>;
  u32 low = rows.base + warp_group_lane() * Rows::kPitch;
#pragma unroll 1
  for (int first = 0; first < kQueries; first += kWarpThreads, low += kWarpThreads * Rows::kPitch) {
    if (kQueries % kWarpThreads != 0 && first + warp_group_lane() >= kQueries) break;
    LSSAR_INLINE_CALL process(low, low + Rows::kPlaneBytes);
  }
}
// 2^exponent.
LSSAR_DEVICE float power_of_two(int exponent) {
  return float_from_bits(static_cast<u32>(exponent + 127) << 23);
}

// Bits of the largest bound among the finite rows. To keep dS' finite before it is multiplied by w
// and s, and to keep the gain finite, 2^-kGuard of each counts too. `demand` becomes the largest of
// the rows. REQUIRES: called by a whole warp; |v_j| is at most value_norm.
template <int kQueries>
LSSAR_DEVICE u32 largest_bound(const ScaledConstants<kQueries>& rows, float value_norm,
                               u32& demand) {
  constexpr int kGuard = 110;
  constexpr u32 kLargestFinite = 0x7f7fffffu;
  u32 largest = 0, most_demand = 0;
  for_each_lane_row(rows, [&](u32 low, u32 high) {
    float head[4], x[4];
    load_shared(x, high);
    const RowLimits limits{bits_of_float(x[0])};
    most_demand = limits.demand() > most_demand ? limits.demand() : most_demand;
    const int w = static_cast<int>(limits.weight_doublings());
    const int s = static_cast<int>(limits.sigmoid_doublings());
    const float epsilon = absolute(x[1]), delta = absolute(x[2]);
    const float at_most = fma(delta, power_of_two(-w), epsilon) * power_of_two(-s);
    load_shared(head, low);
    const float gain = absolute(head[3]);
    const float rest = fma(gain + delta + epsilon, power_of_two(-kGuard), at_most);
    if (!(rest < infinity())) return;
    const float product = limits.bound() * value_norm;
    // Removes w, s and the amount by which they were rounded up from the bound.
    const u32 bits = bits_of_float(fma(product, power_of_two(w + s + 2 - kGuard), product + rest));
    const u32 bound = bits < kLargestFinite ? bits : kLargestFinite;
    largest = bound > largest ? bound : largest;
  });
  demand = warp_maximum(most_demand);
  return warp_maximum(largest);
}

// Replaces the limits of a row by gain_delta. REQUIRES: called by a whole warp. NOTE: reads and
// writes whole vectors, because single words would hit the same bank four times.
template <int kQueries>
LSSAR_DEVICE void scale_rows(const ScaledConstants<kQueries>& rows, float factor,
                             float inverse_factor) {
  for_each_lane_row(rows, [&](u32 low, u32 high) {
    float x[4];
    load_shared(x, low);
    x[3] *= factor;
    store_shared(low, x);
    load_shared(x, high);
    x[1] *= factor;
    x[0] = x[2] *= factor;
    x[3] = limit_inverse(x[3] * inverse_factor);
    store_shared(high, x);
  });
}

}  // namespace lssar_device
