#include "compile/object_loader.h"

#include <fmt/format.h>

#include "base/open_once.h"
#include "compile/llvm_library.h"
#include "compile/shipped_kernels.h"

namespace lssar {
namespace {

Result<LlvmLibrary> library() {
  static auto* const kept = new OpenOnce<LlvmLibrary>(open_llvm_library);
  return kept->get();
}

Status link_error(const LlvmLibrary& llvm, const char* what, char* log) {
  const std::string reason = log == nullptr ? "out of memory" : log;
  llvm.release_log(log);
  return device_error(fmt::format(
      "{}: {}. If the system refuses executable memory (SELinux: deny_execmem), kernels of the CPU "
      "device cannot run on it: use --device virtual",
      what, reason));
}

class JitObject final : public LoadedObject {
 public:
  JitObject(const LlvmLibrary& llvm, lssar_llvm_loaded* loaded) : llvm_(llvm), loaded_(loaded) {}
  ~JitObject() override { llvm_.unload(loaded_); }
  JitObject(const JitObject&) = delete;
  JitObject& operator=(const JitObject&) = delete;

  Result<void*> function(const std::string& name) const override {
    lssar_llvm_function_result result = {};
    llvm_.function(loaded_, name.c_str(), &result);
    if (result.address != nullptr) return result.address;
    return link_error(llvm_, name.c_str(), result.log);
  }

 private:
  const LlvmLibrary llvm_;
  lssar_llvm_loaded* const loaded_;
};

}  // namespace

Result<std::unique_ptr<LoadedObject>> load_object(const std::string& bytes) {
  LSSAR_ASSIGN_OR_RETURN(std::unique_ptr<LoadedObject> shipped, load_shipped(bytes));
  if (shipped != nullptr) return shipped;
  LSSAR_ASSIGN_OR_RETURN(const LlvmLibrary llvm, library());
  lssar_llvm_load_result result = {};
  llvm.load(bytes.data(), bytes.size(), &result);
  if (result.outcome != LSSAR_LLVM_DONE) return link_error(llvm, "loading an object", result.log);
  return std::unique_ptr<LoadedObject>(std::make_unique<JitObject>(llvm, result.loaded));
}

}  // namespace lssar
