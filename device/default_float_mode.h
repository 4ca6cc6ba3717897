// The floating-point mode of threads that compute for a device.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lssar {

// While it lives, the thread rounds to nearest, keeps denormal numbers and does not trap. A
// caller's thread may have other modes, but all threads must give the same bits.
class DefaultFloatMode {
 public:
#if defined(__x86_64__)
  DefaultFloatMode() : callers_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~DefaultFloatMode() { _mm_setcsr(callers_); }
#else
  DefaultFloatMode() {}
#endif
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

#if defined(__x86_64__)

 private:
  const unsigned callers_;
#endif
};

}  // namespace lssar
