// New keys and values that a call brings: written into k and v before anything reads them, on the
// CPU device and by the kernels of GPUs on the strict virtual device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

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

// Caches that calls fill, with norms of their keys beside them or without.
class FilledCache {
 public:
  // c.k has the room of each sequence.
  FilledCache(const VarlenCase& c, bool keeps_norms)
      : case_(c),
        k_(c.k, c.problem.dtype, c.problem.kv_heads, c.problem.head_dim),
        v_(c.k, c.problem.dtype, c.problem.kv_heads, c.problem.head_dim_v),
        cu_k_(c.k.cu_seqlens()),
        used_(c.k.count()),
        norms_(keeps_norms ? c.k.total() * c.problem.kv_heads : 0, kNoNorm) {}

  // Sequence b brings side.lengths[b] new keys and as many queries. Returns o.
  std::vector<float> attend(const lssar_plan* plan, const Side& side, float scale = 1.0f) {
    const Problem& p = case_.problem;
    Rows q(side, p.dtype, p.heads, p.head_dim), o(side, p.dtype, p.heads, p.head_dim_v);
    Rows k(side, p.dtype, p.kv_heads, p.head_dim), v(side, p.dtype, p.kv_heads, p.head_dim_v);
    for (int64_t b = 0; b < side.count(); ++b) {
      const auto length = static_cast<size_t>(side.lengths[b]);
      q.write(b, numbers(p.heads * length * p.head_dim));
      v.write(b, numbers(p.kv_heads * length * p.head_dim_v));
      std::vector<float> keys = numbers(p.kv_heads * length * p.head_dim);
      for (float& x : keys) x *= scale;
      k.write(b, keys);
      used_[b] += side.lengths[b];
      if (!norms_.empty()) set_expected(b, side.lengths[b], unpack(p.dtype, pack(p.dtype, keys)));
    }
    const Lengths cu = side.cu_seqlens();
    lssar_call call = {};
    call.struct_size = sizeof(call);
    call.sizes = {side.count(), p.heads, p.kv_heads, side.most(), case_.k.most()};
    size_t bytes = 0;
    lssar_saved_sizes saved = {};
    EXPECT_EQ(
        lssar_plan_varlen_sizes(plan, &call.sizes, side.total(), case_.k.total(), &bytes, &saved),
        LSSAR_STATUS_OK);
    std::vector<long double> workspace(bytes / sizeof(long double) + 1);  // aligned to 16 bytes
    call.q = q.ref(), call.k = k_.ref(), call.v = v_.ref(), call.o = o.ref();
    call.k_new = k.ref(), call.v_new = v.ref();
    call.workspace = workspace.data();
    call.workspace_bytes = bytes;
    call.seqused_k = used_.data();
    call.seq_new = side.most();
    if (side.is_packed) call.cu_seqlens_q = call.cu_seqlens_new = cu.data();
    call.total_q = call.total_new = side.total();
    if (case_.k.is_packed) call.cu_seqlens_k = cu_k_.data();
    call.total_k = case_.k.total();
    if (!norms_.empty()) call.key_norms = norms_.data();
    EXPECT_EQ(lssar_execute_forward(plan, &call), LSSAR_STATUS_OK) << lssar_last_error_detail();
    std::vector<float> all;
    for (int64_t b = 0; b < side.count(); ++b) {
      const std::vector<float> one = o.take(b);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  // The norms of all keys are there, and nothing else was written.
  void check_norms() const {
    for (size_t i = 0; i < norms_.size(); ++i) {
      const auto expected = expected_.find(i);
      const float wanted = expected == expected_.end() ? kNoNorm : expected->second;
      if (std::isnan(wanted))
        EXPECT_TRUE(std::isnan(norms_[i])) << i;
      else
        EXPECT_NEAR(norms_[i], wanted, 1e-6f * wanted) << i;
    }
  }
  float& norm(int64_t b, int64_t head, int64_t key) { return norms_[index(b, head, key)]; }
  const std::vector<float>& norms() const { return norms_; }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> both = k_.bytes();
    both.insert(both.end(), v_.bytes().begin(), v_.bytes().end());
    return both;
  }

 private:
  static constexpr float kNoNorm = 12345.0f;

  std::vector<float> numbers(size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& x : values) x = normal(random_);
    return values;
  }
  size_t index(int64_t b, int64_t head, int64_t key) const {
    const int64_t heads = case_.problem.kv_heads;
    if (case_.k.is_packed) return head * case_.k.total() + case_.k.first_row(b) + key;
    return (b * heads + head) * case_.k.most() + key;
  }
  // `keys` are the last `count` of sequence b: [heads, count, dim].
  void set_expected(int64_t b, int64_t count, const std::vector<float>& keys) {
    const float* k = keys.data();
    for (int64_t head = 0; head < case_.problem.kv_heads; ++head) {
      for (int64_t i = 0; i < count; ++i, k += case_.problem.head_dim) {
        double square = 0;
        for (int64_t col = 0; col < case_.problem.head_dim; ++col)
          square += double{k[col]} * k[col];
        const double inverse = square <= 1e-24 ? 0 : 1 / std::sqrt(square);
        expected_[index(b, head, used_[b] - count + i)] = square < std::numeric_limits<float>::max()
                                                              ? static_cast<float>(inverse)
                                                              : std::nanf("");
      }
    }
  }

  const VarlenCase& case_;
  Rows k_, v_;
  const Lengths cu_k_;
  Lengths used_;
  std::vector<float> norms_;
  std::map<size_t, float> expected_;
  std::mt19937 random_{7};
};

VarlenCase norms_case(DType dtype) {
  VarlenCase c = decode_case(dtype);
  c.k = {{90, 90, 83}, false, {90, 90, 83}};
  return c;
}

// Prompts of several lengths, steps of few queries, and a part of a prompt again. Some of the
// prompts' keys are not like others.
void check_kept_norms(lssar_context* context, const VarlenCase& c, const char* few_schedule) {
  VarlenCase few_case = c;
  few_case.schedule_json = few_schedule;
  const PlanPtr many = make_plan(context, c), few = make_plan(context, few_case);
  FilledCache with(c, true), without(c, false);
  const auto step = [&](const PlanPtr& plan, const Side& side, float scale = 1.0f) {
    const std::vector<float> o = with.attend(plan.get(), side, scale);
    EXPECT_EQ(o, without.attend(plan.get(), side, scale));
    EXPECT_EQ(with.bytes(), without.bytes());
    with.check_norms();
  };
  step(many, {{0, 33, 5}});
  step(many, {{0, 0, 1}}, 0.0f);
  step(few, {{1, 1, 1}, false});
  step(few, {{3, 0, 4}});
  step(many, {{32, 32, 32}, false});
  // The bits that both kinds of kernels write.
  FilledCache by_many(c, true), by_few(c, true);
  by_many.attend(many.get(), {{7, 5, 16}});
  by_few.attend(few.get(), {{7, 5, 16}});
  EXPECT_EQ(by_many.norms(), by_few.norms());
}

TEST(Append, NormsAreKeptBesideTheCache) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const ContextPtr context = open(LSSAR_DEVICE_VIRTUAL, target);
    ASSERT_NE(context, nullptr);
    for (const DType dtype : {DType::kBf16, DType::kFp32}) {
      VarlenCase c = norms_case(dtype);
      check_kept_norms(context.get(), c, R"({"split_keys": 128})");
      c.k.is_packed = true;
      if (dtype != DType::kBf16) continue;
      check_kept_norms(context.get(), c, R"({"split_keys": 128})");
      c.problem.invariant = true;
      check_kept_norms(context.get(), c, nullptr);
    }
  }
}

TEST(Append, OnTheCpuNormsAreKeptBesideTheCache) {
  LSSAR_NEEDS_CPU_KERNELS();
  const ContextPtr context = open(LSSAR_DEVICE_CPU);
  ASSERT_NE(context, nullptr);
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    VarlenCase c = norms_case(dtype);
    check_kept_norms(context.get(), c, nullptr);
    c.k.is_packed = true;
    c.problem.head_dim = 24;
    check_kept_norms(context.get(), c, nullptr);
  }
}

// More keys than a block copies, and a norm that is not the key's: kernels of many queries read it.
TEST(Append, KeptNormsAreRead) {
  VarlenCase c = norms_case(DType::kBf16);
  c.problem.causal = false;
  c.k = {{1100, 1100}, false, {1100, 1100}};
  VarlenCase few_case = c;
  few_case.schedule_json = R"({"split_keys": 128})";
  for (const char* target : {"sm_80", "sm_90a"}) {
    const ContextPtr context = open(LSSAR_DEVICE_VIRTUAL, target);
    ASSERT_NE(context, nullptr);
    const PlanPtr many = make_plan(context.get(), c), few = make_plan(context.get(), few_case);
    FilledCache with(c, true), without(c, false);
    const auto expect_same = [&](const PlanPtr& plan, const Side& side) {
      EXPECT_EQ(with.attend(plan.get(), side), without.attend(plan.get(), side));
    };
    expect_same(many, {{1060, 7}});
    expect_same(many, {{17, 17}, false});
    with.check_norms();
    with.norm(0, 1, 1030) = std::nanf("");
    expect_same(few, {{2, 2}, false});
    const std::vector<float> o = with.attend(many.get(), {{17, 17}, false});
    // Heads 2 and 3 of sequence 0 have the key: [sequence, head, query, column].
    const size_t of_head = 17 * 64;
    for (size_t i = 0; i < o.size(); ++i)
      ASSERT_EQ(std::isnan(o[i]), i / of_head == 2 || i / of_head == 3) << i;
  }
}

// A norm that float32 does not hold.
TEST(Append, NormsOfKeysThatAreNotFinite) {
  for (const lssar_device device : {LSSAR_DEVICE_CPU, LSSAR_DEVICE_VIRTUAL}) {
    std::string why;
    if (device == LSSAR_DEVICE_CPU && !can_run_cpu_kernels(&why)) continue;
    const ContextPtr context = open(device);
    ASSERT_NE(context, nullptr);
    for (const DType dtype : {DType::kBf16, DType::kFp16}) {
      const VarlenCase c = norms_case(dtype);
      const PlanPtr plan = make_plan(context.get(), c);
      FilledCache cache(c, true);
      const float infinity = std::numeric_limits<float>::infinity();
      cache.attend(plan.get(), {{2, 0, 1}});
      cache.attend(plan.get(), {{0, 1, 1}}, dtype == DType::kBf16 ? 1e25f : infinity);
      cache.check_norms();
    }
  }
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
  std::vector<float> norms(2 * 6 * 300 + 1);
  // NOTE: not over the memory of k_new, which is shorter than the norms: what follows it varies.
  expect("key_norms overlaps k_new",
         [&](lssar_call& call) { call.k_new.data = call.key_norms = norms.data(); });
  expect("key_norms", [&](lssar_call& call) {
    call.key_norms = reinterpret_cast<float*>(reinterpret_cast<char*>(norms.data()) + 2);
  });
  const auto without_new = [&](lssar_call& call) {
    call.seq_new = 0;
    call.key_norms = norms.data();
  };
  expect("must be NULL with pass forward-train", without_new, lssar_execute_forward_train);
  expect("must be NULL with pass backward", without_new, lssar_execute_backward);
  expect("must be NULL in a call without cu_seqlens_q", [&](lssar_call& call) {
    without_new(call);
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

TEST(Append, ProblemsThatKeepNoNormsAreNamed) {
  const ContextPtr context = open(LSSAR_DEVICE_VIRTUAL, "sm_80");
  ASSERT_NE(context, nullptr);
  const auto expect = [&](const VarlenCase& c, const char* what) {
    const PlanPtr plan = make_plan(context.get(), c);
    VarlenCall memory(c);
    lssar_call call = memory.make(plan.get());
    std::vector<float> norms(c.k.total() * c.problem.kv_heads);
    call.key_norms = norms.data();
    EXPECT_EQ(lssar_execute_forward(plan.get(), &call), LSSAR_STATUS_INVALID_ARGUMENT);
    EXPECT_THAT(lssar_last_error_detail(), HasSubstr(what));
  };
  VarlenCase c = decode_case(DType::kBf16);
  c.problem.p = 0;
  c.problem.score = parse_score("softmax,sink=per_head").value();
  expect(c, "must be NULL with a score that takes no norms of keys");
  c = rotary_case(DType::kBf16, true);
  c.is_forward_alone = true;
  expect(c, "must be NULL with rotary_dim = 48");
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
