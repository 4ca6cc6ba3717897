#include "runtime/plan_capture.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>

#include <fmt/format.h>

#include "base/log.h"
#include "device/graph_streams.h"
#include "runtime/capture.h"
#include "runtime/tensor_copy.h"

namespace lssar {
namespace {

constexpr size_t kKeyDigits = 16;

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void warn(const PreparedKernel& kernel, const std::string& what) {
  log(LogLevel::kWarning, fmt::format("LSSAR_CAPTURE_DIR: {}: {}", kernel.source.name, what));
}

std::string host_name() {
  char name[64] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "host";
  for (char* c = name; *c != '\0'; ++c)
    if (std::strchr("/ \t\n", *c) != nullptr) *c = '_';
  return name[0] == '\0' ? "host" : name;
}

// Writes one call into a file.
class CallCapture {
 public:
  CallCapture(Engine& engine, const CallKernels& kernels, const Sizes& sizes,
              const Tensors& tensors, Stream stream)
      : engine_(engine), kernels_(kernels), sizes_(sizes), tensors_(tensors), stream_(stream) {}

  Status begin() {
    const PreparedKernel& kernel = kernels_.kernel;
    capture_ = begin_capture(engine_, sizes_);
    capture_.data = "gauss";
    capture_.seed = 1;
    LSSAR_ASSIGN_OR_RETURN(operands_,
                           call_operands(kernel.problem, kernel.schedule, sizes_, tensors_));
    for (const Operand& operand : operands_) capture_.tensors.push_back(layout_of(operand));
    LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                           workspace_layout(kernel.problem, kernel.schedule, sizes_));
    capture_.workspace_bytes = layout.total_bytes;
    for (const PreparedKernel* one : {kernels_.forward_train, &kernel}) {
      if (one == nullptr) continue;
      LSSAR_ASSIGN_OR_RETURN(CapturedKernel captured, capture_kernel(engine_, *one, sizes_));
      capture_.kernels.push_back(std::move(captured));
    }
    return {};
  }

  // Copies the inputs (before the call) or the outputs (after it).
  Status copy_tensors(bool written) {
    LSSAR_RETURN_IF_ERROR(engine_.device().synchronize(stream_));
    for (int i = 0; i < operands_.count; ++i) {
      if (operands_.items[i].written != written) continue;
      LSSAR_ASSIGN_OR_RETURN(capture_.tensors[static_cast<size_t>(i)].packed,
                             read_operand(engine_.device(), operands_.items[i]));
    }
    capture_.data = "given";
    return {};
  }
  void drop_tensors() {
    for (CapturedTensor& tensor : capture_.tensors) tensor.packed.reset();
    capture_.data = "gauss";
  }

  Status write(const std::string& folder) const {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return io_error(fmt::format("'{}': {}", folder, error.message()));
    const std::string path =
        fmt::format("{}/{}.{}.{}-{}.lssar", folder, kernels_.kernel.source.name,
                    kernels_.kernel.key.substr(0, kKeyDigits), host_name(), ::getpid());
    LSSAR_RETURN_IF_ERROR(write_capture(path, capture_, true));
    log(LogLevel::kInfo,
        fmt::format("captured {}: lssar replay {}", kernels_.kernel.source.name, path));
    return {};
  }

 private:
  Engine& engine_;
  const CallKernels& kernels_;
  const Sizes& sizes_;
  const Tensors& tensors_;
  const Stream stream_;
  Operands operands_;
  Capture capture_;
};

// A call that execute would refuse is not captured, because its pointers may be invalid.
bool is_valid(const PreparedKernel& kernel, const Sizes& sizes, const Tensors& tensors,
              const Workspace& workspace) {
  if (!check_sizes(kernel.problem, sizes).ok()) return false;
  const Result<WorkspaceLayout> layout = workspace_layout(kernel.problem, kernel.schedule, sizes);
  return layout.ok() && check_tensors(kernel.problem, kernel.schedule, sizes, tensors, workspace,
                                      layout->total_bytes)
                            .ok();
}

// Whether the stream is being captured into a graph, so that the call must not wait for it.
bool is_recorded(Engine& engine, const PreparedKernel& kernel, Stream stream) {
  auto* const streams = dynamic_cast<GraphStreams*>(&engine.device());
  if (streams == nullptr) return false;
  const Result<bool> capturing = streams->is_capturing(stream);
  if (capturing.ok() && !*capturing) return false;
  warn(kernel, capturing.ok() ? "not captured: its stream is being captured into a graph"
                              : "not captured: " + capturing.status().message());
  return true;
}

// Runs `step` and logs its failure as a warning. Returns whether it succeeded.
template <typename Step>
bool tried(const PreparedKernel& kernel, const Step& step) {
  try {
    const Status status = step();
    if (!status.ok()) warn(kernel, status.message());
    return status.ok();
  } catch (const std::exception&) {
    return false;  // out of memory for the text; a capture must not make a call fail
  }
}

}  // namespace

std::unique_ptr<const PlanCapture> PlanCapture::from_environment() {
  const std::string_view folder = environment("LSSAR_CAPTURE_DIR");
  if (folder.empty()) return nullptr;
  const std::string_view inputs = environment("LSSAR_CAPTURE_INPUTS");
  const std::string_view number = environment("LSSAR_CAPTURE_CALL");
  uint64_t call = 1;
  if (!number.empty()) {
    const auto end = number.data() + number.size();
    const auto parsed = std::from_chars(number.data(), end, call);
    if (parsed.ec != std::errc() || parsed.ptr != end || call == 0) {
      log(LogLevel::kWarning,
          fmt::format("LSSAR_CAPTURE_CALL = {}: allowed are 1 and more; nothing is captured",
                      number));
      return nullptr;
    }
  }
  if (!inputs.empty() && inputs != "0" && inputs != "1") {
    log(LogLevel::kWarning,
        fmt::format("LSSAR_CAPTURE_INPUTS = {}: allowed are 0, 1; nothing is captured", inputs));
    return nullptr;
  }
  return std::unique_ptr<const PlanCapture>(
      new PlanCapture(std::string(folder), inputs == "1", call));
}

bool PlanCapture::is_the_call(const PreparedKernel& kernel) const {
  // Counters belong to the process, because a program may make plans of one problem repeatedly.
  static std::mutex mutex;
  static std::map<std::string, uint64_t> calls;
  const std::lock_guard lock(mutex);
  return ++calls[folder_ + "/" + kernel.key] == call_;
}

Status PlanCapture::execute(Engine& engine, const CallKernels& kernels, const Sizes& sizes,
                            const Tensors& tensors, const Workspace& workspace,
                            Stream stream) const {
  const PreparedKernel& kernel = kernels.kernel;
  const auto run = [&] { return engine.execute(kernel, sizes, tensors, workspace, stream); };
  if (is_of_range(kernel.problem.pass) || !is_valid(kernel, sizes, tensors, workspace))
    return run();
  if (with_tensors_ && is_recorded(engine, kernel, stream)) return run();
  if (!is_the_call(kernel)) return run();

  CallCapture call(engine, kernels, sizes, tensors, stream);
  const bool is_captured = tried(kernel, [&] { return call.begin(); });
  const bool has_tensors =
      is_captured && with_tensors_ && tried(kernel, [&] { return call.copy_tensors(false); });
  if (!has_tensors) call.drop_tensors();
  Status status = run();
  if (status.ok() && has_tensors) {
    status = engine.device().synchronize(stream);  // an error is the kernel's, so return it
    if (status.ok()) (void)tried(kernel, [&] { return call.copy_tensors(true); });
  }
  if (is_captured) (void)tried(kernel, [&] { return call.write(folder_); });
  return status;
}

}  // namespace lssar
