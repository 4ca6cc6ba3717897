// The names of a timeline's spans: functions of the source, barriers, and places of shared memory.
//
// Used by timeline.cpp alone. Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "inspect/timeline.h"
#include "inspect/timeline_program.h"

namespace lssar {

class TimelineNames {
 public:
  // REQUIRES: both outlive it. Labels are added to `labels` and named by their index.
  TimelineNames(const TimelineInput& input, std::vector<std::string>* labels);

  int label(const std::string& text);
  // "softplus in weigh": the function of an instruction, and the one it was inlined into.
  int function_label(uint32_t instruction);
  // "ring stage 2: full", "barrier 5 of the block".
  int barrier_label(const SignalKey& key);
  // Whether the mbarrier is one that signals a free place.
  bool is_of_free_place(const SignalKey& key) const;

  // The part of the layout at `address`; null if there is none.
  const SharedPart* part_at(uint32_t address) const;
  // All parts of one stage have the same name.
  static std::string place_name(const SharedPart& part);

 private:
  // The part that has this mbarrier, and the mbarrier's number there; null if there is none.
  const SharedPart* barriers_of(const SignalKey& key, int* number) const;
  std::string function_at(int line) const;

  const TimelineInput& in_;
  std::vector<std::string>* const labels_;
  const std::vector<std::string> functions_;
  int shared_base_ = 0;  // where dynamic shared memory begins
  std::map<std::string, int> label_of_;
  std::map<uint32_t, int> function_of_;
};

}  // namespace lssar
