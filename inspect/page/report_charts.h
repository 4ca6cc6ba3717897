// The data of the report's charts. Used by report.cpp alone. Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>

#include "inspect/explanation.h"
#include "inspect/kernel_facts.h"
#include "inspect/traced_run.h"

namespace lssar {

// {"missing": why}
nlohmann::json missing_chart(const std::string& why);

// Useful FLOP of a call, counted as FlashAttention does: 4 d per score forward, 2.5 times that
// backward.
double useful_flop(const Problem& problem, const Sizes& sizes);

// All candidates: the first `shown` as rows with every number, named in "columns"; the others as
// counts of (intensity, speed) bins for every memory.
nlohmann::json candidates_chart(const Explanation& explanation, const ExplanationRequest& request,
                                size_t shown);
// The best estimate and the best time for every combination of tile sizes.
nlohmann::json landscape_chart(const Explanation& explanation, const ExplanationRequest& request);
// Records by the time they were written.
nlohmann::json search_chart(const Explanation& explanation, const ExplanationRequest& request);
// The parts of every kernel's shared memory.
nlohmann::json shared_chart(const ExplanationRequest& request, const Schedule& schedule);
nlohmann::json timeline_chart(const TracedKernels& traced, const GpuModel& gpu);
nlohmann::json counted_chart(const TracedKernels& traced);
nlohmann::json accuracy_chart(const Accuracy& accuracy);
// Records of the comparison with this problem's pass, head dim and causality.
nlohmann::json comparison_chart(const ExplanationRequest& request, const nlohmann::json& comparison,
                                const std::string& file);

}  // namespace lssar
