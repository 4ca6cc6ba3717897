// How an input of the plan reader is cut: every struct of the C API has a slot that it may grow
// in, so that kept inputs mean the same when fields are appended.
//
// Used by plan_harness.cpp and reader_seeds.cpp. Threads: plain values.
#pragma once

#include <cstdint>

namespace lssar::test {

// Bits of PlanInput::gives: what is not given is NULL.
enum PlanGives : uint8_t {
  kGivesOptions = 1,
  kGivesText = 2,
  kGivesTune = 4,
  kGivesWorker = 8,
  kGivesContext = 16,       // a context of its own
  kGivesPastTheEnd = 32,    // bytes beyond what the library knows are not zero
  kGivesWorkspace = 64,     // as large as the plan says
  kGivesCall = 128,
};

struct PlanInput {
  uint8_t gives = 0;
  uint8_t context = 0;  // which of the usual contexts
  uint8_t plan = 0;     // which of the prepared plans is called
  uint8_t pass = 0;
  uint8_t gives_score = 0;  // the text is the problem's score
  uint8_t reserved[3] = {};
  uint8_t problem[128] = {};
  uint8_t options[64] = {};
  uint8_t tune[64] = {};
  uint8_t context_options[96] = {};
  uint8_t sizes[64] = {};
  uint8_t call[640] = {};
};

}  // namespace lssar::test
