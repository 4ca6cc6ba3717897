// Mutants that nothing can find out, because they are as right as what they were made from.
#pragma once

namespace lssar::test {

struct Survivor {
  const char* subject;
  const char* mutant;  // Mutant::name
  const char* reason;
};

inline constexpr Survivor kSurvivors[] = {
    {"", "", ""},
};

}  // namespace lssar::test
