#include "runtime/debug/override.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "cache/file_system.h"
#include "cache/sha256.h"
#include "cache/store.h"

namespace lssar {
namespace {

// Names the file that was looked for, and files of the same kernel that the user may have meant.
std::string describe_miss(const std::string& folder, const std::string& name,
                          const std::string& kernel) {
  std::string others;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string other = item.path().filename().string();
    if (other.starts_with(kernel + "-") && other.ends_with(".cu"))
      others += (others.empty() ? "" : ", ") + other;
  }
  std::string text = fmt::format("'{}' has no {}", folder, name);
  if (!others.empty()) text += fmt::format("; of another problem, schedule or target: {}", others);
  return text;
}

// Warns once, because a program may prepare the same kernel again and again.
void warn_once(const std::string& file, const std::string& message) {
  static std::mutex mutex;
  static auto* const warned = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (warned->insert(file).second) log(LogLevel::kWarning, message);
}

}  // namespace

std::string override_name(const KernelSource& generated, const Target& target) {
  CacheKeyBuilder key;
  key.add("target", target.name());
  key.add("source", source_without_header(generated.source));
  return fmt::format("{}-{}.cu", generated.name, key.hex().substr(0, kShownHashDigits));
}

Result<Override> apply_override(const Target& target, KernelSource* kernel) {
  Override found;
  const char* const folder = std::getenv("LSSAR_OVERRIDE_DIR");
  if (folder == nullptr || *folder == '\0') return found;
  const Status trusted = posix_file_system().check_folder(folder);
  if (!trusted.ok()) return trusted.with_context("LSSAR_OVERRIDE_DIR");
  const std::string name = override_name(*kernel, target);
  const std::string file = std::string(folder) + "/" + name;
  struct stat info = {};
  if (::lstat(file.c_str(), &info) != 0 && errno == ENOENT) {
    found.missed = describe_miss(folder, name, kernel->name);
    warn_once(file, fmt::format("{} is not overridden: {}", kernel->name, found.missed));
    return found;
  }
  Result<std::string> source =
      read_file(file, {.max_bytes = kMaxSourceBytes, .require_private = true});
  if (!source.ok()) return source.status().with_context("LSSAR_OVERRIDE_DIR");
  kernel->source = std::move(*source);
  log(LogLevel::kWarning, fmt::format("{} is overridden by '{}'", kernel->name, file));
  found.path = file;
  return found;
}

}  // namespace lssar
