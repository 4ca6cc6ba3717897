// What `lssar replay` prints of a repeated call, as text and as JSON.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/lssar/call/comparison.h"
#include "tools/lssar/call/replay_run.h"

namespace lssar::command {

struct ReplayVerdict {
  bool was_checked = false;          // compared with the reference
  std::vector<Comparison> here;      // of this run
  std::vector<Comparison> captured;  // of the captured outputs
  std::string data;                  // "captured inputs", "gauss data, seed 1"

  bool passed() const { return all_passed(here); }
};

void print_replay(const std::string& path, const Capture& capture, const Replay& replay,
                  const ReplayVerdict& verdict, const DeviceInfo& device, bool quiet);

nlohmann::json replay_json(const std::string& path, const Capture& capture, const Replay& replay,
                           const ReplayVerdict& verdict, const DeviceInfo& device);

}  // namespace lssar::command
