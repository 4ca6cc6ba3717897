// Translates the structs of the C API for the rest of the library: checks sizes, fills in defaults,
// converts enumerators.
//
// Internal to the C API (capi.cpp). Threads: pure functions.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "autotune/table/bucket.h"
#include "base/status.h"
#include "lssar/lssar.h"
#include "runtime/engine.h"
#include "runtime/plan.h"

namespace lssar::capi {

// Copies a caller's struct, which may be older (shorter) or newer (longer) than ours. `min_size` is
// the struct's size in the first version of this ABI.
template <typename T>
Result<T> read_struct(const T* given, const char* name, size_t min_size) {
  if (given == nullptr) return invalid_argument(fmt::format("{} = NULL", name));
  const size_t size = given->struct_size;
  if (size < min_size || size > (size_t{1} << 16)) {
    return invalid_argument(fmt::format(
        "{0}.struct_size = {1}: must be sizeof(lssar_{0}), here {2}", name, size, sizeof(T)));
  }
  T known{};
  std::memcpy(&known, given, size < sizeof(T) ? size : sizeof(T));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return unsupported(
          fmt::format("{}.struct_size = {}: a field beyond the {} bytes that lssar {} knows is set",
                      name, size, sizeof(T), lssar_version_string()));
    }
  }
  return known;
}

struct ContextRequest {
  EngineOptions engine;
  std::string tuning_table;  // as in lssar_context_options; "": the default
};
// `options` may be null.
Result<ContextRequest> context_request(const lssar_context_options* options);

struct PlanRequest {
  Problem problem;
  PlanOptions options;
  std::string schedule_json;  // "": none given
  Sizes sizes;                // for choosing a schedule; 0 = not known
  int32_t tuning = LSSAR_TUNING_DEFAULT;
  Determinism determinism = Determinism::kRepeatable;
  const lssar_tune_options* tune = nullptr;  // the caller's; invalid after plan_create returns
};
// `options` may be null.
Result<PlanRequest> plan_request(const lssar_problem* problem, const lssar_plan_options* options);

// `pass` is one lssar_pass bit.
Result<Pass> one_pass(int32_t pass);

Sizes sizes_of_call(const lssar_sizes& sizes);
KeyRange range_of_call(const lssar_range& range);
Sequences sequences_of_call(const lssar_call& call);
Tensors tensors_of_call(const lssar_call& call);
Result<int> num_threads_of_call(const lssar_call& call);

}  // namespace lssar::capi
