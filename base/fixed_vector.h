// FixedVector: up to N values stored in place. It is for short lists that are built many thousand
// times.
//
// Used by the cost model. Threads: a plain value.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <initializer_list>

namespace lssar {

template <typename T, size_t N>
class FixedVector {
 public:
  FixedVector() = default;
  FixedVector(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void push_back(const T& value) {
    assert(size_ < N && "a FixedVector holds no more than its N values");
    values_[size_++] = value;
  }
  // REQUIRES: !empty().
  void pop_back() { --size_; }
  T& back() { return values_[size_ - 1]; }

  // REQUIRES: index < size().
  T& operator[](size_t index) { return values_[index]; }
  const T& operator[](size_t index) const { return values_[index]; }

  T* begin() { return values_.data(); }
  T* end() { return values_.data() + size_; }
  const T* begin() const { return values_.data(); }
  const T* end() const { return values_.data() + size_; }

 private:
  std::array<T, N> values_ = {};
  size_t size_ = 0;
};

}  // namespace lssar
