#include "cache/location.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace lssar {
namespace {

constexpr char kMemoryOnly[] = "none";
constexpr char kNoLayers[] = "none";
constexpr char kLayerSeparator = ':';

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// NOTE: strips the trailing '/', with which every check of the last component would follow a link.
std::string absolute_path(const std::string& path) {
  std::error_code error;
  std::string absolute = std::filesystem::absolute(path, error).string();
  if (error) return path;
  while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  return absolute;
}

CacheLocation given(const std::string& path, const std::string& source) {
  return {path == kMemoryOnly ? "" : absolute_path(path), source, ""};
}

// Leaves out empty parts; a stray ':' at either end makes them.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(kLayerSeparator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

CacheLocation find_cache_location(const std::string& configured) {
  if (!configured.empty()) return given(configured, "the configured directory");
  if (const std::string dir = environment("LSSAR_CACHE_DIR"); !dir.empty()) {
    return given(dir, "LSSAR_CACHE_DIR");
  }
  if (const std::string base = environment("XDG_CACHE_HOME"); base.starts_with('/')) {
    return {absolute_path(base + "/lssar"), "XDG_CACHE_HOME", ""};
  }
  if (const std::string home = environment("HOME"); home.starts_with('/')) {
    return {absolute_path(home + "/.cache/lssar"), "HOME", ""};
  }
  return {"", "", "none of LSSAR_CACHE_DIR, XDG_CACHE_HOME and HOME names a directory"};
}

std::vector<std::string> find_cache_layers(const std::vector<std::string>& configured) {
  std::vector<std::string> layers = configured;
  if (layers.empty()) layers = split(environment("LSSAR_CACHE_LAYERS"));
  if (layers == std::vector<std::string>{kNoLayers}) return {};
  for (std::string& layer : layers) layer = absolute_path(layer);
  return layers;
}

}  // namespace lssar
