#include "base/temporaries.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace lssar {
namespace {

struct Registry {
  std::recursive_mutex mutex;
  std::multiset<std::string> paths;
};

Registry& registry() {
  static auto* const instance = new Registry;  // never destroyed: threads may write during exit
  return *instance;
}

void remove_path(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return;
  std::error_code ignored;  // a leftover file harms nobody
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

std::string temporary_folder() {
  const char* const wanted = std::getenv("TMPDIR");
  struct stat info = {};
  const bool is_folder =
      wanted != nullptr && wanted[0] == '/' && ::stat(wanted, &info) == 0 && S_ISDIR(info.st_mode);
  return is_folder ? wanted : "/tmp";
}

TemporaryName::TemporaryName(std::string path) : path_(std::move(path)) {
  const TemporariesLock lock = lock_temporaries();
  registry().paths.insert(path_);
}

TemporaryName::TemporaryName(TemporaryName&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

TemporaryName::~TemporaryName() {
  if (path_.empty()) return;
  remove_path(path_);
  keep();
}

void TemporaryName::keep() {
  const TemporariesLock lock = lock_temporaries();
  if (const auto at = registry().paths.find(path_); at != registry().paths.end())
    registry().paths.erase(at);
  path_.clear();
}

TemporariesLock lock_temporaries() { return TemporariesLock(registry().mutex); }

TemporariesLock remove_temporaries() {
  TemporariesLock lock = lock_temporaries();
  for (const std::string& path : registry().paths) remove_path(path);
  return lock;
}

}  // namespace lssar
