// Sizes, dims, powers, layouts and data against the float64 reference, on the virtual device.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/golden/attention_check.h"

namespace lssar {
namespace {

constexpr uint32_t kAllPasses = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;

CapiOptions aligned(uint32_t passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD) {
  CapiOptions options;
  options.passes = passes;
  options.alignment = 16;
  return options;
}

// golden_test, Lengths, HeadDim, data_seeds_test and the counters have Hopper's default tiles.
CapiOptions with_small_tiles(uint32_t passes = LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD) {
  CapiOptions options = aligned(passes);
  options.schedule_json = small_tiles();
  return options;
}

Problem make_problem(int dim, DType dtype = DType::kBf16, bool causal = true, int p = 15) {
  Problem problem;
  problem.head_dim = problem.head_dim_v = dim;
  problem.dtype = dtype;
  problem.causal = causal;
  problem.p = p;
  return problem;
}

// Without what other targets' runs have already: Variant::kPortable is the same at every target,
// and kernels in fp32 are no other.
std::vector<DType> dtypes() {
  if (test_target() == "sm_90a") return {DType::kBf16, DType::kFp16};
  return {DType::kBf16, DType::kFp16, DType::kFp32};
}

bool has_kernels_of_its_own(DType dtype) {
  const std::vector<DType> all = dtypes();
  return std::find(all.begin(), all.end(), dtype) != all.end();
}

struct TypeAndMask {
  DType dtype;
  bool causal;
};

// Each kernel takes long to compile, so a turn has bf16 or fp16 and one of the masks; fp32, which
// has kernels of its own, has the other. Four turns have everything.
std::vector<TypeAndMask> types_and_masks(int turn) {
  const bool causal = turn / 2 % 2 == 0;
  std::vector<TypeAndMask> tried = {{turn % 2 == 0 ? DType::kBf16 : DType::kFp16, causal}};
  if (has_kernels_of_its_own(DType::kFp32)) tried.push_back({DType::kFp32, !causal});
  return tried;
}

struct LengthSetting {
  DType dtype;
  bool causal;
};

void PrintTo(const LengthSetting& setting, std::ostream* out) {
  *out << dtype_name(setting.dtype) << (setting.causal ? "_causal" : "_full");
}

class Lengths : public testing::TestWithParam<LengthSetting> {};

TEST_P(Lengths, FewTilesAndPrimes) {
  const Problem problem = make_problem(64, GetParam().dtype, GetParam().causal);
  for (int64_t n : {1, 2, 3, 4, 15, 16, 17, 31, 63, 64, 65, 97, 127, 128, 129, 191})
    check_against_reference(problem, make_sizes(1, 1, 1, n, n), InputKind::kGauss,
                            aligned(kAllPasses));
}

TEST_P(Lengths, QueriesAndKeysDiffer) {
  const Problem problem = make_problem(64, GetParam().dtype, GetParam().causal);
  const int64_t pairs[][2] = {{1, 50},  {7, 60},   {65, 129}, {64, 65}, {3, 1},   {20, 7},
                              {130, 3}, {129, 65}, {64, 0},   {0, 64},  {1, 0},   {0, 0},
                              {5, 200}, {200, 5},  {67, 131}, {1, 257}, {100, 64}};
  for (const auto& pair : pairs)
    check_against_reference(problem, make_sizes(1, 2, 1, pair[0], pair[1]), InputKind::kGauss,
                            aligned(kAllPasses));
}

INSTANTIATE_TEST_SUITE_P(All, Lengths,
                         testing::Values(LengthSetting{DType::kBf16, true},
                                         LengthSetting{DType::kBf16, false},
                                         LengthSetting{DType::kFp16, true},
                                         LengthSetting{DType::kFp32, false}),
                         [](const testing::TestParamInfo<LengthSetting>& param_info) {
                           return std::string(dtype_name(param_info.param.dtype)) +
                                  (param_info.param.causal ? "_causal" : "_full");
                         });

// The golden cases have 32, 64, 96, 128 and 256.
constexpr int kDims[] = {8, 16, 40, 72, 136, 192, 248};

int turn_of_dim(int dim) {
  return static_cast<int>(std::find(std::begin(kDims), std::end(kDims), dim) - kDims);
}

class HeadDim : public testing::TestWithParam<int> {};

TEST_P(HeadDim, OfEveryKernel) {
  for (const auto& [dtype, causal] : types_and_masks(turn_of_dim(GetParam())))
    check_against_reference(make_problem(GetParam(), dtype, causal),
                            make_sizes(1, 2, 1, causal ? 83 : 40, causal ? 83 : 71),
                            InputKind::kGauss, aligned(kAllPasses));
}

INSTANTIATE_TEST_SUITE_P(All, HeadDim, testing::ValuesIn(kDims), testing::PrintToStringParamName());

TEST(HeadDimV, DiffersFromHeadDim) {
  const int pairs[][2] = {{64, 128}, {192, 128}, {32, 256}, {256, 32}, {24, 200}};
  DType dtype = DType::kFp32;
  bool is_default = true;
  for (const auto& pair : pairs) {
    dtype = dtype == DType::kFp32 || !has_kernels_of_its_own(DType::kFp32) ? DType::kBf16
                                                                           : DType::kFp32;
    Problem problem = make_problem(pair[0], dtype);
    problem.head_dim_v = pair[1];
    check_against_reference(problem, make_sizes(1, 1, 1, 70, 70), InputKind::kGauss,
                            is_default ? aligned(kAllPasses) : with_small_tiles(kAllPasses));
    is_default = !is_default;
  }
}

class Power : public testing::TestWithParam<int> {};

// The golden cases have 0, 1, 3, 15 and 64.
constexpr int kPowers[] = {2, 7};

int turn_of_power(int p) {
  return static_cast<int>(std::find(std::begin(kPowers), std::end(kPowers), p) - kPowers);
}

TEST_P(Power, OfEveryKernel) {
  for (const auto& [dtype, causal] : types_and_masks(turn_of_power(GetParam())))
    check_against_reference(make_problem(64, dtype, causal, GetParam()),
                            make_sizes(1, 1, 1, 97, 97), InputKind::kGauss,
                            with_small_tiles(kAllPasses));
}

INSTANTIATE_TEST_SUITE_P(All, Power, testing::ValuesIn(kPowers), testing::PrintToStringParamName());

class Data : public testing::TestWithParam<InputKind> {};

// Every type and every power at d 64 with a mask and at d 128 without one, but not their product:
// each is two or three kernels to compile.
TEST_P(Data, EveryDtypeAndPower) {
  const auto check_small = [&](DType dtype, int p) {
    check_against_reference(make_problem(64, dtype, true, p), make_sizes(1, 2, 2, 130, 130),
                            GetParam(), with_small_tiles(kAllPasses));
  };
  const auto check_wide = [&](DType dtype, int p) {
    check_against_reference(make_problem(128, dtype, false, p), make_sizes(1, 1, 1, 67, 67),
                            GetParam(), with_small_tiles());
  };
  for (int p : {0, 1, 15}) check_small(DType::kBf16, p);
  check_small(DType::kFp16, 15);
  check_wide(DType::kBf16, 15);
  check_wide(DType::kFp16, 0);
  if (!has_kernels_of_its_own(DType::kFp32)) return;
  check_small(DType::kFp32, 0);
  check_wide(DType::kFp32, 15);
}

INSTANTIATE_TEST_SUITE_P(All, Data,
                         testing::Values(InputKind::kGauss, InputKind::kPeaky,
                                         InputKind::kClustered, InputKind::kOpposed,
                                         InputKind::kTies, InputKind::kNearTies, InputKind::kZeros,
                                         InputKind::kHuge, InputKind::kLocal, InputKind::kShifted),
                         [](const testing::TestParamInfo<InputKind>& param_info) {
                           std::string name = input_kind_name(param_info.param);
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

// Scores just above the limits from which on 16-bit kernels may take a simpler softplus. Data has
// other powers.
TEST(ShiftedData, EveryPower) {
  for (const auto& [dtype, p] : {std::pair{DType::kFp16, 1}, {DType::kBf16, 3}})
    check_against_reference(make_problem(64, dtype, p == 1, p), make_sizes(1, 2, 2, 200, 200),
                            InputKind::kShifted, with_small_tiles(kAllPasses));
}

// The golden cases have 0, 0.5 and 1 at p = 15 and in bf16.
TEST(Offset, SmallLargeAndNone) {
  const auto check = [](double offset, int p, DType dtype) {
    Problem problem = make_problem(64, dtype, true, p);
    problem.offset = offset;
    check_against_reference(
        problem, make_sizes(1, 1, 1, 100, 100), InputKind::kGauss,
        with_small_tiles(dtype == DType::kBf16 && p == 15 ? kAllPasses
                                                          : kAllPasses - LSSAR_PASS_FORWARD));
  };
  check(0, 1, DType::kBf16);
  check(2, 3, DType::kBf16);
  for (const double offset : {1e-8, 10.0}) check(offset, 15, DType::kBf16);
  if (!has_kernels_of_its_own(DType::kFp32)) return;
  for (const double offset : {0.0, 10.0}) check(offset, 15, DType::kFp32);
}

TEST(Heads, GroupsAndBatches) {
  const int64_t heads[][2] = {{1, 1}, {4, 4}, {4, 2}, {6, 2}, {8, 1}};
  for (const auto& pair : heads)
    check_against_reference(make_problem(32), make_sizes(3, pair[0], pair[1], 50, 66),
                            InputKind::kGauss, with_small_tiles());
}

// fp16 and fp32 with few columns, bf16 with many.
TEST(Layouts, EveryOneGivesTheSame) {
  for (Layout layout :
       {Layout::kContiguous, Layout::kLengthMajor, Layout::kPadded, Layout::kUnaligned}) {
    CapiOptions options = with_small_tiles(kAllPasses);
    options.layout = layout;
    options.alignment = 0;
    for (DType dtype : dtypes())
      check_against_reference(make_problem(dtype == DType::kBf16 ? 128 : 40, dtype),
                              make_sizes(2, 4, 2, 70, 70), InputKind::kGauss, options);
  }
}

// The forward for training is the default's, which other tests compile too.
void check_dq_mode(const char* schedule, std::initializer_list<int> dims) {
  CapiOptions options = aligned();
  options.backward_schedule_json = schedule;
  int turn = 0;
  for (int dim : dims) {
    for (const auto& [dtype, causal] : types_and_masks(turn++))
      check_against_reference(make_problem(dim, dtype, causal),
                              make_sizes(1, 2, 1, causal ? 83 : 30, causal ? 83 : 70),
                              InputKind::kGauss, options);
  }
}

TEST(OrderedDq, OfEveryKernel) { check_dq_mode(R"({"dq_mode": "ordered"})", {32, 64, 256}); }

TEST(AtomicDq, OfEveryKernel) { check_dq_mode(R"({"dq_mode": "atomic"})", {64, 96, 128, 256}); }

// Schedules of Variant::kPortable, which every target has.
class Schedules : public testing::TestWithParam<std::tuple<DType, const char*>> {};

TEST_P(Schedules, GiveTheSame) {
  const auto& [dtype, schedule] = GetParam();
  CapiOptions options = aligned(kAllPasses);
  options.schedule_json = R"({"variant": "portable", )" + std::string(schedule + 1);
  const int64_t pairs[][2] = {{150, 150}, {64, 0}, {0, 64}, {200, 5}, {5, 200}};
  for (const auto& pair : pairs)
    check_against_reference(make_problem(64, dtype), make_sizes(1, 2, 1, pair[0], pair[1]),
                            InputKind::kGauss, options);
}

// A type for each, in turn: kernels of both differ in conversions only.
std::vector<std::tuple<DType, const char*>> types_in_turn(std::vector<const char*> schedules) {
  std::vector<std::tuple<DType, const char*>> settings;
  for (const char* schedule : schedules)
    settings.emplace_back(settings.size() % 2 == 0 ? DType::kBf16 : DType::kFp16, schedule);
  return settings;
}

INSTANTIATE_TEST_SUITE_P(
    All, Schedules,
    testing::ValuesIn(types_in_turn(
        {// No overlap of copies and work: what the caller copied must still be waited for.
         R"({"forward": {"stages": 1}, "dkdv": {"stages": 1}, "dq": {"stages": 1}})",
         R"({"forward": {"stages": 4}, "dkdv": {"stages": 3}, "dq": {"stages": 3}})",
         R"({"forward": {"block_rows": 16, "block_cols": 16}, "dkdv": {"block_rows": 16,
            "block_cols": 16}, "dq": {"block_rows": 16, "block_cols": 16}})",
         R"({"forward": {"block_rows": 128, "block_cols": 32}, "dkdv": {"block_rows": 128,
            "block_cols": 32}, "dq": {"block_rows": 128, "block_cols": 48}})",
         R"({"forward": {"block_cols": 128}, "block_dv": 16, "split_dkdv": true})",
         R"({"dq_mode": "atomic", "dkdv": {"block_rows": 64, "block_cols": 16, "stages": 1}})",
         R"({"dq_mode": "atomic", "split_dkdv": true, "dkdv": {"block_rows": 128,
            "block_cols": 32}})",
         R"({"dq_mode": "ordered", "split_dkdv": true, "dkdv": {"block_rows": 32,
            "block_cols": 16}})",
         R"({"load_path": "plain", "softplus_degree": 6})"})));

TEST(Batched, LongerThanManyTiles) {
  check_against_reference(make_problem(64), make_sizes(1, 1, 1, 601, 601), InputKind::kGauss,
                          aligned(kAllPasses));
  check_against_reference(make_problem(64, DType::kFp16, false, 3), make_sizes(1, 1, 1, 300, 577),
                          InputKind::kGauss, aligned(kAllPasses));
}

}  // namespace
}  // namespace lssar
