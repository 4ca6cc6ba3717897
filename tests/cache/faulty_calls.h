// Makes any system call that the cache makes on files fail, whichever it is: the linker puts these
// functions in the place of libc's (--wrap, see CMakeLists.txt), so that what is tested is the code
// that ships. fsync does nothing in this program, which makes thousands of folders.
//
// Threads: every thread has its own plan; one that arms none gets libc's functions.
#pragma once

#include <string>
#include <vector>

namespace lssar {

enum class Fault {
  kNone,
  kOnce,      // the call fails without an effect
  kFromThen,  // so does every later one: the disk stays full
  kLateOnce,  // the call has its effect and fails all the same: a reply was lost
};

// Until disarm_faults(), the call with number `call` of this thread (counted from 0) fails with
// `error`.
void arm_faults(Fault fault, int call, int error);

// The names of the calls that were made since, in order.
std::vector<std::string> disarm_faults();

// Every read and write until disarm_faults() moves at most `bytes` bytes, and every second one is
// interrupted by a signal before it moves any.
void arm_short_transfers(size_t bytes);

}  // namespace lssar
