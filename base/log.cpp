#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "base/printable.h"
#include "base/write_signals.h"

namespace lssar {
namespace {

constexpr int kOff = -1;

struct Sink {
  std::mutex mutex;
  LogCallback callback;
  // What log_enabled compares with; kOff while there is no callback. Written under the mutex.
  std::atomic<int> level{kOff};
};

constexpr LogLevel kLevels[] = {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo,
                                LogLevel::kDebug, LogLevel::kTrace};

void write_to_stderr(LogLevel level, std::string_view message) {
  const std::string line =
      std::string("lssar ") + log_level_name(level) + ": " + printable(message) + "\n";
  const WriteSignalGuard guard;  // standard error may be a full disk or a pipe without a reader
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void use_stderr(LogLevel level, Sink* s) {
  s->callback = write_to_stderr;
  s->level = static_cast<int>(level);
}

// An unknown word is reported on standard error, because its user is waiting for messages there.
void read_environment(const char* wanted, Sink* s) {
  if (wanted[0] == '\0' || std::strcmp(wanted, "none") == 0) return;
  for (const LogLevel level : kLevels) {
    if (std::strcmp(wanted, log_level_name(level)) != 0) continue;
    use_stderr(level, s);
    return;
  }
  write_to_stderr(LogLevel::kWarning, std::string("LSSAR_LOG = ") + wanted +
                                          ": allowed are none, error, warning, info, debug, trace");
}

Sink& sink() {
  static Sink* const instance = [] {
    auto* s = new Sink;  // never destroyed: threads may log during exit
    if (const char* wanted = std::getenv("LSSAR_LOG")) read_environment(wanted, s);
    return s;
  }();
  return *instance;
}

}  // namespace

const char* log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kTrace:
      return "trace";
  }
  return "unknown";
}

void set_default_log_level(LogLevel level) {
  Sink& s = sink();
  const char* const wanted = std::getenv("LSSAR_LOG");
  std::lock_guard lock(s.mutex);
  if (wanted == nullptr || wanted[0] == '\0') use_stderr(level, &s);
}

void set_log_callback(LogCallback callback, LogLevel level) {
  Sink& s = sink();
  std::lock_guard lock(s.mutex);
  s.callback = std::move(callback);
  s.level = s.callback ? static_cast<int>(level) : kOff;
}

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) <= sink().level.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  Sink& s = sink();
  LogCallback callback;
  {
    std::lock_guard lock(s.mutex);
    if (!s.callback) return;
    callback = s.callback;  // called outside the lock: a callback may log
  }
  callback(level, message);
}

}  // namespace lssar
