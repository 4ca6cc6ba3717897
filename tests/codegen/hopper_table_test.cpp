// The table of the default sm_90a schedules in docs/hopper_defaults.md equals what NVRTC's
// assembler reports of their kernels. LSSAR_UPDATE_DOCS=1 writes the rows instead. (Run the program
// itself, not ctest, whose processes would write at the same time.)
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "codegen/emit.h"
#include "codegen/launch_step.h"
#include "compile/compiler.h"
#include "score/score_text.h"

namespace lssar {
namespace {

// Another assembler allocates registers differently: its kernels are compiled, not compared.
constexpr const char* kTableVersion = "13.0.";

struct Row {
  int dim;
  DType dtype;
  Pass pass;
  DqMode mode;
  int stagger = 1;  // above 1: instead of the default's
  bool causal = true;
  const char* score = nullptr;  // the default one
  int p = 0;                    // with a score
};

std::string row_key(const Row& row) {
  const char* suffix = row.pass != Pass::kBackward    ? ""
                       : row.mode == DqMode::kAtomic  ? ", atomic"
                       : row.mode == DqMode::kOrdered ? ", ordered"
                                                      : ", split";
  return fmt::format("| {} | {} | {}{}{} |", row.dim, dtype_name(row.dtype), pass_name(row.pass),
                     suffix, row.stagger > 1 ? ", staggered" : "");
}

std::string tiling_text(const Tiling& t) {
  return fmt::format("{}x{}x{}", t.block_rows, t.block_cols, t.stages);
}

// What differs between the defaults. `lssar emit` and to_string have everything.
std::string short_form(const Schedule& schedule, Pass pass) {
  const bool is_hopper = schedule.variant == Variant::kHopper;
  const HopperOptions& h = schedule.hopper;
  std::string text = is_hopper ? "" : "portable ";
  if (pass == Pass::kBackward) {
    text += "dkdv " + tiling_text(schedule.dkdv) + (schedule.split_dkdv ? " apart" : "");
    if (schedule.dq_mode == DqMode::kSplit) text += ", dq " + tiling_text(schedule.dq);
  } else {
    text += tiling_text(schedule.forward);
    if (is_hopper)
      text += h.stagger > 1 ? fmt::format(", staggered by {}", h.stagger)
                            : fmt::format(", scores {}", h.score_cols);
    text += fmt::format(", dv {}", schedule.block_dv);
  }
  if (!is_hopper) return text;
  if (h.overlap) text += ", overlap";
  if (h.ping_pong) text += ", ping-pong";
  if (h.persistent) text += h.tickets ? ", tickets" : ", persistent";
  if (pass != Pass::kBackward && h.store_path == StorePath::kTma) text += ", o by TMA";
  if (pass == Pass::kBackward && sums_by_tma(schedule)) text += ", dq by TMA";
  return text + fmt::format(", {}/{}", h.producer_registers, h.consumer_registers);
}

// The row's line, or what failed.
Result<std::string> make_line(const Compiler& compiler, const Row& row) {
  Problem problem;
  problem.pass = row.pass;
  problem.dtype = row.dtype;
  problem.head_dim = problem.head_dim_v = row.dim;
  problem.causal = row.causal;
  if (row.score) {
    LSSAR_ASSIGN_OR_RETURN(problem.score, parse_score(row.score));
    problem.p = row.p;
  }
  const Target target = target_from_name("sm_90a").value();
  Schedule schedule = default_schedule(problem, target, row.mode);
  if (row.stagger > 1) {
    const nlohmann::json staggered = {{"hopper", {{"stagger", row.stagger}}}};
    LSSAR_ASSIGN_OR_RETURN(schedule, schedule_for(problem, target, staggered));
  }
  LSSAR_ASSIGN_OR_RETURN(const KernelSource kernel, emit_kernel(problem, schedule, target));
  CompileRequest request;
  request.name = kernel.name;
  request.source = kernel.source;
  request.target = target;
  request.kind = ImageKind::kCubin;
  LSSAR_ASSIGN_OR_RETURN(const Image image, compiler.compile(request));
  EXPECT_EQ(image.log.find("warning"), std::string::npos) << row_key(row) << image.log;
  for (const std::string& warning : image.assembler_warnings)
    ADD_FAILURE() << row_key(row) << ": " << warning;
  std::string registers, shared;
  int spills = 0;
  for (const LaunchStep& step : kernel.steps) {
    for (const KernelResources& r : image.resources) {
      if (r.entry != step.entry) continue;
      spills += r.spill_store_bytes + r.spill_load_bytes + r.local_bytes;
      if (step.shared_bytes == 0) continue;  // it works on rows
      const char* separator = registers.empty() ? "" : ", ";
      registers += fmt::format("{}{}", separator, r.registers);
      shared += fmt::format("{}{}", separator, step.shared_bytes);
    }
  }
  return fmt::format("{} {} | {} | {} | {} |", row_key(row), short_form(schedule, row.pass),
                     registers, shared, spills);
}

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class HopperTable : public testing::TestWithParam<int> {
 protected:
  // The line of the docs that begins with the key; null if there is none.
  std::string* find(const std::string& key) {
    for (std::string& line : lines_)
      if (line.starts_with(key)) return &line;
    return nullptr;
  }
  // New rows follow the last one.
  void put(const std::string& key, const std::string& line) {
    if (std::string* old = find(key)) {
      *old = line;
      return;
    }
    const auto end = std::find(lines_.begin(), lines_.end(), "<!-- end of hopper_table_test -->");
    ASSERT_NE(end, lines_.end());
    lines_.insert(end - 1, line);  // a blank line ends the table
  }
  void write() {
    std::ofstream out(LSSAR_DEFAULTS_PAGE);
    for (const std::string& line : lines_) out << line << '\n';
    ASSERT_TRUE(out.flush().good());
  }

  void check(const std::vector<Row>& rows) {
    const auto compiler = open_compiler(CompilerChoice::kNvrtc);
    if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
    const bool compares = (*compiler)->version().starts_with(kTableVersion);
    const bool updates = std::getenv("LSSAR_UPDATE_DOCS") != nullptr;
    for (const Row& row : rows) {
      const auto line = make_line(**compiler, row);
      ASSERT_TRUE(line.ok()) << row_key(row) << line.status().to_string();
      EXPECT_TRUE(line->ends_with(" 0 |")) << "spills: " << *line;
      if (!compares) continue;
      if (updates) {
        put(row_key(row), *line);
        continue;
      }
      const std::string* written = find(row_key(row));
      ASSERT_NE(written, nullptr) << "no row for " << *line;
      EXPECT_EQ(*written, *line);
    }
    if (compares && updates) write();
  }

  std::vector<std::string> lines_ = read_lines(LSSAR_DEFAULTS_PAGE);
};

// A kernel takes five seconds to compile and assemble: fp16, which differs in conversions and in a
// scale, is tried at two dims, and what follows in turn.
TEST_P(HopperTable, IsTrue) {
  const int dim = GetParam();
  std::vector<Row> rows;
  for (DType dtype : {DType::kBf16, DType::kFp16}) {
    if (dtype == DType::kFp16 && dim != 64 && dim != 128) continue;
    rows.push_back({dim, dtype, Pass::kForward, DqMode::kSplit});
    rows.push_back({dim, dtype, Pass::kForwardTrain, DqMode::kSplit});
    rows.push_back({dim, dtype, Pass::kBackward, DqMode::kSplit});
    rows.push_back({dim, dtype, Pass::kBackward, DqMode::kAtomic});
    rows.push_back({dim, dtype, Pass::kBackward, DqMode::kOrdered});
  }
  check(rows);
}

constexpr int kDims[] = {64, 96, 128, 192, 256};

size_t turn_of_dim(int dim) {
  return static_cast<size_t>(std::find(std::begin(kDims), std::end(kDims), dim) - kDims);
}

INSTANTIATE_TEST_SUITE_P(All, HopperTable, testing::ValuesIn(kDims),
                         testing::PrintToStringParamName());

// Without a mask other kernels are short of registers. compile_grid_test has the split sums of dq.
// The dims take the two other modes in turn, and the largest takes both.
TEST_P(HopperTable, SumsOfDqHaveNoSpillsWithoutAMask) {
  const auto compiler = open_compiler(CompilerChoice::kNvrtc);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  if (!(*compiler)->version().starts_with(kTableVersion))
    GTEST_SKIP() << "another assembler than that of NVRTC " << kTableVersion << "x allocates "
                 << "other registers";
  size_t turn = turn_of_dim(GetParam());
  for (DqMode mode : {DqMode::kAtomic, DqMode::kOrdered}) {
    const bool is_bf16 = turn++ % 2 == 0;
    if (!is_bf16 && GetParam() != 256) continue;
    const DType dtype = is_bf16 ? DType::kBf16 : DType::kFp16;
    const Row row = {GetParam(), dtype, Pass::kBackward, mode, 1, false};
    const auto line = make_line(**compiler, row);
    ASSERT_TRUE(line.ok()) << row_key(row) << line.status().to_string();
    EXPECT_TRUE(line->ends_with(" 0 |")) << "spills: " << *line;
  }
}

constexpr const char* kGelu = "phi=gelu,normalizer=sum_abs";
constexpr const char* kPsi = "softmax,psi=(x - b) / N";
constexpr const char* kCapped = "lssar,soft_cap=30";
constexpr const char* kSloped = "lssar,alibi=per_head";
constexpr const char* kSinkPsi = "softmax,sink=per_head,psi=(x - b) / N";

// Score functions given as expressions: those whose derivative or weights take most, and softmax,
// whose tiles are wider. Sinks take registers of their rows. Each has both passes, in some dim; the
// large dims, whose accumulators leave the fewest registers, have most.
constexpr struct {
  int dim;
  const char* score;
  Pass pass;
} kScoreKernels[] = {
    {64, "softmax", Pass::kBackward}, {64, kSinkPsi, Pass::kForward},
    {64, kCapped, Pass::kForward},    {96, kGelu, Pass::kForward},
    {128, "softmax", Pass::kForward}, {128, kGelu, Pass::kBackward},
    {128, kPsi, Pass::kForward},      {128, kSinkPsi, Pass::kBackward},
    {128, kSloped, Pass::kForward},   {128, "softmax,alibi=per_head", Pass::kBackward},
    {192, kPsi, Pass::kBackward},     {256, "softmax", Pass::kBackward},
    {256, kGelu, Pass::kForward},     {256, kPsi, Pass::kBackward},
    {256, kSinkPsi, Pass::kBackward},
};

TEST_P(HopperTable, ScoreFunctionsHaveNoSpills) {
  const auto compiler = open_compiler(CompilerChoice::kNvrtc);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  if (!(*compiler)->version().starts_with(kTableVersion))
    GTEST_SKIP() << "another assembler than that of NVRTC " << kTableVersion << "x allocates "
                 << "other registers";
  for (const auto& [dim, score, pass] : kScoreKernels) {
    if (dim != GetParam()) continue;
    const int p = score == kCapped || score == kSloped ? 15 : 0;
    const Row row = {dim, DType::kBf16, pass, DqMode::kSplit, 1, true, score, p};
    const auto line = make_line(**compiler, row);
    ASSERT_TRUE(line.ok()) << row_key(row) << line.status().to_string();
    EXPECT_TRUE(line->ends_with(" 0 |")) << "spills: " << score << " " << *line;
  }
}

class HopperStaggeredTable : public HopperTable {};

TEST_P(HopperStaggeredTable, IsTrue) {
  const int dim = GetParam();
  std::vector<Row> rows = {{dim, DType::kBf16, Pass::kForward, DqMode::kSplit, 4}};
  // For larger dims o, X and the scores of two tiles do not fit in registers.
  if (dim <= 96) rows.push_back({dim, DType::kBf16, Pass::kForwardTrain, DqMode::kSplit, 4});
  check(rows);
}

INSTANTIATE_TEST_SUITE_P(All, HopperStaggeredTable, testing::Values(64, 96, 128, 192),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lssar
