// Which schedules are one candidate: those whose kernels have the same source.
#include <algorithm>
#include <set>

#include "autotune/space/dimensions.h"
#include "tests/autotune/search_space_case.h"

namespace lssar {
namespace {

using nlohmann::json;

// The first algorithm, with two values of each dimension whose values are steps of one scale. Every
// value is emitted with all combinations of the others, and a third would find what two find.
Algorithm with_few_steps(const Case& c) {
  Algorithm algorithm = c.space().algorithms[0];
  for (Dimension& dimension : algorithm.thread)
    if (dimension.name == "hopper.head_group" || dimension.name == "hopper.cluster" ||
        dimension.name == "softplus_degree")
      dimension.values.resize(std::min<size_t>(dimension.values.size(), 2));
  return algorithm;
}

TEST(SearchSpace, SchedulesOfOneSourceAreOneCandidate) {
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const Case c = make_case(pass, 64, "sm_90a");
    const Algorithm algorithm = with_few_steps(c);
    Enumeration found;
    enumerate_threads(c.problem, c.target, algorithm, algorithm.schedule, &found);
    EXPECT_GT(found.duplicates, 0u);  // the automatic split of registers, given in numbers

    std::vector<Schedule> product = {algorithm.schedule};
    for (const Dimension& dimension : algorithm.thread) {
      std::vector<Schedule> longer;
      for (const Schedule& schedule : product)
        for (const json& value : dimension.values)
          longer.push_back(*with_value(schedule, dimension, value));
      product = longer;
    }
    std::set<std::string> sources;
    uint64_t legal = 0;
    for (const Schedule& schedule : product) {
      if (!validate(schedule, c.problem, c.target).ok()) continue;
      ++legal;
      sources.insert(source_of(c, schedule));
    }
    EXPECT_EQ(sources.size(), found.candidates.size());
    EXPECT_EQ(legal, found.candidates.size() + found.duplicates);
  }
}

TEST(SearchSpace, BlockCandidatesHaveSourcesOfTheirOwn) {
  for (const Case& c :
       {make_case(Pass::kForward, 64, "sm_90a"), make_case(Pass::kBackward, 64, "sm_90a"),
        make_case(Pass::kForward, 64, "x86-64-v3")}) {
    std::set<std::string> sources;
    size_t taken = 0;
    const std::vector<Algorithm> algorithms = c.space().algorithms;
    const size_t most = 1 + 60 / algorithms.size();  // of each
    for (const Algorithm& algorithm : algorithms) {
      const Enumeration found = blocks_of(c, algorithm);
      for (size_t i = 0; i < found.candidates.size(); i += 1 + found.candidates.size() / most) {
        sources.insert(source_of(c, found.candidates[i]));
        ++taken;
      }
    }
    EXPECT_GE(taken, 20u);
    EXPECT_EQ(sources.size(), taken);
  }
}

// A candidate that is enumerated twice counts once, also across calls.
TEST(SearchSpace, ACandidateSeenBeforeIsADuplicate) {
  const Case c = make_case(Pass::kForward, 64, "sm_80");
  const Algorithm algorithm = c.space().algorithms[0];
  Enumeration found = blocks_of(c, algorithm);
  const size_t candidates = found.candidates.size();
  enumerate_blocks(c.problem, c.target, algorithm, &found);
  EXPECT_EQ(found.candidates.size(), candidates);
  EXPECT_EQ(found.duplicates, candidates);
}

// Changes every field by itself: if the canonical form ignores the change, so does the source.
TEST(SearchSpace, TheCanonicalFormForgetsOnlyWhatTheSourceDoesNotHold) {
  std::vector<Case> cases = {
      make_case(Pass::kForward, 64, "sm_90a"),    make_case(Pass::kForward, 64, "sm_80"),
      make_case(Pass::kBackward, 64, "sm_90a"),   make_case(Pass::kBackward, 64, "sm_80"),
      make_case(Pass::kForward, 64, "x86-64-v3"), make_case(Pass::kBackward, 64, "x86-64-v4")};
  int forgotten = 0;
  for (const Case& c : cases) {
    const std::vector<Algorithm> algorithms = c.space().algorithms;
    for (size_t i = 0; i < algorithms.size(); i += 3) {  // those between differ in a choice
      const Schedule base = algorithms[i].schedule;
      const std::string source = source_of(c, base);
      const json fields = to_json(base).flatten();
      for (const auto& [path, value] : fields.items()) {
        json changed = fields;
        if (value.is_boolean()) {
          changed[path] = !value.get<bool>();
        } else if (value.is_number()) {
          changed[path] = value.get<int>() + (path.find("block_") != std::string::npos ? 64 : 1);
        } else {
          continue;
        }
        const Schedule other = *schedule_from_json(changed.unflatten(), base);
        if (!validate(other, c.problem, c.target).ok()) continue;
        const bool is_same =
            canonical_schedule(other, c.problem) == canonical_schedule(base, c.problem);
        forgotten += is_same ? 1 : 0;
        EXPECT_EQ(is_same, source_of(c, other) == source) << path << " of " << to_string(base);
      }
    }
  }
  EXPECT_GT(forgotten, 20);
}

TEST(SearchSpace, OnACpuTheModeOfDqMakesAnotherCandidate) {
  const Case c = make_case(Pass::kBackward, 64, "x86-64-v3");
  Schedule ordered = c.space().algorithms[0].schedule, split = ordered;
  ordered.dq_mode = DqMode::kOrdered;
  split.dq_mode = DqMode::kSplit;
  EXPECT_FALSE(canonical_schedule(ordered, c.problem) == canonical_schedule(split, c.problem));
}

}  // namespace
}  // namespace lssar
