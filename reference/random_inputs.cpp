#include "reference/random_inputs.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/json_fields.h"
#include "codegen/visible_keys.h"
#include "reference/numerics.h"
#include "reference/rotary.h"

namespace lssar {

namespace {

constexpr EnumName<InputKind> kInputKindNames[] = {
    {InputKind::kGauss, "gauss"},         {InputKind::kPeaky, "peaky"},
    {InputKind::kClustered, "clustered"}, {InputKind::kOpposed, "opposed"},
    {InputKind::kTies, "ties"},           {InputKind::kNearTies, "near_ties"},
    {InputKind::kZeros, "zeros"},         {InputKind::kHuge, "huge"},
    {InputKind::kLocal, "local"},         {InputKind::kShifted, "shifted"}};

constexpr float kPeakyLength = 3.0f;
constexpr float kPeakyNoise = 0.1f;
constexpr int kClusters = 5;
constexpr float kClusterNoise = 0.2f;
constexpr float kOpposedNoise = 0.25f;
constexpr float kNearTieShare = 0.0625f;
constexpr int64_t kZeroEvery = 3;
constexpr float kHugeScale = 1e4f;
constexpr float kSinkScale = 3.0f;  // some sinks outweigh the keys
constexpr int64_t kRunLength = 64;
constexpr float kLocalNoise = 0.5f;
constexpr int64_t kShiftedRun = 32;  // rows at one level, so that whole warps share it
// A shifted row's scores in bits are between its level and level / its least share.
constexpr double kShiftedLevels[] = {3.03, 10.05};
constexpr double kLeastShares[] = {0.88, 0.965};
constexpr double kShiftedPart = 0.7;

// splitmix64.
class Random {
 public:
  Random(uint64_t seed, uint64_t stream) : state_(mix(seed) ^ mix(~stream)) {}

  uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15u); }
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(bound));
  }

  // The sum of 12 uniform 16-bit numbers minus its mean: standard deviation 1, within +-6. It uses
  // whole numbers until the last step, because C libraries differ in their logarithms and cosines.
  float gauss() {
    int64_t sum = 0;
    for (int word = 0; word < 3; ++word) {
      const uint64_t bits = next();
      for (int shift = 0; shift < 64; shift += 16) sum += (bits >> shift) & 0xFFFF;
    }
    return static_cast<float>(sum - 6 * 0xFFFF) * 0x1p-16f;
  }

 private:
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  uint64_t state_;
};

// The purpose of each stream of a seed. The values must never change, or the numbers would.
enum Stream : uint64_t {
  kStreamQ = 1,
  kStreamK,
  kStreamV,
  kStreamGradO,
  kStreamCentres,
  kStreamPick,
  kStreamPickKeys,  // kStreamPick + 1
  kStreamSink,
  kStreamAlibi
};

// All rows of one tensor, over heads and batches.
struct Rows {
  std::vector<float> values;
  int64_t count = 0, dim = 0;

  float* row(int64_t i) { return values.data() + i * dim; }
  const float* row(int64_t i) const { return values.data() + i * dim; }
};

Rows gauss_rows(uint64_t seed, Stream stream, int64_t count, int64_t dim) {
  Rows rows{std::vector<float>(count * dim), count, dim};
  Random random(seed, stream);
  for (float& value : rows.values) value = random.gauss();
  return rows;
}

// row = sign * centre + noise * row, with a random centre for each row.
void pull_to_centres(Rows& rows, const Rows& centres, float sign, float noise, Random& random) {
  for (int64_t i = 0; i < rows.count; ++i) {
    const float* centre = centres.row(random.below(centres.count));
    for (int64_t c = 0; c < rows.dim; ++c) {
      rows.row(i)[c] = sign * centre[c] + noise * rows.row(i)[c];
    }
  }
}

void zero_some(Rows& rows) {
  for (int64_t i = 0; i < rows.count; i += kZeroEvery) {
    for (int64_t c = 0; c < rows.dim; ++c) rows.row(i)[c] = 0;
  }
}

// Puts keys into the first half of the dimensions and queries almost into the second. Every score
// is then near 0, although the keys still differ.
void turn_apart(Rows& q, Rows& k) {
  const int64_t half = k.dim / 2;
  for (int64_t i = 0; i < k.count; ++i)
    for (int64_t c = half; c < k.dim; ++c) k.row(i)[c] = 0;
  for (int64_t i = 0; i < q.count; ++i)
    for (int64_t c = 0; c < half; ++c) q.row(i)[c] *= kNearTieShare;
}

// Pulls position j of every head to centre j / kRunLength.
void follow_runs(Rows& rows, const Rows& centres, int64_t length) {
  for (int64_t i = 0; i < rows.count; ++i) {
    const float* centre = centres.row(i % length / kRunLength);
    for (int64_t c = 0; c < rows.dim; ++c)
      rows.row(i)[c] = centre[c] + kLocalNoise * rows.row(i)[c];
  }
}

// log(x) for x > 0. It uses only additions and multiplications, because C libraries differ.
double natural_log(double x) {
  int exponent = 0;
  const double y = std::frexp(x, &exponent);
  const double z = (y - 1) / (y + 1);
  double power = z, sum = 0;
  for (int n = 1; n < 60; n += 2, power *= z * z) sum += power / n;
  return 2 * sum + exponent * std::numbers::ln2;
}

// Keeps the row's dimensions from `first` on, scaled to that length. The others become 0.
void keep_from(float* row, int64_t dim, int64_t first, double length) {
  double square = 0;
  for (int64_t c = first; c < dim; ++c) square += double{row[c]} * row[c];
  const double factor = square > 0 ? length / std::sqrt(square) : 0;
  for (int64_t c = 0; c < dim; ++c) row[c] = c < first ? 0 : static_cast<float>(row[c] * factor);
}

// Keys are unit vectors that differ a little along two axes. A query lies along one of these axes
// by the row's share, and along a third axis, on which keys are 0, by what makes it a unit vector.
void shift_scores(Rows& q, Rows& k, const Problem& problem, const Sizes& sizes) {
  constexpr int kLevels = 2;
  if (q.dim <= kLevels + 1) return;
  Random draw(static_cast<uint64_t>(k.count), kStreamPick);
  for (int64_t j = 0; j < k.count; ++j) {
    double parts[kLevels], square = 0;
    for (int axis = 0; axis < kLevels; ++axis) {
      const double place = static_cast<double>(draw.below(1024)) / 1024;
      parts[axis] = kShiftedPart * (kLeastShares[axis] + (1 - kLeastShares[axis]) * place);
      square += parts[axis] * parts[axis];
    }
    keep_from(k.row(j), k.dim, kLevels + 1, std::sqrt(1 - square));
    for (int axis = 0; axis < kLevels; ++axis) k.row(j)[axis] = static_cast<float>(parts[axis]);
  }
  for (int64_t i = 0; i < q.count; ++i) {
    const int64_t row = i % sizes.seq_q;
    const int64_t keys = visible_keys(problem, sizes.seq_q, sizes.seq_k, row).count();
    const double visible = static_cast<double>(std::max<int64_t>(keys, 2));
    const int axis = static_cast<int>(row / kShiftedRun % kLevels);
    const double bits = natural_log(q.dim) * natural_log(visible) / natural_log(2);
    const double share =
        std::min(kShiftedLevels[axis] / (bits * kShiftedPart * kLeastShares[axis]), 1.0);
    keep_from(q.row(i), q.dim, q.dim, 0);
    q.row(i)[axis] = static_cast<float>(share);
    q.row(i)[kLevels] = static_cast<float>(std::sqrt(1 - share * share));
  }
}

void scale(Rows& rows, float factor) {
  for (float& value : rows.values) value *= factor;
}

// Points every query at a random key of its batch and kv head.
void point_at_keys(Rows& q, const Rows& k, const Sizes& sizes, Random& random) {
  if (k.count == 0) return;
  const int64_t group = sizes.heads / sizes.kv_heads;
  for (int64_t i = 0; i < q.count; ++i) {
    const int64_t kv_head = i / sizes.seq_q / group;  // counts across batches too
    const float* key = k.row(kv_head * sizes.seq_k + random.below(sizes.seq_k));
    for (int64_t c = 0; c < q.dim; ++c) {
      q.row(i)[c] = kPeakyLength * (key[c] + kPeakyNoise * q.row(i)[c]);
    }
  }
}

void shape_rows(InputKind kind, const Problem& problem, const Sizes& sizes, uint64_t seed, Rows& q,
                Rows& k) {
  const int64_t runs = std::max(sizes.seq_q, sizes.seq_k) / kRunLength + 1;
  const int64_t count = kind == InputKind::kClustered ? kClusters
                        : kind == InputKind::kLocal   ? runs
                                                      : 1;
  const Rows centres = gauss_rows(seed, kStreamCentres, count, q.dim);
  Random pick_q(seed, kStreamPick), pick_k(seed, kStreamPick + 1);
  switch (kind) {
    case InputKind::kGauss:
      return;
    case InputKind::kPeaky:
      return point_at_keys(q, k, sizes, pick_q);
    case InputKind::kClustered:
      pull_to_centres(q, centres, 1, kClusterNoise, pick_q);
      return pull_to_centres(k, centres, 1, kClusterNoise, pick_k);
    case InputKind::kOpposed:
      pull_to_centres(q, centres, 1, kOpposedNoise, pick_q);
      return pull_to_centres(k, centres, -1, kOpposedNoise, pick_k);
    case InputKind::kTies:
      return pull_to_centres(k, centres, 1, 0, pick_k);
    case InputKind::kNearTies:
      return turn_apart(q, k);
    case InputKind::kZeros:
      zero_some(q);
      return zero_some(k);
    case InputKind::kHuge:
      scale(q, kHugeScale);
      return scale(k, kHugeScale);
    case InputKind::kLocal:
      follow_runs(q, centres, sizes.seq_q);
      return follow_runs(k, centres, sizes.seq_k);
    case InputKind::kShifted:
      return shift_scores(q, k, problem, sizes);
  }
}

}  // namespace

const char* input_kind_name(InputKind kind) { return enum_name(kInputKindNames, kind); }

Result<InputKind> parse_input_kind(const std::string& name) {
  return parse_enum(kInputKindNames, "data", name);
}

RandomInputs random_inputs(const Problem& problem, const Sizes& sizes, InputKind kind,
                           uint64_t seed) {
  const int64_t queries = sizes.batch * sizes.heads * sizes.seq_q;
  const int64_t keys = sizes.batch * sizes.kv_heads * sizes.seq_k;
  Rows q = gauss_rows(seed, kStreamQ, queries, problem.head_dim);
  Rows k = gauss_rows(seed, kStreamK, keys, problem.head_dim);
  Rows v = gauss_rows(seed, kStreamV, keys, problem.head_dim_v);
  Rows grad_o = gauss_rows(seed, kStreamGradO, queries, problem.head_dim_v);
  shape_rows(kind, problem, sizes, seed, q, k);
  for (Rows* rows : {&q, &k, &v, &grad_o}) round_all(problem.dtype, rows->values);
  Rows sink = gauss_rows(seed, kStreamSink, problem.score.sink == Sink::kNone ? 0 : sizes.heads, 1);
  scale(sink, kSinkScale);
  std::vector<float> slopes;
  if (problem.score.alibi != Alibi::kNone) slopes = random_alibi_slopes(sizes.heads, seed);
  RotaryTables rotary = rotary_tables(sizes.seq_k, problem.rotary_dim);
  return {std::move(q.values),      std::move(k.values),    std::move(v.values),
          std::move(grad_o.values), std::move(sink.values), std::move(rotary.cos),
          std::move(rotary.sin),    std::move(slopes)};
}

std::vector<float> random_alibi_slopes(int64_t heads, uint64_t seed) {
  constexpr int kHalvings = 9, kOneBelowZero = 5;  // one in 5
  Random random(seed, kStreamAlibi);
  std::vector<float> slopes;
  for (int64_t head = 0; head < heads; ++head) {
    const float size = std::ldexp(1.0f, -static_cast<int>(random.below(kHalvings)));
    slopes.push_back(random.below(kOneBelowZero) == 0 ? -size : size);
  }
  return slopes;
}

std::vector<float> random_gauss(uint64_t seed, size_t count) {
  return gauss_rows(seed, kStreamQ, static_cast<int64_t>(count), 1).values;
}

}  // namespace lssar
