// What a witness program, a library of its own, gives the test that opens it.
//
// Threads: cases run one at a time.
#pragma once

#include <cstddef>
#include <string>

namespace witness {

struct Case {
  const char* name;
  // Computes on the current device of the CUDA runtime: "" where every result is exact, else the
  // runtime's error or the first result that differs.
  std::string (*run)();
};

struct CaseList {
  const Case* cases;
  size_t count;
};

}  // namespace witness

extern "C" __attribute__((visibility("default"))) witness::CaseList witness_cases();
