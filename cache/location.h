// Where the cache's directory is: docs/cache_format.md, section 2.
#pragma once

#include <string>

namespace lssar {

struct CacheLocation {
  std::string directory;  // absolute, without a trailing '/'; "" = memory only
  std::string source;     // which setting decided it: "LSSAR_CACHE_DIR", "HOME", ...
  std::string problem;    // why there is no directory although one was wanted; else ""
};

// `configured` is CacheOptions::directory. Reads the environment; touches no file.
CacheLocation find_cache_location(const std::string& configured);

}  // namespace lssar
