// What the tests of candidates share: small tasks on a virtual device, good candidates, and planted
// wrong ones, whose emitted source is edited.
//
// Threads: for the main thread of a test.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "autotune/measure/candidate_runner.h"
#include "codegen/emit.h"

namespace lssar {
inline void PrintTo(Verdict verdict, std::ostream* out) { *out << verdict_name(verdict); }
}  // namespace lssar

namespace lssar::test {

// bf16, causal, heads of 64: small enough that a check takes a moment. The cache is that of all
// tests (LSSAR_CACHE_DIR).
RunnerTask small_task(Pass pass = Pass::kForward, const std::string& target = "sm_80");

Target target_of(const RunnerTask& task);
// The default schedule of the task; if the target has two variants, that of `variant`.
CandidateSpec good_candidate(const RunnerTask& task, Variant variant = Variant::kPortable);

// One replacement in an emitted source; the first text occurs there exactly once.
struct SourceEdit {
  std::string from, to;
};
CandidateSpec edited(const RunnerTask& task, const CandidateSpec& candidate,
                     const std::vector<SourceEdit>& edits);

// Wrong candidates of the portable forward.
CandidateSpec off_by_one_at_the_causal_edge(const RunnerTask& task);
CandidateSpec writes_a_row_too_many(const RunnerTask& task);
CandidateSpec never_writes_the_last_row(const RunnerTask& task);
CandidateSpec races(const RunnerTask& task);              // without changing its numbers
CandidateSpec follows_the_clock(const RunnerTask& task);  // changes a few elements a little
CandidateSpec never_ends(const RunnerTask& task);
CandidateSpec traps(const RunnerTask& task);
CandidateSpec does_not_compile(const RunnerTask& task);

void expect_reason(const std::string& reason, const std::string& part);

}  // namespace lssar::test
