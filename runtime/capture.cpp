#include "runtime/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/capture_manifest.h"
#include "runtime/debug/override.h"
#include "runtime/image_metadata.h"
#include "runtime/library_version.h"
#include "runtime/params_layout.h"
#include "runtime/tensor_copy.h"

namespace lssar {
namespace {

constexpr char kManifestPart[] = "manifest.json";
constexpr uint64_t kMaxManifestBytes = uint64_t{4} << 20;
constexpr uint64_t kMaxImageBytes = uint64_t{64} << 20;
constexpr DevicePtr kPointerMask = 255;  // buffers are aligned to 256 bytes

std::string source_part(const CapturedKernel& kernel) { return kernel.source.name + ".cu"; }
std::string image_part(const CapturedKernel& kernel) { return kernel.source.name + ".image"; }
std::string tensor_part(const CapturedTensor& tensor) { return "tensor/" + tensor.name; }

bool has_values(const Capture& capture, bool written) {
  const Result<Operands> operands = operands_of(capture);
  if (!operands.ok()) return false;
  for (int i = 0; i < operands->count; ++i) {
    if (operands->items[i].written == written && capture.tensors[i].packed) return true;
  }
  return false;
}

Status read_kernel_parts(const PartFile& file, CapturedKernel* kernel) {
  LSSAR_ASSIGN_OR_RETURN(CacheEntry source, file.read(source_part(*kernel), kMaxSourceBytes));
  kernel->source.source = std::move(source.payload);
  LSSAR_ASSIGN_OR_RETURN(CacheEntry image, file.read(image_part(*kernel), kMaxImageBytes));
  LSSAR_ASSIGN_OR_RETURN(kernel->image, decode_image_metadata(image.metadata));
  kernel->metadata = std::move(image.metadata);
  kernel->image.bytes = std::move(image.payload);
  return {};
}

Status read_tensor_parts(const PartFile& file, Capture* capture) {
  LSSAR_ASSIGN_OR_RETURN(const Operands operands, operands_of(*capture));
  for (int i = 0; i < operands.count; ++i) {
    CapturedTensor& tensor = capture->tensors[static_cast<size_t>(i)];
    if (!file.has(tensor_part(tensor))) continue;
    LSSAR_ASSIGN_OR_RETURN(const size_t bytes, packed_bytes(operands.items[i]));
    LSSAR_ASSIGN_OR_RETURN(CacheEntry entry, file.read(tensor_part(tensor), bytes));
    if (entry.payload.size() != bytes) {
      return invalid_argument(
          fmt::format("{}: {} bytes, its sizes need {}", tensor.name, entry.payload.size(), bytes));
    }
    tensor.packed = std::move(entry.payload);
  }
  return {};
}

Result<Capture> read_parts(const PartFile& file) {
  LSSAR_ASSIGN_OR_RETURN(const CacheEntry manifest, file.read(kManifestPart, kMaxManifestBytes));
  LSSAR_ASSIGN_OR_RETURN(Capture capture, decode_manifest(manifest.payload));
  LSSAR_RETURN_IF_ERROR(operands_of(capture).status());
  for (CapturedKernel& kernel : capture.kernels)
    LSSAR_RETURN_IF_ERROR(read_kernel_parts(file, &kernel));
  LSSAR_RETURN_IF_ERROR(read_tensor_parts(file, &capture));
  return capture;
}

// Decodes the manifest again and compares: a launch field that the manifest does not know yet must
// not get lost.
Result<std::string> checked_manifest(const Capture& capture) {
  std::string manifest = encode_manifest(capture);
  const Result<Capture> again = decode_manifest(manifest);
  if (!again.ok()) return again.status().with_context("manifest of a capture");
  for (size_t i = 0; i < capture.kernels.size(); ++i) {
    const CapturedKernel& kernel = capture.kernels[i];
    const CapturedKernel& read = again->kernels[i];
    if (read.source.steps != kernel.source.steps || read.schedule != kernel.schedule ||
        read.problem != kernel.problem) {
      return internal_error(kernel.source.name + ": the capture's manifest lost a field");
    }
  }
  return manifest;
}

}  // namespace

bool Capture::has_inputs() const { return has_values(*this, false); }
bool Capture::has_outputs() const { return has_values(*this, true); }

Result<CapturedKernel> capture_kernel(Engine& engine, const PreparedKernel& kernel,
                                      const Sizes& sizes) {
  if (kernel.wait_spins != 0) {
    return unsupported(
        "LSSAR_DEBUG_WAITS is set: a replay cannot receive wait reports; "
        "unset it to capture");
  }
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const Compiler> compiler, engine.compiler());
  CapturedKernel captured;
  captured.problem = kernel.problem;
  captured.problem.batch = sizes.batch;
  captured.problem.heads = sizes.heads;
  captured.problem.kv_heads = sizes.kv_heads;
  captured.schedule = kernel.schedule;
  captured.target = engine.device().info().target.name();
  captured.source = kernel.source;
  captured.overridden = !kernel.override_path.empty();
  captured.compiler = compiler->name() + " " + compiler->version();
  captured.key = kernel.key;
  captured.image = kernel.loaded->image;
  const CompileRequest request =
      engine.compile_request(kernel.problem, kernel.source, captured.image.kind);
  captured.metadata = encode_image_metadata(
      {captured.problem, captured.schedule, captured.source, *compiler, request}, captured.image);
  return captured;
}

Capture begin_capture(Engine& engine, const Sizes& sizes) {
  Capture capture;
  capture.version = library_version();
  capture.params_layout = params_layout();
  capture.device = engine.device().info().name;
  capture.driver = engine.device().info().driver;
  capture.sizes = sizes;
  return capture;
}

Result<Operands> call_operands(const Problem& problem, const Schedule& schedule, const Sizes& sizes,
                               const Tensors& tensors) {
  LSSAR_RETURN_IF_ERROR(check_sizes(problem, sizes));
  LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_bytes(problem, schedule, sizes));
  Operands operands = list_operands(problem, shapes_of(sizes), saved, tensors, 0, 0);
  --operands.count;  // leave out the workspace, the last one
  return operands;
}

CapturedTensor layout_of(const Operand& operand) {
  CapturedTensor tensor;
  tensor.name = operand.name;
  std::copy(std::begin(operand.strides), std::end(operand.strides), std::begin(tensor.strides));
  tensor.offset = static_cast<int>(operand.data & kPointerMask);
  return tensor;
}

void set_tensor(Tensors* tensors, const std::string& name, const Tensor& value) {
  const std::pair<const char*, Tensor*> strided[] = {
      {"q", &tensors->q},           {"k", &tensors->k},           {"v", &tensors->v},
      {"o", &tensors->o},           {"grad_o", &tensors->grad_o}, {"grad_q", &tensors->grad_q},
      {"grad_k", &tensors->grad_k}, {"grad_v", &tensors->grad_v}};
  for (const auto& [known, tensor] : strided) {
    if (name == known) *tensor = value;
  }
  const std::pair<const char*, DevicePtr*> contiguous[] = {
      {"saved_o", &tensors->saved_o},       {"saved_stats", &tensors->saved_stats},
      {"saved_x", &tensors->saved_x},       {"row_stats", &tensors->row_stats},
      {"partial_o", &tensors->partial_o},   {"sink", &tensors->sink},
      {"grad_sink", &tensors->grad_sink},   {"rotary_cos", &tensors->rotary_cos},
      {"rotary_sin", &tensors->rotary_sin}, {"alibi_slopes", &tensors->alibi_slopes}};
  for (const auto& [known, data] : contiguous) {
    if (name == known) *data = value.data;
  }
}

Result<Operands> operands_of(const Capture& capture) {
  Tensors tensors;
  for (const CapturedTensor& tensor : capture.tensors) {
    // Above 0, because a null row_stats would not count as an operand.
    const DevicePtr data = kPointerMask + 1 + static_cast<DevicePtr>(tensor.offset);
    set_tensor(&tensors, tensor.name,
               {data, tensor.strides[0], tensor.strides[1], tensor.strides[2]});
  }
  LSSAR_ASSIGN_OR_RETURN(
      Operands operands,
      call_operands(capture.kernel().problem, capture.kernel().schedule, capture.sizes, tensors));
  const auto count = static_cast<size_t>(operands.count);
  for (size_t i = 0; i < std::max(count, capture.tensors.size()); ++i) {
    const std::string found = i < capture.tensors.size() ? capture.tensors[i].name : "none";
    const std::string wanted = i < count ? operands.items[i].name : "none";
    if (found == wanted) continue;
    return invalid_argument(fmt::format("tensors[{}] = {}: a call of pass {} has {} there", i,
                                        found, pass_name(capture.kernel().problem.pass), wanted));
  }
  for (const Operand& operand : operands) LSSAR_RETURN_IF_ERROR(packed_bytes(operand).status());
  return operands;
}

Result<std::vector<NamedPart>> capture_parts(const Capture& capture) {
  LSSAR_RETURN_IF_ERROR(operands_of(capture).status());
  LSSAR_ASSIGN_OR_RETURN(const std::string manifest, checked_manifest(capture));
  std::vector<NamedPart> parts = {{kManifestPart, {"", manifest}}};
  for (const CapturedKernel& kernel : capture.kernels) {
    parts.push_back({source_part(kernel), {"", kernel.source.source}});
    parts.push_back({image_part(kernel), {kernel.metadata, kernel.image.bytes}});
  }
  for (const CapturedTensor& tensor : capture.tensors) {
    if (tensor.packed) parts.push_back({tensor_part(tensor), {"", *tensor.packed}});
  }
  return parts;
}

Status write_capture(const std::string& path, const Capture& capture, bool is_own_name) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<NamedPart> parts, capture_parts(capture));
  return write_part_file(path, parts, is_own_name);
}

Result<Capture> read_capture(const PartFile& file) {
  Result<Capture> capture = read_parts(file);
  if (!capture.ok() && capture.status().code() != StatusCode::kIoError)
    return capture.status().with_context("'" + file.name() + "'");
  return capture;
}

Result<Capture> read_capture(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const PartFile file, PartFile::open(path));
  return read_capture(file);
}

}  // namespace lssar
