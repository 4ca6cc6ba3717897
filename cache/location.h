// Finds the cache's directory and layers: docs/cache_format.md, sections 2 and 6.
#pragma once

#include <string>
#include <vector>

namespace lssar {

struct CacheLocation {
  std::string directory;  // absolute, without a trailing '/'; "" = memory only
  std::string source;     // the setting that decided it: "LSSAR_CACHE_DIR", "HOME", ...
  std::string problem;    // why a directory that was wanted cannot be used; else ""
};

// `configured` is CacheOptions::directory. Reads the environment; touches no file.
CacheLocation find_cache_location(const std::string& configured);

// Absolute paths of packs and directories, in lookup order. `configured` is CacheOptions::layers.
// Reads the environment; touches no file.
std::vector<std::string> find_cache_layers(const std::vector<std::string>& configured);

}  // namespace lssar
