// How many tiles a kernel's blocks walk over, and which form of softplus their rows take.
#include <algorithm>
#include <cmath>

#include "autotune/model/kernel_work.h"
#include "codegen/launch_step.h"
#include "codegen/pass_needs.h"
#include "codegen/sizes.h"
#include "codegen/visible_keys.h"

namespace lssar {
namespace {

// More blocks than this are sampled at equal distances, because the sum is smooth.
constexpr int64_t kMostSummed = 128;

double ceil_div(double a, double b) { return std::ceil(a / b); }

// The sum of tiles_of(i) over `blocks` blocks.
template <typename TilesOf>
TileCount sum_tiles(int64_t blocks, const TilesOf& tiles_of) {
  TileCount count;
  count.blocks = static_cast<double>(blocks);
  const int64_t samples = std::min(blocks, kMostSummed);
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t block = samples == blocks ? i : (2 * i + 1) * blocks / (2 * samples);
    count.tiles += tiles_of(block);
  }
  if (samples > 0) count.tiles *= count.blocks / static_cast<double>(samples);
  if (blocks > 0) {
    count.longest = std::max(tiles_of(0), tiles_of(blocks - 1));
    count.shortest = std::min(tiles_of(0), tiles_of(blocks - 1));
  }
  return count;
}

// Key tiles that the rows from `first` to `last` see.
double tiles_of_rows(const Problem& problem, const Sizes& sizes, int64_t first, int64_t last,
                     int cols) {
  return static_cast<double>(
      visible_key_tiles(problem, sizes.seq_q, sizes.seq_k, first, last, cols).count());
}

// The mean of softplus over normally distributed arguments: that of max(x, 0), widened so that a
// deviation of 0 gives log(2). Within 2 %.
double mean_softplus(double deviation) {
  const double narrow = std::log(2.0) * std::sqrt(2 * M_PI);
  // NOTE: not hypot: it alone would make the library need glibc 2.35.
  return std::sqrt(deviation * deviation + narrow * narrow) / std::sqrt(2 * M_PI);
}

// The row of sixteen whose largest weight is the smallest, for Gaussian q and k. A warp takes one
// form for all of its rows. U = softplus / mean - offset, up to `top`, in natural units.
struct DecidingRow {
  double mean, offset, top;

  // The score, in bits, of a weight u = U / top.
  double score(double u) const {
    return std::log(std::expm1(mean * (offset + u * top))) / std::log(2.0);
  }
  double weight_per_bit() const { return std::log(2.0) / (mean * top); }
};

DecidingRow deciding_row(const Problem& problem, double keys) {
  const double deviation =
      std::log(problem.head_dim) * std::log(keys) / std::sqrt(problem.head_dim);
  const double width = std::sqrt(2 * std::log(keys));
  // The largest of this many normal numbers, minus the distance to the smallest of sixteen such
  // ones.
  const double largest =
      width - (std::log(std::log(keys)) + std::log(4 * M_PI)) / (2 * width) - 1.0 / width;
  const double mean = mean_softplus(deviation);
  const double offset = problem.p == 0 ? 0 : problem.offset;
  return {mean, offset, deviation * largest / mean - offset};
}

// Rows scatter around the deciding one by this many bits.
double share_above(double score, double limit) {
  constexpr double kScatterBits = 0.7;
  return 1 / (1 + std::exp(-(score - limit) / kScatterBits));
}

// The shares of rows with this many keys whose scores allow the short form, and the linear one. The
// kernels decide the same way (templates/tile/score.cuh, kernels/backward_rows.cuh).
struct FormShares {
  double brief, linear;
};
FormShares form_shares(const Problem& problem, const Schedule& schedule, double keys) {
  constexpr double kBriefLimit = 3, kLinearLimit = 10;
  constexpr double kMaxChangeFp16 = 1.0 / 4096, kMaxChange = 1.0 / 512;
  const bool is_backward = problem.pass == Pass::kBackward;
  const int power = std::max(problem.p, 1) - (is_backward || sums_x(problem, schedule) ? 1 : 0);
  if (keys < 16 || power == 0) return {0, 0};
  const DecidingRow row = deciding_row(problem, keys);
  if (row.top <= 0) return {0, 0};
  const double cut = row.score(std::exp2(-kCutBits / power));
  const double brief = share_above(cut, kBriefLimit);
  if (!is_backward) return {brief, share_above(cut, kLinearLimit)};
  // The linear form is off by 2^-x log2(e), and a sigmoid of 1 by ln 2 times that.
  const double most = std::exp2(-kMostBits / power);
  const double allowed = problem.dtype == DType::kFp16 ? kMaxChangeFp16 : kMaxChange;
  const double change = std::max(problem.p * row.weight_per_bit() / most, M_LN2);
  const double limit = std::log2(change * M_LOG2E / allowed);
  return {brief, std::min(brief, share_above(row.score(most), limit))};
}

// The share of all keys that the row at `place` (0 to 1) among all sees.
double visible_share(const Problem& problem, const Sizes& sizes, double place) {
  if (sizes.seq_q == 0 || sizes.seq_k == 0) return 0;
  const auto row = static_cast<int64_t>(place * static_cast<double>(sizes.seq_q));
  const VisibleKeys keys = visible_keys(problem, sizes.seq_q, sizes.seq_k, row);
  return static_cast<double>(keys.count()) / static_cast<double>(sizes.seq_k);
}

}  // namespace

TileCount query_tiles(const Problem& problem, const Sizes& sizes, int rows, int cols) {
  return sum_tiles((sizes.seq_q + rows - 1) / rows, [&](int64_t block) {
    const int64_t last = std::min((block + 1) * rows, sizes.seq_q) - 1;
    return tiles_of_rows(problem, sizes, block * rows, last, cols);
  });
}

double query_tiles_beyond(const Problem& problem, const Sizes& sizes, int rows, int cols,
                          int64_t kept_keys) {
  const double kept = static_cast<double>(kept_keys) / cols;
  return sum_tiles((sizes.seq_q + rows - 1) / rows,
                   [&](int64_t block) {
                     const int64_t last = std::min((block + 1) * rows, sizes.seq_q) - 1;
                     const double all =
                         tiles_of_rows(problem, sizes, block * rows, last, cols);
                     return std::max(all - kept, 0.0);
                   })
      .tiles;
}

TileCount packed_query_tiles(const Problem& problem, const Sizes& sizes, int packed_rows, int rows,
                             int cols) {
  const int64_t group = std::max<int64_t>(sizes.heads / std::max<int64_t>(sizes.kv_heads, 1), 1);
  const int64_t tiles = packed_tiles(sizes.seq_q, group, packed_rows);
  const int64_t tiles_of_block = rows / packed_rows;
  const int64_t parts = (group + packed_rows - 1) / packed_rows;
  const int64_t whole = std::max<int64_t>(packed_rows / group, 1);
  return sum_tiles((tiles + tiles_of_block - 1) / tiles_of_block, [&](int64_t block) {
    const int64_t first = block * tiles_of_block / parts * whole;
    const int64_t end = std::min((block + 1) * tiles_of_block, tiles);
    const int64_t queries = std::min((end + parts - 1) / parts * whole, sizes.seq_q);
    return tiles_of_rows(problem, sizes, first, queries - 1, cols);
  });
}

TileCount key_tiles(const Problem& problem, const Sizes& sizes, int rows, int cols) {
  return sum_tiles((sizes.seq_k + rows - 1) / rows, [&](int64_t block) {
    const int64_t end_key = std::min((block + 1) * rows, sizes.seq_k);
    const SeeingRows seeing = seeing_rows(problem, sizes.seq_q, sizes.seq_k, block * rows, end_key);
    if (seeing.begin == seeing.end) return 0.0;
    return ceil_div(static_cast<double>(seeing.end - seeing.begin / cols * cols), cols);
  });
}

EvaluatorMix evaluator_mix(const Problem& problem, const Sizes& sizes, const Schedule& schedule) {
  constexpr int kSamples = 8;  // of rows, by their number of keys
  EvaluatorMix mix;
  if (!may_abridge_softplus(problem, schedule) || schedule.hopper.evaluator == Evaluator::kFull)
    return mix;
  double weight = 0, brief = 0, linear = 0;
  for (int i = 0; i < kSamples; ++i) {
    double share = problem.causal ? (i + 0.5) / kSamples : 1.0;
    if (has_window(problem)) share = visible_share(problem, sizes, (i + 0.5) / kSamples);
    const double keys = share * static_cast<double>(sizes.seq_k);
    const FormShares forms = form_shares(problem, schedule, keys);
    weight += share;
    brief += share * forms.brief;
    linear += share * forms.linear;
  }
  if (weight == 0) return mix;
  mix.linear = schedule.hopper.evaluator == Evaluator::kLinear ? linear / weight : 0;
  mix.brief = brief / weight - mix.linear;
  mix.full = 1 - mix.brief - mix.linear;
  return mix;
}

}  // namespace lssar
