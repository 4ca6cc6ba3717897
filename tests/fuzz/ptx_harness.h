// What a fuzzed PTX text is put through: loaded by the virtual device and, where it loads, its
// first kernel run on a small launch, whose mode (strict or fast), seed and dimensions the text's
// first line chooses. Ends the process where an error says nothing or is a bug of ours; everything
// else is up to the sanitizers.
//
// Threads: one at a time.
#pragma once

#include <string_view>

namespace lssar::test {

enum class PtxOutcome { kSkipped, kRefused, kReported, kClean };

// Texts that are long, or whose variables are large, are skipped: they find nothing and cost time.
PtxOutcome run_ptx_input(std::string_view input);
bool runs_strict(std::string_view input);

}  // namespace lssar::test
