#include "runtime/capture_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "base/json_text.h"
#include "codegen/launch_json.h"

namespace lssar {
namespace {

using nlohmann::json;

constexpr size_t kMaxKernels = 2;
constexpr size_t kMaxSteps = 16;

// Parts and files get this name, so it must be a safe one.
Status check_name(const std::string& name) {
  constexpr size_t kMaxName = kMaxPartName - 6;  // ".image"
  const bool is_word = std::all_of(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (is_word && !name.empty() && name.size() <= kMaxName) return {};
  return invalid_argument(
      fmt::format("kernel.name: allowed are 1 to {} letters, digits and underscores", kMaxName));
}

json kernel_json(const CapturedKernel& kernel) {
  json steps = json::array();
  for (const LaunchStep& step : kernel.source.steps) steps.push_back(to_json(step));
  return {{"name", kernel.source.name},
          {"problem", to_json(kernel.problem)},
          {"schedule", to_json(kernel.schedule)},
          {"target", kernel.target},
          {"overridden", kernel.overridden},
          {"compiler", kernel.compiler},
          {"key", kernel.key},
          {"steps", std::move(steps)}};
}

Status read_steps(JsonFields& fields, CapturedKernel* kernel) {
  const json* const steps = fields.need_list("steps", kMaxSteps);
  if (steps == nullptr) return fields.status();
  size_t num_maps = 0;
  for (const json& one : *steps) {
    LSSAR_ASSIGN_OR_RETURN(LaunchStep step, launch_step_from_json(one));
    num_maps += step.maps.size();
    kernel->source.steps.push_back(std::move(step));
  }
  if (num_maps <= kMaxKernelMaps) return {};
  return invalid_argument(
      fmt::format("steps: {} tensor maps, allowed are {}", num_maps, kMaxKernelMaps));
}

Result<CapturedKernel> read_kernel(const json& from) {
  JsonFields fields(from, "kernel");
  CapturedKernel kernel;
  for (const char* name : {"name", "problem", "schedule", "target"}) fields.require(name);
  fields.read("name", kernel.source.name);
  const json* const problem = fields.object("problem");
  const json* const schedule = fields.object("schedule");
  fields.read("target", kernel.target);
  fields.read("overridden", kernel.overridden);
  fields.read("compiler", kernel.compiler);
  fields.read("key", kernel.key);
  LSSAR_RETURN_IF_ERROR(read_steps(fields, &kernel));
  LSSAR_RETURN_IF_ERROR(fields.finish());
  LSSAR_RETURN_IF_ERROR(check_name(kernel.source.name));
  LSSAR_ASSIGN_OR_RETURN(kernel.problem, problem_from_json(*problem));
  LSSAR_ASSIGN_OR_RETURN(const Target target, target_from_name(kernel.target));
  LSSAR_ASSIGN_OR_RETURN(kernel.schedule, schedule_from_json(*schedule, Schedule()));
  LSSAR_RETURN_IF_ERROR(validate(kernel.schedule, kernel.problem, target));
  return kernel;
}

json tensor_json(const CapturedTensor& tensor) {
  return {{"name", tensor.name},
          {"batch_stride", tensor.strides[0]},
          {"head_stride", tensor.strides[1]},
          {"row_stride", tensor.strides[2]},
          {"offset", tensor.offset}};
}

Result<CapturedTensor> read_tensor(const json& from) {
  JsonFields fields(from, "tensor");
  CapturedTensor tensor;
  fields.require("name");
  fields.read("name", tensor.name);
  fields.read("batch_stride", tensor.strides[0]);
  fields.read("head_stride", tensor.strides[1]);
  fields.read("row_stride", tensor.strides[2]);
  fields.need_whole("offset", 0, 255, tensor.offset);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  return tensor;
}

// Checks which pass the last kernel has, and which kernel may come before it.
Status check_passes(const Capture& capture) {
  if (capture.kernels.empty()) return invalid_argument("kernels: none");
  const Pass last = capture.kernel().problem.pass;
  if (is_of_range(last)) {
    return invalid_argument(
        fmt::format("pass = {}: allowed are forward, forward-train and backward", pass_name(last)));
  }
  if (capture.kernels.size() == 1) return {};
  if (last == Pass::kBackward && capture.kernels[0].problem.pass == Pass::kForwardTrain) {
    // The forward must save what the backward reads.
    if (capture.kernels[0].schedule.epsilon == capture.kernel().schedule.epsilon) return {};
    return invalid_argument("kernels: their schedules differ in epsilon");
  }
  return invalid_argument("kernels: allowed is one, or a backward and its forward-train before it");
}

Result<Capture> read_manifest(const json& from) {
  JsonFields fields(from, "manifest");
  Capture capture;
  fields.require("params");
  fields.read("lssar", capture.version);
  fields.read("params", capture.params_layout);
  fields.read("device", capture.device);
  fields.read("driver", capture.driver);
  fields.read("data", capture.data);
  int64_t seed = 0, workspace = 0;
  fields.read("seed", seed);
  fields.require("workspace_bytes");
  fields.read("workspace_bytes", workspace);
  capture.seed = static_cast<uint64_t>(seed);
  capture.workspace_bytes = static_cast<size_t>(workspace);
  fields.require("sizes");
  const json* const sizes = fields.object("sizes");
  const json* const kernels = fields.need_list("kernels", kMaxKernels);
  const json* const tensors = fields.need_list("tensors", Operands::kCapacity);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  LSSAR_ASSIGN_OR_RETURN(capture.sizes, sizes_from_json(*sizes, "sizes"));
  for (const json& one : *kernels) {
    LSSAR_ASSIGN_OR_RETURN(CapturedKernel kernel, read_kernel(one));
    capture.kernels.push_back(std::move(kernel));
  }
  for (const json& one : *tensors) {
    LSSAR_ASSIGN_OR_RETURN(CapturedTensor tensor, read_tensor(one));
    capture.tensors.push_back(std::move(tensor));
  }
  LSSAR_RETURN_IF_ERROR(check_passes(capture));
  return capture;
}

}  // namespace

std::string encode_manifest(const Capture& capture) {
  json kernels = json::array(), tensors = json::array();
  for (const CapturedKernel& kernel : capture.kernels) kernels.push_back(kernel_json(kernel));
  for (const CapturedTensor& tensor : capture.tensors) tensors.push_back(tensor_json(tensor));
  const json manifest = {{"lssar", capture.version},
                         {"params", capture.params_layout},
                         {"device", capture.device},
                         {"driver", capture.driver},
                         {"data", capture.data},
                         {"seed", static_cast<int64_t>(capture.seed)},
                         {"sizes", to_json(capture.sizes)},
                         {"workspace_bytes", capture.workspace_bytes},
                         {"kernels", std::move(kernels)},
                         {"tensors", std::move(tensors)}};
  return manifest.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Capture> decode_manifest(const std::string& text) {
  LSSAR_ASSIGN_OR_RETURN(const json parsed, parse_json(text, "its manifest"));
  return read_manifest(parsed);
}

}  // namespace lssar
