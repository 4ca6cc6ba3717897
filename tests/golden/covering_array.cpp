#include "tests/golden/covering_array.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <numeric>
#include <set>
#include <utility>

namespace lssar {
namespace {

struct Choice {
  size_t factor;
  int value;

  auto operator<=>(const Choice&) const = default;
};

struct Pair {
  Choice a, b;  // a.factor < b.factor

  auto operator<=>(const Pair&) const = default;
};

class CoveringArray {
 public:
  CoveringArray(const std::vector<int>& counts, const RowRule& allows)
      : counts_(counts), allows_(allows), uses_(counts.size()) {
    for (size_t factor = 0; factor < counts.size(); ++factor) uses_[factor].resize(counts[factor]);
    for (size_t a = 0; a < counts.size(); ++a)
      for (size_t b = a + 1; b < counts.size(); ++b)
        for (int i = 0; i < counts[a]; ++i)
          for (int j = 0; j < counts[b]; ++j) missing_.insert(Pair{{a, i}, {b, j}});
  }

  std::vector<FactorRow> rows() {
    std::vector<FactorRow> rows;
    while (!missing_.empty()) {
      const Pair pair = *missing_.begin();
      FactorRow row(counts_.size(), kAnyValue);
      row[pair.a.factor] = pair.a.value;
      row[pair.b.factor] = pair.b.value;
      if (allows_(row) && complete(row)) {
        cover(row);
        rows.push_back(row);
      } else {
        missing_.erase(pair);
      }
    }
    return rows;
  }

 private:
  // Chooses the other values, each for the most pairs that are new, or else the rarest so far. Goes
  // back where the rule leaves a factor no value; false if nothing is allowed.
  bool complete(FactorRow& row) const {
    const auto gap = std::find(row.begin(), row.end(), kAnyValue);
    if (gap == row.end()) return true;
    const auto factor = static_cast<size_t>(gap - row.begin());
    for (const int value : by_new_pairs(row, factor)) {
      row[factor] = value;
      if (allows_(row) && complete(row)) return true;
    }
    row[factor] = kAnyValue;
    return false;
  }

  std::vector<int> by_new_pairs(const FactorRow& row, size_t factor) const {
    std::vector<int> values(counts_[factor]), gains;
    std::iota(values.begin(), values.end(), 0);
    for (const int value : values) gains.push_back(new_pairs(row, {factor, value}));
    const auto rank = [&](int value) { return std::pair(-gains[value], uses_[factor][value]); };
    std::stable_sort(values.begin(), values.end(), [&](int a, int b) { return rank(a) < rank(b); });
    return values;
  }

  int new_pairs(const FactorRow& row, const Choice& choice) const {
    int count = 0;
    for (size_t other = 0; other < row.size(); ++other) {
      if (other == choice.factor || row[other] == kAnyValue) continue;
      count += static_cast<int>(missing_.count(pair_of(choice, {other, row[other]})));
    }
    return count;
  }

  void cover(const FactorRow& row) {
    for (size_t factor = 0; factor < row.size(); ++factor) ++uses_[factor][row[factor]];
    for (size_t a = 0; a < row.size(); ++a)
      for (size_t b = a + 1; b < row.size(); ++b) missing_.erase(Pair{{a, row[a]}, {b, row[b]}});
  }

  static Pair pair_of(const Choice& a, const Choice& b) { return a < b ? Pair{a, b} : Pair{b, a}; }

  const std::vector<int>& counts_;
  const RowRule& allows_;
  std::vector<std::vector<int>> uses_;  // of each value in the rows so far
  std::set<Pair> missing_;
};

}  // namespace

std::vector<FactorRow> covering_rows(const std::vector<int>& counts, const RowRule& allows) {
  return CoveringArray(counts, allows).rows();
}

}  // namespace lssar
