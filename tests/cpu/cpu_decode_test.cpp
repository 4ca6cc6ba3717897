// Calls of few queries (templates/cpu/few_queries.h): one kernel for all of these.
#include <array>
#include <cmath>

#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

const Problem& decode_problem() {
  static const Problem made = forward_problem(DType::kBf16, 24, 40, 15, true);
  return made;
}

// Around the lanes (8, 16), panels (16, 64), blocks of packing (128) and of keys (256); up to eight
// rows share a head's keys, and with more than eight keys are packed.
TEST(CpuDecode, EveryLengthAndGroup) {
  LSSAR_NEEDS_CPU_KERNELS();
  for (const auto& [heads, kv_heads, q, k] : std::vector<std::array<int, 4>>{
           {1, 1, 1, 1},   {2, 2, 1, 7},   {2, 1, 1, 8},   {4, 2, 1, 9},   {8, 1, 1, 63},
           {4, 1, 2, 64},  {2, 2, 8, 65},  {2, 2, 9, 129}, {9, 1, 1, 130}, {1, 1, 3, 257},
           {6, 3, 4, 511}, {1, 1, 5, 1000}})
    check_forward(decode_problem(), sizes_with(2, heads, kv_heads, q, k), InputKind::kGauss);
  for (const InputKind kind : kSpecialKinds)
    check_forward(decode_problem(), sizes_with(1, 2, 1, 2, 300), kind);
  CpuRun run;
  run.gap = 13;
  check_forward(decode_problem(), sizes_with(2, 4, 2, 2, 77), InputKind::kGauss, run);
}

// Its statistics are those of many queries, but for rounding. A row that is one of many, and the
// same row alone: query 99 of 100 sees all keys.
TEST(CpuDecode, AgreesWithTheRowOfMany) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Sizes many = sizes_with(1, 1, 1, 100, 300), one = sizes_with(1, 1, 1, 1, 300);
  RandomInputs in = random_inputs(decode_problem(), many, InputKind::kGauss, 7);
  const std::string target = cpu_target_names()[0];
  const auto of_many = run_cpu_kernel(target, decode_problem(), many, {in.q, in.k, in.v});
  in.q.erase(in.q.begin(), in.q.end() - 24);
  const auto of_one = run_cpu_kernel(target, decode_problem(), one, {in.q, in.k, in.v});
  ASSERT_TRUE(of_many.ok() && of_one.ok());
  for (int i = 0; i < 4; ++i) {
    const float expected = of_many->stats[100 * i + 99];
    EXPECT_NEAR(of_one->stats[i], expected, 1e-4 * std::abs(expected)) << "number " << i;
  }
}

// A NaN in a key is in every row, one in a query in that row. A value that weighs nothing is not
// read, and one that weighs something is.
TEST(CpuDecode, NanIsInTheRowsThatSeeIt) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Sizes sizes = sizes_with(1, 2, 1, 2, 290);
  const auto rows_with_nan = [&](const RandomInputs& in) {
    const auto out =
        run_cpu_kernel(cpu_target_names()[0], decode_problem(), sizes, {in.q, in.k, in.v});
    std::string rows;
    for (int64_t row = 0; out.ok() && row < 4; ++row)
      rows += all_nan(out->o, row * 40, 40) ? "n" : has_nan(out->o, row * 40, 40) ? "?" : "-";
    return rows;
  };
  const RandomInputs good = random_inputs(decode_problem(), sizes, InputKind::kGauss, 8);
  EXPECT_EQ(rows_with_nan(good), "----");
  RandomInputs in = good;
  in.k[200 * 24 + 23] = kNan;
  EXPECT_EQ(rows_with_nan(in), "nnnn");
  in = good;
  in.k[289 * 24] = kNan;  // only the second query of a head sees the last key
  EXPECT_EQ(rows_with_nan(in), "-n-n");
  in = good;
  in.q[2 * 24 + 5] = kNan;
  EXPECT_EQ(rows_with_nan(in), "--n-");
  in = good;
  in.v[7 * 40 + 39] = kNan;
  for (int d = 0; d < 24; ++d) in.k[7 * 24 + d] = in.q[3 * 24 + d];  // the largest score of row 3
  EXPECT_EQ(rows_with_nan(in).substr(3), "?");
}

}  // namespace
}  // namespace lssar
