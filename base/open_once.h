// Something that a process opens once and keeps, such as a compiler.
#pragma once

#include <mutex>
#include <optional>

#include "base/status.h"

namespace lssar {

// Threads: any. NOTE: make it with new and never delete it, because threads may still use what was
// opened while the process exits.
template <typename T>
class OpenOnce {
 public:
  explicit OpenOnce(Result<T> (*open)()) : open_(open) {}

  // A failure is not kept: the caller may set an environment variable and ask again.
  Result<T> get() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!kept_.has_value()) {
      LSSAR_ASSIGN_OR_RETURN(kept_, open_());
    }
    return *kept_;
  }

 private:
  Result<T> (*const open_)();
  std::mutex mutex_;
  std::optional<T> kept_;
};

}  // namespace lssar
