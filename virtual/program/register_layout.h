// Where each register of a kernel lies in a warp's register file. Registers that are never live at
// the same time share a place, so that a warp's file stays in the cache.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "virtual/program/control_flow.h"
#include "virtual/ptx/ptx_ast.h"

namespace lssar::vdev {

// What the instructions read and write, in one vector each. Those of instruction i are
// [reads_begin[i], reads_begin[i + 1]) of `reads`; the same for writes.
struct RegisterAccess {
  std::vector<uint32_t> reads, reads_begin = {0};
  std::vector<uint32_t> writes, writes_begin = {0};
  // By instruction: the result may take the place of a source that is not needed afterwards.
  std::vector<bool> in_place;
  // Registers that an asynchronous operation (wgmma) reads or writes, each once, and the
  // instructions that wait for such operations. A wait counts as a read of all these registers. So
  // a register keeps its place from where it is set to the wait, on every path and round every
  // loop, although no later instruction may name it.
  std::vector<uint32_t> async_registers;
  std::vector<bool> waits_for_async;  // by instruction; may be empty if there are none
};

struct RegisterLayout {
  std::vector<uint32_t> offset;     // by register
  uint32_t end = 0;                 // first free byte
  std::vector<uint32_t> undefined;  // registers that some path reads before writing them
};

// Lays out registers from byte `begin` on. kDeviceError: the kernel is too large to analyse.
Result<RegisterLayout> lay_out_registers(const ParsedKernel& kernel, const ControlFlow& flow,
                                         const RegisterAccess& access, uint32_t begin);

}  // namespace lssar::vdev
