// Instructions with control words for the tests of the timing model.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "inspect/sass.h"
#include "inspect/timing/loop_program.h"

namespace lssar {

constexpr int kNone = SassControl::kNoScoreboard;

struct Sample {
  std::string text;
  int stall = 1;
  int writes = kNone;  // scoreboard
  uint32_t waits = 0;  // bits
  bool yields = false;
};

inline SassInstruction sample_instruction(const Sample& sample, uint32_t address) {
  SassInstruction in;
  in.address = address;
  in.text = sample.text;
  in.opcode = sample.text.substr(0, sample.text.find(' '));
  in.sass_class = sass_class(in.opcode);
  in.control = SassControl{sample.stall, sample.yields, sample.writes, kNone, sample.waits};
  return in;
}

// A kernel that is one loop of these instructions, and its only way.
inline std::pair<SassKernel, LoopWay> sample_loop(const std::vector<Sample>& samples) {
  std::pair<SassKernel, LoopWay> out;
  for (const Sample& sample : samples) {
    const auto index = uint32_t(out.first.instructions.size());
    out.first.instructions.push_back(sample_instruction(sample, index * 16));
    out.second.instructions.push_back(index);
  }
  return out;
}

inline std::vector<Sample> repeated(const Sample& sample, int count) {
  return std::vector<Sample>(size_t(count), sample);
}

inline std::vector<Sample> joined(std::vector<std::vector<Sample>> parts) {
  std::vector<Sample> all;
  for (const std::vector<Sample>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace lssar
