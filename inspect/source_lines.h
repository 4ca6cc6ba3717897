// Maps lines of PTX to the source lines that they were made from, and to what ran there.
//
// Threads: plain values and pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "device/launch_counters.h"

namespace lssar {

// A line of the source; if it was inlined, also the line of the call. 0: not known, or none.
struct SourcePlace {
  int line = 0;
  int caller = 0;

  auto operator<=>(const SourcePlace&) const = default;
};

// By line of the PTX, whose text was compiled with -lineinfo. Element 0 is not used.
std::vector<SourcePlace> places_of_ptx(std::string_view ptx);

// What the instructions of one source line did.
struct LineActivity {
  uint64_t warp_instructions = 0;
  uint64_t lanes = 0;
  GlobalTraffic global;
  uint64_t global_excess = 0;  // sectors beyond those that the bytes would fill
  SharedTraffic shared;
};

// Activity whose line is unknown is under line 0.
std::map<SourcePlace, LineActivity> activity_by_place(const std::vector<LineCounters>& lines,
                                                      const std::vector<SourcePlace>& places);

}  // namespace lssar
