// The state spaces of PTX. Used by the parser and by the handlers (plain data only).
#pragma once

#include <cstdint>

namespace lssar::vdev {

enum class StateSpace : uint8_t { kGlobal, kConst, kShared, kLocal, kParam, kGeneric };

}  // namespace lssar::vdev
