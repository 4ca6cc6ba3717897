// lssar report: an HTML page about a problem's kernel, a tuning table, or trained models.
#include <chrono>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "inspect/page/attention_figures.h"
#include "inspect/page/report.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/explain_options.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/message_stream.h"
#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {
namespace {

constexpr uint64_t kMaxFileBytes = 64 << 20;
constexpr char kDefaultOutput[] = "report.html";

struct ReportOptions {
  ExplainOptions explain;
  std::string output;  // "": kDefaultOutput, unless that file exists
  std::string compare;
  std::string attention;
  std::string beside_attention;  // an option that does not go with it
};

Result<nlohmann::json> load_comparison(const std::string& path) {
  if (path.empty()) return nlohmann::json();
  LSSAR_ASSIGN_OR_RETURN(const std::string text, read_file(path, {.max_bytes = kMaxFileBytes}));
  LSSAR_ASSIGN_OR_RETURN(nlohmann::json json, parse_json(text, "--compare " + path));
  if (!json.is_object() || !json.contains("records") || !json["records"].is_array()) {
    return invalid_argument(
        fmt::format("--compare {}: allowed is the compare.json that tools/compare_torch.py writes: "
                    "a JSON object with a list \"records\"",
                    path));
  }
  if (json.contains("machine") && json["machine"].is_object() && json["machine"].contains("cpu")) {
    return invalid_argument(
        fmt::format("--compare {}: was measured on a CPU, but reports are about GPUs", path));
  }
  return json;
}

// The name without its folders, which belong to this machine.
std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

Result<ReportPage> table_page(const ReportOptions& options, const nlohmann::json& comparison) {
  const std::string name = file_name(options.explain.schedule.table_name());
  LSSAR_ASSIGN_OR_RETURN(const auto table, options.explain.schedule.load_table(TableContent::kAll));
  ReportPage page;
  page.title = "Tuning table " + name;
  page.command = "lssar report --table " + name;
  page.note =
      "Every problem of the table, by its records alone: other candidates of its search space are "
      "not shown, and nothing was compiled or run.";
  if (table->defects().malformed_lines > 0) {
    page.note += fmt::format(" {} lines are no records and were left out.",
                             table->defects().malformed_lines);
  }
  LSSAR_ASSIGN_OR_RETURN(page.problems, report_table(*table, comparison, file_name(options.compare),
                                                     options.explain.shown));
  return page;
}

Result<ReportPage> problem_page(const ReportOptions& options, const nlohmann::json& comparison) {
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, options.explain.open_engine());
  LSSAR_ASSIGN_OR_RETURN(const auto table, options.explain.schedule.load_table(TableContent::kAll));
  ReportRequest request;
  LSSAR_ASSIGN_OR_RETURN(request.explanation, options.explain.request(*engine, *table));
  request.engine = options.explain.no_compile ? nullptr : engine.get();
  request.why_no_engine = "--no-compile: without it, this is here.";
  request.comparison = comparison;
  request.comparison_file = file_name(options.compare);
  request.shown = options.explain.shown;
  ReportPage page;
  page.problems = nlohmann::json::array({report_problem(request)});
  const Problem& problem = request.explanation.problem;
  page.title = fmt::format("{} {} d {} on {}", pass_name(problem.pass), dtype_name(problem.dtype),
                           problem.head_dim, request.explanation.target.name());
  page.command = "lssar report, with the problem and target above";
  return page;
}

Result<ReportPage> attention_page(const ReportOptions& options) {
  if (!options.beside_attention.empty()) {
    return invalid_argument(fmt::format(
        "--attention with {}: its page is about trained models; allowed beside it are --output and "
        "--quiet",
        options.beside_attention));
  }
  const std::string& path = options.attention;
  LSSAR_ASSIGN_OR_RETURN(const std::string text, read_file(path, {.max_bytes = kMaxFileBytes}));
  LSSAR_ASSIGN_OR_RETURN(const nlohmann::json json, parse_json(text, "--attention " + path));
  ReportPage page;
  LSSAR_ASSIGN_OR_RETURN(page.models, models_of_figures(json, "--attention " + path + ": figures"));
  page.title = "Attention of trained models";
  page.note = "What each head looks at. docs/inspecting.md of lssar explains the figures.";
  page.command = "lssar report --attention " + file_name(path);
  return page;
}

// The first option that was given and says nothing about a page of trained models, or "".
std::string beside_attention(const CLI::App& sub) {
  const std::set<std::string> fitting = {"--attention", "--output", "--quiet"};
  for (const CLI::Option* option : sub.get_options())
    if (option->count() > 0 && !fitting.contains(option->get_name())) return option->get_name();
  return "";
}

// A page without a name from the user never replaces a file.
Status check_output(const std::string& output, bool is_named) {
  const Status status = check_output_file(output, {.replaces = is_named});
  if (is_named || status.ok()) return status;
  return {status.code(), status.message() + "; -o FILE names the page, and replaces such a file"};
}

Result<ReportPage> chosen_page(const ReportOptions& options) {
  if (!options.attention.empty()) return attention_page(options);
  LSSAR_ASSIGN_OR_RETURN(const nlohmann::json comparison, load_comparison(options.compare));
  const std::string& table = options.explain.schedule.table_name();
  const bool is_of_table = !table.empty() && table != "none" && !options.explain.problem.is_given();
  return is_of_table ? table_page(options, comparison) : problem_page(options, comparison);
}

std::string contents(const ReportPage& page) {
  const bool is_of_models = !page.models.is_null();
  const size_t count = is_of_models ? page.models.size() : page.problems.size();
  return fmt::format("{} {}{}", count, is_of_models ? "model" : "problem", count == 1 ? "" : "s");
}

Result<int> make_report(const ReportOptions& options) {
  if (options.explain.shown == 0) return invalid_argument("--shown = 0: allowed are 1 and more");
  const bool is_named = !options.output.empty();
  const std::string output = is_named ? options.output : kDefaultOutput;
  LSSAR_RETURN_IF_ERROR(check_output(output, is_named));
  LSSAR_ASSIGN_OR_RETURN(const ReportPage page, chosen_page(options));
  const std::string html = report_html(page);
  LSSAR_RETURN_IF_ERROR(write_output_file(output, html, {.replaces = is_named}));
  if (!options.explain.execution.quiet()) {
    print_text(message_stream(output), "{}: {} KiB, {}; open it in a browser\n", output,
               (html.size() + 1023) / 1024, contents(page));
  }
  return static_cast<int>(kDone);
}

}  // namespace

void add_report(CLI::App& app, Action* action) {
  auto options = std::make_shared<ReportOptions>();
  constexpr size_t kShown = 1000;
  CLI::App* sub = app.add_subcommand(
      "report",
      "A page to look at: a problem's kernel and candidates, a tuning table, or trained models");
  options->explain.add_to(*sub, "Report", kShown);
  sub->add_option("-o,--output", options->output,
                  "the page's file; -: standard output (default: a new report.html)")
      ->type_name("FILE")
      ->group("Report");
  sub->add_option("--compare", options->compare,
                  "what tools/compare_torch.py measured: times beside softmax attention")
      ->type_name("FILE")
      ->group("Report");
  sub->add_option("--attention", options->attention,
                  "the page is about the attention of trained models: figures that\n"
                  "examples/train/looking.py wrote")
      ->type_name("FILE")
      ->group("Report");
  sub->footer(
      "\nOne HTML file that needs no network. With --table and no option of a problem: every "
      "problem\n"
      "of that table, by its records.\n\n"
      "Example:\n"
      "  lssar report --head-dim 128 --seq 4096 --heads 16 --device virtual --target sm_90a -o "
      "report.html\n\n" +
      exit_code_help());
  sub->callback([options, action, sub] {
    if (!options->attention.empty()) options->beside_attention = beside_attention(*sub);
    *action = [options] { return make_report(*options); };
  });
}

}  // namespace lssar::command
