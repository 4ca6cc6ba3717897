// A shared library opened at run time: NVRTC, the CUDA driver, the LLVM compiler library.
//
// Threads: open() from any thread; an opened library is immutable.
#pragma once

#include <string>

#include "base/status.h"

namespace lssar {

// NOTE: never closed. Compilers and drivers leave threads and thread-local state behind that would
// run code of an unmapped library.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;

  // `name` is a path, or a name that the loader searches for. kMissing with the loader's reason.
  static Result<DynamicLibrary> open(const std::string& name);

  // null where the library has no such symbol.
  void* symbol(const char* name) const;

  // The file it was loaded from, symbolic links resolved.
  const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

// Sets `function` to the symbol; false where there is none.
template <typename Function>
bool bind_symbol(const DynamicLibrary& library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(library.symbol(name));
  return function != nullptr;
}

// The directory of the shared library or executable that holds the code at `address`; "" where the
// loader does not know.
std::string directory_of_code(const void* address);

}  // namespace lssar
