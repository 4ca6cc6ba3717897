// The kernels of data/hopper_*.cu: how each is launched and what it must give. They are correct, so
// that every report on one is a false alarm; the mutation test takes their synchronisation apart.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace lssar::test {

struct Replica {
  const char* file;  // of data_ptx
  const char* entry;
  // Launches it; the first difference of its output from what is right, "" where there is none.
  Result<std::string> (*run)(Device& device, const DeviceFunction& function);
};
inline void PrintTo(const Replica& replica, std::ostream* out) { *out << replica.entry; }

const std::vector<Replica>& replicas();

// Loads the text, which may be a mutant's, and runs the replica's entry of it.
Result<std::string> run_replica(const Replica& replica, Device& device, const std::string& text);

}  // namespace lssar::test
