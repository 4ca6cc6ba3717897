// Keeps a cache directory small and clean: docs/cache_format.md, section 8.
//
// Used by DiskLayer after writes and by `lssar cache prune`. Threads: no shared state; any number
// of threads and processes may do this in one directory.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "cache/file_system.h"

namespace lssar {

// Whether a file of entries/ is named like an entry. Other files there are not ours to remove.
bool is_entry_name(const std::string& name);

// Marks our temporaries. A user may choose a directory whose tmp/ holds files of his own.
inline constexpr char kTemporarySuffix[] = ".lssar";

// How long ago the stamp was set. If it lies further in the future than clocks differ, the clock
// was set back. A hit would have renewed the stamp, so the file has not been used since then, and
// counts as older than any other.
int64_t age_ns(int64_t stamp_ns, int64_t now_ns);

// Whether a hit should renew the stamp. Only stamps of some age (or in the future) are renewed, so
// that most hits cost no write.
bool wants_new_stamp(int64_t stamp_ns, int64_t now_ns);

struct EvictionLimits {
  uint64_t max_bytes = 0;                                // above this size the oldest entries go,
  uint64_t kept_bytes = 0;                               // until no more than this is left
  int64_t young_ns = 0;                                  // entries up to this age stay
  int64_t old_ns = std::numeric_limits<int64_t>::max();  // entries above this age always go
};

// Sibling processes are about to use what one process has just compiled.
inline constexpr int64_t kYoungEntryNs = 600 * kNsPerSecond;

struct Eviction {
  uint64_t evicted = 0, evicted_bytes = 0;  // bytes as occupied on disk
  uint64_t kept = 0, kept_bytes = 0;
};

// Unlinks entries of the folder `entries`. Errors are logged and ignored.
Eviction evict_entries(FileSystem& fs, const std::string& entries, const EvictionLimits& limits);

// Unlinks temporaries that crashed writers left in the folder. Returns how many.
uint64_t sweep_temporaries(FileSystem& fs, const std::string& temporaries);

}  // namespace lssar
