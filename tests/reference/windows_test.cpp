// Which keys a row sees in a window, and the reference with windows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "codegen/visible_keys.h"
#include "reference/numerics.h"
#include "reference/random_inputs.h"
#include "reference/reference.h"

namespace lssar {
namespace {

struct Window {
  int64_t left, right, sinks, prefix, chunk;
  bool causal;
};

Problem with_window(const Window& window) {
  Problem problem;
  problem.window_left = window.left;
  problem.window_right = window.right;
  problem.window_sinks = window.sinks;
  problem.prefix = window.prefix;
  problem.chunk = window.chunk;
  problem.causal = window.causal;
  return problem;
}

// Every combination of no limit, narrow ones, and ones that end within a tile.
std::vector<Problem> windows() {
  std::vector<Problem> all;
  for (const bool causal : {false, true})
    for (const int64_t left : {-1, 0, 3, 9})
      for (const int64_t right : {-1, 0, 2, 7})
        for (const int64_t sinks : {0, 1, 6})
          for (const int64_t prefix : {0, 2, 5})
            for (const int64_t chunk : {0, 1, 4, 7})
              all.push_back(with_window({left, right, sinks, prefix, chunk, causal}));
  return all;
}

struct Lengths {
  int64_t q, k;
};
constexpr Lengths kLengths[] = {{1, 1}, {17, 17}, {23, 5}, {4, 19}, {13, 1}, {3, 0}, {0, 3}};

// The definition, key by key, as the header has it.
bool is_visible(const Problem& problem, Lengths lengths, int64_t row, int64_t key) {
  if (key < problem.prefix) return true;
  const int64_t position = row + lengths.k - lengths.q;
  if (problem.window_right >= 0 && key > position + problem.window_right) return false;
  if (problem.causal && key > position) return false;
  int64_t begin = 0;
  if (problem.chunk > 0) {
    const auto chunk = static_cast<double>(problem.chunk);
    begin = static_cast<int64_t>(std::floor(static_cast<double>(position) / chunk) * chunk);
    if (key >= begin + problem.chunk) return false;
  }
  if (key < problem.window_sinks) return true;
  if (problem.chunk > 0 && key < begin) return false;
  return problem.window_left < 0 || key >= position - problem.window_left;
}

std::vector<int64_t> keys_seen(const Problem& problem, Lengths lengths, int64_t row) {
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < lengths.k; ++key)
    if (is_visible(problem, lengths, row, key)) keys.push_back(key);
  return keys;
}

TEST(VisibleKeys, AreThoseOfTheDefinition) {
  for (const Problem& problem : windows()) {
    for (const Lengths lengths : kLengths) {
      for (int64_t row = 0; row < lengths.q; ++row) {
        const VisibleKeys keys = visible_keys(problem, lengths.q, lengths.k, row);
        std::vector<int64_t> listed;
        for (int64_t n = 0; n < keys.count(); ++n) listed.push_back(keys.key(n));
        ASSERT_EQ(listed, keys_seen(problem, lengths, row))
            << to_string(problem) << ", row " << row << " of " << lengths.q << " x " << lengths.k;
        ASSERT_LE(keys.always, keys.begin);
        for (int64_t key = 0; key < lengths.k; ++key)
          ASSERT_EQ(keys.has(key), is_visible(problem, lengths, row, key));
      }
    }
  }
}

// A problem without a window sees what it always saw, and one with a window something else.
TEST(VisibleKeys, AWindowIsOneThatHidesOrShowsKeys) {
  for (const Problem& problem : windows()) {
    Problem plain;
    plain.causal = problem.causal;
    bool differs = false;
    for (const Lengths lengths : kLengths)
      for (int64_t row = 0; row < lengths.q; ++row)
        differs |= keys_seen(problem, lengths, row) != keys_seen(plain, lengths, row);
    // A prefix shows nothing new in a row that sees every key. Sinks alone do not either.
    EXPECT_EQ(has_window(problem), differs) << to_string(problem);
  }
}

// Tiles of rows and keys: a tile is visited if it has a pair, and only then, whether one goes from
// rows to keys or from keys to rows.
TEST(VisibleKeys, TilesAreVisitedThatHavePairs) {
  constexpr int64_t kRows = 4, kCols = 3;
  for (const Problem& problem : windows()) {
    for (const Lengths lengths : kLengths) {
      for (int64_t first = 0; first < lengths.q; first += kRows) {
        const int64_t last = std::min(first + kRows, lengths.q) - 1;
        const VisibleKeys tiles =
            visible_key_tiles(problem, lengths.q, lengths.k, first, last, kCols);
        for (int64_t key = 0; key < lengths.k; key += kCols) {
          const int64_t end = std::min(key + kCols, lengths.k);
          int64_t seen = 0;
          for (int64_t j = key; j < end; ++j)
            for (int64_t row = first; row <= last; ++row)
              seen += is_visible(problem, lengths, row, j);
          const std::string where = to_string(problem) + ", rows from " + std::to_string(first) +
                                    ", keys from " + std::to_string(key);
          ASSERT_EQ(tiles.has(key / kCols), seen > 0) << where;
          const SeeingRows seeing = seeing_rows(problem, lengths.q, lengths.k, key, end);
          ASSERT_EQ(seeing.begin <= last && seeing.end > first, seen > 0) << where;
        }
      }
    }
  }
}

std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Row i of the window problem is a call of one query with the keys that it sees, and gradients are
// the sums of the calls'.
void check_by_rows(Problem problem, Lengths lengths) {
  problem.dtype = DType::kFp32;
  problem.head_dim = 8;
  problem.head_dim_v = 16;
  const Sizes sizes = {1, 1, 1, lengths.q, lengths.k};
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 3);
  const ReferenceInputs inputs = {widened(random.q), widened(random.k), widened(random.v),
                                  widened(random.grad_o)};
  const auto actual = reference_attention(problem, sizes, inputs);
  ASSERT_TRUE(actual.ok()) << actual.status().to_string();
  ReferenceOutputs expected;
  expected.dk.resize(inputs.k.size());
  expected.dv.resize(inputs.v.size());
  Problem of_row = problem;
  of_row.window_left = of_row.window_right = -1;
  of_row.window_sinks = of_row.prefix = of_row.chunk = 0;
  of_row.causal = false;
  const auto rows_of = [](const std::vector<double>& from, int64_t dim, int64_t row) {
    return std::vector<double>(from.begin() + row * dim, from.begin() + (row + 1) * dim);
  };
  for (int64_t row = 0; row < lengths.q; ++row) {
    const std::vector<int64_t> keys = keys_seen(problem, lengths, row);
    ReferenceInputs one = {rows_of(inputs.q, 8, row), {}, {}, rows_of(inputs.grad_o, 16, row)};
    for (const int64_t key : keys) {
      for (const double x : rows_of(inputs.k, 8, key)) one.k.push_back(x);
      for (const double x : rows_of(inputs.v, 16, key)) one.v.push_back(x);
    }
    const auto part =
        reference_attention(of_row, {1, 1, 1, 1, static_cast<int64_t>(keys.size())}, one);
    ASSERT_TRUE(part.ok()) << part.status().to_string();
    expected.o.insert(expected.o.end(), part->o.begin(), part->o.end());
    expected.dq.insert(expected.dq.end(), part->dq.begin(), part->dq.end());
    for (size_t n = 0; n < keys.size(); ++n) {
      for (int64_t c = 0; c < 8; ++c) expected.dk[keys[n] * 8 + c] += part->dk[n * 8 + c];
      for (int64_t c = 0; c < 16; ++c) expected.dv[keys[n] * 16 + c] += part->dv[n * 16 + c];
    }
  }
  const auto expect_near = [&](const char* name, const std::vector<double>& a,
                               const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], 1e-11 * (1 + std::abs(a[i]))) << name << " of " << to_string(problem);
  };
  expect_near("o", expected.o, actual->o);
  expect_near("dq", expected.dq, actual->dq);
  expect_near("dk", expected.dk, actual->dk);
  expect_near("dv", expected.dv, actual->dv);
}

TEST(WindowReference, ARowIsACallWithItsKeys) {
  const Window some[] = {{3, -1, 0, 0, 0, true}, {3, 2, 2, 0, 0, false},   {-1, -1, 0, 5, 0, true},
                         {4, 0, 1, 3, 7, true},  {-1, -1, 2, 0, 4, false}, {0, 0, 0, 0, 0, false}};
  for (const Window& window : some) {
    check_by_rows(with_window(window), {17, 17});
    check_by_rows(with_window(window), {23, 5});
  }
}

// The default model of rounding follows the same keys: it is 0 only if nothing is rounded.
TEST(WindowReference, TheIdealErrorIsThatOfTheSeenKeys) {
  Problem problem = with_window({5, -1, 1, 0, 0, true});
  problem.dtype = DType::kBf16;
  problem.head_dim = problem.head_dim_v = 16;
  const Sizes sizes = {1, 1, 1, 40, 40};
  const RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 1);
  const auto result = reference_attention(
      problem, sizes,
      {widened(random.q), widened(random.k), widened(random.v), widened(random.grad_o)});
  ASSERT_TRUE(result.ok());
  const double norm =
      std::sqrt(std::inner_product(result->o.begin(), result->o.end(), result->o.begin(), 0.0));
  EXPECT_GT(result->ideal_error_o, 0);
  EXPECT_LT(result->ideal_error_o, 3e-3 * norm);
}

}  // namespace
}  // namespace lssar
