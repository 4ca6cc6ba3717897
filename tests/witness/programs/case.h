// What every witness program shares: the table of cases that it gives the test, matrices of
// integers in device memory, and the comparison with the product in exact arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "tests/witness/witness_case.h"

namespace witness {

// The first error of the runtime since the last call, as text; "" if there was none.
inline std::string runtime_error() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

// Pseudo-random integers from `lowest` to `highest`.
class Numbers {
 public:
  Numbers(uint32_t seed, int lowest, int highest)
      : state_(seed * 2654435761u + 1), lowest_(lowest), span_(highest - lowest + 1) {}
  int next() {
    state_ = state_ * 1664525u + 1013904223u;
    return lowest_ + static_cast<int>((state_ >> 8) % static_cast<uint32_t>(span_));
  }

 private:
  uint32_t state_;
  int lowest_, span_;
};

enum class Order { kRows, kColumns };  // which elements are side by side

// rows x columns elements in device memory, and as integers here.
template <class T>
class Matrix {
 public:
  Matrix(int rows, int columns, Order order)
      : rows_(rows), columns_(columns), order_(order), values_(size_t(rows) * columns) {
    cudaMalloc(&device_, values_.size() * sizeof(T));
  }
  ~Matrix() { cudaFree(device_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  // Numbers that T holds exactly.
  void fill(uint32_t seed, int lowest, int highest) {
    Numbers numbers(seed, lowest, highest);
    std::vector<T> elements(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i] = numbers.next();
      elements[i] = static_cast<T>(static_cast<float>(values_[i]));
    }
    cudaMemcpy(device_, elements.data(), elements.size() * sizeof(T), cudaMemcpyHostToDevice);
  }
  // Copies from the device. Elements that are no integers differ from every expected one.
  void fetch() {
    std::vector<T> elements(values_.size());
    cudaMemcpy(elements.data(), device_, elements.size() * sizeof(T), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<double>(static_cast<float>(elements[i]));
    }
  }

  T* device() const { return device_; }
  int rows() const { return rows_; }
  int columns() const { return columns_; }
  double at(int row, int column) const {
    return values_[order_ == Order::kRows ? size_t(row) * columns_ + column
                                          : size_t(column) * rows_ + row];
  }

 private:
  int rows_, columns_;
  Order order_;
  std::vector<double> values_;
  T* device_ = nullptr;
};

// "" if d = a b^T + beta c in every element (b has a row for each column of d); otherwise the
// runtime's error if there is one, else the first element that differs.
template <class A, class B, class C, class D>
std::string compare_product(const Matrix<A>& a, const Matrix<B>& b, const Matrix<C>* c, double beta,
                            Matrix<D>& d) {
  cudaDeviceSynchronize();
  if (const std::string error = runtime_error(); !error.empty()) return error;
  d.fetch();
  for (int m = 0; m < d.rows(); ++m) {
    for (int n = 0; n < d.columns(); ++n) {
      double expected = c == nullptr ? 0 : beta * c->at(m, n);
      for (int k = 0; k < a.columns(); ++k) expected += a.at(m, k) * b.at(n, k);
      if (d.at(m, n) == expected) continue;  // a NaN is not
      return "[" + std::to_string(m) + ", " + std::to_string(n) + "] is " +
             std::to_string(d.at(m, n)) + ", not " + std::to_string(expected);
    }
  }
  return runtime_error();
}

}  // namespace witness
