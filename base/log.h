// One log callback for the whole library. The library never prints by itself: without a callback,
// and without LSSAR_LOG in the environment, messages are dropped.
//
// Threads: set_log_callback may be called at any time, and messages may come from any thread.
// log_enabled takes no lock, so hot paths call it before they format anything.
#pragma once

#include <functional>
#include <string_view>

namespace lssar {

// error: a request failed. warning: it continued with less (for example, the cache cannot be
// written). info: one line per prepare, compile, cache miss and opened device. trace: one line per
// execute. debug: everything else.
enum class LogLevel { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3, kTrace = 4 };

const char* log_level_name(LogLevel level);

using LogCallback = std::function<void(LogLevel, std::string_view message)>;

// Messages up to and including `level` go to `callback`; an empty callback turns logging off.
// This replaces what LSSAR_LOG asked for.
void set_log_callback(LogCallback callback, LogLevel level);

// Unless LSSAR_LOG says otherwise, messages up to and including `level` go to standard error.
// Programs call this before anything else of the library. Without it messages are dropped.
void set_default_log_level(LogLevel level);

// LSSAR_LOG=none|error|warning|info|debug|trace, read once, sends messages to standard error.
bool log_enabled(LogLevel level);
void log(LogLevel level, std::string_view message);

}  // namespace lssar
