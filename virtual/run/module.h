// A loaded PTX image: its variables in memory and its kernels, decoded.
#pragma once

#include <atomic>
#include <memory>

#include "base/status.h"
#include "device/device.h"
#include "virtual/program/kernel_program.h"
#include "virtual/program/simd_level.h"
#include "virtual/state/memory_map.h"

namespace lssar::vdev {

class Function final : public DeviceFunction {
 public:
  explicit Function(std::unique_ptr<KernelProgram> program) : program_(std::move(program)) {}
  KernelResources resources() const override;
  const KernelProgram& program() const { return *program_; }
  // The dynamic shared memory that prepare() asked for.
  uint32_t allowed_shared() const { return allowed_shared_.load(); }
  void allow_shared(uint32_t bytes) const { allowed_shared_ = bytes; }

 private:
  std::unique_ptr<KernelProgram> program_;
  mutable std::atomic<uint32_t> allowed_shared_ = 0;
};

// `memory` must outlive the module: its variables are imported there. `level` is not kAuto.
Result<std::unique_ptr<DeviceModule>> load_module(const Image& image, const Target& target,
                                                  SimdLevel level, MemoryMap& memory);

}  // namespace lssar::vdev
