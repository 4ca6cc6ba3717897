#include "tools/lssar/call/comparison.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "reference/numerics.h"
#include "tools/lssar/terminal/standard_streams.h"
#include "tools/lssar/terminal/work_progress.h"

namespace lssar::command {
namespace {

constexpr double kLongMultiplies = 1e10;   // about ten seconds of a core
constexpr double kBackwardMultiplies = 4;  // times those of the forward

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

std::vector<int64_t> shape_of(const Problem& problem, const Sizes& sizes, OutputTensor tensor) {
  switch (tensor) {
    case OutputTensor::kDq:
      return {sizes.batch, sizes.heads, sizes.seq_q, problem.head_dim};
    case OutputTensor::kDk:
      return {sizes.batch, sizes.kv_heads, sizes.seq_k, problem.head_dim};
    case OutputTensor::kDv:
      return {sizes.batch, sizes.kv_heads, sizes.seq_k, problem.head_dim_v};
    case OutputTensor::kDsink:
      return {sizes.heads};
    case OutputTensor::kO:
      break;
  }
  return {sizes.batch, sizes.heads, sizes.seq_q, problem.head_dim_v};
}

// The index in each dimension of a contiguous tensor's element `index`.
std::string position(size_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size(), 0);
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return "-";
    at[i] = static_cast<int64_t>(index) % shape[i];
    index /= static_cast<size_t>(shape[i]);
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

}  // namespace

ReferenceInputs reference_inputs(const Problem& problem, const AttentionInputs& inputs) {
  const bool is_backward = problem.pass == Pass::kBackward;
  return {widen(inputs.q),          widen(inputs.k),
          widen(inputs.v),          is_backward ? widen(inputs.grad_o) : std::vector<double>(),
          widen(inputs.sink),       widen(inputs.rotary_cos),
          widen(inputs.rotary_sin), widen(inputs.alibi_slopes)};
}

Result<ReferenceOutputs> checked_reference(const Problem& problem, const Sizes& sizes,
                                           const AttentionInputs& inputs, bool quiet) {
  const int64_t total = reference_scores(problem, sizes);
  const int64_t dims = problem.head_dim + problem.head_dim_v;
  const bool is_backward = problem.pass == Pass::kBackward;
  const double multiplies =
      static_cast<double>(total * dims) * (is_backward ? kBackwardMultiplies : 1);
  const std::string title = "the float64 reference";
  if (!quiet && multiplies > kLongMultiplies)
    tell("{}: {:.1e} multiply-adds, spread over {} (batch, kv head): this takes long\n", title,
         multiplies, sizes.batch * sizes.kv_heads);
  std::atomic<int64_t> done{0};
  const WorkProgress progress(title, quiet, [&] {
    return WorkProgress::Now{static_cast<double>(done), static_cast<double>(total)};
  });
  return reference_attention(problem, sizes, reference_inputs(problem, inputs), &done);
}

std::vector<Comparison> compare_all(const Problem& problem, const Sizes& sizes,
                                    const std::vector<CheckedTensor>& tensors,
                                    const ReferenceOutputs& reference) {
  std::vector<Comparison> all;
  for (const CheckedTensor& one : tensors)
    all.push_back({one.name, shape_of(problem, sizes, one.tensor),
                   compare(reference_values(reference, one.tensor), one.values,
                           allowed_error(problem, one.tensor, reference))});
  return all;
}

bool all_passed(const std::vector<Comparison>& all) {
  return std::all_of(all.begin(), all.end(), [](const auto& one) { return one.error.passed; });
}

std::string verdict_on(const Problem& problem, const std::vector<Comparison>& all) {
  if (all_passed(all)) return "correct";
  std::string overflows;
  for (const Comparison& one : all) {
    if (one.error.passed) continue;
    if (one.error.overflow == 0) return "WRONG NUMBERS";
    overflows += fmt::format("{}{} overflows {}: reference magnitude {:.6g}, largest {:.6g}",
                             overflows.empty() ? "" : "; ", one.name, dtype_name(problem.dtype),
                             one.error.overflow, largest_number(problem.dtype));
  }
  return "OVERFLOW (" + overflows + "; the rest is correct)";
}

void print_comparisons(const std::vector<Comparison>& all) {
  size_t width = 7;
  for (const Comparison& one : all) width = std::max(width, one.name.size());
  fmt::print("{:<{}} {:<22} {:>11} {:>10} {:>12}  at\n", "tensor", width, "shape", "relative L2",
             "allowed", "worst error");
  for (const Comparison& one : all) {
    const TensorError& error = one.error;
    fmt::print("{:<{}} {:<22} {:>11.2e} {:>10.2e} {:>12.2e}  {:<22} {}\n", one.name, width,
               npy_shape_string(one.shape), error.relative_l2, error.tolerance, error.worst_abs,
               position(error.worst_index, one.shape),
               error.passed         ? "ok"
               : error.overflow > 0 ? "OVERFLOW"
                                    : "WRONG");
  }
}

nlohmann::json to_json(const std::vector<Comparison>& all) {
  nlohmann::json list = nlohmann::json::array();
  for (const Comparison& one : all) {
    list.push_back({{"tensor", one.name},
                    {"shape", one.shape},
                    {"relative_l2", one.error.relative_l2},
                    {"allowed", one.error.tolerance},
                    {"worst_error", one.error.worst_abs},
                    {"worst_index", one.error.worst_index},
                    {"overflow", one.error.overflow},
                    {"passed", one.error.passed}});
  }
  return list;
}

}  // namespace lssar::command
