// A shared library opened at run time: NVRTC, the CUDA driver, the LLVM compiler library.
//
// Threads: open() from any thread; an opened library is immutable.
#pragma once

#include <string>

#include "base/status.h"

namespace lssar {

// NOTE: a library is never closed. Compilers and drivers leave threads and thread-local state
// behind, which would run unmapped code.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;

  // `name` is a path, or a name that the loader searches for. kMissing carries the loader's reason.
  static Result<DynamicLibrary> open(const std::string& name);

  // Returns null if the library has no such symbol.
  void* symbol(const char* name) const;

  // The file that was loaded, with symbolic links resolved.
  const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

// Sets `function` to the symbol. Returns false if there is none.
template <typename Function>
bool bind_symbol(const DynamicLibrary& library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(library.symbol(name));
  return function != nullptr;
}

// The directory of the shared library or executable that holds the code at `address`, or "" if the
// loader does not know it.
std::string directory_of_code(const void* address);

}  // namespace lssar
