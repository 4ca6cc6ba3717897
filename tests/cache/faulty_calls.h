// Makes any system call fail that the cache makes on files. The linker puts these functions in the
// place of libc's (--wrap, see CMakeLists.txt), so the tests run the code that ships. fsync does
// nothing in this program, because it makes thousands of folders.
//
// Threads: every thread has its own plan. A thread without a plan gets libc's functions.
#pragma once

#include <string>
#include <vector>

namespace lssar {

enum class Fault {
  kNone,
  kOnce,      // the call fails without an effect
  kFromThen,  // so does every later one: the disk stays full
  kLateOnce,  // the call has its effect and fails: a reply was lost
};

// Until disarm_faults(), this thread's call with number `call` (counted from 0) fails with `error`.
void arm_faults(Fault fault, int call, int error);

// The names of the calls that were made since, in order.
std::vector<std::string> disarm_faults();

// Until disarm_faults(), every read and write moves at most `bytes` bytes, and a signal interrupts
// every second one before it moves any.
void arm_short_transfers(size_t bytes);

}  // namespace lssar
