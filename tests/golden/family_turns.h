// The golden cases of the family, divided among the two compilers, so that each is compiled about
// once. At d 64 one compiler has a case in bf16, the other in fp32 or fp16, in turn from score
// function to score function. At d 128 one of them has it, in bf16.
//
// The cases of one score function have one dtype, because their kernels are the same.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/golden/golden_case.h"

namespace lssar {

enum class FamilyCompiler { kNvrtc = 0, kLlvm = 1 };

// All cases. The folder is read once: a test of one case would otherwise take longer to name the
// cases than to run its own.
inline const std::vector<std::string>& all_family_cases() {
  static const auto& kCases =
      *new std::vector<std::string>(golden_case_names(golden_family_folder()).value());
  return kCases;
}

// How many score functions come before that of the case, "relu_l1" of "relu_l1__causal".
inline size_t score_number(const std::vector<std::string>& cases, const std::string& name) {
  const auto score_of = [](const std::string& text) { return text.substr(0, text.find("__")); };
  std::set<std::string> before;
  for (const std::string& other : cases) {
    if (score_of(other) < score_of(name)) before.insert(score_of(other));
  }
  return before.size();
}

inline std::vector<std::string> family_cases(FamilyCompiler compiler) {
  const std::vector<std::string>& all = all_family_cases();
  std::vector<std::string> cases;
  for (const std::string& name : all) {
    const bool is_wide = name.ends_with("_d128");
    if (!is_wide || score_number(all, name) % 2 == static_cast<size_t>(compiler))
      cases.push_back(name);
  }
  return cases;
}

// For kernels that one compiler shows to be right: four score functions in turn, which have every
// dtype.
inline std::vector<std::string> family_cases_in_turn(FamilyCompiler compiler) {
  const std::vector<std::string>& all = all_family_cases();
  std::vector<std::string> cases = family_cases(compiler);
  std::erase_if(cases, [&](const std::string& name) {
    const bool is_wide = name.ends_with("_d128");
    return !is_wide && score_number(all, name) / 4 % 2 != static_cast<size_t>(compiler);
  });
  return cases;
}

inline DType family_dtype(FamilyCompiler compiler, const std::string& name) {
  if (name.ends_with("_d128")) return DType::kBf16;
  const std::vector<std::string>& all = all_family_cases();
  constexpr DType kTurns[] = {DType::kFp32, DType::kBf16, DType::kFp16, DType::kBf16};
  return kTurns[(score_number(all, name) + static_cast<size_t>(compiler)) % 4];
}

}  // namespace lssar
