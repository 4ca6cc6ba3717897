// Matrix products on the CPU's cores, and the loop they are spread with.
//
// Used by the model. Threads: every call stands alone.
#pragma once

#include <cstdint>
#include <functional>

namespace gpt {

// body(begin, end) over parts of [0, count), on all cores; parts begin at multiples of `grain`.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// A matrix that is read: element (r, c) at data[r * row_stride + c * col_stride].
template <typename Real>
struct View {
  const Real* data;
  int64_t row_stride, col_stride = 1;
};

// c[m, n] = a[m, k] b[k, n] (+ c where `adds`); c is contiguous. Sums go over k in order.
template <typename Real>
void matmul(int64_t m, int64_t n, int64_t k, View<Real> a, View<Real> b, Real* c, bool adds);

}  // namespace gpt
