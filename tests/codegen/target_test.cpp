#include "codegen/target.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lssar {
namespace {

using nlohmann::json;

// Opt-in shared memory per block, per SM, and threads per SM, from the CUDA programming guide.
struct Limits {
  const char* name;
  int block_bytes, sm_bytes, threads;
};

class TargetLimits : public ::testing::TestWithParam<Limits> {};

TEST_P(TargetLimits, AreThoseOfTheArchitecture) {
  const Result<Target> target = target_from_name(GetParam().name);
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  EXPECT_EQ(target->name(), GetParam().name);
  EXPECT_EQ(target->shared_bytes_per_block, GetParam().block_bytes);
  EXPECT_EQ(target->shared_bytes_per_sm, GetParam().sm_bytes);
  EXPECT_EQ(target->threads_per_sm, GetParam().threads);
  EXPECT_EQ(target->registers_per_thread, 255);
  EXPECT_EQ(target->registers_per_sm, 65536);
}

INSTANTIATE_TEST_SUITE_P(
    Known, TargetLimits,
    ::testing::Values(
        Limits{"sm_80", 166912, 167936, 2048}, Limits{"sm_86", 101376, 102400, 1536},
        Limits{"sm_87", 166912, 167936, 1536}, Limits{"sm_89", 101376, 102400, 1536},
        Limits{"sm_90", 232448, 233472, 2048}, Limits{"sm_90a", 232448, 233472, 2048},
        Limits{"sm_100", 232448, 233472, 2048}, Limits{"sm_100a", 232448, 233472, 2048},
        Limits{"sm_103", 232448, 233472, 2048}, Limits{"sm_120", 101376, 102400, 1536},
        Limits{"sm_120a", 101376, 102400, 1536}, Limits{"sm_121", 101376, 102400, 1536}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Target, EveryKnownNameIsUnderstood) {
  ASSERT_FALSE(known_target_names().empty());
  for (const std::string& name : known_target_names()) {
    const Result<Target> target = target_from_name(name);
    ASSERT_TRUE(target.ok()) << name;
    EXPECT_EQ(target->name(), name);
  }
}

TEST(Target, UnknownNameListsTheKnownOnes) {
  const Status status = target_from_name("sm_75").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().find("target = \"sm_75\": allowed are sm_80, sm_86, "), 0u)
      << status.message();
}

TEST(TargetForCapability, ExactMatchTakesTheArchitectureSpecificTarget) {
  EXPECT_EQ(target_for_capability(8, 0)->name(), "sm_80");
  EXPECT_EQ(target_for_capability(9, 0)->name(), "sm_90a");
}

TEST(TargetForCapability, NewerMinorTakesTheHighestKnownThatRunsThere) {
  EXPECT_EQ(target_for_capability(8, 5)->name(), "sm_80");
  EXPECT_EQ(target_for_capability(9, 5)->name(), "sm_90");
  EXPECT_EQ(target_for_capability(12, 9)->name(), "sm_121");
}

TEST(TargetForCapability, RefusesWhatIsTooOldOrUnknown) {
  EXPECT_EQ(target_for_capability(7, 5).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(target_for_capability(7, 5).status().message(),
            "compute capability = 7.5: allowed are 8.0 and later (cp.async and bf16 mma)");
  EXPECT_EQ(target_for_capability(42, 0).status().code(), StatusCode::kUnsupported);
}

TEST(TargetJson, RoundTripsEveryField) {
  Target target = *target_from_name("sm_90a");
  target.shared_bytes_per_block = 100000;
  const Result<Target> back = target_from_json(json::parse(to_json(target).dump()));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_TRUE(*back == target);
}

TEST(TargetJson, MayBeAName) {
  EXPECT_TRUE(*target_from_json(json("sm_86")) == *target_from_name("sm_86"));
}

TEST(TargetJson, EveryFieldIsNeeded) {
  json object = to_json(*target_from_name("sm_80"));
  object.erase("threads_per_sm");
  EXPECT_EQ(target_from_json(object).status().message(), "target.threads_per_sm is missing");
}

TEST(TargetJson, RefusesUnknownFieldsAndNonsense) {
  json object = to_json(*target_from_name("sm_80"));
  object["warps"] = 4;
  EXPECT_NE(target_from_json(object).status().message().find("target.warps is not a field"),
            std::string::npos);
  object = to_json(*target_from_name("sm_80"));
  object["registers_per_thread"] = 0;
  EXPECT_EQ(target_from_json(object).status().message(),
            "target.registers_per_thread = 0: allowed are whole numbers from 1 to 255");
  object = to_json(*target_from_name("sm_80"));
  object["suffix"] = "f";
  EXPECT_EQ(target_from_json(object).status().message(),
            "target.suffix = \"f\": allowed are \"\" and \"a\"");
  EXPECT_EQ(target_from_json(json(80)).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lssar
