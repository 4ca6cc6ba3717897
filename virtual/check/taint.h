// The registers of a warp that hold values nobody wrote: in which lanes they are undefined, and the
// instruction that read them. Usually empty.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "virtual/program/program.h"

namespace lssar::vdev {

class Taint {
 public:
  struct Value {
    uint32_t lanes = 0;
    const Op* origin = nullptr;
  };

  bool empty() const { return registers_.empty(); }
  void clear() { registers_.clear(); }
  // The taint of the register at an offset in the warp's registers.
  Value get(uint32_t reg) const {
    const auto found = registers_.find(reg);
    return found == registers_.end() ? Value() : found->second;
  }
  // The lanes of `written` get the taint `lanes`.
  void set(uint32_t reg, uint32_t written, uint32_t lanes, const Op* origin) {
    lanes &= written;
    const auto found = registers_.find(reg);
    if (found == registers_.end()) {
      if (lanes != 0) registers_.emplace(reg, Value{lanes, origin});
      return;
    }
    Value& value = found->second;
    value.lanes = (value.lanes & ~written) | lanes;
    if (lanes != 0) value.origin = origin;
    if (value.lanes == 0) registers_.erase(found);
  }

 private:
  std::unordered_map<uint32_t, Value> registers_;
};

}  // namespace lssar::vdev
