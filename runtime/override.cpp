#include "runtime/override.h"

#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "cache/store.h"

namespace lssar {
namespace {

constexpr size_t kHashDigits = 16;
constexpr uint64_t kMaxSourceBytes = uint64_t{16} << 20;

}  // namespace

std::string override_name(const KernelSource& generated, const Target& target) {
  CacheKeyBuilder key;
  key.add("target", target.name());
  key.add("source", source_without_header(generated.source));
  return fmt::format("{}-{}.cu", generated.name, key.hex().substr(0, kHashDigits));
}

Status apply_override(const Target& target, KernelSource* kernel, std::string* path) {
  path->clear();
  const char* const folder = std::getenv("LSSAR_OVERRIDE_DIR");
  if (folder == nullptr || *folder == '\0') return {};
  const std::string file = std::string(folder) + "/" + override_name(*kernel, target);
  if (access(file.c_str(), F_OK) != 0) {
    log(LogLevel::kDebug, fmt::format("no override '{}'", file));
    return {};
  }
  LSSAR_ASSIGN_OR_RETURN(kernel->source, read_file(file, {.max_bytes = kMaxSourceBytes}));
  log(LogLevel::kWarning, fmt::format("{} is overridden by '{}'", kernel->name, file));
  *path = file;
  return {};
}

}  // namespace lssar
