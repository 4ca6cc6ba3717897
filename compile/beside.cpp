#include "compile/beside.h"

#include <fmt/format.h>

#include "base/dynamic_library.h"

namespace lssar {

std::vector<std::string> candidates_beside_code(const std::string& file_name) {
  std::vector<std::string> candidates;
  const std::string here =
      directory_of_code(reinterpret_cast<const void*>(&candidates_beside_code));
  if (!here.empty()) {
    candidates.push_back(fmt::format("{}/{}", here, file_name));
    std::vector<std::string> folders = {"lib"};
    if (folders[0] != LSSAR_INSTALL_LIBDIR) folders.push_back(LSSAR_INSTALL_LIBDIR);
    for (const std::string& folder : folders) {
      candidates.push_back(fmt::format("{}/../{}/{}", here, folder, file_name));
      // For a program in libexec/lssar.
      candidates.push_back(fmt::format("{}/../../{}/{}", here, folder, file_name));
    }
  }
  candidates.push_back(fmt::format("{}/{}", LSSAR_INSTALL_FULL_LIBDIR, file_name));
  return candidates;
}

}  // namespace lssar
