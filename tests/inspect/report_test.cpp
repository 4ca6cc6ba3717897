// The report's data: counts are the explanation's, the shared-memory map is the kernel's, the
// timeline has every role in order, and what is not known says why.
#include "inspect/page/report.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/shared_layout.h"
#include "tests/autotune/sample_records.h"
#include "tests/inspect/report_samples.h"

namespace lssar {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Report, CountsAreThoseOfTheExplanation) {
  const ReportRequest request = sample_request("sm_90a");
  const Explanation explanation = explain(request.explanation);
  const json report = report_problem(request);
  EXPECT_EQ(report["candidates"]["total"], explanation.candidates.size());
  ASSERT_EQ(report["candidates"]["rows"].size(), request.shown);
  uint64_t binned = 0, in_cells = 0, standing = 0, rejected = 0;
  for (const json& bin : report["candidates"]["bins"])
    if (bin[0] == int(Resource::kL2)) binned += bin[5].get<uint64_t>();
  EXPECT_EQ(binned + request.shown, explanation.candidates.size());
  const size_t fields = report["landscape"]["fields"].size();
  for (const json& cell : report["landscape"]["cells"]) {
    ASSERT_EQ(cell.size(), fields + 5);
    in_cells += cell[fields + 3].get<uint64_t>();
  }
  EXPECT_EQ(in_cells, explanation.candidates.size());
  for (const json& one : report["standings"]) standing += one[1].get<uint64_t>();
  for (const json& rule : report["rejected"]) rejected += rule[1].get<uint64_t>();
  EXPECT_EQ(standing + rejected + report["same_kernel"].get<uint64_t>(), explanation.combinations);
}

TEST(Report, WhatIsNotKnownSaysWhyAndHowToGetIt) {
  ReportRequest request = sample_request("sm_80");
  request.why_no_engine = "for this test";
  const json report = report_problem(request);
  EXPECT_THAT(report["search"]["missing"].get<std::string>(), HasSubstr("lssar tune"));
  EXPECT_THAT(report["compare"]["missing"].get<std::string>(), HasSubstr("compare_torch.py"));
  for (const char* chart : {"kernels", "timing", "timeline", "counted", "accuracy"})
    EXPECT_EQ(report[chart]["missing"], "for this test");
}

// compare_torch.py takes none.
TEST(Report, OfAWindowHasNoComparison) {
  ReportRequest request = sample_request("sm_80");
  request.explanation.problem.window_left = 100;
  request.comparison = sample_comparison();
  request.comparison_file = "compare.json";
  const json report = report_problem(request);
  EXPECT_THAT(report["search"]["missing"].get<std::string>(), HasSubstr("lssar tune"));
  EXPECT_THAT(report["compare"]["missing"].get<std::string>(),
              HasSubstr("without a window, rotary_dim, varlen"));
}

TEST(Report, SearchAndComparisonComeFromRecords) {
  TuningTable table;
  for (const TuningRecord& record : recorded_candidates(3)) table.add(record);
  ReportRequest request = sample_request("sm_90a");
  request.explanation.tables = {&table};
  request.comparison = sample_comparison();
  request.comparison_file = "compare.json";
  const json report = report_problem(request);
  EXPECT_EQ(report["evidence"], "measured");
  ASSERT_EQ(report["search"]["rows"].size(), 3u);
  EXPECT_EQ(report["search"]["rows"][2][0], 2);  // seconds
  // Two of the four records are left out: one of another pass, and one that did not run.
  ASSERT_EQ(report["compare"]["rows"].size(), 2u);
  EXPECT_EQ(report["compare"]["rows"][0][0], "ours-p15");
}

// What the host computes and the emitted source asserts, part by part.
TEST(SharedLayout, AddsUpToEveryKernelsBytes) {
  int kernels = 0;
  for (const char* target : {"sm_80", "sm_90a"}) {
    for (const Pass pass : kAllPasses) {
      for (const DqMode mode : {DqMode::kSplit, DqMode::kAtomic, DqMode::kOrdered}) {
        Problem problem = sample_problem(pass);
        problem.head_dim = 96;
        const Target to = *target_from_name(target);
        const bool trains = pass == Pass::kForwardTrain || pass == Pass::kBackward;
        const Schedule schedule =
            default_schedule(problem, to, mode, trains ? EpsilonFrom::kPass : EpsilonFrom::kX);
        const auto source = emit_kernel(problem, schedule, to);
        ASSERT_TRUE(source.ok()) << source.status().message();
        for (const LaunchStep& step : source->steps) {
          int end = 0;
          for (const SharedPart& part : shared_layout(problem, schedule, step.entry)) {
            EXPECT_EQ(part.offset, end) << part.name;
            EXPECT_GT(part.bytes, 0) << part.name;
            end += part.bytes;
          }
          EXPECT_EQ(end, step.shared_bytes) << step.entry << " " << to_string(schedule);
          kernels += end > 0;
        }
      }
    }
  }
  EXPECT_GE(kernels, 30);
}

TEST(Report, ATableHasAProblemForEachOfItsBuckets) {
  TuningTable table;
  for (const TuningRecord& record : recorded_candidates(3)) table.add(record);
  table.add(sample_record(a100()));
  const auto problems = report_table(table, {}, "", 1000);
  ASSERT_TRUE(problems.ok()) << problems.status().message();
  ASSERT_EQ(problems->size(), 2u);
  EXPECT_EQ((*problems)[0]["candidates"]["total"], 3u);
  EXPECT_EQ((*problems)[1]["target"], "sm_80");
  EXPECT_EQ((*problems)[1]["candidates"]["rows"].size(), 1u);
  EXPECT_THAT((*problems)[0]["timeline"]["missing"].get<std::string>(), HasSubstr("lssar report"));

  const auto none = report_table(TuningTable(), {}, "", 1000);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(), HasSubstr("no records"));
}

// The page of a table with this many candidates, all of them shown.
std::string page_of(size_t candidates) {
  TuningTable table;
  for (const TuningRecord& record : recorded_candidates(candidates)) table.add(record);
  const auto problems = report_table(table, {}, "", candidates);
  EXPECT_TRUE(problems.ok()) << problems.status().message();
  if (!problems.ok()) return "";
  EXPECT_EQ((*problems)[0]["candidates"]["rows"].size(), candidates);
  EXPECT_EQ((*problems)[0]["search"]["rows"].size(), candidates);
  return report_html({"table", "lssar report", "", *problems});
}

// From what a candidate adds: a thousand would take a minute, since each has its source emitted.
TEST(Report, APageOfAThousandCandidatesIsSmall) {
  const size_t few = page_of(50).size(), more = page_of(100).size();
  ASSERT_GT(more, few);
  EXPECT_LE(more + (more - few) * 900 / 50, size_t{3} << 20);
}

TEST(ReportPage, NothingInTheDataEndsTheScript) {
  const std::string evil = "</script><script>alert(1)</script><!--";
  const json problems = json::array({{{"name", evil}}});
  const std::string html = report_html({evil, evil, "", problems});
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(html.find("<!--"), std::string::npos);
  EXPECT_EQ(html.find("{{"), std::string::npos);
  const size_t begin = html.find("id=\"data\">") + 10;
  const json data = json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  EXPECT_EQ(data["problems"][0]["name"], evil);
  EXPECT_EQ(data["title"], evil);
}

// Nothing is fetched: a page works from a file, without a network.
TEST(ReportPage, NamesNoOtherFile) {
  const std::string html = report_html({"t", "c", "", json::array()});
  for (const char* reference : {"src=", "<link", "@import", "url(", "fetch(", "https:"})
    EXPECT_EQ(html.find(reference), std::string::npos) << reference;
}

}  // namespace
}  // namespace lssar
