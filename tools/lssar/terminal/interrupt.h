// Ctrl-C, and the other signals that ask the command to end.
//
// The signals that end a process (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM, SIGUSR1,
// SIGUSR2, and SIGPIPE of its own writes) end it as they would without this code, so that the shell
// sees 130, 143 or 129 and a script's loop ends too. But first temporaries are removed, and files
// that belong together are either all in place or none is. Workers end by themselves when the
// command does. A signal that is ignored when the command starts (nohup, a shell's background)
// stays ignored.
//
// Threads: a thread waits for the signals, so its work need not be safe in a signal handler.
#pragma once

namespace lssar::command {

// REQUIRES: the process has one thread.
void watch_interrupts();

// While one exists, the first signal (except SIGQUIT and SIGPIPE) ends nothing: the work asks for
// it, keeps its results and ends. The second signal ends the process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

// The signal that a guard kept; 0: none.
int kept_interrupt();

// Ends the process by the signal that a guard kept, if there is one.
void end_if_interrupted();

}  // namespace lssar::command
