// Loads images of CPU targets into this process: objects that the LLVM compiler made, and the names
// of shipped kernels. Threads: any.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace lssar {

// Functions in executable memory. The destructor frees the memory of an object.
class LoadedObject {
 public:
  virtual ~LoadedObject() = default;
  // kDeviceError: there is no function of that name, or the object could not be linked.
  virtual Result<void*> function(const std::string& name) const = 0;
};

// kMissing: the LLVM compiler's library, which also loads objects, was not found. kDeviceError:
// the bytes are not an object for this machine's architecture.
Result<std::unique_ptr<LoadedObject>> load_object(const std::string& bytes);

}  // namespace lssar
