// GpuLock: one tuner at a time per GPU, among the processes and users of a machine.
//
// An advisory lock (flock) on a file of the local temporary directory, named after the GPU; the
// kernel drops it with the process that holds it, however that ends. The file is never written,
// and never removed. Threads: a lock belongs to no thread.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace lssar {

class GpuLock {
 public:
  // Waits up to `timeout_s` (0: tries once). `cancelled` may be empty; it ends the wait like a
  // timeout. kDeviceError: somebody else holds it still; kIoError: the file cannot be made.
  // `name` is made into a file name: other characters than letters, digits, '.', '_' and '-'
  // become '_'.
  static Result<GpuLock> take(const std::string& name, double timeout_s,
                              const std::function<bool()>& cancelled = {});

  GpuLock(GpuLock&& other) noexcept;
  GpuLock& operator=(GpuLock&& other) noexcept;
  ~GpuLock();

  const std::string& path() const { return path_; }

 private:
  GpuLock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_ = -1;
  std::string path_;
};

}  // namespace lssar
