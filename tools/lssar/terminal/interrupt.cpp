#include "tools/lssar/terminal/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "base/temporaries.h"

namespace lssar::command {
namespace {

// Signals that end a process by default. Profilers use SIGPROF and SIGVTALRM;
// prepare_standard_streams() handles SIGXFSZ.
constexpr int kSignals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                            SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};

std::atomic<int> guards{0};
std::atomic<int> kept{0};

// Ends the process by the signal itself, so that a parent sees which signal it was.
[[noreturn]] void end_by(int signal) {
  const TemporariesLock no_new_ones = remove_temporaries();
  std::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::kill(::getpid(), signal);
  constexpr int kSignalled = 128;  // what a shell adds; only used if the signal had no effect
  _exit(kSignalled + signal);
}

// Wakes the waiting thread: the first real-time signal, which nothing else sends.
int pipe_signal() { return SIGRTMIN; }

// `lssar ... | head -1`: the reader has gone. A write raises SIGPIPE in the writing thread, where
// it cannot be waited for. So the handler tells the waiting thread, and writes nothing more.
//
// A SIGPIPE of another process may interrupt a thread that holds the lock of temporaries. That
// thread goes on, because the waiting thread needs the lock.
void on_broken_pipe(int, siginfo_t* info, void*) {
  const int error = errno;
  ::kill(::getpid(), pipe_signal());
  while (info->si_pid == ::getpid()) ::pause();
  errno = error;
}

bool watch_pipe() {
  struct sigaction action = {};
  action.sa_sigaction = on_broken_pipe;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  return ::sigaction(SIGPIPE, &action, nullptr) == 0;
}

[[noreturn]] void wait_for_signals(sigset_t signals) {
  sigset_t pipe;  // its handler must not stop this thread
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (signal == pipe_signal()) end_by(SIGPIPE);
    int none = 0;
    // SIGQUIT ends the process without waiting for results.
    if (signal != SIGQUIT && guards > 0 && kept.compare_exchange_strong(none, signal)) continue;
    end_by(signal);
  }
}

// Whether it is neither ignored (nohup) nor handled (by a debugging library that was loaded
// before).
bool is_default(int signal) {
  struct sigaction now = {};
  sigaction(signal, nullptr, &now);
  return now.sa_handler == SIG_DFL;
}

}  // namespace

void watch_interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kSignals) {
    if (is_default(signal)) sigaddset(&signals, signal);
  }
  sigaddset(&signals, pipe_signal());
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const bool watches_pipe = is_default(SIGPIPE) && watch_pipe();
  try {
    std::thread(wait_for_signals, signals).detach();
  } catch (const std::system_error&) {  // `ulimit -u`: signals do what they do by default
    if (watches_pipe) std::signal(SIGPIPE, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
}

InterruptGuard::InterruptGuard() { ++guards; }
InterruptGuard::~InterruptGuard() { --guards; }

int kept_interrupt() { return kept; }

void end_if_interrupted() {
  if (kept != 0) end_by(kept);
}

}  // namespace lssar::command
