// The report: the data of one page about a problem's kernel, about every problem of a tuning
// table, or about the attention of trained models. docs/inspecting.md says what it shows.
//
// Every chart's data is an object. If there is none, the object is {"missing": why, and how to get
// it}. "estimated" is by the cost model, "counted" by the virtual device, "measured" on a GPU.
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
  // Compiles the kernel, runs it on a virtual device and checks it. If null, the page shows only
  // what the table and the model know, and `why_no_engine`.
  Engine* engine = nullptr;
  std::string why_no_engine;
  // The output of tools/compare_torch.py and its file. Null if there is none.
  nlohmann::json comparison;
  std::string comparison_file;
  size_t shown = 1000;  // candidates with all their numbers; the others are only counted
};

// One problem of the page.
nlohmann::json report_problem(const ReportRequest& request);

// A page about a tuning table: a problem for each bucket, target and device, from the records
// alone. kInvalidArgument: no record's kernel is one that this library's generator makes.
Result<nlohmann::json> report_table(const TuningTable& table, const nlohmann::json& comparison,
                                    const std::string& comparison_file, size_t shown);

// The whole page: `problems` as above, or `models`, at least one.
struct ReportPage {
  std::string title;
  std::string command;  // the command that made it
  std::string note;     // shown below the title; may be ""
  nlohmann::json problems;
  nlohmann::json models = {};  // of models_of_figures; null: the page is about problems
};
std::string report_html(const ReportPage& page);

}  // namespace lssar
