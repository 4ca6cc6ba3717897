// The emitted source as text: deterministic, self-contained, and made of what the problem needs.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "codegen/emit.h"
#include "codegen/launch_step.h"
#include "codegen/source/source_tokens.h"
#include "codegen/templates.h"
#include "score/score_text.h"

namespace lssar {
namespace {

Target target(const char* name = "sm_80") { return target_from_name(name).value(); }

KernelSource emit(const Problem& problem) {
  auto kernel = emit_kernel(problem, default_schedule(problem, target()), target());
  EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
  return kernel.value();
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

TEST(Emit, IsTheSameEveryTime) {
  Problem problem;
  problem.causal = true;
  problem.pass = Pass::kBackward;
  EXPECT_EQ(emit(problem).source, emit(problem).source);
}

TEST(Emit, NeedsNoOtherFile) {
  for (Pass pass : kAllPasses) {
    Problem problem;
    problem.pass = pass;
    const std::string source = emit(problem).source;
    EXPECT_EQ(source.find("#include"), std::string::npos);
    EXPECT_EQ(source.find("#pragma once"), std::string::npos);
  }
}

TEST(Emit, NamesEveryLaunchInTheSource) {
  for (Pass pass : kAllPasses) {
    for (DqMode mode : {DqMode::kSplit, DqMode::kAtomic}) {
      Problem problem;
      problem.causal = true;
      problem.pass = pass;
      Schedule schedule = default_schedule(problem, target());
      schedule.dq_mode = mode;
      const auto kernel = emit_kernel(problem, schedule, target());
      ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
      for (const LaunchStep& step : kernel->steps) {
        EXPECT_NE(kernel->source.find(" " + step.entry + "("), std::string::npos) << step.entry;
        EXPECT_GT(step.rows_per_block, 0);
        EXPECT_EQ(step.threads % 32, 0);
      }
    }
  }
}

TEST(Emit, HoldsOnlyTheTemplatesItReaches) {
  Problem problem;
  problem.causal = true;
  problem.pass = Pass::kForward;
  const std::string forward = emit(problem).source;
  EXPECT_EQ(forward.find("// ---- kernels/backward"), std::string::npos);
  EXPECT_EQ(forward.find("// ---- tile/mma32"), std::string::npos);
  EXPECT_NE(forward.find("// ---- kernels/forward"), std::string::npos);
  problem.dtype = DType::kFp32;
  const std::string single = emit(problem).source;
  EXPECT_EQ(single.find("mma.sync"), std::string::npos);
}

constexpr DType kDTypes[] = {DType::kBf16, DType::kFp16, DType::kFp32};

// Default kernels of both variants, every pass and dtype.
template <class Check>
void for_each_default(const Check& check) {
  for (const char* name : {"sm_80", "sm_90a"})
    for (Pass pass : kAllPasses)
      for (DType dtype : kDTypes)
        for (int dim : {64, 128, 256}) {
          Problem problem;
          problem.pass = pass;
          problem.dtype = dtype;
          problem.head_dim = problem.head_dim_v = dim;
          problem.causal = dim != 128;
          const auto kernel =
              emit_kernel(problem, default_schedule(problem, target(name)), target(name));
          ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
          check(problem, name, kernel->source);
        }
}

void expect_short_lines(const Problem& problem, const char* name, const std::string& source) {
  for (const std::string& line : lines(source)) {
    const auto columns =
        std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
    EXPECT_LE(columns, 100) << name << " " << to_string(problem) << ": " << line;
  }
}

TEST(Emit, HasNoLineOfMoreThanAHundredColumns) {
  for_each_default(expect_short_lines);
  Problem problem;
  problem.score = parse_score("phi=relu(x)^2 + 0.01*x,normalizer=sum_abs").value();
  problem.p = 0;
  for (const char* name : {"sm_80", "sm_90a"}) {
    const auto kernel = emit_kernel(problem, default_schedule(problem, target(name)), target(name));
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    expect_short_lines(problem, name, kernel->source);
  }
}

// Limits on the number of lines. Raise one only for what the kernel does.
int most_lines(Pass pass, bool is_hopper) {
  switch (pass) {
    case Pass::kForward:
      return is_hopper ? 1956 : 1000;
    case Pass::kForwardTrain:
      return is_hopper ? 2031 : 1059;
    case Pass::kBackward:
      return is_hopper ? 2772 : 1591;
    case Pass::kRowSums:
    case Pass::kWeightedSum:
      return 943;
  }
  return 0;
}

TEST(Emit, IsShort) {
  for_each_default([](const Problem& problem, const char* name, const std::string& source) {
    const bool is_hopper = source.find("wgmma") != std::string::npos;
    const auto num_lines = std::count(source.begin(), source.end(), '\n');
    EXPECT_LE(num_lines, most_lines(problem.pass, is_hopper)) << name << " " << to_string(problem);
  });
}

// Constants of a shape are numbers. Whatever only their computation used is gone.
TEST(Emit, SaysWhatShapesAre) {
  for_each_default([](const Problem& problem, const char* name, const std::string& source) {
    if (problem.pass == Pass::kBackward) return;
    const size_t shape = source.find("struct Shape {\n");
    ASSERT_NE(shape, std::string::npos) << name << " " << to_string(problem);
    const size_t end = source.find("\n};\n", shape);
    for (const std::string& line : lines(source.substr(shape, end - shape))) {
      const size_t equals = line.find(" = ");
      if (line.find("static constexpr int") == std::string::npos) continue;
      ASSERT_NE(equals, std::string::npos) << line;
      EXPECT_EQ(line.find_first_not_of("-0123456789", equals + 3), line.find(';'))
          << name << " " << to_string(problem) << ": " << line;
    }
  });
}

// The host computes the map of the header; the emitter computes the shape, from the templates.
TEST(Emit, ShapesAgreeWithTheMapOfSharedMemory) {
  int compared = 0;
  for_each_default([&](const Problem& problem, const char* name, const std::string& source) {
    if (source.find("// ---- kernels/hopper_forward_layout.cuh") == std::string::npos) return;
    const std::pair<const char*, const char*> kPlaces[] = {{"kNormsOffset", "  key norms:"},
                                                           {"kRingOffset", "  ring barriers:"},
                                                           {"kQueryBarriersOffset", "  query bar"}};
    for (const auto& [constant, part] : kPlaces) {
      const size_t row = source.rfind("\n//", source.find(part)) + 3;
      const size_t value = source.find(std::string(constant) + " = ");
      ASSERT_NE(value, std::string::npos) << constant << " of " << name;
      EXPECT_EQ(std::stoi(source.substr(value + std::string(constant).size() + 3)),
                std::stoi(source.substr(row)))
          << constant << " of " << name << " " << to_string(problem);
      ++compared;
    }
  });
  EXPECT_GT(compared, 30);
}

// By name, as above: the argument holds only what some kernel of the source reads, and bytes.
TEST(Emit, HasNoMemberOfTheArgumentThatItDoesNotRead) {
  for_each_default([](const Problem& problem, const char* name, const std::string& source) {
    const size_t begin = source.find("struct AttentionParams {");
    ASSERT_NE(begin, std::string::npos);
    const size_t end = source.find("\n};\n", begin);
    std::map<std::string, int> mentions;
    for (const Token& token : code_tokens(source))
      if (token.is_word()) ++mentions[std::string(token.text)];
    for (const std::string& line : lines(source.substr(begin, end - begin))) {
      const std::vector<Token> tokens = code_tokens(line);
      if (tokens.size() < 3 || tokens[0].is("unsigned") || tokens[0].is("struct")) continue;
      size_t semicolon = 0;
      while (!tokens[semicolon].is(";")) ++semicolon;
      EXPECT_GT(mentions[std::string(tokens[semicolon - 1].text)], 1)
          << name << " " << to_string(problem) << ": " << line;
    }
  });
}

TEST(Emit, BeginsWithTheKernelsOwnConstants) {
  for_each_default([](const Problem& problem, const char* name, const std::string& source) {
    const size_t constants = source.find("\nstruct Config {");
    ASSERT_NE(constants, std::string::npos);
    const auto before = std::count(source.begin(), source.begin() + constants, '\n');
    EXPECT_LE(before, 140) << name << " " << to_string(problem);
    EXPECT_LT(constants, source.find("// ---- kernels/params.cuh"));
    EXPECT_GT(source.find("extern \"C\" __global__"), source.rfind("// ---- "));
  });
}

// By name: each is mentioned beside its definitions.
TEST(Emit, HasNoFunctionThatItDoesNotUse) {
  for_each_default([](const Problem& problem, const char* name, const std::string& source) {
    std::map<std::string, int> mentions, definitions;
    const std::vector<Token> tokens = code_tokens(source);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].is_word()) ++mentions[std::string(tokens[i].text)];
      if (!tokens[i].is("LSSAR_DEVICE")) continue;
      size_t open = i;
      while (!tokens[open].is("(")) ++open;
      if (tokens[open - 1].is("operator")) continue;
      ++definitions[std::string(tokens[open - 1].text)];
    }
    EXPECT_GT(definitions.size(), 40u);
    for (const auto& [function, count] : definitions)
      EXPECT_GT(mentions[function], count)
          << function << " of " << name << " " << to_string(problem);
  });
}

// Kernels of many kinds: their comments would otherwise name what only templates have.
std::vector<Problem> various_problems() {
  std::vector<Problem> problems(10);
  problems[1].varlen = true;
  problems[2].window_left = 256;
  problems[3].rotary_dim = 64;
  problems[4].invariant = true;
  problems[5].score = *parse_score("softmax");
  problems[6].score = *parse_score("softmax,sink=per_head,soft_cap=30,alibi=per_head");
  problems[7].score = *parse_score("sigmoid");
  problems[8].score = *parse_score("softmax,sink=per_head,psi=(x - b) / N");
  for (size_t i = 5; i < 9; ++i) problems[i].p = 0;
  problems[9].dtype = DType::kFp32;
  return problems;
}

TEST(Emit, CommentsNameOnlyConstantsThatTheSourceHas) {
  int emitted = 0;
  for (const char* name : {"sm_80", "sm_90a", "x86-64-v3"})
    for (Problem problem : various_problems())
      for (Pass pass : kAllPasses) {
        problem.pass = pass;
        problem.causal = true;
        const Schedule schedule = default_schedule(problem, target(name));
        const auto kernel = emit_kernel(problem, schedule, target(name));
        if (!kernel.ok()) continue;  // no such kernel
        ++emitted;
        const std::string source = source_without_header(kernel->source);
        std::set<std::string, std::less<>> code;
        for (const Token& token : code_tokens(source)) code.emplace(token.text);
        for (const Token& token : tokenize(source)) {
          if (token.kind == TokenKind::kDirective)
            for (const Token& word : code_tokens(token.text.substr(1))) code.emplace(word.text);
          if (token.kind != TokenKind::kComment) continue;
          for (const Token& word : code_tokens(token.text.substr(2)))
            if (word.text.size() > 1 && word.text[0] == 'k' &&
                std::isupper(static_cast<unsigned char>(word.text[1])) != 0)
              EXPECT_TRUE(code.contains(word.text))
                  << name << " " << to_string(problem) << ": " << token.text;
        }
      }
  EXPECT_GT(emitted, 80);
}

// A kernel has one Config: its templates are plain classes and functions.
TEST(Emit, CarriesNoConfigFromTemplateToTemplate) {
  for_each_default([](const Problem& problem, const char* name, const std::string& source) {
    for (const char* text : {"<Config>", "<Config,", "class Config"})
      EXPECT_EQ(source.find(text), std::string::npos)
          << text << " in " << name << " " << to_string(problem);
  });
}

// The library puts it before a source that LSSAR_DEBUG_WAITS is for (runtime/debug/wait_limit.cpp).
TEST(Emit, HoldsNoLimitOfWaitsOnlyTheHooksOfOne) {
  for_each_default([](const Problem& problem, const char* name, const std::string& source) {
    EXPECT_EQ(source.find("class SpinLimit"), std::string::npos) << name << to_string(problem);
    EXPECT_EQ(source.find("WaitReport"), std::string::npos) << name << to_string(problem);
  });
}

// What `lssar inspect --diff` will rely on.
TEST(Emit, PowersDifferInTheChainAndItsConstantsOnly) {
  Problem problem;
  problem.causal = true;
  problem.pass = Pass::kForwardTrain;
  problem.p = 7;
  const auto seven = lines(source_without_header(emit(problem).source));
  problem.p = 15;
  const auto fifteen = lines(source_without_header(emit(problem).source));
  const std::multiset<std::string> a(seven.begin(), seven.end());
  const std::multiset<std::string> b(fifteen.begin(), fifteen.end());
  std::vector<std::string> differing;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(),
                                std::back_inserter(differing));
  EXPECT_FALSE(differing.empty());
  for (const std::string& line : differing) {
    const bool is_chain = line.starts_with("    const float u") || line.starts_with("    return u");
    const bool is_constant = line.find("kPower = ") != std::string::npos;
    EXPECT_TRUE(is_chain || is_constant) << line;
  }
}

TEST(Emit, BatchAndHeadsAreNotBakedIn) {
  Problem one;
  Problem many = one;
  many.batch = 7;
  many.heads = 32;
  many.kv_heads = 8;
  EXPECT_EQ(source_without_header(emit(one).source), source_without_header(emit(many).source));
}

TEST(Emit, LengthsAreConstantsOrOfTheCall) {
  Problem problem;
  problem.causal = true;
  problem.seq_q = 777;
  problem.seq_k = 999;
  const std::string source = emit(problem).source;
  EXPECT_NE(source.find("kSeqQ = 777;"), std::string::npos);
  EXPECT_NE(source.find("kSeqK = 999;"), std::string::npos);
}

TEST(Emit, RefusesAnInvalidProblemAndAnIllegalSchedule) {
  Problem problem;
  problem.head_dim = 7;
  const auto bad = emit_kernel(problem, Schedule{}, target());
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(bad.status().message().find("head_dim"), std::string::npos);

  problem = Problem{};
  Schedule schedule = default_schedule(problem, target());
  schedule.forward.block_rows = 20;
  const auto illegal = emit_kernel(problem, schedule, target());
  ASSERT_FALSE(illegal.ok());
  EXPECT_NE(illegal.status().message().find("block_rows = 20"), std::string::npos);
}

TEST(Templates, AreAsciiOrUtf8WithoutTabsAndEndInANewline) {
  for (const TemplateFile& file : template_files()) {
    EXPECT_EQ(file.text.find('\t'), std::string_view::npos) << file.path;
    EXPECT_TRUE(file.text.ends_with("\n")) << file.path;
    EXPECT_EQ(file.text.find(")lssar_cuh"), std::string_view::npos) << file.path;
  }
}

TEST(Templates, KernelsHoldNoAssembly) {
  for (const TemplateFile& file : template_files()) {
    if (file.path.starts_with("templates/ptx/")) continue;
    EXPECT_EQ(file.text.find("asm"), std::string_view::npos) << file.path;
  }
}

}  // namespace
}  // namespace lssar
