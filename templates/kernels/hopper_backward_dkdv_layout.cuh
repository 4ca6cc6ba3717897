// A block's shared memory, and its tensor maps.
//
// See hopper_backward_dkdv.cuh.
#pragma once

#include "templates/kernels/params.cuh"
#include "templates/tile/grad_scale.cuh"
#include "templates/tile/key_scores.cuh"
#include "templates/tile/scale_ahead.cuh"
#include "templates/tile/swizzled_tile.cuh"
#include "templates/tile/tma_ring.cuh"

namespace lssar_device {

template <class Config>
struct HopperDkdvShape {
  using Element = typename Config::Element;
  static constexpr int kBlockRows = Config::kDkdvBlockRows;
  static constexpr int kBlockCols = Config::kDkdvBlockCols;
  static constexpr int kStages = Config::kDkdvStages;
  static constexpr int kNumConsumers = kBlockRows / kWarpGroupRows;
  static constexpr int kConsumerWarps = kBlockRows / kWarpRows;
  static constexpr int kThreads = (1 + kNumConsumers) * kWarpGroupThreads;
  static constexpr int kNumSweeps = Config::kSplitDkdv ? 2 : 1;

  using KeyTile = SwizzledTile<Element, kBlockRows, Config::kHeadDim>;
  using ValueTile = SwizzledTile<Element, kBlockRows, Config::kHeadDimV>;
  using QueryTile = SwizzledTile<Element, kBlockCols, Config::kHeadDim>;
  using GradTile = SwizzledTile<Element, kBlockCols, Config::kHeadDimV>;
  using ScoreTile = SwizzledTile<Element, kBlockRows, kBlockCols>;
  using Constants = typename Select<Config::kIsGeneral, GeneralConstants<Config, kBlockCols>,
                                    PlanarConstants<kBlockCols, kScalesAhead<Config>>>::Type;

  // Columns of dq that a consumer computes: half of them, in whole chunks if there are several. The
  // last ones are the second consumer's, so its first columns may also be the other's (d = 192).
  static constexpr int kChunkCols = KeyTile::kChunkCols;
  static constexpr int kPaddedDim = KeyTile::kNumChunks * kChunkCols;
  static constexpr int kHalfDim = KeyTile::kNumChunks == 1
                                      ? (Config::kHeadDim / 2 + 7) / 8 * 8
                                      : (KeyTile::kNumChunks + 1) / 2 * kChunkCols;
  static constexpr int kQueryGradCols = kNumConsumers == 1 ? Config::kHeadDim : kHalfDim;
  static constexpr int kSecondCol = KeyTile::kNumChunks == 1 ? kHalfDim : kPaddedDim - kHalfDim;
  // Every column belongs to exactly one consumer.
  static constexpr bool kSharesAreHalves =
      kSecondCol == kHalfDim && kNumConsumers * kQueryGradCols == Config::kHeadDim;

  static constexpr int kValuesOffset = KeyTile::kBytes;
  static constexpr int kScoresOffset = kValuesOffset + ValueTile::kBytes;
  static constexpr int kStagingOffset =
      kScoresOffset + (Config::kSumsDq ? 2 * ScoreTile::kBytes : 0);
  // kSumsByTma: a warp's 16 rows of its consumer's dq, in boxes of columns. In a box, each eight
  // columns are apart from the others, so that the stores of a warp meet no bank twice.
  static constexpr int kSumCols = KeyTile::kNumChunks == 1 ? kQueryGradCols : kChunkCols;
  static constexpr int kSumBoxes = (kQueryGradCols + kSumCols - 1) / kSumCols;
  static constexpr int kSumBoxBytes = kWarpRows * kSumCols * 4;
  static constexpr int kStagingBytes = kSumBoxes * kSumBoxBytes;  // of a warp
  static constexpr int kStagesOffset =
      kStagingOffset + (Config::kSumsByTma ? kConsumerWarps * kStagingBytes : 0);
  static constexpr int kGradsOffset = QueryTile::kBytes;
  static constexpr int kStageBytes = QueryTile::kBytes + GradTile::kBytes;
  static constexpr int kConstantsOffset = kStagesOffset + kStages * kStageBytes;
  static constexpr int kWordsOffset = kConstantsOffset + kStages * Constants::kBytes;
  static constexpr int kRingOffset = kWordsOffset + (kConsumerWarps + 1) / 2 * 8;
  static constexpr int kOwnedRingOffset = kRingOffset + RingBarriers<kStages>::kBytes;
  static constexpr int kTicketOffset = kOwnedRingOffset + RingBarriers<1>::kBytes;
  static constexpr int kScalesOffset = kTicketOffset + (Config::kOrderedDq ? 2 * kTicketBytes : 0);
  static constexpr int kSharedBytes =
      kScalesOffset + (kScalesAhead<Config> ? StageScales<kStages>::kBytes : 0);

  static_assert(kBlockRows % kWarpGroupRows == 0, "a consumer owns 64 keys");
  static_assert(kBlockCols % 16 == 0 && kBlockCols <= 256, "queries are the depth of a wgmma");
  static_assert(!Config::kSumsDq || (kBlockCols == kWarpGroupRows && kNumConsumers <= 2),
                "the rows of dq's product are one tile's queries");
  static_assert(!Config::kSumsDq || !Config::kPingPong,
                "dS' is exchanged by all consumers at once: there is no ping-pong");
  static_assert(!Config::kSumsByTma || (Config::kSumsDq && !Config::kOrderedDq),
                "TMA adds in no order");
  static_assert(!Config::kOrderedDq || !Config::kIsPersistent,
                "a block takes its work tile when it starts");
};

// TmaParams::maps, in this order.
enum DkdvMap {
  kDkdvKeyMap,
  kDkdvValueMap,
  kDkdvQueryMap,
  kDkdvGradMap,
  kDkdvConstantMap,
  kDkdvSumMap,  // kSumsByTma
};
template <class Config>
inline constexpr int kNumDkdvMaps = kDkdvSumMap + (Config::kSumsByTma ? 1 : 0);

// Addresses in shared memory.
template <class Config>
struct DkdvShared {
  using Shape = HopperDkdvShape<Config>;

  u32 base;

  LSSAR_DEVICE typename Shape::KeyTile keys() const { return {base}; }
  LSSAR_DEVICE typename Shape::ValueTile values() const { return {base + Shape::kValuesOffset}; }
  LSSAR_DEVICE typename Shape::ScoreTile scores(int buffer) const {
    return {base + Shape::kScoresOffset + buffer * Shape::ScoreTile::kBytes};
  }
  LSSAR_DEVICE u32 staging(int warp) const {
    return base + Shape::kStagingOffset + warp * Shape::kStagingBytes;
  }
  LSSAR_DEVICE typename Shape::QueryTile queries(int stage) const {
    return {base + Shape::kStagesOffset + stage * Shape::kStageBytes};
  }
  LSSAR_DEVICE typename Shape::GradTile grads(int stage) const {
    return {queries(stage).base + Shape::kGradsOffset};
  }
  LSSAR_DEVICE typename Shape::Constants constants(int stage) const {
    return {base + Shape::kConstantsOffset + stage * Shape::Constants::kBytes};
  }
  LSSAR_DEVICE u32 words() const { return base + Shape::kWordsOffset; }
  LSSAR_DEVICE RingBarriers<Shape::kStages> ring() const { return {base + Shape::kRingOffset}; }
  LSSAR_DEVICE RingBarriers<1> owned_ring() const { return {base + Shape::kOwnedRingOffset}; }
  LSSAR_DEVICE u32 ticket() const { return base + Shape::kTicketOffset; }
  LSSAR_DEVICE StageScales<Shape::kStages> scales() const { return {base + Shape::kScalesOffset}; }
};

}  // namespace lssar_device
