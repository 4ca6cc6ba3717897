#include "tools/lssar/terminal/exit_code.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "tools/lssar/terminal/standard_streams.h"
#include "tools/lssar/terminal/terminal.h"

namespace lssar::command {

ExitCode exit_code_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return kDone;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return kBadInput;
    case StatusCode::kMissing:
      return kNotFound;
    case StatusCode::kIoError:
      return kIo;
    case StatusCode::kCompileError:
    case StatusCode::kDeviceError:
    case StatusCode::kNotPrepared:
    case StatusCode::kOutOfMemory:
    case StatusCode::kInternal:
      return kFailed;
  }
  return kFailed;
}

std::string exit_code_help() {
  return "Exit codes: 0 done; 1 it ran, but the numbers are wrong; 2 wrong options or input;\n"
         "3 something needed is missing (compiler, device); 4 compile or device error; 5 I/O;\n"
         "130 interrupted (Ctrl-C), 143 ended (SIGTERM).\n";
}

int report_failure(const Status& status) {
  std::string text = status.to_string();
  // What was tried for something missing becomes one line. Only a compiler's log keeps its lines.
  if (status.code() != StatusCode::kCompileError) {
    for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) {
      const size_t next = std::min(text.find_first_not_of(" \n", at), text.size());
      text.replace(at, next - at, next == text.size() ? "" : text[at - 1] == ':' ? " " : "; ");
    }
  }
  const size_t end = std::min(text.find('\n'), text.size());
  print_message(stderr, "lssar: " + text.substr(0, end));
  if (end < text.size()) tell("{}\n", printable(text.substr(end + 1)));
  return exit_code_of(status.code());
}

}  // namespace lssar::command
