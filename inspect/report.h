// The report: what is known of a problem's kernel, or of every problem of a tuning table, as data
// of one page to look at. docs/inspecting.md says what it shows.
//
// Every chart's data is an object; where there is none it holds {"missing": why, and how to get
// it}. "estimated" is of the cost model, "counted" of the virtual device, "measured" of a GPU.
// Threads: as Engine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "inspect/explanation.h"
#include "runtime/engine.h"

namespace lssar {

struct ReportRequest {
  ExplanationRequest explanation;
  // Compiles, runs on a virtual device and checks; null: only what a table and the model say, with
  // `why_no_engine`.
  Engine* engine = nullptr;
  std::string why_no_engine;
  // What tools/compare_torch.py wrote, and where from; null: nothing.
  nlohmann::json comparison;
  std::string comparison_file;
  size_t shown = 1000;  // candidates with all their numbers; the others are counted
};

// One problem of the page.
nlohmann::json report_problem(const ReportRequest& request);

// What a tuning table knows: a problem for each bucket, target and device, of the records alone.
// kInvalidArgument: it has no records that this library's generator makes kernels of.
Result<nlohmann::json> report_table(const TuningTable& table, const nlohmann::json& comparison,
                                    const std::string& comparison_file, size_t shown);

// The whole page: `problems` as above, at least one.
struct ReportPage {
  std::string title;
  std::string command;  // that made it
  std::string note;     // below the title; may be ""
  nlohmann::json problems;
};
std::string report_html(const ReportPage& page);

}  // namespace lssar
