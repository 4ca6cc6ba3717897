#include "base/log.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

namespace lssar {
namespace {

struct Sink {
  std::mutex mutex;
  LogCallback callback;
  LogLevel level = LogLevel::kError;
};

void write_to_stderr(LogLevel level, std::string_view message) {
  const std::string line =
      std::string("lssar ") + log_level_name(level) + ": " + std::string(message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

Sink& sink() {
  static Sink* const instance = [] {
    auto* s = new Sink;  // never destroyed: threads may log during exit
    if (const char* wanted = std::getenv("LSSAR_LOG")) {
      for (LogLevel level :
           {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
        if (std::strcmp(wanted, log_level_name(level)) == 0) {
          s->level = level;
          s->callback = write_to_stderr;
        }
      }
    }
    return s;
  }();
  return *instance;
}

}  // namespace

const char* log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "unknown";
}

void set_log_callback(LogCallback callback, LogLevel level) {
  Sink& s = sink();
  std::lock_guard lock(s.mutex);
  s.callback = std::move(callback);
  s.level = level;
}

bool log_enabled(LogLevel level) {
  Sink& s = sink();
  std::lock_guard lock(s.mutex);
  return s.callback && level <= s.level;
}

void log(LogLevel level, std::string_view message) {
  Sink& s = sink();
  LogCallback callback;
  {
    std::lock_guard lock(s.mutex);
    if (!s.callback || level > s.level) return;
    callback = s.callback;  // called outside the lock: a callback may log
  }
  callback(level, message);
}

}  // namespace lssar
