#include "virtual/program/handler_sets.h"

namespace lssar::vdev {

// Each is defined in ops/control_ops.cpp, compiled with LSSAR_SIMD as its namespace. The build
// defines LSSAR_HAS_* for those it compiles.
#ifdef LSSAR_HAS_PLAIN
namespace plain {
extern const HandlerSet kHandlerSet;
}
#endif
#ifdef LSSAR_HAS_AVX2
namespace avx2 {
extern const HandlerSet kHandlerSet;
}
#endif
#ifdef LSSAR_HAS_AVX512
namespace avx512 {
extern const HandlerSet kHandlerSet;
}
#endif

const HandlerSet* handler_set(SimdLevel level) {
  switch (level) {
#ifdef LSSAR_HAS_PLAIN
    case SimdLevel::kPlain:
      return &plain::kHandlerSet;
#endif
#ifdef LSSAR_HAS_AVX2
    case SimdLevel::kAvx2:
      return &avx2::kHandlerSet;
#endif
#ifdef LSSAR_HAS_AVX512
    case SimdLevel::kAvx512:
      return &avx512::kHandlerSet;
#endif
    default:
      return nullptr;
  }
}

}  // namespace lssar::vdev
