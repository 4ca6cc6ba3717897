// What a search found, for people and for programs. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autotune/search/search.h"

namespace lssar {

// The fields in which `schedule` differs from `base`: "forward.block_cols 128, stages 3", or "the
// default" if it does not.
std::string schedule_difference(const Schedule& base, const Schedule& schedule);

// A table of the `count` best, with their terms in ms; then how many were rejected, by reason.
std::string report_text(const SearchOutcome& outcome, const Problem& problem, const Target& target,
                        int count);

// For sm_90a, which model decided (docs/timing_model.md): "Ranked by the ..." if times are
// predicted, "Timed first what is best by the ..." if they are measured. "" for others, and if
// nothing was run.
std::string order_text(const SearchOutcome& outcome);

// The winner's record, counts, and every candidate's fate.
nlohmann::json to_json(const SearchOutcome& outcome);

}  // namespace lssar
