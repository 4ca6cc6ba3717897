#include "codegen/problem.h"

#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/field_json.h"
#include "codegen/problem_fields.h"
#include "score/known.h"
#include "score/parse.h"
#include "score/score_text.h"

namespace lssar {
namespace {

using nlohmann::json;

// What validate() says of the default problem after `change`.
Status validated(const std::function<void(Problem&)>& change) {
  Problem problem;
  change(problem);
  return validate(problem);
}

struct BadField {
  const char* name;
  std::function<void(Problem&)> change;
  const char* message;
};

class BadProblem : public ::testing::TestWithParam<BadField> {};

TEST_P(BadProblem, IsRefusedNamingFieldValueAndAllowed) {
  const Status status = validated(GetParam().change);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Validate, BadProblem,
    ::testing::Values(
        BadField{"HeadDimStep", [](Problem& p) { p.head_dim = 60; },
                 "head_dim = 60: allowed are multiples of 8 from 8 to 256"},
        BadField{"HeadDimZero", [](Problem& p) { p.head_dim = 0; },
                 "head_dim = 0: allowed are multiples of 8 from 8 to 256"},
        BadField{"HeadDimVLarge", [](Problem& p) { p.head_dim_v = 264; },
                 "head_dim_v = 264: allowed are multiples of 8 from 8 to 256"},
        BadField{"SeqQNegative", [](Problem& p) { p.seq_q = -1; },
                 "seq_q = -1: allowed are whole numbers from 0 to 2147483647"},
        BadField{"SeqKLarge", [](Problem& p) { p.seq_k = int64_t{1} << 31; },
                 "seq_k = 2147483648: allowed are whole numbers from 0 to 2147483647"},
        BadField{"BatchNegative", [](Problem& p) { p.batch = -2; },
                 "batch = -2: allowed are whole numbers from 0 to 2147483647"},
        BadField{"HeadsZero", [](Problem& p) { p.heads = 0; },
                 "heads = 0: allowed are whole numbers from 1 to 2147483647"},
        BadField{"KvHeadsZero", [](Problem& p) { p.kv_heads = 0; },
                 "kv_heads = 0: allowed are whole numbers from 1 to 2147483647"},
        BadField{"KvHeadsNoDivisor", [](Problem& p) { p.heads = 6, p.kv_heads = 4; },
                 "kv_heads = 4: allowed are divisors of heads = 6"},
        BadField{"PowerNegative", [](Problem& p) { p.p = -1; },
                 "p = -1: allowed are whole numbers from 0 to 1024"},
        BadField{"PowerLarge", [](Problem& p) { p.p = 1025; },
                 "p = 1025: allowed are whole numbers from 0 to 1024"},
        BadField{"OffsetNegative", [](Problem& p) { p.offset = -0.5; },
                 "offset = -0.5: allowed are numbers from 0 to 1000000"},
        BadField{"OffsetNan",
                 [](Problem& p) { p.offset = std::numeric_limits<double>::quiet_NaN(); },
                 "offset = nan: allowed are numbers from 0 to 1000000"},
        BadField{"OffsetInfinite",
                 [](Problem& p) { p.offset = std::numeric_limits<double>::infinity(); },
                 "offset = inf: allowed are numbers from 0 to 1000000"},
        BadField{"WindowLeftBelowNone", [](Problem& p) { p.window_left = -2; },
                 "window_left = -2: allowed are whole numbers from -1 to 2147483647"},
        BadField{"WindowRightLarge", [](Problem& p) { p.window_right = int64_t{1} << 31; },
                 "window_right = 2147483648: allowed are whole numbers from -1 to 2147483647"},
        BadField{"WindowSinksNegative", [](Problem& p) { p.window_sinks = -1; },
                 "window_sinks = -1: allowed are whole numbers from 0 to 2147483647"},
        BadField{"PrefixNegative", [](Problem& p) { p.prefix = -1; },
                 "prefix = -1: allowed are whole numbers from 0 to 2147483647"},
        BadField{"ChunkNegative", [](Problem& p) { p.chunk = -1; },
                 "chunk = -1: allowed are whole numbers from 0 to 2147483647"},
        BadField{"AlignmentBelowElement", [](Problem& p) { p.alignment = 1; },
                 "alignment = 1: allowed are powers of two from 2 (an element of bf16) to 16"},
        BadField{"AlignmentNoPower", [](Problem& p) { p.alignment = 12; },
                 "alignment = 12: allowed are powers of two from 2 (an element of bf16) to 16"},
        BadField{"AlignmentOfFp32", [](Problem& p) { p.dtype = DType::kFp32, p.alignment = 2; },
                 "alignment = 2: allowed are powers of two from 4 (an element of fp32) to 16"},
        BadField{"PassOutsideEnumeration", [](Problem& p) { p.pass = static_cast<Pass>(7); },
                 "pass = 7: allowed are forward, forward-train, backward, row-sums, weighted-sum"},
        BadField{"DTypeOutsideEnumeration", [](Problem& p) { p.dtype = static_cast<DType>(-1); },
                 "dtype = -1: allowed are fp16, bf16, fp32"},
        BadField{"GainOfSum", [](Problem& p) { p.score.normalizer_gain = 2; },
                 "score.normalizer_gain = 2: allowed are 1, or any positive number with "
                 "score.normalizer = sqrt_length"},
        BadField{
            "TensorOverflows",
            [](Problem& p) { p.batch = 1 << 30, p.heads = 1 << 20, p.seq_k = int64_t{1} << 30; },
            "batch * heads * length * head dim = 1073741824 * 1048576 * 1073741824 * 64: the "
            "largest tensor may have 2^59 elements"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Problem, DefaultIsValid) { EXPECT_TRUE(validate(Problem{}).ok()); }

TEST(Problem, ExtremesAreValid) {
  EXPECT_TRUE(validated([](Problem& p) { p.head_dim = 8, p.head_dim_v = 256; }).ok());
  EXPECT_TRUE(validated([](Problem& p) { p.p = 0; }).ok());
  EXPECT_TRUE(validated([](Problem& p) { p.p = 64, p.offset = 0; }).ok());
  EXPECT_TRUE(validated([](Problem& p) { p.seq_q = p.seq_k = (int64_t{1} << 31) - 1; }).ok());
  EXPECT_TRUE(validated([](Problem& p) { p.batch = 0; }).ok());
  EXPECT_TRUE(validated([](Problem& p) { p.heads = 8, p.kv_heads = 1; }).ok());
  EXPECT_TRUE(validated([](Problem& p) { p.alignment = 2; }).ok());
}

TEST(Problem, SinksGoWithAnExponentialOverASum) {
  Problem problem;
  problem.p = 0;
  problem.score = *parse_score("softmax,sink=per_head");
  EXPECT_TRUE(validate(problem).ok());
  problem.score.phi = Activation(*named_activation("relu"));
  EXPECT_EQ(validate(problem).message(),
            "score.sink = per_head with score.phi = relu: allowed is none, or score.phi = exp");
  problem.score = *parse_score("softmax,sink=per_head,normalizer=length");
  EXPECT_EQ(validate(problem).message(),
            "score.sink = per_head with score.normalizer = length: allowed is none, or "
            "score.normalizer = sum");
  EXPECT_EQ(parse_score("softmax,sink=per_row").status().message(),
            "score.sink = \"per_row\": allowed are none, per_head");
}

TEST(Problem, SoftCapsAndAlibi) {
  Problem problem;
  for (const double cap : {0.0, 1e-6, 50.0, 1e6}) {
    problem.score.soft_cap = cap;
    EXPECT_TRUE(validate(problem).ok()) << cap;
  }
  for (const double cap : {-1.0, 1e-7, 1e7, std::nan("")}) {
    problem.score.soft_cap = cap;
    EXPECT_EQ(
        validate(problem).message(),
        fmt::format("score.soft_cap = {}: allowed are 0, and numbers from 1e-06 to 1e+06", cap));
  }
  EXPECT_EQ(parse_score("softmax,alibi=yes").status().message(),
            "score.alibi = \"yes\": allowed are none, per_head");
  problem.score = *parse_score("softmax,soft_cap=50,alibi=per_head");
  EXPECT_THAT(to_string(problem), testing::HasSubstr("/exp/sum/1/soft_cap_50/alibi_per_head"));
  EXPECT_EQ(problem_from_json(to_json(problem))->score, problem.score);
  for (const char* name : {"soft_cap", "alibi"})
    EXPECT_FALSE(to_json(Problem())["score"].contains(name)) << name;
}

TEST(Problem, OffsetsBeyond32BitsAreValid) {
  EXPECT_TRUE(validated([](Problem& p) { p.batch = 64, p.heads = 64, p.seq_k = 1 << 20; }).ok());
}

TEST(Problem, IsPrintedOnOneLine) {
  Problem problem;
  problem.causal = true;
  problem.seq_q = problem.seq_k = 512;
  problem.heads = problem.kv_heads = 4;
  EXPECT_EQ(to_string(problem),
            "forward causal bf16 d 64 dv 64 p 15 offset 1 seq 512x512 batch 1 heads 4/4");
}

TEST(Problem, PrintsLengthsGivenAtRunTimeAndWhatIsUnusual) {
  Problem problem;
  problem.pass = Pass::kBackward;
  problem.causal = false;
  problem.offset = 0.5;
  problem.alignment = 2;
  problem.score.phi = Activation(*named_activation("relu"));
  EXPECT_EQ(
      to_string(problem),
      "backward full bf16 d 64 dv 64 p 15 offset 0.5 seq anyxany batch 1 heads 1/1 alignment 2"
      " score log_dim_log_length/none/qk_norm/relu/sum/1");
}

TEST(Problem, PrintsItsWindow) {
  Problem problem;
  problem.causal = true;
  problem.window_left = 0;
  problem.window_sinks = 4;
  problem.chunk = 64;
  EXPECT_EQ(to_string(problem),
            "forward causal window_left 0 window_sinks 4 chunk 64 bf16 d 64 dv 64 p 15 offset 1 "
            "seq anyxany batch 1 heads 1/1");
}

// The caller merges ranges, so the library cannot promise an order.
TEST(Problem, RangesAreNotInvariant) {
  Problem problem;
  problem.invariant = true;
  EXPECT_TRUE(validate(problem).ok());
  EXPECT_EQ(to_string(problem).substr(0, 24), "forward full invariant b");
  problem.pass = Pass::kRowSums;
  EXPECT_EQ(validate(problem).message(),
            "pass = row-sums: not with invariant; allowed are forward, forward-train and backward");
}

TEST(Problem, RotaryPositionsTurnEvenNumbersOfColumns) {
  Problem problem;
  problem.head_dim = 32;
  problem.rotary_dim = 32;
  problem.rotary_interleaved = true;
  EXPECT_TRUE(validate(problem).ok());
  EXPECT_EQ(to_string(problem).substr(0, 46), "forward full rotary_dim 32 rotary_interleaved ");
  const auto message = [&](int dim) {
    problem.rotary_dim = dim;
    return validate(problem).message();
  };
  EXPECT_EQ(message(34), "rotary_dim = 34: allowed are even numbers from 0 to head_dim = 32");
  EXPECT_EQ(message(7), "rotary_dim = 7: allowed are multiples of 2 from 0 to 256");
  EXPECT_EQ(message(-2), "rotary_dim = -2: allowed are multiples of 2 from 0 to 256");
  EXPECT_EQ(message(0),
            "rotary_interleaved = true with rotary_dim = 0: allowed is false, or a rotary_dim from "
            "2");
  problem.pass = Pass::kRowSums;
  EXPECT_EQ(message(2),
            "pass = row-sums: not with rotary_dim; allowed are forward, forward-train "
            "and backward");
}

// So sources, captures and tables without a window are what they were before windows.
TEST(ProblemJson, LeavesDefaultsOfWindowsOut) {
  Problem problem;
  const json plain = to_json(problem);
  for (const char* name : {"window_left", "window_right", "window_sinks", "prefix", "chunk",
                           "invariant", "rotary_dim", "rotary_interleaved"})
    EXPECT_FALSE(plain.contains(name)) << name;
  problem.window_left = 0;
  problem.window_right = 7;
  problem.window_sinks = 1;
  problem.prefix = 2;
  problem.chunk = 3;
  problem.invariant = true;
  problem.rotary_dim = 4;
  problem.rotary_interleaved = true;
  const Result<Problem> back = problem_from_json(json::parse(to_json(problem).dump()));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_TRUE(*back == problem);
}

TEST(ProblemJson, RoundTripsEveryField) {
  Problem problem;
  problem.pass = Pass::kForwardTrain;
  problem.dtype = DType::kFp16;
  problem.head_dim = 96;
  problem.head_dim_v = 128;
  problem.seq_q = 7;
  problem.seq_k = 60;
  problem.batch = 3;
  problem.heads = 8;
  problem.kv_heads = 2;
  problem.causal = false;
  problem.p = 3;
  problem.offset = 0.1;
  problem.alignment = 4;
  const Result<Problem> back = problem_from_json(json::parse(to_json(problem).dump()));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_TRUE(*back == problem);
}

TEST(ProblemJson, RoundTripsScoreFunctions) {
  Problem problem;
  problem.p = 0;
  problem.score = {.scale = {ScaleName::kNumber, 0.125},
                   .bias = {BiasName::kNegLogLength},
                   .qk_norm = false,
                   .phi = Activation(*named_activation("sigmoid")),
                   .normalizer = Normalizer::kSqrtLength,
                   .normalizer_gain = 1.5,
                   .psi = {*parse_expression("(x - b) / N",
                                             {Variable::kX, Variable::kOffset, Variable::kLength})},
                   .psi_normalizer = PsiNormalizer::kSumAbs};
  const json object = to_json(problem);
  EXPECT_EQ(object["score"]["normalizer_gain"], 1.5);
  EXPECT_EQ(object["score"]["activation"], "sigmoid");
  EXPECT_EQ(object["score"]["scale"], 0.125);
  EXPECT_EQ(object["score"]["psi"], "(x - b) / N");
  const Result<Problem> back = problem_from_json(object);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_TRUE(*back == problem);
}

TEST(ProblemJson, MissingFieldsKeepTheirDefault) {
  const Result<Problem> read = problem_from_json(json{{"p", 3}});
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read->causal);
  Problem expected;
  expected.p = 3;
  EXPECT_TRUE(*read == expected);
}

// As programs write whole numbers that went through floating point.
TEST(ProblemJson, WholeNumbersMayHaveAPoint) {
  const Result<Problem> read = problem_from_json(json{{"p", 15.0}, {"seq_q", 512.0}});
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->p, 15);
  EXPECT_EQ(read->seq_q, 512);
}

// Few queries say nothing of the keys of a cache.
TEST(ProblemJson, SequencesMayHaveAnyNumberOfKeysWhereNoneIsSaid) {
  const auto problem = problem_from_json({{"varlen", true}, {"seq_q", 4}});
  ASSERT_TRUE(problem.ok()) << problem.status().to_string();
  EXPECT_EQ(problem->seq_q, 4);
  EXPECT_EQ(problem->seq_k, 0);
  EXPECT_EQ(built_in_seq_q(*problem), 0);
  EXPECT_EQ(problem_from_json({{"varlen", true}, {"seq_q", 4}, {"seq_k", 9}})->seq_k, 9);
}

TEST(ProblemJson, KeysAndValuesAreAsTheQueriesWhereNothingElseIsSaid) {
  const Result<Problem> read =
      problem_from_json(json{{"head_dim", 128}, {"seq_q", 512}, {"heads", 8}});
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->head_dim_v, 128);
  EXPECT_EQ(read->seq_k, 512);
  EXPECT_EQ(read->kv_heads, 8);
}

struct BadJson {
  const char* name;
  const char* text;
  const char* message;
};

class BadProblemJson : public ::testing::TestWithParam<BadJson> {};

TEST_P(BadProblemJson, IsRefusedNamingTheField) {
  const Status status = problem_from_json(json::parse(GetParam().text)).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

INSTANTIATE_TEST_SUITE_P(
    Json, BadProblemJson,
    ::testing::Values(
        BadJson{"UnknownField", R"({"headdim": 64})",
                "problem.headdim is not a field: allowed are alignment, batch,"},
        BadJson{"UnknownScoreField", R"({"score": {"chi": 1}})",
                "problem.score.chi is not a field: allowed are activation, alibi, bias"},
        BadJson{"PhiNoText", R"({"score": {"phi": 1}})",
                "problem.score.phi = 1: allowed is a string"},
        BadJson{"PhiUnknown", R"({"score": {"phi": "relu(x)^2 + y"}})",
                "problem.score.phi: character 13: \"y\" is not known: allowed are x, pi"},
        BadJson{"PhiTwice", R"({"score": {"phi": "x", "activation": "relu"}})",
                "problem.score.phi and problem.score.activation: give only one"},
        BadJson{"PsiWithPower", R"({"score": {"psi": "x - b"}})",
                "score.psi = x - b with p = 15: allowed is one of them"},
        BadJson{"PsiNormalizerAlone", R"({"p": 0, "score": {"psi_normalizer": "sum"}})",
                "score.psi_normalizer = sum without score.psi: allowed is none"},
        BadJson{"ScaleUnknown", R"({"score": {"scale": "sqrt"}})",
                "problem.score.scale = \"sqrt\": allowed are log_dim_log_length, inv_sqrt_dim,"},
        BadJson{"WrongType", R"({"head_dim": "64"})",
                "problem.head_dim = \"64\": allowed are multiples of 8 from 8 to 256"},
        BadJson{"BrokenLength", R"({"seq_q": 512.5})",
                "problem.seq_q = 512.5: allowed are whole numbers from 0 to 2147483647"},
        BadJson{"FloatingLengthThatMayHaveLostDigits", R"({"seq_q": 1e16})",
                "problem.seq_q = 1e+16: allowed are whole numbers from 0 to 2147483647"},
        BadJson{
            "LengthBeyond64Bits", R"({"seq_q": 18446744073709551615})",
            "problem.seq_q = 18446744073709551615: allowed are whole numbers from 0 to 2147483647"},
        BadJson{"IntBeyond32Bits", R"({"p": 4294967311})",
                "problem.p = 4294967311: allowed are whole numbers from 0 to 1024"},
        BadJson{"CausalAsNumber", R"({"causal": 1})",
                "problem.causal = 1: allowed is true or false"},
        BadJson{"UnknownDType", R"({"dtype": "fp8"})",
                "problem.dtype = \"fp8\": allowed are fp16, bf16, fp32"},
        BadJson{"UnknownActivation", R"({"score": {"activation": "swish"}})",
                "problem.score.activation = \"swish\": allowed are softplus, exp, identity,"},
        BadJson{"NameOfWrongType", R"({"pass": 1})", "problem.pass = 1: allowed is a string"},
        BadJson{"ScoreNoObject", R"({"score": "lssa"})",
                "problem.score = \"lssa\": allowed is a JSON object"},
        BadJson{"NoObject", R"([1, 2])", "problem = [1,2]: allowed is a JSON object"},
        BadJson{"OutOfRange", R"({"head_dim": 7})",
                "head_dim = 7: allowed are multiples of 8 from 8 to 256"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ProblemNames, OfPassesAndDTypesGoBothWays) {
  for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
    EXPECT_EQ(*parse_pass(pass_name(pass)), pass);
  }
  for (DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
    EXPECT_EQ(*parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("half").status().message(),
            "dtype = \"half\": allowed are fp16, bf16, fp32");
}

TEST(ProblemNames, DTypeBytes) {
  EXPECT_EQ(dtype_bytes(DType::kFp16), 2);
  EXPECT_EQ(dtype_bytes(DType::kBf16), 2);
  EXPECT_EQ(dtype_bytes(DType::kFp32), 4);
}

}  // namespace
}  // namespace lssar
