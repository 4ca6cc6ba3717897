// Runs the calls of a FeatureCase through the C API and compares every sequence with the float64
// reference. The virtual device has its strictest checks. Only a test's main thread may call it.
#pragma once

#include "tests/golden/feature_case.h"

namespace lssar {

// Null after a failure of the test. One context for each device and seed.
lssar_context* feature_context(const FeatureDevice& device, uint64_t seed);

// lssar_plan_create's.
lssar_status make_plan(lssar_context* context, const FeatureCase& c, lssar_plan** plan);

// Outputs begin as NaN. Rows of no sequence are NaN in the inputs, and must not change in outputs.
// Keys and values outside the windows of all queries are NaN too, and have gradients of 0.
void check_features(const FeatureCase& c);

}  // namespace lssar
