// Rows of values of several factors, such that any two values of two factors are in a row together:
// a pairwise covering array. Most faults need one feature or two, and such rows are about as many
// as the pairs of the two largest factors, where the product of all factors would be millions. No
// state: any thread.
#pragma once

#include <functional>
#include <vector>

namespace lssar {

// A value of each factor, as its index; kAnyValue where none is chosen yet.
using FactorRow = std::vector<int>;
inline constexpr int kAnyValue = -1;

// Whether the chosen values may be together. It must stay false when more values are chosen.
using RowRule = std::function<bool(const FactorRow&)>;

// `counts`: how many values each factor has; the rows are fewest if the factors with many come
// first. The rows are the same every time, and `allows` is true for each. Pairs that no such row
// can have are left out. Where a value adds no new pair, the rarest one is taken.
std::vector<FactorRow> covering_rows(const std::vector<int>& counts, const RowRule& allows);

}  // namespace lssar
