// Opens a store over a given file system. Only for tests, which make it fail; others use
// Store::open.
#pragma once

#include <memory>

#include "cache/file_system.h"
#include "cache/store.h"

namespace lssar {

// `fs` must outlive the store.
std::unique_ptr<Store> open_store(const CacheOptions& options, FileSystem& fs);

}  // namespace lssar
