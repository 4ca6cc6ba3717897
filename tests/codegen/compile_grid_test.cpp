// Default kernels of every kind, for every target: they compile, spill nothing and fit.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/emit.h"
#include "codegen/launch_step.h"
#include "codegen/templates.h"
#include "compile/compiler.h"
#include "score/score_text.h"

namespace lssar {
namespace {

// Targets whose defaults are those of another but for what fits, and what ptxas spills.
bool is_alike(const std::string& target) {
  return target == "sm_86" || target == "sm_89" || target == "sm_90" || target == "sm_100" ||
         target == "sm_120";
}

// Whether the limits are another target's too: sm_89 has those of sm_86, and sm_90 those of sm_80
// with more shared memory. The defaults are, too.
bool has_known_limits(const std::string& target) { return target == "sm_89" || target == "sm_90"; }

// The problems that are compiled for a target. Most targets: every head dim in bf16, a few in fp32,
// one in fp16, and one without a mask. Targets that are like another: the largest dim in bf16, and
// one kernel in fp16 and in fp32. Where the limits are another's too: the backward of the largest
// dim. With NVRTC sm_90a leaves out what hopper_table_test compiles, and has every backward without
// a mask, which is short of registers, and forwards of some dims. LLVM does not assign registers
// here, so it has three dims: small, not a power of 2, and the largest. Its kernels for sm_90a are
// those of sm_80.
std::vector<Problem> grid(const std::string& target, CompilerChoice compiler) {
  const bool has_table = target == "sm_90a" && compiler == CompilerChoice::kNvrtc;
  std::vector<Problem> problems;
  const auto add_pass = [&](Pass pass, DType dtype, int dim, bool causal) {
    Problem problem;
    problem.pass = pass;
    problem.dtype = dtype;
    problem.head_dim = problem.head_dim_v = dim;
    problem.causal = causal;
    problems.push_back(problem);
  };
  const auto add = [&](DType dtype, int dim, bool causal) {
    for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward})
      add_pass(pass, dtype, dim, causal);
  };
  const bool is_portable = target == "sm_90a" && compiler == CompilerChoice::kLlvm;
  if (has_known_limits(target)) {
    add_pass(Pass::kBackward, DType::kBf16, 256, true);
    return problems;
  }
  if (is_alike(target) || is_portable) {
    add(DType::kBf16, 256, true);
    add_pass(Pass::kBackward, DType::kFp32, 128, false);
    add_pass(Pass::kForwardTrain, DType::kFp16, 128, false);
    return problems;
  }
  const bool is_llvm = compiler == CompilerChoice::kLlvm;
  using Dims = std::vector<int>;
  for (int dim : is_llvm ? Dims{32, 96, 256} : Dims{32, 64, 96, 128, 192, 256}) {
    if (!has_table || dim == 32) add(DType::kBf16, dim, true);
    const bool has_fp32 =
        is_llvm ? dim > 32 : dim == 256 || (!has_table && (dim == 64 || dim == 128));
    if (has_fp32) add(DType::kFp32, dim, true);
  }
  if (!has_table) {
    add(DType::kFp16, 128, true);
    add(DType::kBf16, 128, false);
  }
  if (target == "sm_80") {  // halves of the forward
    for (Pass pass : {Pass::kRowSums, Pass::kWeightedSum}) {
      add_pass(pass, DType::kBf16, 256, true);
      add_pass(pass, DType::kFp32, 128, true);
    }
  }
  if (has_table) {
    add_pass(Pass::kBackward, DType::kFp16, 256, false);
    for (int dim : {64, 96, 128, 192, 256}) {
      if (dim % 96 != 0)
        add_pass(dim == 64 ? Pass::kForward : Pass::kForwardTrain, DType::kBf16, dim, false);
      add_pass(Pass::kBackward, DType::kBf16, dim, false);
    }
  }
  return problems;
}

struct Setting {
  const char* target;
  DType dtype;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.target << " " << dtype_name(setting.dtype);
}

std::string setting_name(const testing::TestParamInfo<Setting>& param_info) {
  return std::string(param_info.param.target) + "_" + dtype_name(param_info.param.dtype);
}

void check_kernel(const Compiler& compiler, const Problem& problem, const Target& target,
                  DqMode mode) {
  const auto kernel = emit_kernel(problem, default_schedule(problem, target, mode), target);
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  CompileRequest request;
  request.name = kernel->name;
  request.source = kernel->source;
  request.target = target;
  request.kind = ImageKind::kCubin;
  const auto image = compiler.compile(request);
  ASSERT_TRUE(image.ok()) << to_string(problem) << ": " << image.status().to_string();
  ASSERT_EQ(image->resources.size(), kernel->steps.size()) << to_string(problem);
  for (const KernelResources& r : image->resources) {
    EXPECT_EQ(r.spill_store_bytes, 0) << r.entry << " of " << to_string(problem);
    EXPECT_EQ(r.spill_load_bytes, 0) << r.entry << " of " << to_string(problem);
    EXPECT_EQ(r.local_bytes, 0) << r.entry << " of " << to_string(problem);
  }
  EXPECT_EQ(image->log.find("warning"), std::string::npos) << to_string(problem) << image->log;
  for (const std::string& warning : image->assembler_warnings)
    ADD_FAILURE() << to_string(problem) << ": " << warning;
  for (const LaunchStep& step : kernel->steps)
    EXPECT_LE(step.shared_bytes, target.shared_bytes_per_block) << step.entry;
}

class NvrtcGrid : public testing::TestWithParam<Setting> {};

TEST_P(NvrtcGrid, CompilesWithoutSpillsAndFits) {
  const auto compiler = open_compiler(CompilerChoice::kNvrtc);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  const Target target = target_from_name(GetParam().target).value();
  for (const Problem& problem : grid(GetParam().target, CompilerChoice::kNvrtc))
    if (problem.dtype == GetParam().dtype)
      check_kernel(**compiler, problem, target, DqMode::kSplit);
}

// hopper_table_test has the ones for sm_90a.
TEST(SumsOfDq, CompileWithoutSpillsAndFit) {
  const auto compiler = open_compiler(CompilerChoice::kNvrtc);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  Problem problem;
  problem.causal = true;
  problem.pass = Pass::kBackward;
  problem.dtype = DType::kBf16;
  problem.head_dim = problem.head_dim_v = 64;
  for (const char* name : {"sm_80", "sm_90", "sm_120"})
    for (const DqMode mode : {DqMode::kAtomic, DqMode::kOrdered})
      check_kernel(**compiler, problem, target_from_name(name).value(), mode);
  problem.head_dim = problem.head_dim_v = 128;
  for (const char* name : {"sm_86", "sm_100", "sm_120"})
    check_kernel(**compiler, problem, target_from_name(name).value(), DqMode::kOrdered);
}

// Where the rectangular kernel leaves few registers.
TEST(Sequences, CompileWithoutSpillsAndFit) {
  const auto compiler = open_compiler(CompilerChoice::kNvrtc);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  Problem problem;
  problem.causal = problem.varlen = true;
  problem.pass = Pass::kForwardTrain;
  problem.dtype = DType::kBf16;
  problem.head_dim = problem.head_dim_v = 128;
  for (const char* name : {"sm_80", "sm_90a"})
    check_kernel(**compiler, problem, target_from_name(name).value(), DqMode::kSplit);
  problem.pass = Pass::kBackward;
  check_kernel(**compiler, problem, target_from_name("sm_90a").value(), DqMode::kSplit);
}

// Blocks that divide the keys of few queries: one row, and as many as a block has by default.
TEST(FewQueries, CompileWithoutSpillsAndFit) {
  const auto compiler = open_compiler(CompilerChoice::kNvrtc);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  Problem problem;
  problem.seq_k = 4096;
  problem.dtype = DType::kBf16;
  for (const auto& [dim, seq_q, heads] :
       {std::tuple{64, 1, 1}, {128, 1, 1}, {128, 16, 4}, {256, 8, 8}}) {
    problem.head_dim = problem.head_dim_v = dim;
    problem.seq_q = seq_q;
    problem.heads = heads;
    for (const char* name : {"sm_80", "sm_90a", "sm_120"})
      check_kernel(**compiler, problem, target_from_name(name).value(), DqMode::kSplit);
  }
  problem.dtype = DType::kFp32;
  check_kernel(**compiler, problem, target_from_name("sm_80").value(), DqMode::kSplit);
  problem.dtype = DType::kFp16;
  problem.head_dim = problem.head_dim_v = 128;
  for (const char* score : {"softmax,sink=per_head,soft_cap=20,alibi=per_head", "sigmoid",
                            "softmax,psi=x - b,psi_normalizer=sum_abs"}) {
    problem.p = 0;
    problem.score = parse_score(score).value();
    check_kernel(**compiler, problem, target_from_name("sm_80").value(), DqMode::kSplit);
    problem.window_left = 100;
    check_kernel(**compiler, problem, target_from_name("sm_80").value(), DqMode::kSplit);
  }
}

// Tiles that are turned in shared memory.
TEST(FewQueries, WithRotaryPositionsCompileWithoutSpillsAndFit) {
  const auto compiler = open_compiler(CompilerChoice::kNvrtc);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().to_string();
  for (const DType dtype : {DType::kBf16, DType::kFp32}) {
    for (const auto& [dim, rotary_dim, interleaved] :
         {std::tuple{64, 64, false}, {128, 128, false}, {128, 128, true}, {256, 100, false}}) {
      Problem problem;
      problem.dtype = dtype;
      problem.head_dim = problem.head_dim_v = dim;
      problem.rotary_dim = rotary_dim;
      problem.rotary_interleaved = interleaved;
      problem.seq_q = 1;
      problem.varlen = problem.causal = dim == 128;
      for (const char* name : {"sm_80", "sm_90a", "sm_120"})
        check_kernel(**compiler, problem, target_from_name(name).value(), DqMode::kSplit);
    }
  }
}

std::vector<Setting> settings(std::initializer_list<const char*> targets) {
  std::vector<Setting> result;
  for (const char* target : targets)
    for (DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
      if (dtype == DType::kBf16 || !has_known_limits(target)) result.push_back({target, dtype});
    }
  return result;
}

INSTANTIATE_TEST_SUITE_P(All, NvrtcGrid,
                         testing::ValuesIn(settings({"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a",
                                                     "sm_100", "sm_120"})),
                         setting_name);

class LlvmGrid : public testing::TestWithParam<Setting> {};

TEST_P(LlvmGrid, Compiles) {
  const auto compiler = open_compiler(CompilerChoice::kLlvm);
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  const Target target = target_from_name(GetParam().target).value();
  for (const Problem& problem : grid(GetParam().target, CompilerChoice::kLlvm)) {
    if (problem.dtype != GetParam().dtype) continue;
    const auto kernel = emit_kernel(problem, default_schedule(problem, target), target);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    CompileRequest request;
    request.name = kernel->name;
    request.source = kernel->source;
    request.target = target;
    const auto image = (*compiler)->compile(request);
    ASSERT_TRUE(image.ok()) << to_string(problem) << ": " << image.status().to_string();
    for (const LaunchStep& step : kernel->steps)
      EXPECT_NE(image->bytes.find(".entry " + step.entry), std::string::npos) << step.entry;
    EXPECT_EQ(image->bytes.find(".local"), std::string::npos)
        << "local memory in " << to_string(problem);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LlvmGrid, testing::ValuesIn(settings({"sm_80", "sm_90a"})),
                         setting_name);

// Every template as it is, through the index. Templates do not ask for the target, so one is
// enough. `option`: what is compiled is not run, and the optimizer would take most of the time.
// NVRTC stops where every template is instantiated, which finds wrong names, types, static_asserts
// and operands of asm; LLVM goes on to PTX.
void check_index(CompilerChoice choice, const char* option) {
  const auto compiler = open_compiler(choice);
  if (!compiler.ok() && choice == CompilerChoice::kNvrtc)
    GTEST_SKIP() << compiler.status().to_string();
  ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
  CompileRequest request;
  request.name = "template_index";
  for (const SourcePart& part : template_parts({"templates/index.cuh"}))
    request.source += part.text;
  request.target = target_from_name("sm_90a").value();
  request.extra_options = {option};
  const auto image = (*compiler)->compile(request);
  EXPECT_TRUE(image.ok()) << image.status().to_string();
}

TEST(TemplateIndex, CompilesWithNvrtc) {
  check_index(CompilerChoice::kNvrtc, "--fdevice-syntax-only");
}
TEST(TemplateIndex, CompilesWithLlvm) { check_index(CompilerChoice::kLlvm, "-O0"); }

}  // namespace
}  // namespace lssar
