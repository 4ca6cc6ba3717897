// Names that must not outlive the process: files that are being written, folders of a run.
//
// Destructors remove them; a program that a signal ends runs none, and asks for it here (the lssar
// command does). Threads: any.
#pragma once

#include <mutex>
#include <string>

namespace lssar {

// $TMPDIR where that is the absolute path of a folder, else /tmp: processes that start in different
// folders must find each other's locks there.
std::string temporary_folder();

// A name that is taken for a temporary. What has that name at the end, a folder with all that is in
// it too, is removed.
class TemporaryName {
 public:
  // Makes nothing: the name is noted before anything has it.
  explicit TemporaryName(std::string path);
  TemporaryName(TemporaryName&& other) noexcept;
  TemporaryName& operator=(TemporaryName&&) = delete;
  ~TemporaryName();

  const std::string& path() const { return path_; }  // "" after keep()
  // Nothing is removed: it was renamed, or was never made.
  void keep();

 private:
  std::string path_;
};

// While the lock is held no other thread takes a name or gives one up: renames that belong together
// are done under it.
using TemporariesLock = std::unique_lock<std::recursive_mutex>;
TemporariesLock lock_temporaries();

// Removes what has one of the names. The process is to end while the lock is held, so that no new
// ones come.
TemporariesLock remove_temporaries();

}  // namespace lssar
