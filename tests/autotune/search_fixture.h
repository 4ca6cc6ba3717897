// A search over the real space with made-up times and verdicts.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "autotune/search/search.h"
#include "tests/autotune/fake_runner.h"

namespace lssar {

// Made up, and not the cost model's order. No two schedules take the same time.
inline double made_up_ms(const Schedule& schedule) {
  const Tiling& tiling = schedule.forward;
  const double width = std::abs(tiling.block_cols - 112) / 112.0;
  return 1 + 0.5 * width + 0.1 * std::abs(tiling.stages - 3) +
         (schedule.variant == Variant::kPortable ? 1 : 0) +
         1e-4 * double(std::hash<std::string>()(to_string(schedule)) % 1009) / 1009;
}

class SearchTest : public testing::Test {
 protected:
  SearchTest() {
    request_.problem.causal = true;
    request_.problem.head_dim = request_.problem.head_dim_v = 64;
    request_.sizes = {1, 16, 16, 4096, 4096};
    request_.target = *target_from_name("sm_90a");
    request_.model = *gpu_model("sm_90a");
    request_.budget = *budget_named("normal");
    request_.keep_record = [this](const TuningRecord& record) {
      table_.add(record);
      return Status();
    };
    request_.now_s = [this] { return runner_.clock_s; };
    runner_.ms_of = made_up_ms;
  }

  SearchOutcome run() {
    const TuningTable known = table_;
    if (resumes_) request_.known = &known;
    Result<SearchOutcome> outcome = search(runner_, request_);
    request_.known = nullptr;
    EXPECT_TRUE(outcome.ok()) << outcome.status().to_string();
    return outcome.ok() ? std::move(*outcome) : SearchOutcome();
  }
  int count(const SearchOutcome& outcome, Fate fate) const {
    int n = 0;
    for (const CandidateFate& one : outcome.fates) n += one.fate == fate;
    return n;
  }

  FakeRunner runner_;
  SearchRequest request_;
  TuningTable table_;
  bool resumes_ = false;
};

}  // namespace lssar
