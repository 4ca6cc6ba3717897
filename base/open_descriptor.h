// Opens files inside a host program. The host may have closed its standard files, as daemons do,
// and its signal handlers may interrupt calls.
//
// open() returns the lowest free number. If standard error is closed, that number is 2, and the
// host's messages would go into our file.
//
// Threads: safe. While the library opens a file, a host that opens standard files may find a number
// taken for a moment, as with any other thread that opens files.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/file.h"

namespace lssar {

// While one of these lives, no newly opened file gets the number of a closed standard file.
class ClosedStandardFiles {
 public:
  ClosedStandardFiles();
  ~ClosedStandardFiles();  // preserves errno
  ClosedStandardFiles(const ClosedStandardFiles&) = delete;
  ClosedStandardFiles& operator=(const ClosedStandardFiles&) = delete;

 private:
  int taken_[3];
  int num_taken_ = 0;
};

// As open(2) with O_CLOEXEC, but the number is above 2 and a signal does not end the call. On
// failure it returns -1 and sets errno.
FileDescriptor open_descriptor(const std::string& path, int flags, mode_t mode = 0);

// As fsync(2), but a signal does not end the call.
int sync_descriptor(int fd);

}  // namespace lssar
