#include "runtime/library_version.h"

#include "lssar/lssar.h"

namespace lssar {

std::string library_version() {
  return std::to_string(LSSAR_VERSION_MAJOR) + "." + std::to_string(LSSAR_VERSION_MINOR) + "." +
         std::to_string(LSSAR_VERSION_PATCH);
}

}  // namespace lssar
