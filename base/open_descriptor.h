// Files opened by a library: a host may have closed its standard files, as daemons do, and its
// signal handlers may interrupt calls.
//
// open() gives the lowest free number. If standard error is closed, that number is 2, and what the
// host prints goes into the file.
//
// Threads: safe. A host that opens standard files while the library opens a file may find a number
// taken for a moment, as with any other thread that opens files.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/file.h"

namespace lssar {

// While it lives, no file that is opened gets the number of a standard file that is closed.
class ClosedStandardFiles {
 public:
  ClosedStandardFiles();
  ~ClosedStandardFiles();  // errno stays as it is
  ClosedStandardFiles(const ClosedStandardFiles&) = delete;
  ClosedStandardFiles& operator=(const ClosedStandardFiles&) = delete;

 private:
  int taken_[3];
  int num_taken_ = 0;
};

// As open(2), with O_CLOEXEC, but the number is above 2 and signals do not end the call. -1: errno
// says why.
FileDescriptor open_descriptor(const std::string& path, int flags, mode_t mode = 0);

// As fsync(2), but signals do not end the call.
int sync_descriptor(int fd);

}  // namespace lssar
