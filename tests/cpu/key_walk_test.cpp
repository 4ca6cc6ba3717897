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

template <int64_t kLeft, int64_t kRight, int64_t kSinks, int64_t kFirst, int64_t kLength,
          bool kCausal>
struct Window {
  static constexpr int kLanes = 8, kPanelKeys = 16;
  static constexpr int64_t kSeqQ = 0, kSeqK = 0;
  static constexpr bool kIsRange = false, kIsCausal = false, kHasWindow = true;
  static constexpr int64_t kWindowLeft = kLeft, kWindowRight = kCausal ? 0 : kRight,
                           kWindowSinks = kSinks, kPrefix = kFirst, kChunk = kLength;

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
      const lssar_device::VisibleKeys seen = lssar_device::seen_window<TypeParam>(params, row);
      ASSERT_EQ(lssar_device::visible_keys<TypeParam>(params, row), expected.count());
      for (int64_t key = 0; key < lengths.k; ++key)
        ASSERT_EQ(seen.has(key), expected.has(key)) << lengths.q << " " << row << " " << key;
    }
  }
}

// A call with the rows' keys from first_key on, as many as params.seq_k says.
struct Walked {
  AttentionParams params;
  Lengths all;
  int64_t first_key = 0;
};

constexpr int64_t kWalkRows = 12;

// Which keys of the call one of the rows from first_row on sees.
template <class Config>
std::vector<bool> seen_keys(const Walked& call, int64_t first_row) {
  std::vector<bool> seen(static_cast<size_t>(call.params.seq_k));
  for (int64_t row = first_row; row < std::min(first_row + kWalkRows, call.all.q); ++row) {
    const VisibleKeys keys = visible_keys(Config::problem(), call.all.q, call.all.k, row);
    for (int64_t key = 0; key < call.params.seq_k; ++key)
      if (keys.has(call.first_key + key)) seen[static_cast<size_t>(key)] = true;
  }
  return seen;
}

// A walk visits every panel that one of its rows sees, no other, no key twice, and begins at a
// panel. What it keeps has places of its own.
template <class Config>
void check_walk(const Walked& call, int64_t first_row) {
  constexpr int64_t kBlock = 32, kPanel = Config::kPanelKeys;
  const lssar_device::KeyWalk<Config, kBlock, kPanel> walk(call.params, {0, 0, 0, first_row},
                                                           kWalkRows);
  std::vector<int> visits(static_cast<size_t>(call.params.seq_k), 0);
  int64_t next_place = 0;
  for (int64_t key = walk.first(); key < walk.keys.end; key += walk.step(key)) {
    ASSERT_EQ(key % kPanel, 0);
    ASSERT_EQ(walk.place_of(key), next_place);
    next_place += kBlock;
    const int64_t count = std::min<int64_t>(walk.end_of(key) - key, kBlock);
    ASSERT_GT(count, 0);
    for (int64_t i = key; i < key + count; ++i) ++visits[static_cast<size_t>(i)];
  }
  const std::vector<bool> seen = seen_keys<Config>(call, first_row);
  for (size_t panel = 0; panel < seen.size(); panel += kPanel) {
    const size_t end_key = std::min<size_t>(panel + kPanel, seen.size());
    const auto begin = seen.begin() + static_cast<int64_t>(panel);
    const auto end = seen.begin() + static_cast<int64_t>(end_key);
    const bool is_seen = std::find(begin, end, true) != end;
    for (size_t key = panel; key < end_key; ++key) {
      ASSERT_LE(visits[key], is_seen ? 1 : 0) << first_row << " " << key;
      ASSERT_GE(visits[key], seen[key] ? 1 : 0) << first_row << " " << key;
    }
  }
}

TYPED_TEST(KeyWalks, VisitEveryKeyThatARowSeesOnce) {
  for (const Lengths lengths : kLengths)
    for (int64_t first_row = 0; first_row < lengths.q; first_row += kWalkRows)
      check_walk<TypeParam>({params_of(lengths), lengths}, first_row);
}

template <class Config>
struct OfRange : Config {
  static constexpr bool kIsRange = true;
};

// The same for a range of the keys, which may lie before all windows of its rows, or after them.
TYPED_TEST(KeyWalks, OfARangeVisitNoOtherPanels) {
  for (const Lengths lengths : kLengths)
    for (int64_t first_key = 0; first_key < lengths.k; first_key += 37) {
      AttentionParams params = params_of(lengths);
      params.seq_k = std::min<int64_t>(lengths.k - first_key, 53);
      params.first_key = first_key;
      params.num_keys = lengths.k;
      params.query_shift = lengths.k - lengths.q;
      for (int64_t first_row = 0; first_row < lengths.q; first_row += kWalkRows)
        check_walk<OfRange<TypeParam>>({params, lengths, first_key}, first_row);
    }
}

// What some of a few rows see, and what all of them see.
TYPED_TEST(KeyWalks, RowsTogether) {
  constexpr int64_t kRows = 6, kPanel = TypeParam::kPanelKeys;
  for (const Lengths lengths : kLengths) {
    const AttentionParams params = params_of(lengths);
    for (int64_t first = 0; first < lengths.q; first += kRows) {
      const lssar_device::VisibleKeys some =
          lssar_device::seen_by_some<TypeParam>(params, first, kRows);
      const lssar_device::VisibleKeys all =
          lssar_device::common_keys<TypeParam>(params, first, kRows);
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
      const auto rows = lssar_device::seeing_rows<TypeParam>(params, key, key + kKeys);
      for (int64_t row = 0; row < lengths.q; ++row)
        if (sees(visible_keys(TypeParam::problem(), lengths.q, lengths.k, row), key, kKeys)) {
          ASSERT_LE(rows.begin, row);
          ASSERT_LT(row, rows.end);
        }
    }
  }
}

TEST(KeyWalk, RowsShareAllKeysThatTheFirstAndTheLastOneSee) {
  using Config = Window<99, -1, 8, 0, 0, true>;
  const auto keys = lssar_device::common_keys<Config>(params_of({256, 256}), 192, 8);
  EXPECT_EQ(keys.always, 8);
  EXPECT_EQ(keys.begin, 100);
  EXPECT_EQ(keys.end, 193);
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
