#include "runtime/capture.h"
#include "runtime/capture_manifest.h"
#include "runtime/tensor_copy.h"
#include "tests/fuzz/complain.h"
#include "tests/fuzz/made_up.h"
#include "tests/fuzz/readers.h"

namespace lssar::test {
namespace {

CapturedKernel kernel_of(Pass pass, const char* target_name) {
  const Target target = *target_from_name(target_name);
  CapturedKernel kernel;
  kernel.problem.causal = true;
  kernel.problem.pass = pass;
  kernel.problem.head_dim = kernel.problem.head_dim_v = 16;
  kernel.schedule = default_schedule(kernel.problem, target);
  kernel.target = target_name;
  kernel.source = *emit_kernel(kernel.problem, kernel.schedule, target);
  kernel.source.source = "// a source";
  kernel.compiler = "made up 1.0";
  kernel.metadata = sample_metadata();
  kernel.image.bytes = "// an image";
  return kernel;
}

// A capture of two queries and three keys.
Capture capture_of(std::vector<CapturedKernel> kernels, bool with_values) {
  Capture capture;
  capture.version = "1.0.0";
  capture.params_layout = "as ever";
  capture.device = "made up";
  capture.sizes = {1, 1, 1, 2, 3};
  capture.kernels = std::move(kernels);
  Tensors tensors;
  for (Tensor* t : {&tensors.q, &tensors.o, &tensors.grad_o, &tensors.grad_q})
    *t = contiguous_tensor(256, 1, 2, 16);
  for (Tensor* t : {&tensors.k, &tensors.v, &tensors.grad_k, &tensors.grad_v})
    *t = contiguous_tensor(256, 1, 3, 16);
  const Result<Operands> operands =
      call_operands(capture.kernel().problem, capture.kernel().schedule, capture.sizes, tensors);
  if (!operands.ok()) complain("operands", operands.status());
  for (const Operand& operand : *operands) {
    CapturedTensor tensor = layout_of(operand);
    if (with_values) tensor.packed = std::string(packed_bytes(operand).value(), 'v');
    capture.tensors.push_back(std::move(tensor));
  }
  return capture;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> capture_seeds() {
  std::vector<std::pair<std::string, std::string>> seeds;
  const auto add = [&](const Capture& capture) {
    const auto parts = capture_parts(capture);
    if (!parts.ok()) complain("a capture", parts.status());
    const auto encoded = encode_parts(*parts);
    if (!encoded.ok()) complain("a capture", encoded.status());
    std::string bytes;
    for (const std::string& piece : *encoded) bytes += piece;
    seeds.emplace_back("file_" + std::to_string(seeds.size()), bytes);
    seeds.emplace_back("manifest_" + std::to_string(seeds.size()), encode_manifest(capture));
  };
  for (const char* target : {"sm_80", "sm_90a"}) {
    add(capture_of({kernel_of(Pass::kForward, target)}, true));
    add(capture_of({kernel_of(Pass::kForwardTrain, target), kernel_of(Pass::kBackward, target)},
                   false));
  }
  return seeds;
}

}  // namespace lssar::test
