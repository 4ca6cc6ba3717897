// What a timeline's spans are called: functions of the source, barriers and places of shared
// memory.
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
  // Both outlive it; labels are added to `labels`, and are known by their index.
  TimelineNames(const TimelineInput& input, std::vector<std::string>* labels);

  int label(const std::string& text);
  // "softplus in weigh": where an instruction is of, with the function that it was inlined into.
  int function_label(uint32_t instruction);
  // "ring stage 2: full", "barrier 5 of the block".
  int barrier_label(const SignalKey& key);
  // Whether an mbarrier is one that says that a place is free.
  bool is_of_free_place(const SignalKey& key) const;

  // The part of the layout at `address`; null: none.
  const SharedPart* part_at(uint32_t address) const;
  // Parts of one stage have one name.
  static std::string place_name(const SharedPart& part);

 private:
  // The barriers' part that an mbarrier is of, and its number there; null: none.
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
