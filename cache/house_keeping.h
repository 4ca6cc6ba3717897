// What keeps a cache directory small and clean: docs/cache_format.md, section 8.
//
// Used by DiskLayer after writes and by `lssar cache prune`. Threads: no shared state; any number
// of threads and processes may do this in one directory.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "cache/file_system.h"

namespace lssar {

// Whether a file of entries/ has the name of an entry: nothing else there is ours.
bool is_entry_name(const std::string& name);

// The end of a temporary's name: a user may name a directory that has a tmp/ of his own.
inline constexpr char kTemporarySuffix[] = ".lssar";

// How long ago the stamp was set. A stamp that lies further ahead than clocks differ says that the
// clock was set back since; such a file was not used after that (a hit renews its stamp), so that
// it counts as older than any other.
int64_t age_ns(int64_t stamp_ns, int64_t now_ns);

// A hit renews a stamp that is this old (or lies ahead): most hits then cost no write.
bool wants_new_stamp(int64_t stamp_ns, int64_t now_ns);

struct EvictionLimits {
  uint64_t max_bytes = 0;                                // beyond it entries go, oldest first,
  uint64_t kept_bytes = 0;                               // until no more than this are left
  int64_t young_ns = 0;                                  // entries no older than this stay
  int64_t old_ns = std::numeric_limits<int64_t>::max();  // older ones go in any case
};

// What another process has just compiled is about to be used by its siblings.
inline constexpr int64_t kYoungEntryNs = 600 * kNsPerSecond;

struct Eviction {
  uint64_t evicted = 0, evicted_bytes = 0;  // bytes as occupied on disk
  uint64_t kept = 0, kept_bytes = 0;
};

// Unlinks entries of the folder `entries`. Whatever fails is logged and ignored.
Eviction evict_entries(FileSystem& fs, const std::string& entries, const EvictionLimits& limits);

// Unlinks temporaries that crashed writers left in the folder, and returns how many.
uint64_t sweep_temporaries(FileSystem& fs, const std::string& temporaries);

}  // namespace lssar
