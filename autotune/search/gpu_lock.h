// GpuLock: one tuner at a time per GPU, for all processes and users of a machine.
//
//
// It is an advisory lock (flock) on a file of the local temporary directory, named after the GPU.
// The kernel releases it when the process that holds it ends, however that happens. The file is
// never written and never removed. Threads: a lock belongs to no thread.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace lssar {

class GpuLock {
 public:
  // Waits up to `timeout_s` (0: tries once). `cancelled` may be empty; it ends the wait like a
  // timeout. kDeviceError: another process still holds it. kIoError: the file cannot be made.
  // `name` becomes part of the file name: characters other than letters, digits, '.', '_' and '-'
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
