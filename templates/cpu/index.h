// All templates of CPU kernels, with a sample of what the generator writes around them. For
// editors, and for the test that compiles them directly (clang++ -O3 -march=x86-64-v3 -c -I. -x c++
// this file).
#pragma once

#include "templates/cpu/backward_dkdv.h"
#include "templates/cpu/backward_dq.h"
#include "templates/cpu/backward_rows.h"
#include "templates/cpu/backward_sink.h"
#include "templates/cpu/few_outputs.h"
#include "templates/cpu/forward_range.h"
#include "templates/cpu/general_backward_rows.h"
#include "templates/cpu/general_range.h"
#include "templates/cpu/pack_keys.h"
#include "templates/cpu/rotate.h"

namespace lssar_device {

template <class T, int kWidth, int kColumns, bool kTrains = false>
struct SampleConfig {
  using Element = T;
  using SavedX = T;
  static constexpr int kLanes = kWidth;
  static constexpr int kRows = 6, kPanelKeys = kColumns, kPanelVectors = kColumns / kWidth;
  static constexpr int kBlockKeys = 256, kKeptKeys = 2048;
  static constexpr int kGroups = 2, kPackKeys = 128, kFewRows = 16;
  static constexpr int kFewKeys = 512, kFewPitchV = 48;
  static constexpr int kGradRows = 12, kGradKeys = 192, kConstantRows = 64;
  static constexpr int kHeadDim = 24, kHeadDimPadded = 32, kHeadDimV = 40, kHeadDimVPadded = 48;
  static constexpr int kPower = 3, kPanelRows = kTrains ? kHeadDim + kHeadDimV + 1 : kHeadDim;
  static constexpr bool kIsTraining = kTrains, kSumsX = kTrains, kNeedsX = kTrains;
  static constexpr bool kSavesO = sizeof(T) == 2;
  static constexpr bool kSumsDq = kTrains, kIsGeneral = false, kHasNorms = true;
  static constexpr bool kIsBackward = kTrains, kIsInvariant = false, kChangesScores = false;
  static constexpr bool kSkipsKeys = sizeof(T) == 2, kHasPairs = false, kIsRange = false;
  using Factors = typename VectorOf<kWidth>::Floats;
  static constexpr double kLogHeadDim = 3.1780538303479458;
  static constexpr i64 kSeqQ = 0, kSeqK = 0;
  static constexpr bool kIsCausal = true, kHasWindow = true;
  static constexpr i64 kWindowLeft = 100, kWindowRight = 7, kWindowSinks = 4, kPrefix = 3;
  static constexpr i64 kChunk = 512;
  static constexpr float kOffset = 1.0f;
  using Vector = typename VectorOf<kWidth>::Floats;
  // These only have to compile.
  static constexpr float kExp2Terms[] = {1.0f, 0.69314718f, 0.24f};
  static constexpr float kSoftplusTerms[] = {1.44f, -0.72f, 0.44f};
  static LSSAR_HOST Vector exp2_polynomial(Vector x) { return 0.69314718f * x + 1.0f; }
  static LSSAR_HOST Vector softplus_polynomial(Vector u) { return -0.44f * u + 1.44f; }
  static LSSAR_HOST Vector power(Vector u) { return u * u * u; }
  static LSSAR_HOST Vector power_slope(Vector u) { return u * u; }
};

template <bool kTrains>
struct SamplePairs : SampleConfig<Bf16, 16, 64, kTrains> {
  static constexpr int kPanelRows = kTrains ? 12 + 20 + 1 : 12 + 1;
  static constexpr bool kHasPairs = true;
  using Factors = VectorOf<16>::Words;
};

template <class Sample>
struct SampleInvariant : Sample {
  static constexpr bool kIsInvariant = true;
};

// A score function of each class. kSecondStage 0: an exponential with a sink.
template <class T, int kStage>
struct SampleScore : SampleConfig<T, 8, 16, true> {
  using Vector = typename SampleConfig<T, 8, 16, true>::Vector;
  static constexpr bool kIsGeneral = true, kHasNorms = kStage != 0, kSumsX = false;
  static constexpr int kSecondStage = kStage, kActivationSum = kStage == 1 ? 2 : 1;
  static constexpr int kWeightSum = kStage == 2 ? 2 : 0, kDivisorSum = kStage == 2 ? 2 : 1;
  static constexpr bool kIsExponential = kStage == 0, kHasSink = kStage == 0, kReadsSink = kHasSink;
  static constexpr bool kHasPassOne = kStage != 0, kNeedsEpsilon = kStage != 0;
  static constexpr bool kHasSoftCap = false, kHasAlibi = false;
  static constexpr float kPhiSign = 1.0f, kGradUnit = 1.0f, kScoreUnit = 1.0f;
  static LSSAR_HOST double score_scale(i64 num_keys) { return log2_of(num_keys); }
  static LSSAR_HOST double score_bias(i64) { return 0.5; }
  static LSSAR_HOST double sink_bias(i64) { return 0.5; }
  static LSSAR_HOST double fixed_normalizer(i64 num_keys) { return (double)num_keys; }
  static LSSAR_HOST Vector phi(Vector x) { return exp2_of<SampleScore>(x); }
  static LSSAR_HOST Vector phi_and_slope(Vector x, Vector& slope) { return slope = phi(x); }
  static LSSAR_HOST Vector psi(Vector x, Vector b, Vector n) { return x * n - b; }
  static LSSAR_HOST Vector psi_and_slope(Vector x, Vector b, Vector n, Vector& slope) {
    slope = n;
    return x * n - b;
  }
};

template <class Sample>
struct SampleChanged : Sample {
  using Vector = typename Sample::Vector;
  static constexpr bool kHasSoftCap = true, kHasAlibi = true, kChangesScores = true;
  static LSSAR_HOST Vector soft_cap(Vector x) { return x + 1.0f; }
  static LSSAR_HOST Vector soft_cap_and_slope(Vector x, Vector& slope) { return slope = x; }
};

template <class Sample, bool kInterleaved>
struct SampleRotary : Sample {
  static constexpr int kRotaryDim = 12;
  static constexpr bool kRotaryInterleaved = kInterleaved;
};

// A range of keys.
template <class Sample>
struct SampleRange : Sample {
  static constexpr bool kIsRange = true, kIsTraining = false, kSumsX = false, kHasPassOne = false;
};

}  // namespace lssar_device

extern "C" void lssar_index(const lssar_device::AttentionParams* params, unsigned block,
                            void* scratch) {
  using namespace lssar_device;
  pack_keys<SampleConfig<float, 16, 64>>(*params, block, scratch);
  forward<SampleConfig<float, 16, 64>>(*params, block, scratch);
  forward<SampleConfig<Bf16, 8, 16>>(*params, block, scratch);
  forward<SampleConfig<Fp16, 8, 16>>(*params, block, scratch);
  forward<SampleConfig<Fp16, 16, 64>>(*params, block, scratch);
  pack_keys<SamplePairs<false>>(*params, block, scratch);
  forward<SamplePairs<false>>(*params, block, scratch);
}

extern "C" void lssar_index_of_few(const lssar_device::AttentionParams* params, unsigned block,
                                   void* scratch) {
  using namespace lssar_device;
  few_scores<SampleConfig<float, 16, 64>>(*params, block, scratch);
  few_values<SampleConfig<float, 16, 64>>(*params, block, scratch);
  few_outputs<SampleConfig<float, 16, 64>>(*params, block, scratch);
  few_scores<SampleConfig<Fp16, 8, 16>>(*params, block, scratch);
  few_values<SampleConfig<Bf16, 8, 16>>(*params, block, scratch);
  few_scores<SampleInvariant<SampleConfig<Fp16, 8, 16>>>(*params, block, scratch);
  few_values<SampleInvariant<SampleConfig<float, 16, 64>>>(*params, block, scratch);
  forward<SampleInvariant<SampleConfig<float, 8, 16, true>>>(*params, block, scratch);
}

extern "C" void lssar_index_of_training(const lssar_device::AttentionParams* params, unsigned block,
                                        void* scratch) {
  using namespace lssar_device;
  forward<SampleConfig<float, 16, 64, true>>(*params, block, scratch);
  forward<SampleConfig<Bf16, 8, 16, true>>(*params, block, scratch);
  pack_keys<SampleConfig<float, 16, 64, true>>(*params, block, scratch);
  backward_rows<SampleConfig<float, 16, 64, true>>(*params, block, scratch);
  backward_dkdv<SampleConfig<float, 16, 64, true>>(*params, block, scratch);
  backward_dq<SampleConfig<float, 16, 64, true>>(*params, block, scratch);
  backward_dq_finish<SampleConfig<float, 16, 64, true>>(*params, block, scratch);
  backward_dkdv<SampleConfig<Bf16, 8, 16, true>>(*params, block, scratch);
  backward_dq<SampleConfig<Fp16, 8, 16, true>>(*params, block, scratch);
  pack_keys<SamplePairs<true>>(*params, block, scratch);
  forward<SamplePairs<true>>(*params, block, scratch);
  backward_dkdv<SamplePairs<true>>(*params, block, scratch);
  backward_dq<SamplePairs<true>>(*params, block, scratch);
}

extern "C" void lssar_index_of_scores(const lssar_device::AttentionParams* params, unsigned block,
                                      void* scratch) {
  using namespace lssar_device;
  pack_keys<SampleScore<float, 0>>(*params, block, scratch);
  general_forward<SampleScore<float, 0>>(*params, block, scratch);
  general_forward<SampleScore<Bf16, 1>>(*params, block, scratch);
  general_forward<SampleScore<Fp16, 2>>(*params, block, scratch);
  general_forward<SampleInvariant<SampleScore<float, 0>>>(*params, block, scratch);
  general_backward_rows<SampleScore<float, 0>>(*params, block, scratch);
  general_backward_rows<SampleScore<Bf16, 1>>(*params, block, scratch);
  backward_dkdv<SampleScore<Bf16, 1>>(*params, block, scratch);
  backward_dq<SampleScore<Fp16, 2>>(*params, block, scratch);
  backward_sink<SampleScore<float, 0>>(*params, block, scratch);
  general_forward<SampleChanged<SampleScore<float, 0>>>(*params, block, scratch);
  general_backward_rows<SampleChanged<SampleScore<Bf16, 1>>>(*params, block, scratch);
  backward_dkdv<SampleChanged<SampleScore<Bf16, 1>>>(*params, block, scratch);
}

extern "C" void lssar_index_of_rotations(const lssar_device::RotaryParams* params, unsigned block,
                                         void* scratch) {
  using namespace lssar_device;
  rotate<SampleRotary<SampleConfig<float, 16, 64>, false>>(*params, block, scratch);
  rotate<SampleRotary<SampleConfig<Bf16, 8, 16>, true>>(*params, block, scratch);
  rotate_back<SampleRotary<SampleConfig<Fp16, 8, 16>, false>>(*params, block, scratch);
}

extern "C" void lssar_index_of_ranges(const lssar_device::AttentionParams* params, unsigned block,
                                      void* scratch) {
  using namespace lssar_device;
  row_sums<SampleRange<SampleConfig<float, 16, 64>>>(*params, block, scratch);
  weighted_sum<SampleRange<SampleConfig<Bf16, 8, 16>>>(*params, block, scratch);
  general_row_sums<SampleRange<SampleScore<Bf16, 1>>>(*params, block, scratch);
  general_weighted_sum<SampleRange<SampleScore<float, 0>>>(*params, block, scratch);
  general_weighted_sum<SampleRange<SampleScore<Fp16, 2>>>(*params, block, scratch);
}
