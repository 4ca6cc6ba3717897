// A store over a given file system: for tests, which make it fail. Everybody else: Store::open.
#pragma once

#include <memory>

#include "cache/file_system.h"
#include "cache/store.h"

namespace lssar {

// `fs` outlives the store.
std::unique_ptr<Store> open_store(const CacheOptions& options, FileSystem& fs);

}  // namespace lssar
