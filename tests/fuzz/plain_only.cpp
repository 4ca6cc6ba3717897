// The fuzzer has the plain handlers only: the table's other instruction sets are the same ones.
#include "virtual/program/program.h"

namespace lssar::vdev {
namespace plain {
extern const HandlerSet kHandlerSet;
}
namespace avx2 {
extern const HandlerSet kHandlerSet;
const HandlerSet kHandlerSet = plain::kHandlerSet;
}  // namespace avx2
namespace avx512 {
extern const HandlerSet kHandlerSet;
const HandlerSet kHandlerSet = plain::kHandlerSet;
}  // namespace avx512
}  // namespace lssar::vdev
