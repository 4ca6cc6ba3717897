// GpuLock: one tuner at a time per GPU, for all processes and users of a machine.
//
// It is an advisory lock (flock) on a file of the temporary folder ($TMPDIR, else /tmp), named
// after the GPU. The kernel releases it when the process that holds it ends, however that happens.
// The file is never written and never removed. Threads: a lock belongs to no thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/file.h"
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

  const std::string& path() const { return path_; }

 private:
  GpuLock(FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  FileDescriptor file_;
  std::string path_;
};

}  // namespace lssar
