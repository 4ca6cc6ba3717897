// Kernels whose blocks divide the keys of few queries (split_keys), against the float64 reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "score/score_text.h"
#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

// A chunk has two tiles.
constexpr const char* kSplit = R"({"variant": "portable", "pack_gqa": true, "split_keys": 128,
                                   "forward": {"block_rows": 16, "block_cols": 64}})";
constexpr int64_t kChunk = 128;

CapiOptions few_queries(const char* schedule = kSplit) {
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  options.alignment = 16;
  options.fixes_queries = true;
  options.schedule_json = schedule;
  return options;
}

Problem make_problem(DType dtype, const char* score = "lssar", int p = 15) {
  Problem problem;
  problem.head_dim = problem.head_dim_v = 32;
  problem.dtype = dtype;
  problem.causal = true;
  problem.p = p;
  problem.score = *parse_score(score);
  return problem;
}

// No key, fewer than a tile, and around the ends of a chunk; a prime number of keys.
void check_lengths(const Problem& problem, int64_t queries = 3,
                   const CapiOptions& options = few_queries(), const CheckDevice& device = {}) {
  for (const int64_t keys :
       {int64_t{0}, int64_t{1}, int64_t{5}, kChunk - 1, kChunk, kChunk + 1, int64_t{509}})
    check_against_reference(problem, make_sizes(2, 4, 2, queries, keys), InputKind::kGauss, options,
                            device);
}

TEST(FewQueries, OfEveryLength) {
  for (const bool causal : {true, false}) {
    Problem problem = make_problem(DType::kBf16);
    problem.causal = causal;
    check_lengths(problem);
  }
}

TEST(FewQueries, OneToSixteen) {
  const Problem problem = make_problem(DType::kFp16, "lssar", 3);
  for (const int64_t queries : {1, 2, 8, 16})
    check_against_reference(problem, make_sizes(1, 2, 2, queries, 300), InputKind::kGauss,
                            few_queries());
}

TEST(FewQueries, OfFp16) { check_lengths(make_problem(DType::kFp16, "lssar", 1)); }

TEST(FewQueries, OfFp32) {
  Problem problem = make_problem(DType::kFp32);
  problem.head_dim_v = 24;
  check_lengths(problem);
}

TEST(FewQueries, OfEveryCompiler) {
  CheckDevice device;
  for (const lssar_compiler compiler : {LSSAR_COMPILER_NVRTC, LSSAR_COMPILER_LLVM})
    for (const char* target : {"sm_80", "sm_90a"}) {
      device.compiler = compiler;
      device.target = target;
      check_against_reference(make_problem(DType::kBf16), make_sizes(1, 4, 2, 2, 509),
                              InputKind::kGauss, few_queries(), device);
    }
}

// What the default chooses: 512 keys or 1024, and more than 16 rows in a block.
TEST(FewQueries, OfTheDefaultSchedule) {
  Problem problem = make_problem(DType::kBf16);
  problem.head_dim = problem.head_dim_v = 128;
  problem.seq_k = 1100;
  problem.heads = 16;
  problem.kv_heads = 2;
  for (const int64_t queries : {1, 7})
    check_against_reference(problem, make_sizes(1, 16, 2, queries, 1100), InputKind::kGauss,
                            few_queries(""));
}

// 2048 chunks.
TEST(FewQueries, OfAMillionKeys) {
  Problem problem = make_problem(DType::kBf16);
  problem.head_dim = problem.head_dim_v = 8;
  check_against_reference(problem, make_sizes(1, 2, 1, 1, int64_t{1} << 20), InputKind::kGauss,
                          few_queries(""));
}

// A block has several warps, or takes several tiles of rows, also of one query.
TEST(FewQueries, OfManyHeads) {
  const Problem problem = make_problem(DType::kBf16);
  const char* const wide = R"({"variant": "portable", "pack_gqa": true, "split_keys": 128,
                               "forward": {"block_rows": 64, "block_cols": 32}})";
  for (const int64_t group : {1, 3, 8, 40}) {
    check_against_reference(problem, make_sizes(1, group, 1, 5, 200), InputKind::kGauss,
                            few_queries());
    check_against_reference(problem, make_sizes(1, group, 1, 5, 200), InputKind::kGauss,
                            few_queries(wide));
  }
}

TEST(FewQueries, InEveryLayout) {
  for (const Layout layout : {Layout::kLengthMajor, Layout::kPadded, Layout::kUnaligned}) {
    CapiOptions options = few_queries();
    options.layout = layout;
    if (layout == Layout::kUnaligned) options.alignment = 0;
    check_against_reference(make_problem(DType::kBf16), make_sizes(2, 4, 2, 3, 300),
                            InputKind::kGauss, options);
  }
}

// Values in several blocks of columns.
TEST(FewQueries, OfLargeHeads) {
  Problem problem = make_problem(DType::kBf16);
  problem.head_dim = 256;
  problem.head_dim_v = 200;
  check_against_reference(problem, make_sizes(1, 2, 1, 2, 300), InputKind::kGauss,
                          few_queries(R"({"split_keys": 256, "pack_gqa": true, "block_dv": 64,
                              "variant": "portable", "forward": {"block_cols": 32}})"));
}

// Dead rows, rows of zeros, rows whose few weights lie in one chunk, scores that nearly cancel.
TEST(FewQueries, OfEveryKindOfData) {
  for (const InputKind kind :
       {InputKind::kPeaky, InputKind::kOpposed, InputKind::kTies, InputKind::kNearTies,
        InputKind::kZeros, InputKind::kHuge, InputKind::kLocal, InputKind::kShifted})
    check_against_reference(make_problem(DType::kBf16), make_sizes(1, 4, 2, 4, 509), kind,
                            few_queries());
}

struct Scored {
  const char* name;
  const char* score;
  int p = 0;
  DType dtype = DType::kBf16;
};
void PrintTo(const Scored& scored, std::ostream* out) { *out << scored.name; }

class FewQueriesScored : public testing::TestWithParam<Scored> {};

TEST_P(FewQueriesScored, GiveTheReference) {
  const Problem problem = make_problem(GetParam().dtype, GetParam().score, GetParam().p);
  check_lengths(problem);
  check_against_reference(problem, make_sizes(1, 2, 1, 4, 509), InputKind::kPeaky, few_queries());
}

INSTANTIATE_TEST_SUITE_P(
    All, FewQueriesScored,
    testing::Values(Scored{"Lssa", "lssar", 0}, Scored{"LargePower", "lssar", 256},
                    Scored{"Softmax", "softmax"}, Scored{"SoftmaxFp32", "softmax", 0, DType::kFp32},
                    Scored{"ReweightedSoftmax", "softmax", 15},
                    Scored{"Sigmoid", "sigmoid", 0, DType::kFp16},
                    Scored{"SinkCapAndSlopes", "softmax,sink=per_head,soft_cap=3,alibi=per_head"},
                    Scored{"ReweightedSink", "softmax,sink=per_head", 3},
                    Scored{"CappedSoftplus", "lssar,soft_cap=4,alibi=per_head", 3, DType::kFp16},
                    Scored{"Rectified",
                           "phi=relu(x)^2,normalizer=sum_abs,scale=log_dim_log_length"},
                    Scored{"Negative", "phi=gelu,normalizer=sum_abs,scale=log_dim_log_length", 3},
                    Scored{"Psi", "softmax,psi=x - b,psi_normalizer=sum_abs"},
                    Scored{"PsiWithoutSum", "softmax,psi=(x - b) / N", 0, DType::kFp16},
                    Scored{"Identity", "phi=x,normalizer=none", 0, DType::kFp16}),
    [](const auto& p) { return std::string(p.param.name); });

// Chunks that no row sees, and a gap within a chunk.
TEST(FewQueries, WithinWindows) {
  Problem problem = make_problem(DType::kBf16);
  problem.window_left = 70;
  problem.window_sinks = 3;
  check_lengths(problem);
  problem.score = *parse_score("softmax");
  problem.p = 0;
  problem.prefix = 10;
  check_lengths(problem);
  problem.window_left = -1;
  problem.chunk = 100;
  check_lengths(problem);
}

// Queries stand at the end of the keys.
TEST(FewQueries, WithRotaryPositions) {
  for (const DType dtype : {DType::kBf16, DType::kFp32}) {
    Problem problem = make_problem(dtype);
    problem.rotary_dim = 32;
    for (const int64_t keys : {int64_t{3}, kChunk, int64_t{509}})
      check_against_reference(problem, make_sizes(2, 4, 2, 3, keys), InputKind::kGauss,
                              few_queries());
    problem.rotary_dim = 20;
    problem.rotary_interleaved = true;
    problem.window_left = 70;
    check_against_reference(problem, make_sizes(2, 4, 2, 1, 509), InputKind::kGauss,
                            few_queries());
  }
}

Result<CapiOutputs> run_few(const Problem& problem, const Sizes& sizes, const RandomInputs& in,
                            const CapiOptions& options = few_queries()) {
  return run_capi(shared_context(), problem, sizes, {in.q, in.k, in.v, {}}, options);
}

// A NaN in a key spoils exactly the rows that see it. One in a value spoils the rows that see it,
// and at most this column of rows that do not.
TEST(FewQueries, NoNumbers) {
  constexpr int64_t kDim = 32, kKeys = 300, kQueries = 4;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const char* score : {"lssar", "softmax", "sigmoid"}) {
    const Problem problem = make_problem(DType::kBf16, score, score[0] == 'l' ? 15 : 0);
    const Sizes sizes = make_sizes(1, 2, 1, kQueries, kKeys);
    RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 3);
    in.k[(kKeys - 2) * kDim] = kNan;      // rows 2 and 3 see it
    in.v[(kKeys - 1) * kDim + 1] = kNan;  // row 3 alone sees it
    const auto out = run_few(problem, sizes, in);
    ASSERT_TRUE(out.ok()) << out.status().to_string();
    for (int64_t at = 0; at < 2 * kQueries * kDim; ++at) {
      if (at % kDim == 1 && at / kDim % kQueries != 3) continue;
      EXPECT_EQ(std::isnan(out->o[at]), at / kDim % kQueries >= 2) << score << " " << at;
    }
  }
}

// Chunks begin at the first key, and are added in their order.
TEST(FewQueries, HaveTheSameBitsInEveryBatch) {
  for (const char* score : {"lssar", "softmax"}) {
    const Problem problem = make_problem(DType::kFp32, score, score[0] == 'l' ? 15 : 0);
    const Sizes both = make_sizes(2, 4, 2, 3, 509), one = make_sizes(1, 4, 2, 3, 509);
    const RandomInputs in = random_inputs(problem, both, InputKind::kGauss, 3);
    const auto second = [](const std::vector<float>& x) {
      return std::vector<float>(x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
    };
    RandomInputs alone = in;
    alone.q = second(in.q);
    alone.k = second(in.k);
    alone.v = second(in.v);
    const auto whole = run_few(problem, both, in), part = run_few(problem, one, alone);
    ASSERT_TRUE(whole.ok() && part.ok());
    EXPECT_EQ(second(whole->o), part->o) << score;
  }
}

// The statistics are those of the kernels in which a block has all keys.
TEST(FewQueries, SayTheSameStatistics) {
  for (const char* score : {"lssar", "softmax", "phi=relu(x)^2,normalizer=sum_abs"}) {
    for (const int64_t keys : {0, 300}) {
      const Problem problem = make_problem(DType::kBf16, score, score[0] == 's' ? 0 : 3);
      const Sizes sizes = make_sizes(1, 4, 2, 3, keys);
      const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 3);
      CapiOptions options = few_queries();
      options.wants_row_stats = true;
      const auto split = run_few(problem, sizes, in, options);
      options.schedule_json = R"({"variant": "portable", "split_keys": 0})";
      const auto whole = run_few(problem, sizes, in, options);
      ASSERT_TRUE(split.ok() && whole.ok());
      ASSERT_EQ(split->row_stats.size(), whole->row_stats.size());
      for (size_t i = 0; i < whole->row_stats.size(); ++i)
        EXPECT_NEAR(split->row_stats[i], whole->row_stats[i],
                    4e-3 * std::abs(whole->row_stats[i]) + 1e-6)
            << score << " " << keys << " keys, number " << i;
    }
  }
}

}  // namespace
}  // namespace lssar
