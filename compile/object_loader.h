// Loads objects that the LLVM compiler made for the host into this process. Threads: any.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace lssar {

// An object in executable memory, which goes with it.
class LoadedObject {
 public:
  virtual ~LoadedObject() = default;
  // kDeviceError: there is none of that name, or the object could not be linked.
  virtual Result<void*> function(const std::string& name) const = 0;
};

// kMissing without the LLVM compiler's library, which loads what it makes. kDeviceError: the bytes
// are no object of this machine's architecture.
Result<std::unique_ptr<LoadedObject>> load_object(const std::string& bytes);

}  // namespace lssar
