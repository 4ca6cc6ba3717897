// Ctrl-C, and the other signals that ask the command to end.
//
// The signals that end a process (SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM, SIGUSR1,
// SIGUSR2, and SIGPIPE of its own writes) end it as they would without this code, so that the shell
// sees 130, 143 or 129 and a script's loop ends too; but temporaries are removed before, and files
// that belong together are all in place or none. Workers end by themselves when the command does. A
// signal that is ignored when the command starts (nohup, a shell's background) stays ignored.
//
// Threads: one waits for the signals, so that what it does need not be safe in a handler.
#pragma once

namespace lssar::command {

// REQUIRES: the process has one thread.
void watch_interrupts();

// While one lives, the first signal (SIGQUIT and SIGPIPE aside) ends nothing: the work asks for it, keeps what it has and ends.
// The second one ends the process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

// The signal that a guard kept; 0: none.
int kept_interrupt();

// Ends the process by the signal that a guard kept, where one did.
void end_if_interrupted();

}  // namespace lssar::command
