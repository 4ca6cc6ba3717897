// Lets one process of a machine compute a key while the others wait. The locks are advisory, have a
// timeout, and are never placed on a file system that machines share. They only save work: if
// anything fails, the caller computes. Protocol: docs/cache_format.md, section 7.
//
// Threads: any number at once; a Held belongs to no thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/file.h"
#include "base/status.h"
#include "cache/file_system.h"
#include "cache/sha256.h"

namespace lssar {

class NodeLocks {
 public:
  // `directory` is CacheOptions::lock_directory. Touches no file before the first take(). `fs` must
  // outlive this object.
  NodeLocks(FileSystem& fs, std::string directory);

  // The lock of a key. The destructor releases it, or the kernel does when the process ends.
  class Held {
   public:
    Held() = default;
    Held(Held&&) = default;
    Held& operator=(Held&&) = default;
    ~Held();

   private:
    friend class NodeLocks;
    Held(FileDescriptor file, int64_t offset) : file_(std::move(file)), offset_(offset) {}

    FileDescriptor file_;
    int64_t offset_ = 0;
  };

  enum class Outcome {
    kHeld,         // nobody else computes the key; *held is its lock
    kOthersDone,   // another process held it and has released it
    kTimeout,      // another process still holds it
    kUnavailable,  // no lock could be taken
  };
  Outcome take(const Sha256Digest& key, std::chrono::milliseconds timeout, Held* held);

  // Makes and checks the folder. kIoError says why none can be used.
  Result<std::string> folder();

 private:
  Result<std::string> find_folder();
  Outcome wait(FileDescriptor file, int64_t offset, std::chrono::milliseconds timeout);

  FileSystem& fs_;
  const std::string configured_;
  std::mutex mutex_;  // guards the members below
  bool looked_ = false;
  std::string folder_;  // "" if there is none
  Status problem_;
};

}  // namespace lssar
