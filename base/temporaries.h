// Names that must not outlive the process: files being written, folders of a run.
//
// Destructors remove them. A program that a signal ends runs no destructors, so it calls
// remove_temporaries() (the lssar command does). Threads: any.
#pragma once

#include <mutex>
#include <string>

namespace lssar {

// $TMPDIR if it is the absolute path of a folder, else /tmp. A relative path would not do:
// processes that start in different folders must find each other's locks.
std::string temporary_folder();

// Registers a name as temporary. Whatever has that name at the end is removed, a folder with its
// content.
class TemporaryName {
 public:
  // Creates no file. Register the name before the file exists.
  explicit TemporaryName(std::string path);
  TemporaryName(TemporaryName&& other) noexcept;
  TemporaryName& operator=(TemporaryName&&) = delete;
  ~TemporaryName();

  const std::string& path() const { return path_; }  // "" after keep()
  // Cancels the removal: the file was renamed, or was never made.
  void keep();

 private:
  std::string path_;
};

// While this lock is held, no other thread registers or gives up a name. Renames that belong
// together are done under it.
using TemporariesLock = std::unique_lock<std::recursive_mutex>;
TemporariesLock lock_temporaries();

// Removes everything registered. The process must end while it holds the returned lock, so that no
// new names are registered.
TemporariesLock remove_temporaries();

}  // namespace lssar
