// The forward's two passes over ranges of keys, with the source of the widest CPU target. The C
// API's tests (capi_key_ranges_test, family_ranges_test) have the rules and all score functions, at
// the target of this machine.
#include <algorithm>
#include <cmath>

#include "score/score_text.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

// A problem of one head whose keys are cut at `cuts`, merged as docs/math.md says.
class Ranges {
 public:
  Ranges(const Problem& problem, const Sizes& sizes, const RandomInputs& inputs, int threads)
      : problem_(problem), sizes_(sizes), inputs_(inputs) {
    run_.threads = threads;
  }

  // The merged planes of the row sums, and those of every weighted sum: {o, undivided; stats}.
  Result<CpuOutputs> run(std::vector<int64_t> cuts) {
    cuts.push_back(sizes_.seq_k);
    std::vector<float> merged;
    LSSAR_RETURN_IF_ERROR(for_each_range(Pass::kRowSums, cuts, {}, [&](const CpuOutputs& part) {
      merged = merged.empty() ? part.stats : merge(merged, part.stats);
    }));
    CpuOutputs all;
    const auto rows = static_cast<size_t>(sizes_.seq_q);
    all.o.assign(rows * static_cast<size_t>(problem_.head_dim_v), 0.0f);
    std::vector<float> zs(rows, 0.0f);
    LSSAR_RETURN_IF_ERROR(
        for_each_range(Pass::kWeightedSum, cuts, merged, [&](const CpuOutputs& part) {
          for (size_t i = 0; i < all.o.size(); ++i) all.o[i] += part.partial_o[i];
          for (size_t i = 0; i < rows; ++i) zs[i] += part.stats[2 * rows + i];
        }));
    for (size_t i = 0; i < all.o.size(); ++i) {
      const float z = zs[i / static_cast<size_t>(problem_.head_dim_v)];
      all.o[i] = z == 0.0f ? 0.0f : all.o[i] / z;
    }
    all.stats = merged;
    return all;
  }

 private:
  template <typename Take>
  Status for_each_range(Pass pass, const std::vector<int64_t>& cuts,
                        const std::vector<float>& stats, const Take& take) {
    Problem problem = problem_;
    problem.pass = pass;
    int64_t first = 0;
    for (const int64_t end : cuts) {
      Sizes sizes = sizes_;
      sizes.seq_k = end - first;
      sizes.range = {first, sizes_.seq_k, 0, sizes_.seq_q};
      const auto part = [&](const std::vector<float>& x, int dim) {
        return std::vector<float>(x.begin() + first * dim, x.begin() + end * dim);
      };
      CpuInputs inputs{inputs_.q, part(inputs_.k, problem.head_dim),
                       part(inputs_.v, problem.head_dim_v)};
      inputs.stats = stats;
      inputs.sink = inputs_.sink;
      inputs.alibi_slopes = inputs_.alibi_slopes;
      LSSAR_ASSIGN_OR_RETURN(const CpuOutputs outputs,
                             run_cpu_kernel("x86-64-v4", problem, sizes, inputs, run_));
      take(outputs);
      first = end;
    }
    return {};
  }

  // Plane 0 is summed in the unit of the larger plane 2. LSSAR's kernels leave planes 1 and 2.
  std::vector<float> merge(std::vector<float> a, const std::vector<float>& b) const {
    const auto rows = static_cast<size_t>(sizes_.seq_q);
    for (size_t i = 0; i < rows; ++i) {
      const float unit = std::max(a[2 * rows + i], b[2 * rows + i]);
      const auto term = [&](const std::vector<float>& x) {
        return x[i] == 0.0f ? 0.0f : x[i] * std::exp2(x[2 * rows + i] - unit);
      };
      a[i] = term(a) + term(b);
      for (size_t plane = 1; plane < 4; ++plane)
        a[plane * rows + i] = std::max(a[plane * rows + i], b[plane * rows + i]);
    }
    return a;
  }

  const Problem problem_;
  const Sizes sizes_;
  const RandomInputs inputs_;
  CpuRun run_;
};

// Ranges that are empty, whole blocks, and seen by no row or by some. The bits are those of one
// thread.
void check_ranges(const Problem& problem, const Sizes& sizes,
                  const std::vector<std::vector<int64_t>>& all_cuts) {
  const RandomInputs inputs = random_inputs(problem, sizes, InputKind::kGauss, 77);
  const auto expected = reference_attention(problem, sizes,
                                            {widened(inputs.q),
                                             widened(inputs.k),
                                             widened(inputs.v),
                                             {},
                                             widened(inputs.sink),
                                             {},
                                             {},
                                             widened(inputs.alibi_slopes)});
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  for (const std::vector<int64_t>& cuts : all_cuts) {
    SCOPED_TRACE(std::to_string(cuts.size()) + " cuts");
    const auto one = Ranges(problem, sizes, inputs, 1).run(cuts);
    expect_o(problem, *expected, one);
    const auto three = Ranges(problem, sizes, inputs, 3).run(cuts);
    ASSERT_TRUE(three.ok());
    EXPECT_EQ(three->o, one->o);
    EXPECT_EQ(three->stats, one->stats);
  }
}

TEST(CpuRanges, OfLssarAddUp) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Problem problem = forward_problem(DType::kFp32, 40, 24, 15, true);
  const std::vector<std::vector<int64_t>> cuts = {{}, {256}, {0, 1, 300}, {311, 311}};
  check_ranges(problem, sizes_with(1, 1, 1, 53, 337), cuts);
  check_ranges(problem, sizes_with(1, 1, 1, 60, 41), {{17}});  // some rows see no keys
  check_ranges(problem, sizes_with(1, 1, 1, 0, 5), {{2}});
}

TEST(CpuRanges, OfExpressionsAddUp) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem = forward_problem(DType::kBf16, 24, 40, 0, true);
  problem.score = *parse_score("softmax,sink=per_head");
  check_ranges(problem, sizes_with(1, 1, 1, 53, 337), {{}, {0, 256, 300}});
}

// Distances count from the first key of all ranges.
TEST(CpuRanges, OfAlibiAddUp) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem = forward_problem(DType::kFp32, 24, 16, 0, false);
  problem.score = *parse_score("softmax,soft_cap=2,alibi=per_head,sink=per_head");
  check_ranges(problem, sizes_with(1, 1, 1, 53, 337), {{}, {0, 256, 300}});
}

// N counts what a window leaves of all ranges. Windows begin and end in other ranges than the
// first keys, which stay visible.
TEST(CpuRanges, OfWindowsAddUp) {
  LSSAR_NEEDS_CPU_KERNELS();
  Problem problem = forward_problem(DType::kFp32, 24, 24, 15, true);
  problem.window_left = 60;
  problem.window_sinks = 5;
  const Sizes sizes = sizes_with(1, 1, 1, 53, 337);
  check_ranges(problem, sizes, {{}, {3, 40, 256}, {0, 290, 300, 336}});
  problem.p = 0;
  problem.score = *parse_score("softmax");
  check_ranges(problem, sizes, {{3, 40, 256}, {290, 300}});
}

}  // namespace
}  // namespace lssar
