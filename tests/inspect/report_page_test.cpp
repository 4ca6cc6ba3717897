// The page in a browser: headless Chromium opens it from a file and reports what its script drew.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "inspect/page/report.h"
#include "inspect/run_program.h"
#include "tests/inspect/report_samples.h"

namespace lssar {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// One problem with everything, one with records, and one with next to nothing.
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
    made[0]["timing"] = sample_timing();  // it may be that no disassembler is installed
    ReportRequest records = sample_request("sm_90a", Pass::kBackward);
    made.push_back(report_problem(records));
    return made;
  }();
  return problems;
}

struct Seen {
  std::string dom, log, text;
  json charts, errors, figures;
  int width = 0, height = 0, overflow = -1, cut_tables = -1;
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

// The attribute of the first element that has it.
std::string attribute(const std::string& dom, const std::string& name) {
  const size_t begin = dom.find(name + "=\"");
  if (begin == dom.npos) return "";
  const size_t from = begin + name.size() + 2;
  return unescaped(dom.substr(from, dom.find('"', from) - from));
}

// A window is never narrower than 500 pixels, but a frame may be. It passes on what the page says.
std::string frame_of(const std::string& path, int width, int height) {
  return "<!doctype html><body style='margin:0;background:#888'>"
         "<iframe style='border:0;display:block;margin:0 auto' width=" +
         std::to_string(width) + " height=" + std::to_string(height) + " src='file://" + path +
         "' onload='const page = this.contentDocument; "
         "document.documentElement.dataset.theme = page.documentElement.dataset.theme; "
         "Object.assign(document.body.dataset, page.body.dataset); "
         "document.body.dataset.text = page.body.textContent'></iframe></body>";
}

// A frame with the page in a window of its own. `what` is what the browser returns.
Result<ProgramResult> browse(const std::string& html, int width, int height,
                             const std::string& theme, const std::string& what) {
  LSSAR_ASSIGN_OR_RETURN(const TemporaryFile page, TemporaryFile::create("report.html", html));
  LSSAR_ASSIGN_OR_RETURN(const TemporaryFile profile, TemporaryFile::create("profile", ""));
  LSSAR_ASSIGN_OR_RETURN(
      const TemporaryFile frame,
      TemporaryFile::create("frame.html", frame_of(page.path() + "#" + theme, width, height)));
  return run_program({"timeout", "120", LSSAR_CHROMIUM, "--headless=new", "--no-sandbox",
                      "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                      "--allow-file-access-from-files", "--hide-scrollbars",
                      fmt::format("--window-size={},{}", std::max(width, 500), height + 100),
                      "--user-data-dir=" + profile.path() + ".d", "--enable-logging=stderr",
                      "--v=0", what, "file://" + frame.path()});
}

Seen open_html(const std::string& html, int width, const std::string& theme) {
  const auto run = browse(html, width, 900, theme, "--dump-dom");
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
  const std::string cut = attribute(seen.dom, "data-cut");
  seen.cut_tables = cut.empty() ? -1 : std::atoi(cut.c_str());
  seen.theme = attribute(seen.dom, "data-theme");
  seen.text = attribute(seen.dom, "data-text");
  seen.figures = json::parse(attribute(seen.dom, "data-figures"), nullptr, false);
  seen.height = std::atoi(attribute(seen.dom, "data-height").c_str());
  return seen;
}

Seen open_page(const json& problems, int width, const std::string& theme) {
  return open_html(report_html({"A title", "lssar report", "", problems}), width, theme);
}

void expect_clean(const Seen& seen, int width, const std::string& theme) {
  EXPECT_EQ(seen.errors, json::array());
  EXPECT_THAT(seen.log, Not(HasSubstr(":CONSOLE")));
  EXPECT_EQ(seen.theme, theme);
  // A scroll bar may take a part of it.
  EXPECT_LE(seen.width, width);
  EXPECT_GE(seen.width, width - 20);
  EXPECT_EQ(seen.overflow, 0);
  ASSERT_TRUE(seen.charts.is_array());
  for (const json& chart : seen.charts) EXPECT_EQ(chart["drawn"], chart["marks"]) << chart;
}

// The marks that the data should give, counted here and not by the page.
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
  if (problem["timing"].contains("loops")) {
    for (const json& loop : problem["timing"]["loops"]) {
      marks["timing table"] += loop["ways"].size();
      for (const json& way : loop["ways"])
        for (const auto& [use, clocks] : way["uses"].items()) marks["timing"] += clocks > 0;
    }
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

// Built where Chromium exists, and perhaps run elsewhere.
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
  EXPECT_EQ(seen.cut_tables, 0);
  for (const json& chart : seen.charts) EXPECT_FALSE(chart.contains("missing")) << chart;
}

// Two unexplained times used to stand side by side there. Sizes are powers of 1024.
TEST_F(ReportInChromium, HasOneTimeInItsOverviewAndKibibytes) {
  const Seen seen = open_page(sample_problems(), 1280, "light");
  int times = 0;
  for (const json& figure : seen.figures)
    times += figure.get<std::string>().find(" ms: time ") != std::string::npos;
  EXPECT_EQ(times, 1) << seen.figures;
  EXPECT_THAT(seen.text, HasSubstr("the estimate is the cost model's"));
  EXPECT_THAT(seen.text, HasSubstr(" KiB"));
  EXPECT_THAT(seen.text, Not(HasSubstr(" KB")));
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
  EXPECT_EQ(missing, 7u);  // search, kernels, instructions, loops, timeline, accuracy, softmax
  EXPECT_THAT(seen.dom, HasSubstr("Nothing was measured against softmax attention"));
}

// Cells of a map with a weight.
size_t drawn_cells(const json& map, size_t layer, size_t head) {
  size_t cells = 0;
  for (const json& row : map["layers"][layer][head])
    for (const json& weight : row) cells += weight > 0;
  return cells;
}

// The marks of the first model's page, counted from the figures.
std::map<std::string, size_t> marks_of_models(const json& models) {
  const json& model = models[0];
  const size_t points = model["points"].size();
  const size_t heads = model["layers"].get<size_t>() * model["heads"].get<size_t>();
  std::map<std::string, size_t> marks = {{"models table", models.size()},
                                         {"layers", heads},
                                         {"heads table", heads},
                                         {"thumbs", heads},
                                         {"map", drawn_cells(model["maps"].back(), 0, 0)}};
  for (const char* figure : {" entropy", " live", " first"}) {
    marks[std::string("models") + figure] = models.size() * points;
    marks[std::string("heads") + figure] = heads * points;
  }
  return marks;
}

TEST_F(ReportInChromium, DrawsTheAttentionOfTrainedModels) {
  const json models = sample_figures()["models"];
  const ReportPage page = {"Models", "lssar report --attention f.json", "", {}, models};
  for (const auto& [width, theme] : {std::pair{1280, "light"}, {390, "dark"}}) {
    const Seen seen = open_html(report_html(page), width, theme);
    expect_clean(seen, width, theme);
    std::map<std::string, size_t> drawn;
    for (const json& chart : seen.charts) drawn[chart["name"]] = chart["drawn"].get<size_t>();
    EXPECT_EQ(drawn, marks_of_models(models));
    EXPECT_THAT(seen.figures.dump(), HasSubstr("loss at 16 and 32 tokens"));
  }
}

TEST_F(ReportInChromium, DrawsOneModelWithOneLengthAndNoMap) {
  json models = json::array({sample_figures()["models"][1]});
  models[0]["points"].erase(1);
  models[0]["points"][0].erase("loss");
  models[0]["maps"] = json::array();
  const ReportPage page = {"Models", "lssar report --attention f.json", "", {}, models};
  const Seen seen = open_html(report_html(page), 390, "light");
  expect_clean(seen, 390, "light");
  std::map<std::string, json> charts;
  for (const json& chart : seen.charts) charts[chart["name"]] = chart;
  EXPECT_EQ(charts["map"]["missing"], "The file has no maps of this model.");
  EXPECT_EQ(charts["heads entropy"]["drawn"], 4);
  EXPECT_FALSE(charts.contains("models entropy"));
  EXPECT_THAT(seen.figures.dump(), Not(HasSubstr("loss at")));
}

// The pictures of docs/inspecting.md. figures.json beside them has the figures that they show, as
// the page has them now. LSSAR_UPDATE_DOCS=1 makes both again.
TEST_F(ReportInChromium, ThePicturesOfTheDocsShowItsFigures) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lssar";
  const auto page = TemporaryFile::create("page.html", "");
  ASSERT_TRUE(page.ok());
  const auto made =
      run_program({"env", "LSSAR_TUNING_TABLE=none", program, "report", "--head-dim", "128",
                   "--seq", "4096", "--heads", "16", "--batch", "4", "--causal", "--device",
                   "virtual", "--target", "sm_90a", "-o", page->path()});
  ASSERT_TRUE(made.ok());
  ASSERT_EQ(made->exit_code, 0) << made->err;
  const std::string html = *read_file(page->path());
  const Seen seen = open_html(html, 1280, "light");
  expect_clean(seen, 1280, "light");
  json now = {{"overview", seen.figures}};
  for (const json& chart : seen.charts) {
    for (const char* name : {"roofline", "landscape", "candidates", "rules"})
      if (chart["name"] == name) now["marks"][name] = chart["marks"];
  }
  const std::string folder = std::string(LSSAR_SOURCE_FOLDER) + "/docs/report/";
  if (std::getenv("LSSAR_UPDATE_DOCS") == nullptr) {
    const auto kept = read_file(folder + "figures.json");
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    EXPECT_EQ(json::parse(*kept, nullptr, false), now) << "LSSAR_UPDATE_DOCS=1 makes them anew";
    return;
  }
  ASSERT_TRUE(write_file_atomically(folder + "figures.json", now.dump(2) + "\n").ok());
  constexpr int kWholePage = 100'000, kTop = 2400;  // pixels
  for (const auto& [name, theme, width, most] : {std::tuple{"light.png", "light", 1280, kWholePage},
                                                 {"dark.png", "dark", 1280, kTop},
                                                 {"phone.png", "light", 400, kTop}}) {
    const int height = std::min(open_html(html, width, theme).height, most);
    ASSERT_GT(height, 1000);
    const auto shot = browse(html, width, height, theme, "--screenshot=" + folder + name);
    ASSERT_TRUE(shot.ok() && shot->exit_code == 0);
  }
}

}  // namespace
}  // namespace lssar
