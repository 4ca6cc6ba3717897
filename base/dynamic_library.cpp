#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

namespace lssar {
namespace {

std::string real_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  return error ? path : resolved.string();
}

}  // namespace

Result<DynamicLibrary> DynamicLibrary::open(const std::string& name) {
  DynamicLibrary library;
  library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle_ == nullptr) {
    const char* reason = dlerror();
    return missing(reason != nullptr ? reason : name + ": cannot be opened");
  }
  link_map* map = nullptr;
  const bool known = dlinfo(library.handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr &&
                     map->l_name != nullptr && map->l_name[0] != '\0';
  library.path_ = known ? real_path(map->l_name) : name;
  return library;
}

void* DynamicLibrary::symbol(const char* name) const {
  return handle_ != nullptr ? dlsym(handle_, name) : nullptr;
}

std::string directory_of_code(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  // NOTE: for the executable dli_fname is argv[0], which may be no path, so this goes through
  // /proc.
  std::error_code error;
  std::filesystem::path file = info.dli_fname;
  if (!file.has_parent_path()) {
    file = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return "";
  }
  return std::filesystem::path(real_path(file.string())).parent_path().string();
}

}  // namespace lssar
