// New keys and values that a call brings: written into k and v before anything reads them, on the
// CPU device and by the kernels of GPUs on the strict virtual device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "compile/compiler.h"
#include "tests/capi/varlen_call.h"

namespace lssar {
namespace {

using testing::HasSubstr;

ContextPtr open(lssar_device device, const char* target = nullptr,
                lssar_compiler compiler = LSSAR_COMPILER_AUTO) {
  setenv("LSSAR_VIRTUAL_CHECKS", "strict", 1);
  auto context = open_context(device, compiler, target == nullptr ? "" : target);
  unsetenv("LSSAR_VIRTUAL_CHECKS");
  EXPECT_TRUE(context.ok()) << context.status().to_string();
  return context.ok() ? std::move(*context) : nullptr;
}

// Caches of several lengths. Each call adds as many keys as it has queries.
VarlenCase decode_case(DType dtype) {
  VarlenCase c;
  c.problem = forward_problem(dtype, 64, 64, 15, true);
  c.problem.heads = 4;
  c.problem.kv_heads = 2;
  c.is_forward_alone = true;
  c.alignment = 16;
  c.q.lengths = {1, 5, 0, 16, 1, 3};
  c.k = {{300, 128, 9, 16, 1, 257}, false, {300, 300, 300, 300, 300, 300}};
  c.added.lengths = c.q.lengths;
  return c;
}

// All layouts of caches and new keys.
void check_layouts(lssar_context* context, VarlenCase c) {
  check(context, c);  // padded caches, packed new keys
  c.k.rows = {301, 128, 10, 20, 1, 257};
  c.k.is_packed = true;
  check(context, c);
  c.q.lengths = {2, 2, 0, 2, 1, 2};  // new keys that have no query, as a prompt's part
  c.added = {{3, 3, 3, 3, 1, 3}, true};
  check(context, c);
  c.k.lengths[4] = 3;
  c.k.rows = {300, 300, 300, 300, 300, 300};
  c.k.is_packed = false;
  c.added = {{3, 3, 3, 3, 3, 3}, false};
  check(context, c);
}

TEST(Append, OnTheCpuNewKeysAreWrittenAndSeen) {
  LSSAR_NEEDS_CPU_KERNELS();
  const ContextPtr context = open(LSSAR_DEVICE_CPU);
  ASSERT_NE(context, nullptr);
  for (const DType dtype : {DType::kFp32, DType::kBf16})
    check_layouts(context.get(), decode_case(dtype));
  VarlenCase c = decode_case(DType::kBf16);  // many queries, and an odd layout
  c.alignment = 2;
  c.problem.head_dim = 24;
  c.problem.head_dim_v = 40;
  c.q.lengths = c.added.lengths = {33, 5, 0, 16, 1, 40};
  check(context.get(), c);
}

TEST(Append, WhereBlocksDivideKeysNewOnesAreWrittenAndSeen) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const ContextPtr context = open(LSSAR_DEVICE_VIRTUAL, target);
    ASSERT_NE(context, nullptr);
    for (const DType dtype : {DType::kBf16, DType::kFp32}) {
      VarlenCase c = decode_case(dtype);
      c.schedule_json = R"({"split_keys": 128})";
      check_layouts(context.get(), c);
    }
  }
}

// Parts of prompts, on the kernels of many queries: those for Hopper load keys by TMA.
VarlenCase prompt_case(DType dtype) {
  VarlenCase c = decode_case(dtype);
  c.q.lengths = c.added.lengths = {40, 5, 0, 16, 1, 65};
  return c;
}

TEST(Append, PortableAndHopperKernelsSeeNewKeys) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const ContextPtr context = open(LSSAR_DEVICE_VIRTUAL, target);
    ASSERT_NE(context, nullptr);
    check(context.get(), prompt_case(DType::kBf16));
    check_layouts(context.get(), decode_case(DType::kBf16));
  }
}

TEST(Append, UnalignedRowsAreCopied) {
  const ContextPtr context = open(LSSAR_DEVICE_VIRTUAL, "sm_80");
  ASSERT_NE(context, nullptr);
  for (const DType dtype : {DType::kFp16, DType::kFp32}) {
    VarlenCase c = prompt_case(dtype);
    c.alignment = dtype_bytes(dtype);
    c.problem.head_dim = 24;
    c.problem.head_dim_v = 40;
    check(context.get(), c);
  }
}

TEST(Append, AlsoWithLlvm) {
  if (!open_compiler(CompilerChoice::kLlvm).ok()) GTEST_SKIP() << "the LLVM compiler is not built";
  const ContextPtr context = open(LSSAR_DEVICE_VIRTUAL, "sm_80", LSSAR_COMPILER_LLVM);
  ASSERT_NE(context, nullptr);
  VarlenCase c = decode_case(DType::kBf16);
  c.schedule_json = R"({"split_keys": 128})";
  check(context.get(), c);
  c = prompt_case(DType::kFp32);
  c.problem.head_dim_v = 40;
  check(context.get(), c);
}

// The cache holds keys as they are before the rotation, and so do new ones.
TEST(Append, NewKeysAreTurnedWithTheOthers) {
  for (const lssar_device device : {LSSAR_DEVICE_CPU, LSSAR_DEVICE_VIRTUAL}) {
    std::string why;
    if (device == LSSAR_DEVICE_CPU && !can_run_cpu_kernels(&why)) continue;
    const ContextPtr context = open(device);
    ASSERT_NE(context, nullptr);
    VarlenCase c = rotary_case(DType::kBf16, true);
    c.is_forward_alone = true;
    c.k = {{7, 4, 67, 0, 97, 12, 1}, false, {100, 100, 100, 100, 100, 100, 100}};
    c.added.lengths = c.q.lengths;
    check(context.get(), c);
  }
}

TEST(Append, WindowsAndSinksSeeNewKeys) {
  const ContextPtr context = open(LSSAR_DEVICE_VIRTUAL, "sm_80");
  ASSERT_NE(context, nullptr);
  VarlenCase c = decode_case(DType::kBf16);
  c.schedule_json = R"({"split_keys": 128})";
  c.problem.window_left = 100;
  c.problem.window_sinks = 2;
  c.problem.p = 0;
  c.problem.score = parse_score("softmax,sink=per_head").value();
  check(context.get(), c);
}

// Every device that reads lengths names what is wrong, and writes nothing.
TEST(Append, BadCallsAreNamed) {
  const ContextPtr context = open(LSSAR_DEVICE_VIRTUAL, "sm_80");
  ASSERT_NE(context, nullptr);
  VarlenCase c = decode_case(DType::kBf16);
  c.is_forward_alone = false;
  const PlanPtr plan = make_plan(context.get(), c);
  VarlenCall memory(c);
  const lssar_call good = memory.make(plan.get());
  const std::vector<std::byte> k = memory.k.bytes(), v = memory.v.bytes();
  const auto expect = [&](const char* what, const auto& change,
                          decltype(&lssar_execute_forward) execute = lssar_execute_forward) {
    lssar_call call = good;
    change(call);
    EXPECT_EQ(execute(plan.get(), &call), LSSAR_STATUS_INVALID_ARGUMENT) << what;
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr(what));
  };
  expect("seq_new = -1: allowed with pass forward are 0 to 2147483647",
         [](lssar_call& call) { call.seq_new = -1; });
  expect("total_new = -1", [](lssar_call& call) { call.total_new = -1; });
  expect(
      "seq_new = 16: allowed with pass forward-train are 0 to 0", [](lssar_call&) {},
      lssar_execute_forward_train);
  expect(
      "seq_new = 16: allowed with pass backward are 0 to 0", [](lssar_call&) {},
      lssar_execute_backward);
  const Lengths falling = {0, 1, 6, 5, 22, 23, 26}, longer = {0, 1, 6, 6, 23, 23, 26};
  expect(
      "cu_seqlens_new[3] = 5: allowed are 6 to 22, because the sequence begins at 6, seq_new is "
      "16 and total_new is 26",
      [&](lssar_call& call) { call.cu_seqlens_new = falling.data(); });
  expect("cu_seqlens_new[4] = 23: allowed are 6 to 22",
         [&](lssar_call& call) { call.cu_seqlens_new = longer.data(); });
  const Lengths fewer = {300, 128, 9, 15, 1, 257};
  expect("sequence 3 has 16 new keys and 15 keys: allowed are 0 to 15 new keys",
         [&](lssar_call& call) { call.seqused_k = fewer.data(); });
  expect("v_new = NULL", [](lssar_call& call) { call.v_new.data = nullptr; });
  expect("k overlaps k_new", [](lssar_call& call) { call.k_new = call.k; });
  expect("k: strides", [](lssar_call& call) { call.k.strides[0] = 0; });
  expect("v overlaps k: what is written", [](lssar_call& call) { call.v = call.k; });
  expect("seq_new = 16: must be 0 in a call without cu_seqlens_q", [](lssar_call& call) {
    call.cu_seqlens_q = call.cu_seqlens_k = call.seqused_k = nullptr;
  });
  EXPECT_EQ(memory.k.bytes(), k);
  EXPECT_EQ(memory.v.bytes(), v);
  EXPECT_TRUE(memory.o.is_poison());
  // Without new keys nothing of them is read.
  lssar_call none = good;
  none.seq_new = 0;
  none.k_new = none.v_new = {};
  none.total_new = -1;
  EXPECT_EQ(lssar_execute_forward(plan.get(), &none), LSSAR_STATUS_OK) << lssar_last_error_detail();
  EXPECT_EQ(memory.k.bytes(), k);
}

// The host computes the grid of the copy without a look at the lengths.
TEST(Append, LengthsMayBeWhereTheHostCannotRead) {
  const ContextPtr context = open(LSSAR_DEVICE_RECORD);
  ASSERT_NE(context, nullptr);
  const VarlenCase c = decode_case(DType::kBf16);
  const PlanPtr plan = make_plan(context.get(), c);
  VarlenCall memory(c);
  lssar_call call = memory.make(plan.get());
  call.cu_seqlens_q = reinterpret_cast<const int32_t*>(0x1000);
  call.seqused_k = reinterpret_cast<const int32_t*>(0x2000);
  call.cu_seqlens_new = reinterpret_cast<const int32_t*>(0x3000);
  EXPECT_EQ(lssar_execute_forward(plan.get(), &call), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

}  // namespace
}  // namespace lssar
