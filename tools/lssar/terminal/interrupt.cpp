#include "tools/lssar/terminal/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/temporaries.h"

namespace lssar::command {
namespace {

std::atomic<int> guards{0};
std::atomic<int> kept{0};

// As if nobody had waited for it: a parent sees that a signal ended the command.
[[noreturn]] void end_by(int signal) {
  const TemporariesLock no_new_ones = remove_temporaries();
  std::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::kill(::getpid(), signal);
  constexpr int kSignalled = 128;  // what a shell adds; here only where the signal did nothing
  _exit(kSignalled + signal);
}

[[noreturn]] void wait_for_signals(sigset_t signals) {
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    int none = 0;
    if (guards > 0 && kept.compare_exchange_strong(none, signal)) continue;
    end_by(signal);
  }
}

}  // namespace

void watch_interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now = {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(wait_for_signals, signals).detach();
}

InterruptGuard::InterruptGuard() { ++guards; }
InterruptGuard::~InterruptGuard() { --guards; }

int kept_interrupt() { return kept; }

void end_if_interrupted() {
  if (kept != 0) end_by(kept);
}

}  // namespace lssar::command
