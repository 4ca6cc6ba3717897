// The features that a call may have, and the calls of feature_pairs_test: each has one value of
// every feature. No state: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codegen/problem.h"
#include "lssar/lssar.h"
#include "tests/capi/run_capi.h"
#include "tests/capi/varlen_call.h"
#include "tests/golden/covering_array.h"

namespace lssar {

enum Feature {
  kDeviceFeature,
  kWindowFeature,
  kLengthsFeature,
  kScoreFeature,
  kDimsFeature,
  kHeadsFeature,
  kLayoutFeature,
  kDtypeFeature,
  kPassFeature,
  kPowerFeature,
  kCausalFeature,
  kSinkFeature,
  kScheduleFeature,
  kRotaryFeature,
};

struct FeatureFactor {
  const char* name;
  std::vector<std::string> values;
};

// In the order of Feature.
const std::vector<FeatureFactor>& feature_factors();

// What the library refuses is false; feature_pairs_test has the errors.
bool allows_features(const FactorRow& row);

// Every pair of values that is allowed is in one of them.
const std::vector<FactorRow>& feature_rows();

// "cpu_sinks_packed_...": the values.
std::string feature_name(const FactorRow& row);

enum class LengthsGiven {
  kInProblem,  // all of one length, which the plan is made for
  kInSizes,    // all of one length
  kInCall,     // cu_seqlens or seqused
};

enum class FeatureKernels {
  kUsual,      // portable ones, or those of a CPU
  kInvariant,  // the same of problems with invariant
  kHopper,
  kFewQueries,  // whose blocks divide the keys
};

struct FeatureDevice {
  const char* name;
  lssar_device device;
  lssar_compiler compiler;
  const char* target;
  FeatureKernels kernels;

  bool has_few_queries() const { return kernels == FeatureKernels::kFewQueries; }
};

struct FeatureCase {
  Problem problem;  // varlen is false here: as of each sequence alone
  LengthsGiven lengths;
  bool appends = false;  // the last keys of each sequence are new, and the call writes them
  std::vector<std::pair<Side, Side>> calls;  // queries and keys
  FeatureDevice device;
  Pass pass;
  Layout layout;
  int32_t alignment;  // as lssar_problem.alignment
  const char* schedule_json;
  uint64_t seed;
};

// `number` chooses the lengths, and is the seed of the inputs and of the virtual device's schedule.
FeatureCase feature_case(const FactorRow& row, int number);

}  // namespace lssar
