#include "autotune/space/search_space.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "autotune/space/dimensions.h"
#include "tests/autotune/search_space_case.h"

namespace lssar {
namespace {

using nlohmann::json;

std::vector<Case> many_cases() {
  std::vector<Case> cases;
  for (const char* target : {"sm_80", "sm_90a", "sm_120"})
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward})
      for (const int dim : {40, 64, 128, 256}) cases.push_back(make_case(pass, dim, target));
  for (const char* target : {"x86-64-v3", "x86-64-v4"})
    for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward})
      for (const int dim : {64, 128}) cases.push_back(make_case(pass, dim, target));
  cases.push_back(make_case(Pass::kForward, 64, "sm_90a", DType::kFp16));
  cases.push_back(make_case(Pass::kForwardTrain, 128, "sm_90a", DType::kFp32));
  Case unaligned = make_case(Pass::kForward, 64, "sm_90a");
  unaligned.problem.alignment = 2;
  cases.push_back(unaligned);
  Case repeatable = make_case(Pass::kBackward, 64, "sm_90a");
  repeatable.determinism = Determinism::kRepeatable;
  cases.push_back(repeatable);
  Case square = make_case(Pass::kForwardTrain, 64, "sm_90a");
  square.problem.p = 1;
  cases.push_back(square);
  return cases;
}

const Dimension* dimension_named(const std::vector<Dimension>& dimensions,
                                 const std::string& name) {
  for (const Dimension& dimension : dimensions)
    if (dimension.name == name) return &dimension;
  return nullptr;
}

const Algorithm* algorithm_named(const SearchSpace& space, const std::string& name) {
  for (const Algorithm& algorithm : space.algorithms)
    if (algorithm.name == name) return &algorithm;
  return nullptr;
}

TEST(SearchSpace, TheDefaultScheduleIsTheFirstCandidate) {
  for (const Case& c : many_cases()) {
    const SearchSpace space = c.space();
    ASSERT_FALSE(space.algorithms.empty()) << to_string(c.problem);
    EXPECT_EQ(space.algorithms[0].schedule, default_schedule(c.problem, c.target, c.determinism))
        << to_string(c.problem) << c.target.name();
    for (const Algorithm& algorithm : space.algorithms) {
      Algorithm one = algorithm;  // the first of each dimension; the whole product is not needed
      for (Dimension& dimension : one.block) dimension.values.resize(1);
      const Enumeration found = blocks_of(c, one);
      ASSERT_EQ(found.candidates.size(), 1u)
          << to_string(c.problem) << " " << c.target.name() << " " << algorithm.name;
      EXPECT_EQ(found.candidates[0], algorithm.schedule);
    }
  }
}

TEST(SearchSpace, EveryCombinationIsACandidateADuplicateOrRejected) {
  for (const Case& c : many_cases()) {
    for (const Algorithm& algorithm : c.space().algorithms) {
      uint64_t product = 1, reported = 0;
      for (const Dimension& dimension : algorithm.block) product *= dimension.values.size();
      Enumeration found;
      found.on_rejected = [&](const Schedule&, std::string_view) { ++reported; };
      enumerate_blocks(c.problem, c.target, algorithm, &found);
      EXPECT_EQ(found.combinations, product);
      EXPECT_EQ(found.combinations, found.candidates.size() + found.duplicates + found.rejected());
      EXPECT_EQ(reported, found.rejected());
      EXPECT_LE(product, 60000u) << algorithm.name << " of " << to_string(c.problem);
    }
  }
}

TEST(SearchSpace, IsTheSameEveryTime) {
  const Case c = make_case(Pass::kForwardTrain, 128, "sm_90a");
  EXPECT_EQ(to_json(c.space()), to_json(c.space()));
  const Algorithm algorithm = c.space().algorithms[0];
  EXPECT_EQ(blocks_of(c, algorithm).candidates, blocks_of(c, algorithm).candidates);
}

TEST(SearchSpace, EveryValueIsOneOfItsField) {
  for (const Case& c : many_cases()) {
    for (const Algorithm& algorithm : c.space().algorithms) {
      for (const auto* level : {&algorithm.block, &algorithm.thread}) {
        for (const Dimension& dimension : *level) {
          std::set<json> distinct(dimension.values.begin(), dimension.values.end());
          EXPECT_EQ(distinct.size(), dimension.values.size()) << dimension.name;
          EXPECT_FALSE(dimension.why.empty()) << dimension.name;
          for (const json& value : dimension.values)
            EXPECT_TRUE(with_value(algorithm.schedule, dimension, value).ok())
                << dimension.name << " " << value;
        }
      }
    }
  }
}

TEST(SearchSpace, AWrongValueIsAnErrorThatNamesTheField) {
  const Dimension cols{"forward.block_cols", Level::kBlock, {}, ""};
  EXPECT_NE(with_value({}, cols, "wide").status().message().find("forward.block_cols"),
            std::string::npos);
  const Dimension pair{
      "hopper.producer_registers+hopper.consumer_registers", Level::kThread, {}, ""};
  EXPECT_FALSE(with_value({}, pair, 24).ok());
  EXPECT_FALSE(with_value({}, pair, {24}).ok());
  const Result<Schedule> both = with_value({}, pair, {24, 240});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->hopper.producer_registers, 24);
  EXPECT_EQ(both->hopper.consumer_registers, 240);
}

// Every rule of validate that the table's values can break, for some problem.
TEST(SearchSpace, RejectsByEveryRuleAndSaysWhy) {
  std::map<std::string, std::string> reasons;
  std::vector<Case> cases = many_cases();
  for (const Case& c : cases) {
    const SearchSpace space = c.space();
    for (const auto& excluded : space.excluded)
      reasons.emplace(rule_of(excluded.reason), excluded.reason);
    for (const Algorithm& algorithm : space.algorithms) {
      Enumeration found;
      std::set<std::string> rules;
      found.on_rejected = [&](const Schedule& schedule, std::string_view rule) {
        if (!rules.emplace(rule).second) return;
        const Breach breach = find_rejection(schedule, c.problem, c.target);
        ASSERT_FALSE(breach.ok());
        EXPECT_EQ(breach.rule(), rule);
        EXPECT_EQ(rule_of(breach.reason()), rule) << breach.reason();
        reasons.emplace(rule, breach.reason());
      };
      enumerate_blocks(c.problem, c.target, algorithm, &found);
      enumerate_threads(c.problem, c.target, algorithm, algorithm.schedule, &found);
    }
  }
  for (const char* rule : {"variant",
                           "dq_mode",
                           "split_dkdv",
                           "load_path",
                           "block_dv",
                           "forward",
                           "forward.block_rows",
                           "forward.min_blocks",
                           "forward.registers",
                           "dkdv",
                           "dkdv.block_rows",
                           "dkdv.block_cols",
                           "dkdv.min_blocks",
                           "dkdv.registers",
                           "dq",
                           "dq.block_rows",
                           "dq.min_blocks",
                           "dq.registers",
                           "cpu.block_keys",
                           "hopper.ping_pong",
                           "hopper.queries_in_registers",
                           "hopper.consumer_registers"}) {
    ASSERT_EQ(reasons.count(rule), 1u) << rule;
    EXPECT_GT(reasons[rule].size(), std::string(rule).size() + 20) << reasons[rule];
  }
}

TEST(SearchSpace, ADimensionOfOneValueChangesNothing) {
  const Case c = make_case(Pass::kForward, 128, "sm_90a");
  Algorithm algorithm = c.space().algorithms[0];
  const std::vector<Schedule> before = blocks_of(c, algorithm).candidates;
  algorithm.block.insert(
      algorithm.block.begin() + 2,
      {"softplus_degree", Level::kBlock, {algorithm.schedule.softplus_degree}, ""});
  EXPECT_EQ(blocks_of(c, algorithm).candidates, before);
}

TEST(SearchSpace, AnotherValueAddsCandidatesAndTakesNoneAway) {
  const Case c = make_case(Pass::kBackward, 64, "sm_90a");
  const SearchSpace space = c.space();
  const Algorithm* found = algorithm_named(space, "hopper, dq atomic, static");
  ASSERT_NE(found, nullptr);
  Algorithm algorithm = *found;
  const std::vector<Schedule> before = blocks_of(c, algorithm).candidates;
  for (Dimension& dimension : algorithm.block)
    if (dimension.name == "dkdv.stages") dimension.values.push_back(5);
  const std::vector<Schedule> after = blocks_of(c, algorithm).candidates;
  EXPECT_GT(after.size(), before.size());
  for (const Schedule& schedule : before)
    EXPECT_NE(std::find(after.begin(), after.end(), schedule), after.end());
}

TEST(SearchSpace, AtomicSumsNeedDeterminismAny) {
  Case c = make_case(Pass::kBackward, 64, "sm_90a");
  EXPECT_NE(algorithm_named(c.space(), "hopper, dq atomic, static"), nullptr);
  c.determinism = Determinism::kRepeatable;
  const SearchSpace space = c.space();
  for (const Algorithm& algorithm : space.algorithms)
    EXPECT_NE(algorithm.schedule.dq_mode, DqMode::kAtomic) << algorithm.name;
  const auto says_why = [](const auto& excluded) {
    return excluded.name == "portable, dq atomic" &&
           excluded.reason.find("repeatable") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(space.excluded.begin(), space.excluded.end(), says_why));
}

TEST(SearchSpace, OrderedSumsAreForEverybody) {
  Case c = make_case(Pass::kBackward, 64, "sm_90a");
  c.determinism = Determinism::kRepeatable;
  const SearchSpace space = c.space();
  const Algorithm* ordered = algorithm_named(space, "hopper, dq ordered, static");
  ASSERT_NE(ordered, nullptr);
  EXPECT_EQ(ordered->schedule.dq_mode, DqMode::kOrdered);
  EXPECT_EQ(dimension_named(ordered->block, "dq.block_cols"), nullptr);
  EXPECT_GT(blocks_of(c, *ordered).candidates.size(), 1u);
  EXPECT_NE(algorithm_named(space, "portable, dq ordered"), nullptr);
  // Its blocks take their work tiles when they start.
  EXPECT_EQ(algorithm_named(space, "hopper, dq ordered, persistent"), nullptr);
}

// If o and X do not fit in registers together, X costs the forward more than its product.
TEST(SearchSpace, EpsilonByPassIsForHeadsThatAreWide) {
  const Case wide = make_case(Pass::kBackward, 256, "sm_80");
  const SearchSpace space = wide.space();
  const Algorithm* split =
      algorithm_named(space, "portable, dq split, dk and dv apart, epsilon by pass");
  ASSERT_NE(split, nullptr) << describe(space).substr(0, 2000);
  EXPECT_EQ(split->schedule.epsilon, EpsilonFrom::kPass);
  // Its kernel has the tiles of dq if no dq kernel has.
  const Algorithm* atomic =
      algorithm_named(space, "portable, dq atomic, dk and dv apart, epsilon by pass");
  ASSERT_NE(atomic, nullptr);
  EXPECT_NE(dimension_named(atomic->block, "dq.block_cols"), nullptr);
  EXPECT_GT(blocks_of(wide, *atomic).candidates.size(), 1u);
  for (const char* target : {"sm_80", "sm_90a"}) {
    for (const Algorithm& narrow : make_case(Pass::kBackward, 128, target).space().algorithms)
      EXPECT_EQ(narrow.schedule.epsilon, EpsilonFrom::kX) << narrow.name;
  }
  // The forward follows the backward and has no choice of its own.
  for (const Algorithm& forward : make_case(Pass::kForwardTrain, 256, "sm_80").space().algorithms)
    EXPECT_EQ(forward.choices.count("epsilon"), 0u) << forward.name;
}

TEST(SearchSpace, APassHasOnlyTheDimensionsThatMeanSomethingToIt) {
  const Algorithm forward = make_case(Pass::kForward, 64, "sm_90a").space().algorithms[0];
  EXPECT_EQ(dimension_named(forward.block, "dkdv.block_cols"), nullptr);
  EXPECT_NE(dimension_named(forward.block, "hopper.score_cols"), nullptr);
  const SearchSpace backward = make_case(Pass::kBackward, 64, "sm_90a").space();
  const Algorithm* atomic = algorithm_named(backward, "hopper, dq atomic, static");
  ASSERT_NE(atomic, nullptr);
  for (const char* name : {"dq.block_cols", "hopper.overlap", "forward.stages", "block_dv"})
    EXPECT_EQ(dimension_named(atomic->block, name), nullptr) << name;
  EXPECT_NE(dimension_named(atomic->block, "hopper.sum_path"), nullptr);
  const Algorithm* split = algorithm_named(backward, "hopper, dq split, persistent");
  ASSERT_NE(split, nullptr);
  EXPECT_EQ(dimension_named(split->block, "hopper.sum_path"), nullptr);
  EXPECT_NE(dimension_named(atomic->thread, "hopper.evaluator"), nullptr);
  EXPECT_NE(dimension_named(split->block, "hopper.overlap"), nullptr);
  const SearchSpace ampere = make_case(Pass::kForward, 64, "sm_80").space();
  for (const Algorithm& algorithm : ampere.algorithms)
    for (const Dimension& dimension : algorithm.block)
      EXPECT_NE(dimension.name.rfind("hopper.", 0), 0u) << dimension.name;
}

// Packing heads is an algorithm of its own if heads share keys. A backward has none.
TEST(SearchSpace, HeadsThatShareKeysMayBePacked) {
  Case c = make_case(Pass::kForward, 64, "sm_80");
  EXPECT_EQ(algorithm_named(c.space(), "portable, heads packed"), nullptr);
  c.problem.heads = 8;
  const SearchSpace shared = c.space();
  const Algorithm* packed = algorithm_named(shared, "portable, heads packed");
  ASSERT_NE(packed, nullptr);
  EXPECT_TRUE(packed->schedule.pack_gqa);
  EXPECT_FALSE(shared.algorithms[0].schedule.pack_gqa);
  c.target = *target_from_name("sm_90a");
  EXPECT_NE(algorithm_named(c.space(), "hopper, persistent, heads packed"), nullptr);
  c.problem.pass = Pass::kBackward;
  for (const Algorithm& algorithm : c.space().algorithms)
    EXPECT_FALSE(algorithm.schedule.pack_gqa) << algorithm.name;
}

// Chunks of few queries' keys are searched, and beside them the kernels in which a block has all.
TEST(SearchSpace, KeysOfFewQueriesMayBeDivided) {
  Case c = make_case(Pass::kForward, 64, "sm_90a");
  c.problem.seq_q = 1;
  c.problem.seq_k = 4096;
  c.problem.heads = 8;
  const SearchSpace space = c.space();
  const Algorithm* split = algorithm_named(space, "portable, heads packed");
  ASSERT_NE(split, nullptr);
  EXPECT_NE(dimension_named(split->block, "split_keys"), nullptr);
  EXPECT_EQ(split->schedule.split_keys, 512);
  const Algorithm* whole = algorithm_named(space, "hopper, persistent, heads packed");
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(dimension_named(whole->block, "split_keys"), nullptr);
  EXPECT_EQ(whole->schedule.split_keys, 0);
}

TEST(SearchSpace, KeysOfFewQueriesOfSequencesMayBeDivided) {
  Case c = make_case(Pass::kForward, 64, "sm_80");
  c.problem.varlen = true;
  c.problem.seq_q = 16;
  const SearchSpace space = c.space();
  ASSERT_FALSE(space.algorithms.empty());
  EXPECT_NE(dimension_named(space.algorithms[0].block, "split_keys"), nullptr);
}

TEST(SearchSpace, SaysWhatIsExcludedAndWhy) {
  const SearchSpace ampere = make_case(Pass::kForward, 64, "sm_80").space();
  ASSERT_EQ(ampere.excluded.size(), 1u);
  EXPECT_EQ(ampere.excluded[0].name, "hopper");
  EXPECT_NE(ampere.excluded[0].reason.find("sm_90a"), std::string::npos);
  // dk and a consumer's dq take more registers than there are, with any tiles.
  const SearchSpace wide = make_case(Pass::kBackward, 256, "sm_90a").space();
  EXPECT_EQ(algorithm_named(wide, "hopper, dq atomic, dk and dv apart, static"), nullptr);
}

// d 192, atomic: the default's 128 keys per block are too many; 64 are not.
TEST(SearchSpace, AnAlgorithmWhoseDefaultTilesAreTooLargeStartsFromOthers) {
  const Case c = make_case(Pass::kBackward, 192, "sm_90a");
  const SearchSpace space = c.space();
  const Algorithm* atomic =
      algorithm_named(space, "hopper, dq atomic, dk and dv apart, persistent");
  ASSERT_NE(atomic, nullptr);
  EXPECT_EQ(atomic->schedule.dkdv.block_rows, 64);
  EXPECT_TRUE(validate(atomic->schedule, c.problem, c.target).ok());
}

TEST(SearchSpace, FindsTheAlgorithmOfASchedule) {
  for (const Case& c :
       {make_case(Pass::kBackward, 64, "sm_90a"), make_case(Pass::kForward, 64, "sm_90a")}) {
    const SearchSpace space = c.space();
    for (const Algorithm& algorithm : space.algorithms)
      EXPECT_EQ(algorithm_of(space, algorithm.schedule), &algorithm) << algorithm.name;
  }
  const Case hopper = make_case(Pass::kForward, 64, "sm_90a");
  const SearchSpace ampere = make_case(Pass::kForward, 64, "sm_80").space();
  EXPECT_EQ(algorithm_of(ampere, default_schedule(hopper.problem, hopper.target)), nullptr);
}

TEST(SearchSpace, ThreadsStartFromTheBaseGiven) {
  const Case c = make_case(Pass::kForward, 64, "sm_90a");
  const Algorithm algorithm = c.space().algorithms[0];
  Schedule base = algorithm.schedule;
  base.forward.block_cols = 96;
  base.hopper.evaluator = Evaluator::kShort;
  Enumeration found;
  enumerate_threads(c.problem, c.target, algorithm, base, &found);
  ASSERT_FALSE(found.candidates.empty());
  EXPECT_EQ(found.candidates[0], base);
  for (const Schedule& schedule : found.candidates) EXPECT_EQ(schedule.forward, base.forward);
}

TEST(SearchSpace, DegreesSuitTheType) {
  const auto degrees = [](DType dtype, int p) {
    Case c = make_case(Pass::kForward, 64, "sm_80", dtype);
    c.problem.p = p;
    const SearchSpace space = c.space();
    return dimension_named(space.algorithms[0].thread, "softplus_degree")->values;
  };
  for (const json& degree : degrees(DType::kBf16, 15)) EXPECT_GE(degree, 4);
  for (const json& degree : degrees(DType::kFp32, 15)) EXPECT_GE(degree, 6);
  EXPECT_EQ(degrees(DType::kBf16, 1), std::vector<json>{8});
}

TEST(SearchSpace, DescribesEveryDimension) {
  const SearchSpace space = make_case(Pass::kBackward, 64, "sm_90a").space();
  const std::string text = describe(space);
  for (const Dimension& dimension : space.algorithm_dimensions)
    EXPECT_NE(text.find(dimension.name + " ["), std::string::npos) << dimension.name;
  for (const Algorithm& algorithm : space.algorithms)
    for (const Dimension& dimension : algorithm.block)
      EXPECT_NE(text.find(dimension.why), std::string::npos) << dimension.name;
  EXPECT_EQ(to_json(space)["algorithms"].size(), space.algorithms.size());
  EXPECT_EQ(to_json(space)["algorithms"][0]["block"][0]["level"], "block");
}

TEST(SearchSpace, TheRuleIsTheFieldAMessageBeginsWith) {
  EXPECT_EQ(rule_of("schedule.forward.block_rows = 80: allowed are"), "forward.block_rows");
  EXPECT_EQ(rule_of("schedule.dkdv: its tiles take"), "dkdv");
  EXPECT_EQ(rule_of("schedule.load_path = cp_async: it"), "load_path");
}

TEST(SearchSpace, WhatWouldSpillForCertainIsNotWorthATry) {
  const Case c = make_case(Pass::kForward, 128, "sm_90a");
  Schedule schedule = default_schedule(c.problem, c.target);
  EXPECT_TRUE(check_worth(schedule, c.problem, c.target).ok());
  // Scores in flight, the last tile's rounded weights, and o: 128 + 64 + 64 of 240.
  schedule.forward.block_cols = 256;
  const Breach breach = check_worth(schedule, c.problem, c.target);
  ASSERT_FALSE(breach.ok());
  EXPECT_EQ(breach.rule(), "forward.registers");
  EXPECT_NE(breach.reason().find("256"), std::string::npos) << breach.reason();
  schedule.hopper.weights_from = WeightsFrom::kShared;
  EXPECT_TRUE(check_worth(schedule, c.problem, c.target).ok());
}

}  // namespace
}  // namespace lssar
