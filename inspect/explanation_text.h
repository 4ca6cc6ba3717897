// An explanation as text and as JSON. Threads: pure functions.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "inspect/explanation.h"
#include "inspect/kernel_facts.h"

namespace lssar {

struct ExplanationStyle {
  size_t shown = 10;    // candidates, the best first
  bool unicode = true;  // bars of block characters; false: of '#'
};

// The choice and its origin, a bar per resource, the kernels, their accuracy, and the other
// candidates with the reasons against them. `facts` may be null.
std::string explanation_text(const Explanation& explanation, const ExplanationRequest& request,
                             const KernelFacts* facts, const ExplanationStyle& style);

// Every count, and the first `shown` candidates. `facts` may be null.
nlohmann::json explanation_json(const Explanation& explanation, const ExplanationRequest& request,
                                const KernelFacts* facts, size_t shown);

}  // namespace lssar
