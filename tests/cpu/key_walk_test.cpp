// Which keys CPU kernels visit within windows: the functions of templates/cpu/key_walk.h beside
// codegen/visible_keys.h, and counts of what a walk multiplies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/visible_keys.h"
#include "templates/cpu/key_walk.h"

namespace lssar {
namespace {

using lssar_device::AttentionParams;
using lssar_device::SeenKeys;

template <int64_t kLeft, int64_t kRight, int64_t kSinks, int64_t kFirst, int64_t kLength,
          bool kCausal>
struct Window {
  static constexpr int kLanes = 8, kPanelKeys = 16;
  static constexpr int64_t kSeqQ = 0, kSeqK = 0;
  static constexpr bool kIsRange = false, kIsCausal = kCausal, kHasWindow = true;
  static constexpr int64_t kWindowLeft = kLeft, kWindowRight = kRight, kWindowSinks = kSinks,
                           kPrefix = kFirst, kChunk = kLength;

  static Problem problem() {
    Problem problem;
    problem.causal = kCausal;
    problem.window_left = kLeft;
    problem.window_right = kRight;
    problem.window_sinks = kSinks;
    problem.prefix = kFirst;
    problem.chunk = kLength;
    return problem;
  }
};

template <class Config>
class KeyWalks : public testing::Test {};
using Windows = testing::Types<Window<37, -1, 0, 0, 0, true>, Window<0, 0, 0, 0, 0, false>,
                               Window<20, 50, 5, 0, 0, false>, Window<-1, 3, 0, 0, 0, false>,
                               Window<30, -1, 4, 33, 0, true>, Window<-1, -1, 3, 0, 64, true>,
                               Window<-1, -1, 0, 0, 48, false>, Window<30, 11, 20, 7, 100, false>>;
TYPED_TEST_SUITE(KeyWalks, Windows);

struct Lengths {
  int64_t q, k;
};
constexpr Lengths kLengths[] = {{1, 1},    {1, 311},  {12, 11},   {199, 199},
                                {13, 402}, {202, 41}, {300, 300}, {16, 0}};

AttentionParams params_of(Lengths lengths) {
  AttentionParams params{};
  params.seq_q = lengths.q;
  params.seq_k = lengths.k;
  return params;
}

bool sees(const VisibleKeys& keys, int64_t first, int64_t count) {
  for (int64_t key = first; key < first + count; ++key)
    if (keys.has(key)) return true;
  return false;
}

TYPED_TEST(KeyWalks, RowsSeeWhatTheProblemSays) {
  for (const Lengths lengths : kLengths) {
    const AttentionParams params = params_of(lengths);
    for (int64_t row = 0; row < lengths.q; ++row) {
      const VisibleKeys expected = visible_keys(TypeParam::problem(), lengths.q, lengths.k, row);
      const SeenKeys seen = lssar_device::seen_window<TypeParam>(params, row);
      ASSERT_EQ(lssar_device::visible_keys<TypeParam>(params, row), expected.count());
      for (int64_t key = 0; key < lengths.k; ++key)
        ASSERT_EQ(seen.has_all(key, 1), expected.has(key)) << lengths.q << " " << row << " " << key;
    }
  }
}

// A walk visits every panel that one of its rows sees, no key twice, and begins at a panel. What it
// keeps has places of its own.
TYPED_TEST(KeyWalks, VisitEveryKeyThatARowSeesOnce) {
  constexpr int64_t kRows = 12, kBlock = 32, kPanel = TypeParam::kPanelKeys;
  using Walk = lssar_device::KeyWalk<TypeParam, kBlock, kPanel>;
  for (const Lengths lengths : kLengths) {
    const AttentionParams params = params_of(lengths);
    for (int64_t first_row = 0; first_row < lengths.q; first_row += kRows) {
      const Walk walk(params, {0, 0, 0, first_row}, kRows);
      std::vector<int> visits(static_cast<size_t>(lengths.k), 0);
      int64_t next_place = 0;
      for (int64_t key = walk.first(); key < walk.keys.end; key += walk.step(key)) {
        ASSERT_EQ(key % kPanel, 0);
        ASSERT_EQ(walk.place_of(key), next_place);
        next_place += kBlock;
        const int64_t count = std::min<int64_t>(walk.end_of(key) - key, kBlock);
        ASSERT_GT(count, 0);
        for (int64_t i = key; i < key + count; ++i) ++visits[static_cast<size_t>(i)];
      }
      for (int64_t key = 0; key < lengths.k; ++key) {
        bool is_seen = false;
        for (int64_t row = first_row; row < std::min(first_row + kRows, lengths.q); ++row)
          is_seen =
              is_seen || visible_keys(TypeParam::problem(), lengths.q, lengths.k, row).has(key);
        ASSERT_LE(visits[static_cast<size_t>(key)], 1);
        if (is_seen) {
          ASSERT_EQ(visits[static_cast<size_t>(key)], 1) << first_row << " " << key;
        }
      }
    }
  }
}

// What some of a few rows see, and what all of them see.
TYPED_TEST(KeyWalks, RowsTogether) {
  constexpr int64_t kRows = 6, kPanel = TypeParam::kPanelKeys;
  for (const Lengths lengths : kLengths) {
    const AttentionParams params = params_of(lengths);
    for (int64_t first = 0; first < lengths.q; first += kRows) {
      const SeenKeys some = lssar_device::seen_by_some<TypeParam>(params, first, kRows);
      const SeenKeys all = lssar_device::seen_by_all<TypeParam>(params, first, kRows);
      for (int64_t key = 0; key < lengths.k; key += kPanel)
        for (int64_t row = first; row < std::min(first + kRows, lengths.q); ++row) {
          const VisibleKeys keys = visible_keys(TypeParam::problem(), lengths.q, lengths.k, row);
          if (sees(keys, key, kPanel)) {
            ASSERT_TRUE(some.has_some(key, kPanel));
          }
          for (int64_t i = key; all.has_all(key, kPanel) && i < key + kPanel; ++i)
            ASSERT_TRUE(keys.has(i));
        }
    }
  }
}

TYPED_TEST(KeyWalks, QueriesThatSeeKeys) {
  constexpr int64_t kKeys = 10;
  for (const Lengths lengths : kLengths) {
    const AttentionParams params = params_of(lengths);
    for (int64_t key = 0; key < lengths.k; key += kKeys) {
      const int64_t begin = lssar_device::first_window_query<TypeParam>(params, key);
      const int64_t end = lssar_device::end_window_query<TypeParam>(params, key, kKeys);
      for (int64_t row = 0; row < lengths.q; ++row)
        if (sees(visible_keys(TypeParam::problem(), lengths.q, lengths.k, row), key, kKeys)) {
          ASSERT_LE(begin, row);
          ASSERT_LT(row, end);
        }
    }
  }
}

// The work of a window is linear in the length: twice as many rows visit twice as many keys.
TEST(KeyWalk, OfAWindowIsAsLongAsTheWindow) {
  using Config = Window<511, -1, 4, 0, 0, true>;
  constexpr int64_t kRows = 12;
  const auto count = [](int64_t length) {
    const AttentionParams params = params_of({length, length});
    int64_t keys = 0;
    for (int64_t row = 0; row < length; row += kRows) {
      const lssar_device::KeyWalk<Config, 256, 16> walk(params, {0, 0, 0, row}, kRows);
      for (int64_t key = walk.first(); key < walk.keys.end; key += walk.step(key))
        keys += kRows * std::min<int64_t>(walk.end_of(key) - key, 256);
    }
    return keys;
  };
  const int64_t needed = 8192 * 516;
  EXPECT_LT(static_cast<double>(count(8192)), 1.06 * static_cast<double>(needed));
  EXPECT_LT(static_cast<double>(count(16384) - count(8192)), 1.06 * static_cast<double>(needed));
}

}  // namespace
}  // namespace lssar
