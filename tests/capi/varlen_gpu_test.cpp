// Sequences with lengths of their own on the kernels of GPUs: on the strict virtual device, and
// what the host does where it cannot read the lengths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "compile/compiler.h"
#include "tests/capi/varlen_call.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::Not;

ContextPtr strict_context(const char* target, lssar_compiler compiler = LSSAR_COMPILER_AUTO) {
  setenv("LSSAR_VIRTUAL_CHECKS", "strict", 1);
  auto context = open_context(LSSAR_DEVICE_VIRTUAL, compiler, target);
  unsetenv("LSSAR_VIRTUAL_CHECKS");
  EXPECT_TRUE(context.ok()) << context.status().to_string();
  return context.ok() ? std::move(*context) : nullptr;
}

// One set of kernels, and lengths at the edges of their tiles. tests/capi/varlen_hopper_test.cpp
// has the kernels for Hopper.
TEST(VarlenGpu, CausalSequencesAreRight) {
  const ContextPtr context = strict_context("sm_90a");
  ASSERT_NE(context, nullptr);
  VarlenCase c = packed_case(DType::kBf16, true);
  c.alignment = 16;
  c.schedule_json = R"({"variant": "portable"})";
  c.q.lengths = {5, 0, 65, 31, 1, 64, 0, 63};
  c.k.lengths = {7, 4, 65, 0, 97, 13, 0, 64};
  check(context.get(), c);
  // Rows of no sequence between and behind.
  c.q.rows = {9, 3, 65, 40, 1, 66, 2, 63};
  c.k.rows = {7, 8, 70, 3, 97, 64, 0, 64};
  check(context.get(), c);
  c.q.is_packed = c.k.is_packed = false;
  check(context.get(), c);
  // A cache of keys.
  c.q = {{1, 1, 2, 1}, true};
  c.k = {{1, 130, 67, 0}, false, {130, 130, 130, 130}};
  check(context.get(), c);
  c.q = c.k = {};
  check(context.get(), c);
}

// Caches of different lengths, whose keys blocks divide among them: a chunk has 128 keys.
VarlenCase decode_case(DType dtype) {
  VarlenCase c = packed_case(dtype, true);
  c.alignment = 16;
  c.is_forward_alone = true;
  c.schedule_json = R"({"split_keys": 128})";
  c.q.lengths = {1, 5, 0, 16, 2, 1, 3};
  c.k.lengths = {300, 128, 9, 129, 0, 1, 509};
  return c;
}

TEST(VarlenGpu, BlocksDivideTheKeysOfCaches) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const ContextPtr context = strict_context(target);
    ASSERT_NE(context, nullptr);
    for (const DType dtype : {DType::kBf16, DType::kFp32}) {
      VarlenCase c = decode_case(dtype);
      check(context.get(), c);
      c.k.is_packed = false;  // padded caches
      c.k.rows = {520, 520, 520, 520, 520, 520, 520};
      check(context.get(), c);
      c.q.is_packed = false;
      c.q.rows = Lengths(7, 16);
      check(context.get(), c);
      c.problem.window_left = 150;
      c.problem.window_sinks = 3;
      check(context.get(), c);
      c.q = c.k = {};
      check(context.get(), c);
    }
    VarlenCase c = decode_case(DType::kBf16);
    c.problem.score = parse_score("softmax,sink=per_head").value();
    c.problem.p = 0;
    check(context.get(), c);
  }
}

// A problem that says how few queries a sequence has needs no schedule for that.
TEST(VarlenGpu, StatedLengthsChooseTheKernels) {
  const ContextPtr context = strict_context("sm_90a");
  ASSERT_NE(context, nullptr);
  VarlenCase c = packed_case(DType::kBf16, true);
  c.alignment = 16;
  c.is_forward_alone = c.states_longest = true;
  c.q.lengths = {1, 2, 0, 4};
  c.k.lengths = {700, 90, 5, 513};
  const auto schedule = [&] {
    const PlanPtr plan = make_plan(context.get(), c);
    lssar_schedule_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(lssar_plan_get_schedule(plan.get(), LSSAR_PASS_FORWARD, &info), LSSAR_STATUS_OK);
    return std::string(info.schedule_json);
  };
  EXPECT_THAT(schedule(), HasSubstr("\"split_keys\":512"));
  check(context.get(), c);
  c.k.lengths = {512, 90, 5, 300};  // then it does not pay
  EXPECT_THAT(schedule(), Not(HasSubstr("split_keys")));
  check(context.get(), c);
  c.states_longest = false;
  EXPECT_THAT(schedule(), Not(HasSubstr("split_keys")));
}

// A query stands at the end of its sequence's keys.
TEST(VarlenGpu, BlocksDivideTheTurnedKeysOfCaches) {
  for (const auto& [target, dtype] : {std::pair{"sm_80", DType::kBf16}, {"sm_90a", DType::kFp32}}) {
    const ContextPtr context = strict_context(target);
    ASSERT_NE(context, nullptr);
    VarlenCase c = decode_case(dtype);
    c.k.lengths[4] = 2;  // no sequence has more queries than keys
    c.problem.rotary_dim = 48;
    check(context.get(), c);
    c.shifts_tables = true;
    c.k.is_packed = false;
    c.k.rows = Lengths(7, 520);
    check(context.get(), c);
    c.q.is_packed = false;
    c.q.rows = Lengths(7, 16);
    c.problem.rotary_dim = 20;
    c.problem.rotary_interleaved = true;
    c.problem.window_left = 150;
    c.problem.window_sinks = 3;
    check(context.get(), c);
    c.q = c.k = {};
    check(context.get(), c);
  }
}

// A sequence's window is that of its own positions: short ones see all of their keys.
TEST(VarlenGpu, WindowsAreThoseOfEachSequence) {
  const ContextPtr context = strict_context("sm_80");
  ASSERT_NE(context, nullptr);
  VarlenCase c = packed_case(DType::kBf16, true);
  c.alignment = 16;
  c.problem.window_left = 40;
  c.problem.window_sinks = 3;
  c.q.lengths = {5, 0, 150, 31, 1, 64, 0};
  c.k.lengths = {7, 4, 150, 0, 131, 13, 0};
  check(context.get(), c);
}

TEST(VarlenGpu, RotaryPositionsBeginAnewInEachSequence) {
  const ContextPtr context = strict_context("sm_90a");
  ASSERT_NE(context, nullptr);
  VarlenCase c = rotary_case(DType::kBf16, true);
  c.alignment = 16;
  check(context.get(), c);
  // Rows of no sequence between and behind, and then a padded batch.
  c.q.rows = {9, 3, 67, 4, 1, 13, 2};
  c.k.rows = {7, 8, 70, 3, 97, 64, 1};
  check(context.get(), c);
  c.q.is_packed = c.k.is_packed = false;
  check(context.get(), c);
}

TEST(VarlenGpu, RotaryNeighboursInWindowsAreRightWithLlvm) {
  if (!open_compiler(CompilerChoice::kLlvm).ok()) GTEST_SKIP() << "the LLVM compiler is not built";
  const ContextPtr context = strict_context("sm_80", LSSAR_COMPILER_LLVM);
  ASSERT_NE(context, nullptr);
  VarlenCase c = rotary_case(DType::kFp32, false);
  c.alignment = 4;
  c.problem.head_dim = 24;
  c.problem.head_dim_v = 40;
  c.problem.rotary_dim = 12;
  c.problem.rotary_interleaved = true;
  c.problem.window_left = 9;
  check(context.get(), c);
}

// More sequences than a warp has lanes.
TEST(VarlenGpu, ManyShortSequencesAreRight) {
  const ContextPtr context = strict_context("sm_90a");
  ASSERT_NE(context, nullptr);
  VarlenCase c = packed_case(DType::kBf16, true);
  c.alignment = 16;
  c.q.lengths = c.k.lengths = {};
  for (int b = 0; b < 67; ++b) {
    c.q.lengths.push_back(b * 7 % 5);
    c.k.lengths.push_back(b * 11 % 4);
  }
  c.problem.heads = 2;
  c.problem.kv_heads = 1;
  check(context.get(), c);
}

TEST(VarlenGpu, UnalignedSequencesOfFp32AreRight) {
  const ContextPtr context = strict_context("sm_80");
  ASSERT_NE(context, nullptr);
  VarlenCase c = packed_case(DType::kFp32, false);
  c.alignment = 4;
  c.problem.head_dim = 24;
  c.problem.head_dim_v = 40;
  c.q.lengths = {5, 0, 65, 33, 1, 12, 0};
  c.k.lengths = {7, 4, 33, 0, 64, 5, 0};
  check(context.get(), c);
}

// Tiles of packed heads have grids of their own, and sums in any order take no tickets.
TEST(VarlenGpu, PackedHeadsAndAtomicSumsAreRightWithLlvm) {
  if (!open_compiler(CompilerChoice::kLlvm).ok()) GTEST_SKIP() << "the LLVM compiler is not built";
  const ContextPtr context = strict_context("sm_80", LSSAR_COMPILER_LLVM);
  ASSERT_NE(context, nullptr);
  VarlenCase c = packed_case(DType::kFp16, false);
  c.alignment = 16;
  c.schedule_json = R"({"pack_gqa": true, "dq_mode": "atomic"})";
  c.q.lengths = {5, 0, 150, 31, 1, 64};
  c.k.lengths = {5, 0, 150, 33, 1, 0};
  check(context.get(), c);
  c.q.rows = {5, 3, 150, 40, 2, 66};
  c.k.rows = {9, 2, 151, 33, 1, 4};
  check(context.get(), c);
}

TEST(VarlenGpu, TheGradientOfASinkIsTheSumOverSequences) {
  const ContextPtr context = strict_context("sm_80");
  ASSERT_NE(context, nullptr);
  VarlenCase c = packed_case(DType::kFp32, true);
  c.alignment = 16;
  c.problem.p = 0;
  c.problem.score = *parse_score("softmax,sink=per_head");
  c.q.lengths = {5, 0, 40, 3};
  c.k.lengths = {7, 4, 40, 0};
  check(context.get(), c);
}

// The host computes grids and workspace without a look at the lengths.
TEST(VarlenGpu, LengthsMayBeWhereTheHostCannotRead) {
  const auto context = open_context(LSSAR_DEVICE_RECORD);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  VarlenCase c = packed_case(DType::kBf16, true);
  c.alignment = 16;
  const PlanPtr plan = make_plan(context->get(), c);
  VarlenCall memory(c);
  lssar_call call = memory.make(plan.get());
  call.cu_seqlens_q = reinterpret_cast<const int32_t*>(0x1000);
  call.cu_seqlens_k = reinterpret_cast<const int32_t*>(0x2000);
  call.seqused_k = reinterpret_cast<const int32_t*>(0x3000);
  for (const auto execute :
       {lssar_execute_forward, lssar_execute_forward_train, lssar_execute_backward})
    EXPECT_EQ(execute(plan.get(), &call), LSSAR_STATUS_OK) << lssar_last_error_detail();
  const auto expect = [&](const char* what, const auto& change) {
    lssar_call bad = call;
    change(bad);
    EXPECT_EQ(lssar_execute_forward(plan.get(), &bad), LSSAR_STATUS_INVALID_ARGUMENT) << what;
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr(what));
  };
  expect("workspace_bytes = 64", [](lssar_call& bad) { bad.workspace_bytes = 64; });
  expect("total_k = -1", [](lssar_call& bad) { bad.total_k = -1; });
  expect("cu_seqlens_q.data = 0x1002: must be a multiple of 4 bytes",
         [](lssar_call& bad) { bad.cu_seqlens_q = reinterpret_cast<const int32_t*>(0x1002); });
}

}  // namespace
}  // namespace lssar
