// The comment at the top of an emitted source: what the kernel is, and the request that made it.
//
// People read it, and so do `lssar inspect` and replays, which need the request. It is not part of
// a kernel's identity. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/steps.h"
#include "codegen/target.h"

namespace lssar {

// The compiler's option for GPU kernels of problems with `invariant`: a * b + c is contracted only
// where the source says so. The compiler would contract it in one kernel and not in another.
inline constexpr char kNoContraction[] = "--fmad=false";

std::string source_header(const std::string& name, const Problem& problem, const Schedule& schedule,
                          const Target& target, const std::vector<Step>& steps);

// The schedule's fields that the problem's kernels read. Kernels of expressions have no polynomial
// of the schedule's degree, for one.
nlohmann::json fields_of_pass(const Schedule& schedule, const Problem& problem);

// The schedule's text without the fields that kernels of the problem's score function do not read.
std::string schedule_text(const Schedule& schedule, const Problem& problem);

}  // namespace lssar
