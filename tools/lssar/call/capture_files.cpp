#include "tools/lssar/call/capture_files.h"

#include <filesystem>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "base/output_file.h"
#include "reference/numerics.h"
#include "runtime/capture_manifest.h"

namespace lssar::command {
namespace {

class CaptureFiles {
 public:
  CaptureFiles(const std::string& folder, const Capture& capture)
      : folder_(folder), capture_(capture) {}

  Result<std::vector<std::string>> write() {
    LSSAR_RETURN_IF_ERROR(make_folder(""));
    const CapturedKernel& last = capture_.kernel();
    LSSAR_RETURN_IF_ERROR(write_text("manifest.json", encode_manifest(capture_)));
    LSSAR_RETURN_IF_ERROR(write_text("problem.json", to_json(last.problem).dump(2) + "\n"));
    LSSAR_RETURN_IF_ERROR(write_text("schedule.json", to_json(last.schedule).dump(2) + "\n"));
    for (const CapturedKernel& kernel : capture_.kernels) {
      LSSAR_RETURN_IF_ERROR(write_text(kernel.source.name + ".cu", kernel.source.source));
      LSSAR_RETURN_IF_ERROR(
          write_text(fmt::format("{}.{}", kernel.source.name, image_kind_name(kernel.image.kind)),
                     kernel.image.bytes));
    }
    LSSAR_RETURN_IF_ERROR(write_tensors());
    return std::move(written_);
  }

 private:
  Status make_folder(const std::string& name) {
    std::error_code error;
    const std::string path = name.empty() ? folder_ : folder_ + "/" + name;
    std::filesystem::create_directories(path, error);
    return error ? io_error(fmt::format("--extract {}: {}", path, error.message())) : Status();
  }

  Status write_text(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    LSSAR_RETURN_IF_ERROR(write_output_file(path, text));
    written_.push_back(path);
    return {};
  }

  // A call sees saved tensors as bytes. Here they have their types and shapes.
  Status write_tensor(const Operand& operand, const std::string& packed) {
    const Sizes& sizes = capture_.sizes;
    const Problem& problem = capture_.kernel().problem;
    const std::string name = operand.name;
    // Sinks, slopes and tables of angles are float32 in any problem.
    DType dtype = operand.elem_bytes == 4 ? DType::kFp32 : problem.dtype;
    std::vector<int64_t> shape = {operand.sizes[0], operand.sizes[1], operand.sizes[2],
                                  operand.dim};
    if (operand.elem_bytes == 1) {
      const bool is_stats = name == "saved_stats" || name == "row_stats";
      shape = is_stats
                  ? std::vector<int64_t>{4, sizes.batch, sizes.heads, sizes.seq_q}
                  : std::vector<int64_t>{sizes.batch, sizes.heads, sizes.seq_q, problem.head_dim_v};
      const bool is_rounded = name == "saved_o" || name == "saved_x";
      dtype = is_rounded && problem.dtype != DType::kFp32 ? DType::kBf16 : DType::kFp32;
    }
    const std::string path =
        fmt::format("{}/{}/{}.npy", folder_, operand.written ? "outputs" : "inputs", name);
    LSSAR_RETURN_IF_ERROR(
        write_npy_float32(path, shape, unpack(dtype, std::as_bytes(std::span(packed)))));
    written_.push_back(path);
    return {};
  }

  Status write_tensors() {
    LSSAR_ASSIGN_OR_RETURN(const Operands operands, operands_of(capture_));
    if (capture_.has_inputs()) LSSAR_RETURN_IF_ERROR(make_folder("inputs"));
    if (capture_.has_outputs()) LSSAR_RETURN_IF_ERROR(make_folder("outputs"));
    for (int i = 0; i < operands.count; ++i) {
      const CapturedTensor& tensor = capture_.tensors[static_cast<size_t>(i)];
      if (!tensor.packed || tensor.packed->empty()) continue;
      LSSAR_RETURN_IF_ERROR(write_tensor(operands.items[i], *tensor.packed));
    }
    return {};
  }

  const std::string& folder_;
  const Capture& capture_;
  std::vector<std::string> written_;
};

}  // namespace

Result<std::vector<std::string>> write_capture_files(const std::string& folder,
                                                     const Capture& capture) {
  return CaptureFiles(folder, capture).write();
}

}  // namespace lssar::command
