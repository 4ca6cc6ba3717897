// The lengths of a call's sequences: what stands for them, their JSON, and what the cost model
// makes of them.
#include "autotune/table/sequence_lengths.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autotune/model/cost_model.h"
#include "autotune/model/problem_figures.h"
#include "tests/autotune/sample_records.h"

namespace lssar {
namespace {

Problem varlen_problem(Pass pass = Pass::kForward) {
  Problem problem = sample_problem(pass);
  problem.varlen = true;
  return problem;
}

SequenceLengths of(const std::vector<int64_t>& all) { return {all, all}; }

TEST(SequenceLengths, AreEvenlyShorterIfNobodyGaveThem) {
  const Sizes sizes = {4, 8, 8, 100, 4096};
  const SequenceLengths even = even_lengths(varlen_problem(), sizes);
  EXPECT_EQ(even.q, (std::vector<int64_t>{25, 50, 75, 100}));
  EXPECT_EQ(even.k, (std::vector<int64_t>{1024, 2048, 3072, 4096}));
  EXPECT_EQ(sizes_of_call(even, 8, 8), sizes);
  EXPECT_EQ(sizes_of_packed(even, sizes), (Sizes{1, 8, 8, 250, 10240}));
  EXPECT_EQ(sizes_of_sequence(even, 1, sizes), (Sizes{1, 8, 8, 50, 2048}));
  EXPECT_TRUE(even_lengths(sample_problem(), sizes).empty());
  EXPECT_EQ(sizes_of_packed({}, sizes), sizes);
  const SequenceLengths decode = even_lengths(varlen_problem(), {3, 8, 8, 1, 900});
  EXPECT_EQ(to_string(decode), "1:300,1:600,1:900");
}

TEST(SequenceLengths, SurviveJson) {
  const SequenceLengths lengths = {{5, 0, 300}, {7, 3, 300}};
  EXPECT_EQ(to_string(lengths), "5:7,0:3,300:300");
  EXPECT_EQ(to_string(of({5, 0})), "5,0");
  const auto again = lengths_from_json(to_json(lengths), "lengths");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, lengths);
  for (const char* bad : {R"({"q":[1]})", R"({"q":[1],"k":[-1]})", R"({"q":[1],"k":[1.5]})",
                          R"({"q":1,"k":[1]})", R"({"q":[1],"k":[1],"x":1})"})
    EXPECT_FALSE(lengths_from_json(nlohmann::json::parse(bad), "lengths").ok()) << bad;
}

TEST(SequenceLengths, AgreeWithTheProblemAndTheSizes) {
  const Sizes sizes = {2, 8, 8, 300, 300};
  Problem problem = varlen_problem();
  EXPECT_TRUE(check_lengths(problem, sizes, of({300, 5})).ok());
  EXPECT_FALSE(check_lengths(problem, sizes, {}).ok());
  EXPECT_FALSE(check_lengths(sample_problem(), sizes, of({300, 5})).ok());
  EXPECT_TRUE(check_lengths(sample_problem(), sizes, {}).ok());
  EXPECT_FALSE(check_lengths(problem, sizes, of({299, 5})).ok());
  EXPECT_FALSE(check_lengths(problem, sizes, of({300, 5, 1})).ok());
  EXPECT_FALSE(check_lengths(problem, sizes, of({300, -1})).ok());
  EXPECT_FALSE(check_lengths(problem, sizes, {{300, 5}, {300}}).ok());
  const std::vector<int64_t> many(kMostSequences + 1, 1);
  EXPECT_EQ(check_lengths(problem, {kMostSequences + 1, 8, 8, 1, 1}, of(many)).message(),
            "lengths: 1048577 sequences; allowed are 1 to 1048576");
  const SequenceLengths fewer_keys = {{300, 5}, {300, 4}};
  EXPECT_TRUE(check_lengths(problem, sizes, fewer_keys).ok());
  problem.rotary_dim = 32;
  EXPECT_EQ(check_lengths(problem, sizes, fewer_keys).message(),
            "lengths[1] = 5:4: allowed with rotary_dim are 0 to 4 queries, because query i stands "
            "at position i + keys - queries");
}

// Estimates of the default schedule.
class VarlenCost : public testing::TestWithParam<const char*> {
 protected:
  Target target() const { return *target_from_name(GetParam()); }
  double ms(const Problem& problem, const Sizes& sizes, const SequenceLengths& lengths) const {
    const DeviceModel model = target().is_cpu() ? DeviceModel(typical_cpu_model(target(), "", 2))
                                                : DeviceModel(*gpu_model(GetParam()));
    Problem varlen = problem;
    varlen.varlen = true;
    const Schedule schedule = default_schedule(varlen, target());
    return estimate_cost(problem, sizes, schedule, target(), model, lengths).ms;
  }
  double ms(Pass pass, const SequenceLengths& lengths) const {
    return ms(varlen_problem(pass), sizes_of_call(lengths, 8, 8), lengths);
  }
};

TEST_P(VarlenCost, OfEqualSequencesIsThatOfABatch) {
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const double batch = ms(sample_problem(pass), {4, 8, 8, 2048, 2048}, {});
    EXPECT_NEAR(ms(pass, of({2048, 2048, 2048, 2048})) / batch, 1, 0.15) << pass_name(pass);
  }
}

TEST_P(VarlenCost, IsTheSumOfItsSequences) {
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const double all = ms(pass, of({4096, 300, 1000, 2048, 17}));
    EXPECT_EQ(ms(pass, of({17, 2048, 1000, 0, 300, 4096})), all);  // in any order
    double alone = 0;
    for (const int64_t length : {4096, 2048, 1000, 300, 17}) alone += ms(pass, of({length}));
    EXPECT_LT(all, alone);  // which has more launches, and more SMs without work
    EXPECT_GT(all, ms(pass, of({4096, 2048})));
    EXPECT_LT(all, ms(pass, of({4096, 4096, 4096, 4096, 4096})));
  }
}

TEST_P(VarlenCost, OfManyLengthsIsNearThatOfAll) {
  SequenceLengths many, rough;
  for (int64_t b = 1; b <= 64; ++b) many.add(64 * b, 64 * b);
  const Problem problem = varlen_problem();
  EXPECT_LE(parts_of_call(problem, sizes_of_call(many, 8, 8), many).size(), 8u);
  // As eight batches, by hand.
  for (int64_t b = 1; b <= 64; ++b) {
    const int64_t mean = 512 * ((b - 1) / 8) + 288;
    rough.add(mean, mean);
  }
  EXPECT_NEAR(ms(Pass::kForward, many) / ms(Pass::kForward, rough), 1, 0.02);
}

TEST_P(VarlenCost, WithoutLengthsTakesEvenOnes) {
  const Sizes sizes = {4, 8, 8, 4096, 4096};
  EXPECT_EQ(ms(varlen_problem(), sizes, {}), ms(Pass::kForward, of({1024, 2048, 3072, 4096})));
}

// A plan may be for any number of sequences. Its estimates list few of them.
TEST_P(VarlenCost, OfAnyNumberOfSequencesGrowsWithIt) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const Sizes all = {kMost, 8, 8, 512, 512}, half = {kMost / 2, 8, 8, 512, 512};
  EXPECT_NEAR(ms(varlen_problem(), all, {}) / ms(varlen_problem(), half, {}), 2, 0.01);
  const Sizes listed = {1536, 8, 8, 512, 512};
  EXPECT_NEAR(ms(varlen_problem(), listed, {}) /
                  ms(varlen_problem(), listed, even_lengths(varlen_problem(), listed)),
              1, 0.02);
}

INSTANTIATE_TEST_SUITE_P(All, VarlenCost, testing::Values("x86-64-v3", "sm_80", "sm_90a"),
                         [](const auto& p) {
                           std::string name = p.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace lssar
