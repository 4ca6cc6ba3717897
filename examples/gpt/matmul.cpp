#include "matmul.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace gpt {
namespace {

// What one core holds in registers: kRows x kCols sums.
constexpr int kRows = 4, kCols = 16;
// Products of less work than this are not worth a thread's start.
constexpr int64_t kMinWorkPerThread = 1 << 18;

// Rows [row, row + kRows) of c; `packed` is b's columns in panels of kCols, zeros past the last.
template <typename Real>
[[gnu::always_inline]] inline void multiply_rows(int64_t row, int64_t m, int64_t n, int64_t k,
                                                 View<Real> a, const Real* packed, Real* c,
                                                 bool adds) {
  const int64_t num_rows = std::min<int64_t>(kRows, m - row);
  const Real* rows[kRows];
  for (int r = 0; r < kRows; ++r) {  // past the last row: the last one again, not stored
    rows[r] = a.data + (row + std::min<int64_t>(r, num_rows - 1)) * a.row_stride;
  }
  for (int64_t col = 0; col < n; col += kCols, packed += k * kCols) {
    Real sums[kRows][kCols] = {};
    for (int64_t i = 0; i < k; ++i) {
      const Real* of_b = packed + i * kCols;
      for (int r = 0; r < kRows; ++r) {
        const Real of_a = rows[r][i * a.col_stride];
        for (int j = 0; j < kCols; ++j) sums[r][j] += of_a * of_b[j];
      }
    }
    const int64_t num_cols = std::min<int64_t>(kCols, n - col);
    for (int64_t r = 0; r < num_rows; ++r) {
      Real* out = c + (row + r) * n + col;
      for (int64_t j = 0; j < num_cols; ++j) out[j] = sums[r][j] + (adds ? out[j] : Real{0});
    }
  }
}

// Rows [begin, end). The same twice: for what every x86-64 has, and for wider registers.
template <typename Real>
void multiply_plain(int64_t begin, int64_t end, int64_t n, int64_t k, View<Real> a,
                    const Real* packed, Real* c, bool adds) {
  for (int64_t row = begin; row < end; row += kRows) {
    multiply_rows(row, end, n, k, a, packed, c, adds);
  }
}
template <typename Real>
[[gnu::target("avx2")]] void multiply_avx2(int64_t begin, int64_t end, int64_t n, int64_t k,
                                           View<Real> a, const Real* packed, Real* c, bool adds) {
  for (int64_t row = begin; row < end; row += kRows) {
    multiply_rows(row, end, n, k, a, packed, c, adds);
  }
}

}  // namespace

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t grains = (count + grain - 1) / grain;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t parts = std::max<int64_t>(1, std::min(cores, grains));
  std::vector<std::jthread> threads;
  const auto begin_of = [&](int64_t part) {
    return std::min(count, grains * part / parts * grain);
  };
  for (int64_t part = 1; part < parts; ++part) {
    threads.emplace_back(body, begin_of(part), begin_of(part + 1));
  }
  body(0, begin_of(1));
}

template <typename Real>
void matmul(int64_t m, int64_t n, int64_t k, View<Real> a, View<Real> b, Real* c, bool adds) {
  const int64_t panels = (n + kCols - 1) / kCols;
  std::vector<Real> packed(static_cast<size_t>(panels * k * kCols));
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      packed[(j / kCols * k + i) * kCols + j % kCols] = b.data[i * b.row_stride + j * b.col_stride];
    }
  }
  const int64_t rows_worth_it = kMinWorkPerThread / std::max<int64_t>(1, n * k) + 1;
  const int64_t grain = (rows_worth_it + kRows - 1) / kRows * kRows;
  const auto multiply = __builtin_cpu_supports("avx2") ? multiply_avx2<Real> : multiply_plain<Real>;
  parallel_for(m, grain, [&](int64_t begin, int64_t end) {
    multiply(begin, end, n, k, a, packed.data(), c, adds);
  });
}

template void matmul(int64_t, int64_t, int64_t, View<float>, View<float>, float*, bool);
template void matmul(int64_t, int64_t, int64_t, View<double>, View<double>, double*, bool);

}  // namespace gpt
