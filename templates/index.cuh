// Every template, with a sample of what the generator writes around them: for editors, and for the
// test that compiles all templates as they are, for every target (nvcc -cubin -I. -x cu this file).
#pragma once

#include "templates/decode/append.cuh"
#include "templates/decode/outputs.cuh"
#include "templates/decode/values.cuh"
#include "templates/kernels/backward_dkdv.cuh"
#include "templates/kernels/backward_dq.cuh"
#include "templates/kernels/backward_dq_finish.cuh"
#include "templates/kernels/backward_epsilon.cuh"
#include "templates/kernels/backward_rows.cuh"
#include "templates/kernels/backward_sink.cuh"
#include "templates/kernels/forward.cuh"
#include "templates/kernels/forward_range.cuh"
#include "templates/kernels/general_forward.cuh"
#include "templates/kernels/general_range.cuh"
#include "templates/kernels/hopper_backward_dkdv.cuh"
#include "templates/kernels/hopper_backward_dq.cuh"
#include "templates/kernels/hopper_backward_epsilon.cuh"
#include "templates/kernels/hopper_forward.cuh"
#include "templates/kernels/key_norms.cuh"
#include "templates/kernels/order_sequences.cuh"
#include "templates/kernels/rotate_sequences.cuh"
#include "templates/ptx/wgmma_sample.cuh"
#include "templates/tile/mma16.cuh"
#include "templates/tile/mma32.cuh"

namespace lssar_device {

struct SampleFunctions {
  static LSSAR_DEVICE float score_scale_bits(float num_keys) {
    return 3.4657359f * log2_approx(num_keys);
  }
  // Degree 1: close enough to compile.
  static LSSAR_DEVICE float softplus_polynomial(float u) { return fma(-0.44f, u, 1.44f); }
  static LSSAR_DEVICE float row_polynomial(float u) { return softplus_polynomial(u); }
  static LSSAR_DEVICE float power(float u) { return u * u * u; }
  static LSSAR_DEVICE float power_slope(float u) { return u * u; }
};

template <class T, class M, bool kSums, bool kAligned>
struct SampleConfig : SampleFunctions {
  using Element = T;
  using Mma = M;
  using SavedX = T;
  static constexpr bool kIsFp32 = sizeof(T) == 4, kIsFp16 = false;
  static constexpr int kHeadDim = 24;
  static constexpr int kHeadDimV = 40;
  static constexpr int kHeadDimPadded = 32;
  static constexpr int kHeadDimVPadded = 48;
  static constexpr i64 kSeqQ = 0;
  static constexpr i64 kSeqK = 0;
  static constexpr bool kHasLengths = false, kAppends = false, kIsInvariant = false;
  static constexpr int kRotaryDim = 0;
  static constexpr bool kIsCausal = true, kHasWindow = false;
  static constexpr int kPower = 3;
  static constexpr float kOffset = 1.0f;
  static constexpr bool kIsGeneral = false, kHasNorms = true, kScalesWeights = false;
  static constexpr int kActivationSum = 1, kSecondStage = 1, kWeightSum = 0, kDivisorSum = 1;
  static constexpr bool kIsExponential = false, kFusesScale = false, kDivisorIsSum = false;
  static constexpr bool kHasSink = false, kSinkNeedsEpsilon = false;
  static constexpr bool kHasSoftCap = false, kHasAlibi = false, kChangesScores = false;
  static constexpr float kPhiSign = 1.0f, kGradUnit = 1.0f, kScoreUnit = 1.0f;
  static constexpr bool kIsAligned = kAligned;
  static constexpr bool kIsTraining = true;
  static constexpr bool kNeedsX = true;
  static constexpr bool kIsRange = false, kHasPassOne = true, kHasPassTwo = true;
  static constexpr int kRowThreads = 128;
  static constexpr bool kTakesTickets = false;
  static constexpr int kForwardBlockRows = 32, kForwardBlockCols = 32, kForwardStages = 2,
                       kBlockDv = 48;
  static constexpr int kDkdvBlockRows = 32, kDkdvBlockCols = 32, kDkdvStages = 1;
  static constexpr int kNumEvaluators = 1;
  static constexpr float kCutWeight = 0.5f, kMostWeight = 0.75f;
  static constexpr bool kPackGqa = kSums, kStoresByTma = false;
  static constexpr bool kSavesPassOneEarly = false;
  static constexpr bool kSkipTiles = false;
  static constexpr int kSplitKeys = 0;
  static constexpr bool kSplitDkdv = false;
  static constexpr bool kSumsDq = kSums, kOrderedDq = kSums;
  static constexpr int kDqBlockRows = 32, kDqBlockCols = 16, kDqStages = 3;
};

struct SampleHalf : SampleConfig<Fp16, TileMma16<Fp16>, true, true> {
  static constexpr bool kIsFp16 = true;
};
struct SampleSequences : SampleHalf {
  static constexpr bool kHasLengths = true;
  static constexpr int kRotaryDim = 16;
  static constexpr bool kRotaryInterleaved = false;
};
// Every limit of a window. A causal mask is a kWindowRight of 0 there.
template <class Base>
struct SampleWindow : Base {
  static constexpr bool kIsCausal = false, kHasWindow = true;
  static constexpr i64 kWindowLeft = 50, kWindowRight = 0, kWindowSinks = 4, kPrefix = 9;
  static constexpr int kChunk = 100;
};
template <class Base, int kDim, bool kInterleaved>
struct SampleRotary : Base {
  static constexpr int kRotaryDim = kDim;
  static constexpr bool kRotaryInterleaved = kInterleaved;
};
using SampleFloat = SampleConfig<float, TileMma32<float>, false, false>;

// Score functions given as expressions, by second stage.
template <int kStage, class Base = SampleHalf>
struct SampleGeneral : Base {
  static constexpr bool kIsGeneral = true, kHasNorms = kStage != 0, kNeedsX = false;
  static constexpr bool kScalesWeights = kStage == 2, kHasPassOne = kStage != 0;
  static constexpr bool kIsExponential = kStage == 0, kFusesScale = kStage == 0;
  static constexpr bool kDivisorIsSum = kStage == 0, kHasSink = kStage == 0;
  static constexpr int kSecondStage = kStage, kActivationSum = 2 - kStage, kWeightSum = kStage;
  static constexpr int kDivisorSum = 2 - kStage;

  static LSSAR_DEVICE float score_scale(float num_keys) { return num_keys; }
  static LSSAR_DEVICE float score_bias(float num_keys) { return -num_keys; }
  static LSSAR_DEVICE float sink_bias(float num_keys) { return -num_keys; }
  static LSSAR_DEVICE float fixed_normalizer(float num_keys) { return num_keys; }
  static LSSAR_DEVICE float phi(float x) { return softplus<SampleHalf, true>(x); }
  static LSSAR_DEVICE float phi_and_slope(float x, float& slope) {
    slope = sigmoid<false>(x) + hyperbolic_tangent<false>(x) + error_function(x);
    return whole_power<3>(x) + general_power(x, slope) + log_one_plus(x);
  }
  static LSSAR_DEVICE float psi(float x, float b, float n) {
    return choose(x < b, x, b, minimum_or_nan(x, n), maximum_or_nan(x, b));
  }
  static LSSAR_DEVICE float psi_and_slope(float x, float b, float n, float& slope) {
    return slope = psi(x, b, n);
  }
};

template <bool kIsPassOne>
struct SampleRange : SampleHalf {
  static constexpr bool kIsTraining = false, kNeedsX = false;
  static constexpr bool kIsRange = true, kHasPassOne = kIsPassOne, kHasPassTwo = !kIsPassOne;
};

// A sink with psi, whose gradient comes from epsilon.
template <class Base = SampleHalf>
struct SampleSink : SampleGeneral<2, Base> {
  static constexpr bool kIsExponential = true, kHasSink = true, kSinkNeedsEpsilon = true;
  static constexpr int kActivationSum = 1;
};

// A soft cap and ALiBi.
template <class Base>
struct SampleChanged : Base {
  static constexpr bool kHasSoftCap = true, kHasAlibi = true, kChangesScores = true;
  static constexpr bool kFusesScale = false;
  static LSSAR_DEVICE float soft_cap(float x) { return hyperbolic_tangent<false>(x); }
  static LSSAR_DEVICE float soft_cap_and_slope(float x, float& slope) {
    return slope = soft_cap(x);
  }
};

template <int kStage, bool kIsPassOne>
struct SampleGeneralRange : SampleGeneral<kStage> {
  static constexpr bool kIsTraining = false;
  static constexpr bool kIsRange = true, kHasPassOne = kIsPassOne, kHasPassTwo = !kIsPassOne;
};

// One consumer, and every dimension 16.
struct SampleHopper : SampleConfig<Bf16, TileMma16<Bf16>, false, true> {
  static constexpr int kHeadDim = 16, kHeadDimV = 16;
  static constexpr int kForwardBlockRows = 64, kForwardBlockCols = 16, kScoreCols = 16,
                       kBlockDv = 16;
  static constexpr int kDkdvBlockRows = 64, kDkdvBlockCols = 16, kDkdvStages = 2;
  static constexpr int kDqBlockRows = 64, kDqBlockCols = 16;
  static constexpr int kNumEvaluators = 3;
  static constexpr bool kOverlap = true, kPingPong = false;
  static constexpr bool kQueriesInRegisters = true;
  static constexpr bool kSkipTiles = true;
  static constexpr float kSkipWeight = 0.5f;
  static constexpr bool kIsPersistent = true, kTakesTickets = true;
  static constexpr int kHeadGroup = 4;
  static constexpr int kCluster = 1, kStagger = 1;
  static constexpr bool kWeightsInShared = true, kStoresByTma = false, kSumsByTma = false;
  static constexpr bool kSavesPassOneEarly = true;
  static constexpr int kForwardProducerRegisters = 0, kForwardConsumerRegisters = 0;
  static constexpr int kDkdvProducerRegisters = 0, kDkdvConsumerRegisters = 0;
  static constexpr int kDqProducerRegisters = 0, kDqConsumerRegisters = 0;
};

// Score functions given as expressions have one evaluator.
struct SampleHopperScores : SampleHopper {
  static constexpr int kNumEvaluators = 1;
  static constexpr bool kSkipTiles = false;
};

struct SampleStaggered : SampleHopper {
  static constexpr int kStagger = 2;
  static constexpr bool kQueriesInRegisters = false, kSkipTiles = false, kStoresByTma = true;
  static constexpr bool kPackGqa = true;
};

template <class Config>
LSSAR_DEVICE void run_every_kernel(const AttentionParams& params) {
  key_norms<Config>(params);
  forward<Config>(params);
  backward_rows<Config>(params);
  backward_epsilon<Config>(params);
  backward_dkdv<Config>(params);
  if constexpr (Config::kSumsDq) {
    backward_dq_finish<Config>(params);
  } else {
    backward_dq<Config>(params);
  }
}

}  // namespace lssar_device

extern "C" __global__ void __launch_bounds__(64)
    lssar_index_half(const lssar_device::AttentionParams params) {
  lssar_device::run_every_kernel<lssar_device::SampleHalf>(params);
}

extern "C" __global__ void __launch_bounds__(64)
    lssar_index_float(const lssar_device::AttentionParams params) {
  lssar_device::run_every_kernel<lssar_device::SampleFloat>(params);
}

extern "C" __global__ void __launch_bounds__(64)
    lssar_index_window(const lssar_device::AttentionParams params) {
  using lssar_device::SampleFloat, lssar_device::SampleHalf, lssar_device::SampleRange;
  using lssar_device::SampleWindow;
  lssar_device::run_every_kernel<SampleWindow<SampleHalf>>(params);
  lssar_device::run_every_kernel<SampleWindow<SampleFloat>>(params);
  lssar_device::row_sums<SampleWindow<SampleRange<true>>>(params);
  lssar_device::weighted_sum<SampleWindow<SampleRange<false>>>(params);
}

extern "C" __global__ void __launch_bounds__(512)
    lssar_index_sequences(const LSSAR_GRID_CONSTANT lssar_device::SequencesParams params) {
  using lssar_device::SampleSequences;
  lssar_device::order_sequences<SampleSequences>(params);
  __shared__ lssar_device::AttentionParams own;
  if (lssar_device::enter_sequence<SampleSequences, 1, true, true>(own, params))
    lssar_device::run_every_kernel<SampleSequences>(own);
  lssar_device::backward_sink_of_sequences(params);
}

template <class Config>
LSSAR_DEVICE void run_general_kernels(const lssar_device::AttentionParams& params) {
  lssar_device::general_forward<Config>(params);
  lssar_device::backward_rows<Config>(params);
  lssar_device::backward_epsilon<Config>(params);
  lssar_device::backward_dkdv<Config>(params);
  if constexpr (Config::kHasSink) lssar_device::backward_sink<Config>(params);
}

extern "C" __global__ void __launch_bounds__(64)
    lssar_index_general(const lssar_device::AttentionParams params) {
  run_general_kernels<lssar_device::SampleGeneral<0>>(params);
  run_general_kernels<lssar_device::SampleGeneral<1>>(params);
  run_general_kernels<lssar_device::SampleGeneral<2>>(params);
  run_general_kernels<lssar_device::SampleSink<>>(params);
  run_general_kernels<lssar_device::SampleWindow<lssar_device::SampleGeneral<1>>>(params);
  run_general_kernels<lssar_device::SampleChanged<lssar_device::SampleGeneral<1>>>(params);
}

template <int kDim, bool kInterleaved>
LSSAR_DEVICE void run_rotations(const lssar_device::RotaryParams& params) {
  using namespace lssar_device;
  rotate<SampleRotary<SampleHalf, kDim, kInterleaved>>(params);
  rotate_back<SampleRotary<SampleHalf, kDim, kInterleaved>>(params);
  rotate<SampleRotary<SampleFloat, kDim, kInterleaved>>(params);
  rotate_back<SampleRotary<SampleFloat, kDim, kInterleaved>>(params);
}

extern "C" __global__ void __launch_bounds__(128)
    lssar_index_rotary(const lssar_device::RotaryParams params) {
  run_rotations<16, false>(params);
  run_rotations<16, true>(params);
  run_rotations<12, false>(params);
  run_rotations<12, true>(params);
}

extern "C" __global__ void __launch_bounds__(64)
    lssar_index_range(const lssar_device::AttentionParams params) {
  lssar_device::row_sums<lssar_device::SampleRange<true>>(params);
  lssar_device::weighted_sum<lssar_device::SampleRange<false>>(params);
}

extern "C" __global__ void __launch_bounds__(128) lssar_index_rotary_sequences(
    const LSSAR_GRID_CONSTANT lssar_device::RotarySequencesParams params) {
  using lssar_device::SampleSequences;
  lssar_device::RotaryParams own;
  if (lssar_device::enter_rotary_sequence<SampleSequences, 1>(own, params))
    lssar_device::rotate<SampleSequences>(own);
}

// Blocks that divide the keys of few queries.
template <class Base>
struct SampleDecode : Base {
  static constexpr bool kIsTraining = false, kNeedsX = false;
  static constexpr bool kHasPassOne = true, kDivisorIsSum = false, kPackGqa = true;
  static constexpr int kSplitKeys = 128;
};
template <class Base>
LSSAR_DEVICE void run_decode(const lssar_device::AttentionParams& params) {
  lssar_device::decode_scores<SampleDecode<Base>>(params);
  lssar_device::decode_values<SampleDecode<Base>>(params);
  lssar_device::decode_outputs<SampleDecode<Base>>(params);
}

extern "C" __global__ void __launch_bounds__(64)
    lssar_index_decode(const lssar_device::AttentionParams params) {
  using lssar_device::SampleFloat, lssar_device::SampleHalf, lssar_device::SampleRotary,
      lssar_device::SampleWindow;
  run_decode<SampleHalf>(params);
  run_decode<SampleFloat>(params);
  run_decode<SampleWindow<SampleHalf>>(params);
  run_decode<SampleRotary<SampleHalf, 16, true>>(params);
  run_decode<SampleRotary<SampleHalf, 12, false>>(params);
}

extern "C" __global__ void __launch_bounds__(64)
    lssar_index_sequences_decode(const LSSAR_GRID_CONSTANT lssar_device::SequencesParams params) {
  using lssar_device::SampleSequences;
  __shared__ lssar_device::AttentionParams own;
  if (lssar_device::enter_sequence<SampleDecode<SampleSequences>, 1, false, true>(own, params))
    run_decode<SampleSequences>(own);
}

struct SampleAppend : lssar_device::SampleSequences {
  static constexpr bool kAppends = true;
};
struct SampleUnalignedAppend : lssar_device::SampleFloat {
  static constexpr bool kHasLengths = true, kAppends = true;
};

extern "C" __global__ void __launch_bounds__(512)
    lssar_index_append(const LSSAR_GRID_CONSTANT lssar_device::SequencesParams params) {
  lssar_device::order_sequences<SampleAppend>(params);
  lssar_device::append_rows<SampleAppend, 1>(params);
  lssar_device::append_rows<SampleUnalignedAppend, 1>(params);
  lssar_device::AttentionParams own;
  if (lssar_device::enter_sequence<SampleAppend, 1, false, false>(own, params))
    lssar_device::key_norms_of_sequence<SampleAppend>(own, params);
}

extern "C" __global__ void __launch_bounds__(64)
    lssar_index_general_decode(const lssar_device::AttentionParams params) {
  run_decode<lssar_device::SampleGeneral<0>>(params);
  run_decode<lssar_device::SampleGeneral<1>>(params);
  run_decode<lssar_device::SampleGeneral<2>>(params);
  run_decode<lssar_device::SampleChanged<lssar_device::SampleGeneral<1>>>(params);
}

template <int kStage>
LSSAR_DEVICE void run_general_range(const lssar_device::AttentionParams& params) {
  lssar_device::general_row_sums<lssar_device::SampleGeneralRange<kStage, true>>(params);
  lssar_device::general_weighted_sum<lssar_device::SampleGeneralRange<kStage, false>>(params);
}

extern "C" __global__ void __launch_bounds__(64)
    lssar_index_general_range(const lssar_device::AttentionParams params) {
  run_general_range<0>(params);
  run_general_range<1>(params);
  run_general_range<2>(params);
}

// Their instructions are sm_90a's own.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <class Config>
LSSAR_DEVICE void run_general_hopper_kernels(const lssar_device::TmaParams& params) {
  lssar_device::hopper_backward_dkdv<Config>(params);
  lssar_device::hopper_backward_dq<Config>(params);
  lssar_device::hopper_backward_epsilon<Config>(params);
}

extern "C" __global__ void __launch_bounds__(256)
    lssar_index_general_hopper(const LSSAR_GRID_CONSTANT lssar_device::TmaParams params) {
  using lssar_device::SampleHopperScores;
  run_general_hopper_kernels<lssar_device::SampleGeneral<0, SampleHopperScores>>(params);
  run_general_hopper_kernels<lssar_device::SampleGeneral<1, SampleHopperScores>>(params);
  run_general_hopper_kernels<lssar_device::SampleGeneral<2, SampleHopperScores>>(params);
  run_general_hopper_kernels<lssar_device::SampleSink<SampleHopperScores>>(params);
}

extern "C" __global__ void __launch_bounds__(256)
    lssar_index_hopper(const LSSAR_GRID_CONSTANT lssar_device::TmaParams params) {
  using lssar_device::SampleHopper;
  lssar_device::hopper_forward<SampleHopper>(params);
  lssar_device::hopper_forward<lssar_device::SampleStaggered>(params);
  lssar_device::hopper_backward_dkdv<SampleHopper>(params);
  lssar_device::hopper_backward_dq<SampleHopper>(params);
  lssar_device::hopper_backward_epsilon<SampleHopper>(params);
}
#endif
