// Covering arrays against all rows that there are.
#include "tests/golden/covering_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

namespace lssar {
namespace {

std::vector<FactorRow> all_rows(const std::vector<int>& counts) {
  std::vector<FactorRow> rows = {{}};
  for (const int count : counts) {
    std::vector<FactorRow> longer;
    for (const FactorRow& row : rows)
      for (int value = 0; value < count; ++value) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    rows = longer;
  }
  return rows;
}

bool has_pair(const std::vector<FactorRow>& rows, size_t a, int i, size_t b, int j) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const FactorRow& row) { return row[a] == i && row[b] == j; });
}

// The rows have a pair if and only if one of all allowed rows has it. Returns the number of pairs.
int expect_covered(const std::vector<int>& counts, const RowRule& allows) {
  const std::vector<FactorRow> rows = covering_rows(counts, allows);
  std::vector<FactorRow> all = all_rows(counts);
  std::erase_if(all, [&](const FactorRow& row) { return !allows(row); });
  for (const FactorRow& row : rows) EXPECT_TRUE(allows(row));
  int num_pairs = 0;
  for (size_t a = 0; a < counts.size(); ++a)
    for (size_t b = a + 1; b < counts.size(); ++b)
      for (int i = 0; i < counts[a]; ++i)
        for (int j = 0; j < counts[b]; ++j) {
          EXPECT_EQ(has_pair(rows, a, i, b, j), has_pair(all, a, i, b, j))
              << "factor " << a << " = " << i << ", factor " << b << " = " << j;
          num_pairs += has_pair(rows, a, i, b, j) ? 1 : 0;
        }
  return num_pairs;
}

bool any_row(const FactorRow&) { return true; }

TEST(CoveringArray, HasEveryPair) {
  EXPECT_EQ(expect_covered({5, 3, 4, 2, 3}, any_row), 113);
  EXPECT_EQ(expect_covered({2, 3}, any_row), 6);
  EXPECT_TRUE(covering_rows({}, any_row).empty());
}

TEST(CoveringArray, HasFewRowsAndTheSameEveryTime) {
  const std::vector<int> counts = {7, 6, 5, 4, 4, 3, 3, 3, 2, 2};
  const std::vector<FactorRow> rows = covering_rows(counts, any_row);
  EXPECT_GE(rows.size(), 42u);
  EXPECT_LE(rows.size(), 48u);
  EXPECT_EQ(rows, covering_rows(counts, any_row));
}

TEST(CoveringArray, KeepsToItsRules) {
  EXPECT_EQ(expect_covered({5, 3, 4, 2, 3},
                           [](const FactorRow& row) {
                             if (row[0] == 1 && row[2] == 3) return false;
                             return !(row[1] == 2 && row[3] == 0 && row[4] == 1);
                           }),
            112);
}

// Nothing refuses 0 = 1 with 1 = 1 by itself, but then no value of factor 3 is left; and where 0 is
// 0, only the last value of factor 2 leaves one.
TEST(CoveringArray, GoesBackWhereNoValueIsLeft) {
  const RowRule allows = [](const FactorRow& row) {
    if (row[0] == 1 && row[1] == 1 && row[3] != kAnyValue) return false;
    return !(row[0] == 0 && row[2] >= 0 && row[2] < 3 && row[3] != kAnyValue);
  };
  EXPECT_EQ(expect_covered({3, 3, 4, 3}, allows), 63 - 1 - 3);
}

}  // namespace
}  // namespace lssar
