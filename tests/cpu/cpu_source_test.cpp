// The emitted C++ is one deterministic file, which clang++ compiles alone. Also checks its machine
// code.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "codegen/emitted_file.h"
#include "compile/compiler.h"
#include "score/parse.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

KernelSource emitted(const Problem& problem, const std::string& target_name) {
  const Target target = *target_from_name(target_name);
  return emit_kernel(problem, default_schedule(problem, target), target).value();
}

std::vector<std::string> all_targets() {
  std::vector<std::string> names;
  for (const CpuLevel& level : cpu_levels()) names.push_back(level.name);
  return names;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16})
    for (const auto& [d, dv] : std::vector<std::pair<int, int>>{{64, 64}, {24, 40}, {128, 136}})
      all.push_back(forward_problem(dtype, d, dv, 15, true));
  all.push_back(forward_problem(DType::kFp32, 64, 64, 0, false));
  for (const Pass pass : {Pass::kForwardTrain, Pass::kBackward}) {
    all.push_back(forward_problem(DType::kBf16, 64, 72, 15, true));
    all.back().pass = pass;
  }
  return all;
}

// The backward of a score function that calls every function of expression_math.h.
Problem scored_problem() {
  Problem problem = forward_problem(DType::kFp32, 24, 40, 0, true);
  problem.pass = Pass::kBackward;
  problem.score.phi = Activation(*parse_expression(
      "where(x < 0.5, log1p(x^2) + sigmoid(x), tanh(x) * sqrt(abs(x))) + erf(x) * log(x + 9) + "
      "min(softplus(x), 2) + max(x, 1)^2.5 + exp(x) / (x^3 + 9)",
      {Variable::kX}));
  problem.score.psi.expression =
      parse_expression("x * b + N", {Variable::kX, Variable::kOffset, Variable::kLength}).value();
  problem.score.normalizer = Normalizer::kSumAbs;
  return problem;
}

TEST(CpuSource, StandsAloneAndIsDeterministic) {
  for (const std::string& target : all_targets())
    for (const Problem& problem : problems()) {
      const KernelSource kernel = emitted(problem, target);
      EXPECT_EQ(kernel.source, emitted(problem, target).source);
      EXPECT_EQ(kernel.source.find("#include"), std::string::npos);
      EXPECT_EQ(kernel.source.find("template <class Config"), std::string::npos);
      EXPECT_NE(kernel.source.find(cpu_compile_options(*target_from_name(target)) + " "),
                std::string::npos);
      std::vector<std::string> entries;
      for (const LaunchStep& step : kernel.steps) entries.push_back(step.entry);
      std::vector<std::string> expected = {"lssar_pack_keys", "lssar_forward"};
      if (problem.pass == Pass::kForward)
        expected.insert(expected.end(),
                        {"lssar_few_scores", "lssar_few_values", "lssar_few_outputs"});
      if (problem.pass == Pass::kBackward)
        expected = {"lssar_pack_keys", "lssar_backward_rows", "lssar_backward_dkdv",
                    "lssar_backward_dq_finish"};
      EXPECT_EQ(entries, expected);
    }
}

TEST(CpuSource, ItsHeaderSaysWhatItWasMadeFrom) {
  const Problem problem = forward_problem(DType::kBf16, 64, 64, 15, true);
  const KernelSource kernel = emitted(problem, "x86-64-v4");
  const auto file = read_emitted(kernel.source, "forward.cpp");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->target.name(), "x86-64-v4");
  EXPECT_EQ(file->source.source, kernel.source);
}

// Finds clang 16 or later, under a name with its version or as the default one.
std::string find_clang() {
  for (const char* name : {"clang++-19", "clang++-18", "clang++-17", "clang++-16", "clang++"})
    if (std::system((std::string(name) + " --version > /dev/null 2>&1").c_str()) == 0) return name;
  return "";
}

// What differs from the targets before it: with pairs of bf16 only kernels of bf16 do.
std::vector<Problem> problems_to_compile(const std::string& target) {
  const std::vector<Problem> all = problems();
  if (cpu_level(*target_from_name(target)).has_bf16_pairs) return {all[4], all[10], all.back()};
  return {all[0], all[4], all[7], all[10], all.back(), scored_problem()};
}

// The optimizer has nothing to say of a source: EveryTargetCompilesInProcess has its warnings.
TEST(CpuSource, ClangCompilesItAlone) {
  const std::string clang = find_clang();
  if (clang.empty()) GTEST_SKIP() << "no clang++ is installed";
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "lssar_cpu_source";
  std::filesystem::create_directories(folder);
  for (const std::string& target : all_targets())
    for (const Problem& problem : problems_to_compile(target)) {
      const std::string file = (folder / "kernel.cpp").string();
      std::ofstream(file) << emitted(problem, target).source;
      const std::string command = clang + " -std=c++17 -O0 -Wall -Werror " +
                                  cpu_compile_options(*target_from_name(target)) + " -c -x c++ " +
                                  file + " -o " + file + ".o";
      EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }
  std::filesystem::remove_all(folder);
}

// The level may be one that this machine lacks; the source compiles all the same.
TEST(CpuSource, EveryTargetCompilesInProcess) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const std::string& target : all_targets())
    for (const Problem& problem : problems_to_compile(target)) {
      const KernelSource kernel = emitted(problem, target);
      CompileRequest request;
      request.name = kernel.name;
      request.source = kernel.source;
      request.target = *target_from_name(target);
      request.kind = ImageKind::kObject;
      const auto image = (*open_compiler(CompilerChoice::kLlvm))->compile(request);
      ASSERT_TRUE(image.ok()) << image.status().to_string();
      EXPECT_EQ(image->log, "") << target;
      EXPECT_EQ(image->bytes.substr(0, 4),
                "\x7f"
                "ELF");
    }
}

}  // namespace
}  // namespace lssar
