#include "autotune/measure/check_cases.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/visible_keys.h"

namespace lssar {
namespace {

constexpr int64_t kMaxTile = 256;

// The longest tile along either length: a block's rows, or the columns that it walks over.
struct Tiles {
  int64_t q = 16;
  int64_t k = 16;
};

Tiles tiles_of(const Problem& problem, const Schedule& schedule, const KernelSource& source) {
  Tiles tiles;
  const auto raise = [](int64_t* tile, int64_t to) {
    *tile = std::min(std::max(*tile, to), kMaxTile);
  };
  if (schedule.variant == Variant::kCpu) raise(&tiles.k, schedule.cpu.block_keys);
  if (splits_keys(schedule)) return {tiles.q, schedule.split_keys};  // a chunk
  // Few queries have cases of their own.
  for (const LaunchStep& step : source.steps) {
    if (step.most_rows != 0) continue;
    raise(step.grid_rows == GridRows::kQueries ? &tiles.q : &tiles.k, step.rows_per_block);
  }
  if (schedule.variant == Variant::kCpu) return tiles;
  if (problem.pass == Pass::kBackward) {
    raise(&tiles.q, schedule.dkdv.block_cols);
    raise(&tiles.k, schedule.dq.block_cols);
  } else {
    raise(&tiles.k, schedule.forward.block_cols);
    if (schedule.variant == Variant::kHopper) raise(&tiles.k, schedule.hopper.score_cols);
  }
  return tiles;
}

struct Shape {
  int64_t seq_q, seq_k;
  InputKind data;
  int64_t batch = 1;
  bool strict = false;
};

std::vector<Shape> quick_shapes(const Tiles& t) {
  return {
      // One row and more than one tile beyond the edges. The diagonal is not at a tile's corner.
      {t.q + 1, std::max(t.q + 8, 2 * t.k + 1), InputKind::kGauss},
      // More queries than keys: with a causal mask the first rows see no key.
      {t.q + t.q / 2 + 3, t.k + 5, InputKind::kPeaky},
      {t.q / 2 + 1, t.q / 2 + 1, InputKind::kOpposed},
  };
}

std::vector<Shape> full_shapes(const Tiles& t) {
  return {
      {t.q + 1, std::max(t.q + 8, 2 * t.k + 1), InputKind::kGauss, 2, true},
      {t.q + t.q / 2 + 3, t.k + 5, InputKind::kPeaky, 1, true},
      {t.q / 2 + 1, t.q / 2 + 1, InputKind::kOpposed},
      {t.q, t.k, InputKind::kClustered},
      {t.q - 1, t.k - 1, InputKind::kZeros, 2},
      {t.q + 1, t.k + 1, InputKind::kNearTies},
      {2 * t.q, 2 * t.q, InputKind::kGauss},
      {2 * t.q + 1, 2 * t.q + 1, InputKind::kHuge},
      {1, 3 * t.k + 5, InputKind::kGauss},
      {1, 1, InputKind::kGauss, 3},
      {t.q + 5, 7, InputKind::kGauss},
      {3 * t.q + 5, 3 * t.q + 5 + t.k, InputKind::kGauss},
      {t.q + 3, t.k + 3, InputKind::kTies},
  };
}

constexpr int64_t kMostKeys = 20000;  // more are too many for the reference

// A few queries with keys that the window hides from each.
std::vector<Shape> shapes_beyond_window(const Problem& problem, const Tiles& t) {
  if (!has_window(problem)) return {};
  const int64_t first = std::max(problem.prefix, problem.window_sinks);
  const int64_t around =
      std::max({problem.window_left, window_right_of(problem), problem.chunk});
  const int64_t reach = first + std::max<int64_t>(around, 0);
  if (reach > kMostKeys) return {};
  return {{t.q + 1, reach + t.q + 2 * t.k + 3, InputKind::kGauss}};
}

// A few queries with more keys than a CPU's schedule keeps activations of.
std::vector<Shape> shapes_beyond_kept(const Problem& problem, const Schedule& schedule,
                                      const Tiles& t) {
  const int64_t kept = schedule.cpu.kept_keys;
  const bool has_rest = schedule.variant == Variant::kCpu && problem.pass != Pass::kBackward;
  if (!has_rest || kept == 0 || kept > kMostKeys) return {};
  return {{t.q + 1, kept + t.k + 3, InputKind::kGauss}};
}

// The case's sequences among others: an empty one, a short one, and one that has keys only.
SequenceLengths lengths_around(const Shape& shape) {
  SequenceLengths lengths;
  for (int64_t b = 0; b < shape.batch; ++b) lengths.add(shape.seq_q, shape.seq_k);
  lengths.add(0, 0);
  lengths.add((shape.seq_q + 2) / 3, (shape.seq_k + 1) / 2);
  lengths.add(0, 5);
  return lengths;
}

}  // namespace

std::string CheckCase::to_string() const {
  const std::string shape =
      lengths.empty() ? fmt::format("{}x{}, batch {}", sizes.seq_q, sizes.seq_k, sizes.batch)
                      : "lengths " + lssar::to_string(lengths);
  return fmt::format("{} data, {}, heads {}/{}", input_kind_name(data), shape, sizes.heads,
                     sizes.kv_heads);
}

std::vector<CheckCase> check_cases(const Problem& problem, const Sizes& sizes,
                                   const Schedule& schedule, const KernelSource& source,
                                   CheckDepth depth) {
  const Tiles tiles = tiles_of(problem, schedule, source);
  const int64_t ratio = sizes.kv_heads > 0 ? std::max<int64_t>(1, sizes.heads / sizes.kv_heads) : 1;
  std::vector<Shape> shapes =
      depth == CheckDepth::kQuick ? quick_shapes(tiles) : full_shapes(tiles);
  for (const Shape& shape : shapes_beyond_kept(problem, schedule, tiles)) shapes.push_back(shape);
  for (const Shape& shape : shapes_beyond_window(problem, tiles)) shapes.push_back(shape);
  std::vector<CheckCase> cases;
  for (Shape shape : shapes) {
    // The first queries would stand before position 0.
    if (problem.rotary_dim != 0) shape.seq_k = std::max(shape.seq_k, shape.seq_q);
    CheckCase one;
    one.sizes.batch = shape.batch;
    one.sizes.kv_heads = ratio <= 4 ? 2 : 1;
    one.sizes.heads = ratio * one.sizes.kv_heads;
    one.sizes.seq_q = problem.seq_q != 0 ? problem.seq_q : shape.seq_q;
    one.sizes.seq_k = problem.seq_k != 0 ? problem.seq_k : shape.seq_k;
    one.data = shape.data;
    one.strict = shape.strict;
    if (problem.varlen) {
      one.lengths = lengths_around(shape);
      one.sizes = sizes_of_call(one.lengths, one.sizes.heads, one.sizes.kv_heads);
    }
    cases.push_back(one);
  }
  return cases;
}

Problem with_open_lengths(const Problem& problem, const Schedule& schedule) {
  Problem open = problem;
  open.seq_k = 0;
  if (problem.varlen || !splits_keys(schedule)) open.seq_q = 0;
  return open;
}

}  // namespace lssar
