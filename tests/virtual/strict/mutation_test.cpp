// Every mutant of our kernels, each with one synchronisation taken away or changed, is found out in
// at least one of ten seeds: by a report of the strict mode, or by wrong numbers. Those that are
// not are listed in mutation_survivors.h, with the reason, and run with one of the seeds in turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/virtual/strict/mutate.h"
#include "tests/virtual/strict/mutation_subject.h"
#include "tests/virtual/strict/mutation_survivors.h"
#include "tests/virtual/strict/replica.h"
#include "virtual/run/module.h"

namespace lssar::test {
namespace {

constexpr uint64_t kSeeds = 10;

bool is_found_by(uint64_t seed, const Subject& subject, const std::string& text,
                 const std::string& target) {
  const auto device = open_strict_device(target, seed);
  const Result<std::string> difference = subject.run(*device, text);
  return !difference.ok() || !difference->empty();
}

bool is_found_out(const Subject& subject, const std::string& text, const std::string& target) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    if (is_found_by(seed, subject, text, target)) return true;
  return false;
}

// Whether a kernel of the text can be launched.
bool can_run(const std::string& text, const std::string& entry, const std::string& target) {
  Image image;
  image.bytes = text;
  const auto device = open_strict_device(target, 0);
  const auto module = device->load(image);
  if (!module.ok()) return false;
  const auto function = (*module)->function(entry);
  return function.ok() && dynamic_cast<const vdev::Function&>(**function).program().refusal.ok();
}

bool is_wanted(const Subject& subject, const Mutant& mutant) {
  const std::vector<std::string>& opcodes = subject.opcodes;
  return (subject.only.empty() || mutant.entry == subject.only) &&
         (opcodes.empty() || std::any_of(opcodes.begin(), opcodes.end(), [&](const auto& prefix) {
            return mutant.opcode.starts_with(prefix);
          }));
}

void check_subject(const Subject& subject, const std::string& target) {
  ASSERT_FALSE(is_found_out(subject, subject.ptx, target)) << "the subject itself is reported";
  const std::vector<Mutant> mutants = make_mutants(subject.ptx);
  uint64_t num_mutants = 0;
  std::set<std::string> expected;
  for (const Survivor& survivor : kSurvivors) {
    if (subject.name == survivor.subject) expected.insert(survivor.mutant);
  }
  std::set<std::string> survivors;
  for (const Mutant& mutant : mutants) {
    if (!is_wanted(subject, mutant)) continue;
    ++num_mutants;
    // Else it would be found out whatever it is.
    EXPECT_TRUE(can_run(mutant.text, mutant.entry, target)) << mutant.name;
    // A listed survivor is a whole run with every seed, and nearly all that are found are found by
    // the first. The same reason stands for many, which get different seeds.
    const bool is_found = expected.count(mutant.name)
                              ? is_found_by(num_mutants % kSeeds, subject, mutant.text, target)
                              : is_found_out(subject, mutant.text, target);
    if (!is_found) survivors.insert(mutant.name);
  }
  EXPECT_GT(num_mutants, 0u);
  for (const std::string& name : survivors) {
    EXPECT_TRUE(expected.count(name)) << "not found out: " << name;
  }
  for (const std::string& name : expected) {
    EXPECT_TRUE(survivors.count(name)) << "listed, but found out or no mutant: " << name;
  }
}

class OwnMutationTest : public testing::TestWithParam<OwnKernel> {};

TEST_P(OwnMutationTest, EveryMutantIsFoundOut) {
  const Result<Subject> subject = own_subject(GetParam());
  ASSERT_TRUE(subject.ok()) << subject.status().to_string();
  check_subject(*subject, GetParam().target);
}

INSTANTIATE_TEST_SUITE_P(All, OwnMutationTest, testing::ValuesIn(own_kernels()),
                         [](const auto& p) { return std::string(p.param.name); });

class ReplicaMutationTest : public testing::TestWithParam<Replica> {};

TEST_P(ReplicaMutationTest, EveryMutantIsFoundOut) {
  check_subject(replica_subject(GetParam().entry), "sm_90a");
}

INSTANTIATE_TEST_SUITE_P(All, ReplicaMutationTest, testing::ValuesIn(replicas()),
                         [](const auto& p) { return std::string(p.param.entry); });

}  // namespace
}  // namespace lssar::test
