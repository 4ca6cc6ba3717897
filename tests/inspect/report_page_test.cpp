// The page in a browser: headless Chromium opens it from a file, and says what its script drew.
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inspect/report.h"
#include "inspect/run_program.h"
#include "tests/inspect/report_samples.h"

namespace lssar {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// One problem with everything there is, one of records, and one with next to nothing.
const json& sample_problems() {
  static const json problems = [] {
    TuningTable table;
    for (const TuningRecord& record : recorded_candidates(40)) table.add(record);
    ReportRequest full = sample_request("sm_90a");
    full.explanation.tables = {&table};
    full.comparison = sample_comparison();
    full.comparison_file = "compare.json";
    EngineOptions options;
    options.device = DeviceChoice::kVirtual;
    options.target = "sm_90a";
    auto engine = Engine::open(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    if (!engine.ok()) return json::array();
    full.engine = engine->get();
    json made = json::array({report_problem(full)});
    ReportRequest records = sample_request("sm_90a", Pass::kBackward);
    made.push_back(report_problem(records));
    return made;
  }();
  return problems;
}

struct Seen {
  std::string dom, log;
  json charts, errors;
  int width = 0, overflow = -1;
  std::string theme;
};

std::string unescaped(std::string text) {
  for (const auto& [from, to] :
       {std::pair{"&quot;", "\""}, {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}}) {
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += std::string(to).size())
      text.replace(at, std::string(from).size(), to);
  }
  return text;
}

// Of the first element that has it.
std::string attribute(const std::string& dom, const std::string& name) {
  const size_t begin = dom.find(name + "=\"");
  if (begin == dom.npos) return "";
  const size_t from = begin + name.size() + 2;
  return unescaped(dom.substr(from, dom.find('"', from) - from));
}

// A window is never narrower than 500 pixels: a frame is, and hands on what the page says.
std::string frame_of(const std::string& path, int width) {
  return "<!doctype html><body><iframe style='border:0' width=" + std::to_string(width) +
         " height=900 src='file://" + path +
         "' onload='const page = this.contentDocument; "
         "document.documentElement.dataset.theme = page.documentElement.dataset.theme; "
         "Object.assign(document.body.dataset, page.body.dataset); "
         "document.body.dataset.text = page.body.textContent'></iframe></body>";
}

Seen open_page(const json& problems, int width, const std::string& theme) {
  const std::string html = report_html({"A title", "lssar report", "", problems});
  const auto page = TemporaryFile::create("report.html", html);
  const auto profile = TemporaryFile::create("profile", "");
  EXPECT_TRUE(page.ok() && profile.ok());
  const auto frame =
      TemporaryFile::create("frame.html", frame_of(page->path() + "#" + theme, width));
  EXPECT_TRUE(frame.ok());
  const auto run = run_program(
      {"timeout", "120", LSSAR_CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu",
       "--disable-dev-shm-usage", "--no-first-run", "--allow-file-access-from-files",
       "--window-size=1400,1000", "--user-data-dir=" + profile->path() + ".d",
       "--enable-logging=stderr", "--v=0", "--dump-dom", "file://" + frame->path()});
  EXPECT_TRUE(run.ok()) << run.status().message();
  Seen seen;
  if (!run.ok()) return seen;
  EXPECT_EQ(run->exit_code, 0) << run->err;
  seen.dom = run->out;
  seen.log = run->err;
  seen.charts = json::parse(attribute(seen.dom, "data-charts"), nullptr, false);
  seen.errors = json::parse(attribute(seen.dom, "data-errors"), nullptr, false);
  seen.width = std::atoi(attribute(seen.dom, "data-width").c_str());
  const std::string overflow = attribute(seen.dom, "data-overflow");
  seen.overflow = overflow.empty() ? -1 : std::atoi(overflow.c_str());
  seen.theme = attribute(seen.dom, "data-theme");
  return seen;
}

void expect_clean(const Seen& seen, int width, const std::string& theme) {
  EXPECT_EQ(seen.errors, json::array());
  EXPECT_THAT(seen.log, Not(HasSubstr(":CONSOLE")));
  EXPECT_EQ(seen.theme, theme);
  // A scroll bar may take some of it.
  EXPECT_LE(seen.width, width);
  EXPECT_GE(seen.width, width - 20);
  EXPECT_EQ(seen.overflow, 0);
  ASSERT_TRUE(seen.charts.is_array());
  for (const json& chart : seen.charts) EXPECT_EQ(chart["drawn"], chart["marks"]) << chart;
}

// Marks by what the data has, counted here and not by the page.
std::map<std::string, size_t> expected_marks(const json& problem) {
  std::map<std::string, size_t> marks;
  const json& candidates = problem["candidates"];
  const size_t terms = 9, time = 3;  // columns
  size_t roofline = 0, cells = 0;
  for (const json& bin : candidates["bins"]) roofline += bin[0] == int(Resource::kL2);
  for (const json& row : candidates["rows"]) {
    if (row[terms][int(Resource::kL2)].get<double>() <= 0) continue;
    roofline += row[time].get<double>() > 0 ? 2 : 1;
  }
  std::set<std::pair<int, int>> tiles;
  for (const json& cell : problem["landscape"]["cells"])
    tiles.emplace(cell[1].get<int>(), cell[2].get<int>());
  cells = tiles.size();
  marks["roofline"] = roofline;
  marks["landscape"] = cells;
  marks["terms"] = kNumResources + 3;
  marks["candidates"] = candidates["rows"].size();
  for (const json& kernel : problem["shared"]["kernels"])
    marks["shared " + kernel["entry"].get<std::string>()] = kernel["parts"].size();
  if (problem["timeline"].contains("kernels")) {
    for (const json& kernel : problem["timeline"]["kernels"])
      marks["timeline " + kernel["kernel"].get<std::string>()] = kernel["spans"].size();
  }
  for (const char* chart : {"search", "accuracy", "compare"})
    if (problem[chart].contains("rows")) marks[chart] = problem[chart]["rows"].size();
  return marks;
}

void expect_all_drawn(const Seen& seen, const json& problem) {
  std::map<std::string, size_t> drawn;
  for (const json& chart : seen.charts) drawn[chart["name"]] = chart["drawn"].get<size_t>();
  for (const auto& [name, marks] : expected_marks(problem)) {
    EXPECT_GT(marks, 0u) << name;
    EXPECT_EQ(drawn[name], marks) << name;
  }
}

// Built where there is one, and maybe run elsewhere.
class ReportInChromium : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(LSSAR_CHROMIUM)) GTEST_SKIP() << "no " << LSSAR_CHROMIUM;
  }
};

TEST_F(ReportInChromium, DrawsEveryChartInTheLight) {
  const Seen seen = open_page(sample_problems(), 1280, "light");
  expect_clean(seen, 1280, "light");
  expect_all_drawn(seen, sample_problems()[0]);
  for (const json& chart : seen.charts) EXPECT_FALSE(chart.contains("missing")) << chart;
}

TEST_F(ReportInChromium, FitsAPhoneInTheDark) {
  const Seen seen = open_page(sample_problems(), 390, "dark");
  expect_clean(seen, 390, "dark");
  expect_all_drawn(seen, sample_problems()[0]);
}

TEST_F(ReportInChromium, SaysWhyAChartHasNoData) {
  const json problem = sample_problems()[1];
  const Seen seen = open_page(json::array({problem}), 390, "light");
  expect_clean(seen, 390, "light");
  expect_all_drawn(seen, problem);
  size_t missing = 0;
  for (const json& chart : seen.charts) missing += chart.contains("missing");
  EXPECT_EQ(missing, 6u);  // search, kernels, instructions, timeline, accuracy, softmax
  EXPECT_THAT(seen.dom, HasSubstr("Nothing was measured against softmax attention"));
}

}  // namespace
}  // namespace lssar
