// Sequences with lengths of their own in the kernels for Hopper (sm_90a), on the strict virtual
// device. TMA loads whole tiles, so a tile at the end of a sequence has rows of the next one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "codegen/schedule.h"
#include "compile/compiler.h"
#include "tests/capi/varlen_call.h"

namespace lssar {
namespace {

using nlohmann::json;
using testing::HasSubstr;

ContextPtr hopper_context(lssar_compiler compiler = LSSAR_COMPILER_NVRTC) {
  setenv("LSSAR_VIRTUAL_CHECKS", "strict", 1);
  auto context = open_context(LSSAR_DEVICE_VIRTUAL, compiler, "sm_90a");
  unsetenv("LSSAR_VIRTUAL_CHECKS");
  EXPECT_TRUE(context.ok()) << context.status().to_string();
  return context.ok() ? std::move(*context) : nullptr;
}

// Tiles of few columns, so that a block visits several.
std::string small_tiles(const char* more = "{}") {
  json schedule = json::parse(R"({"forward": {"block_cols": 32}, "dkdv": {"block_cols": 16},
                                  "dq": {"block_cols": 16}, "hopper": {"score_cols": 40}})");
  schedule.merge_patch(json::parse(more));
  return schedule.dump();
}

VarlenCase hopper_case(DType dtype, bool causal, const std::string& schedule) {
  VarlenCase c = packed_case(dtype, causal);
  c.alignment = 16;
  c.schedule_json = schedule.c_str();
  return c;
}

// Lengths of 0 and 1, at the edges of tiles, and primes: packed, with rows of no sequence, padded,
// and few queries to a cache of keys.
void check_lengths(lssar_context* context, VarlenCase c) {
  c.q.lengths = {5, 0, 65, 31, 1, 64, 0, 131};
  c.k.lengths = {7, 4, 65, 0, 97, 33, 0, 131};
  check(context, c);
  c.q.rows = {9, 3, 65, 40, 1, 66, 2, 131};
  c.k.rows = {7, 8, 70, 3, 97, 64, 0, 140};
  check(context, c);
  c.q.is_packed = c.k.is_packed = false;
  check(context, c);
  c.q = {{1, 1, 2, 1}, true};
  c.k = {{1, 130, 67, 0}, false, {130, 130, 130, 130}};
  check(context, c);
}

std::vector<std::vector<float>> results(lssar_context* context, const VarlenCase& c,
                                        const std::vector<int64_t>& spoilt) {
  const PlanPtr plan = make_plan(context, c);
  VarlenCall memory(c);
  for (const int64_t b : spoilt) {
    const auto spoil = [&](Rows& rows, std::vector<float> values, float with) {
      std::fill(values.begin(), values.end(), with);
      rows.write(b, values);
    };
    const RandomInputs& in = memory.inputs[b];
    spoil(memory.q, in.q, std::numeric_limits<float>::quiet_NaN());
    spoil(memory.k, in.k, std::numeric_limits<float>::infinity());
    spoil(memory.v, in.v, std::numeric_limits<float>::quiet_NaN());
    spoil(memory.grad_o, in.grad_o, std::numeric_limits<float>::infinity());
  }
  const lssar_call call = memory.make(plan.get());
  std::vector<std::vector<float>> all;
  const auto take = [&](Rows& rows) {
    for (int64_t b = 0; b < c.q.count(); ++b)
      if (std::count(spoilt.begin(), spoilt.end(), b) == 0) all.push_back(rows.take(b));
  };
  EXPECT_EQ(lssar_execute_forward(plan.get(), &call), LSSAR_STATUS_OK) << lssar_last_error_detail();
  take(memory.o);
  EXPECT_EQ(lssar_execute_forward_train(plan.get(), &call), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  EXPECT_EQ(lssar_execute_backward(plan.get(), &call), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  for (Rows* rows : {&memory.o, &memory.grad_q, &memory.grad_k, &memory.grad_v}) take(*rows);
  return all;
}

// Neighbours that are not numbers change no bit of a sequence.
void check_neighbours(lssar_context* context, VarlenCase c) {
  c.q.lengths = {61, 9, 70, 33, 8, 17};
  c.k.lengths = {50, 12, 45, 20, 131, 30};
  const std::vector<int64_t> spoilt = {1, 3, 5};
  const auto expect_same = [&] {
    VarlenCase without = c;
    for (const int64_t b : spoilt) without.q.lengths[b] = without.k.lengths[b] = 0;
    const auto beside = results(context, c, spoilt);
    EXPECT_TRUE(results(context, without, spoilt) == beside);
    for (const auto& values : beside)
      EXPECT_TRUE(
          std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }));
  };
  expect_same();
  c.q.is_packed = c.k.is_packed = false;
  c.q.rows = c.q.lengths;
  c.k.rows = c.k.lengths;
  expect_same();
}

// A schedule that would store past a sequence's end, or that takes a block to several sequences.
TEST(VarlenHopper, RefusesWhatReachesOtherSequences) {
  const Target target = target_from_name("sm_90a").value();
  Problem problem = packed_case(DType::kBf16, true).problem;
  problem.varlen = true;
  problem.alignment = 16;
  problem.seq_q = problem.seq_k = 0;
  const auto refused = [&](const char* fields) {
    const auto schedule = schedule_for(problem, target, json::parse(fields));
    EXPECT_TRUE(schedule.ok()) << schedule.status().to_string();
    return validate(*schedule, problem, target).to_string();
  };
  for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward})
    for (const DqMode mode : {DqMode::kSplit, DqMode::kAtomic, DqMode::kOrdered}) {
      problem.pass = pass;
      const Schedule schedule = default_schedule(problem, target, mode);
      EXPECT_EQ(schedule.variant, Variant::kHopper) << pass_name(pass);
      EXPECT_TRUE(validate(schedule, problem, target).ok());
    }
  EXPECT_THAT(refused(R"({"dq_mode": "atomic", "hopper": {"sum_path": "tma"}})"),
              HasSubstr("hopper.sum_path = tma: with problem.varlen, allowed is registers"));
  problem.pass = Pass::kForward;
  EXPECT_THAT(refused(R"({"hopper": {"store_path": "tma"}})"),
              HasSubstr("hopper.store_path = tma: with problem.varlen, allowed is registers"));
  EXPECT_THAT(refused(R"({"hopper": {"cluster": 2}})"),
              HasSubstr("hopper.cluster = 2: with problem.varlen, allowed is 1"));
  EXPECT_THAT(refused(R"({"hopper": {"stagger": 2}})"),
              HasSubstr("hopper.stagger = 2: with problem.varlen, allowed is 1"));
  EXPECT_THAT(refused(R"({"hopper": {"persistent": true}})"),
              HasSubstr("hopper.persistent = true: not allowed with problem.varlen"));
  EXPECT_THAT(refused(R"({"pack_gqa": true})"),
              HasSubstr("pack_gqa = true: not allowed with problem.varlen in variant hopper"));
}

TEST(VarlenHopper, CausalSequences) {
  const ContextPtr context = hopper_context();
  ASSERT_NE(context, nullptr);
  const std::string schedule = small_tiles();
  const VarlenCase c = hopper_case(DType::kBf16, true, schedule);
  check_lengths(context.get(), c);
  check_neighbours(context.get(), c);
}

// A sweep for dv, then one for dk, whose row constants a warp scales ahead.
TEST(VarlenHopper, WideHeadsOfFp16) {
  const ContextPtr context = hopper_context();
  ASSERT_NE(context, nullptr);
  const std::string schedule = small_tiles();
  VarlenCase c = hopper_case(DType::kFp16, false, schedule);
  c.problem.head_dim = 192;
  c.problem.head_dim_v = 72;
  check_lengths(context.get(), c);
  check_neighbours(context.get(), c);
}

// Tiles of the default sizes, up to the store and the turns of dq. Some rows see few keys.
TEST(VarlenHopper, OrderedSumsInWindows) {
  const ContextPtr context = hopper_context();
  ASSERT_NE(context, nullptr);
  const std::string schedule = R"({"dq_mode": "ordered", "epsilon": "pass"})";
  VarlenCase c = hopper_case(DType::kBf16, true, schedule);
  c.problem.window_left = 40;
  c.problem.window_sinks = 3;
  check_lengths(context.get(), c);
  check_neighbours(context.get(), c);
}

// Keys past the end have neither weights nor a part in a tile's scale.
TEST(VarlenHopper, AtomicSumsOfFp16) {
  const ContextPtr context = hopper_context();
  ASSERT_NE(context, nullptr);
  const std::string schedule =
      small_tiles(R"({"dq_mode": "atomic", "dkdv": {"block_cols": 64}, "skip_tiles": true})");
  check_lengths(context.get(), hopper_case(DType::kFp16, false, schedule));
}

TEST(VarlenHopper, SoftmaxWithSinksAndLlvm) {
  if (!open_compiler(CompilerChoice::kLlvm).ok()) GTEST_SKIP() << "the LLVM compiler is not built";
  const ContextPtr context = hopper_context(LSSAR_COMPILER_LLVM);
  ASSERT_NE(context, nullptr);
  const std::string schedule = small_tiles(R"({"hopper": {"overlap": false}})");
  VarlenCase c = hopper_case(DType::kFp16, true, schedule);
  c.problem.head_dim = c.problem.head_dim_v = 128;
  c.problem.p = 0;
  c.problem.score = *parse_score("softmax,sink=per_head");
  check_lengths(context.get(), c);
}

}  // namespace
}  // namespace lssar
