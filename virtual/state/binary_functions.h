// Functions of two numbers that several kinds of instructions compute: of lanes, of a warp, and in
// memory. Min and Max are for integers.
//
// Compiled like the file that includes it.
#pragma once

namespace lssar::vdev::LSSAR_SIMD::functions {

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return b > a ? b : a;
  }
};
struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace lssar::vdev::LSSAR_SIMD::functions
