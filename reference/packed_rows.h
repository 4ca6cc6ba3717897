// Rows of packed sequences in host memory. Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lssar {

// Rows [first, end) of each head of `all`, which is [heads, total, dim]: the sequence that lies
// there, as [heads, end - first, dim]. An empty tensor gives an empty part.
template <class T>
std::vector<T> rows_of_heads(const std::vector<T>& all, int64_t heads, int64_t total, int64_t dim,
                             int64_t first, int64_t end) {
  std::vector<T> part;
  if (all.empty()) return part;
  part.reserve(static_cast<size_t>(heads * (end - first) * dim));
  for (int64_t head = 0; head < heads; ++head) {
    const auto begin = all.begin() + head * total * dim;
    part.insert(part.end(), begin + first * dim, begin + end * dim);
  }
  return part;
}

// Writes `part`, [heads, end - first, dim], to those rows of `all`.
template <class T>
void put_rows_of_heads(const std::vector<T>& part, int64_t heads, int64_t total, int64_t dim,
                       int64_t first, int64_t end, std::vector<T>* all) {
  const int64_t rows = (end - first) * dim;
  for (int64_t head = 0; head < heads; ++head) {
    const auto from = part.begin() + head * rows;
    std::copy(from, from + rows, all->begin() + head * total * dim + first * dim);
  }
}

}  // namespace lssar
