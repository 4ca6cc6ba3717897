#include "autotune/measure/fault_verdict.h"

#include <string>
#include <string_view>

namespace lssar {
namespace {

// How the virtual device's strict reports begin (virtual/check/checker_reports.cpp).
constexpr std::string_view kStrictReports[] = {
    "race: ",
    "missing fence.proxy.async: ",
    "undefined value: ",
    "synchronisation: ",
    "operation in flight: ",
    "uninitialised global memory: ",
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

std::optional<Verdict> verdict_of_run(const Status& status) {
  const std::string& text = status.message();
  switch (status.code()) {
    case StatusCode::kDeviceError:
      for (const std::string_view report : kStrictReports) {
        if (has(text, report)) return Verdict::kRace;
      }
      if (has(text, ": deadlock:") || has(text, " executed more than ")) return Verdict::kTimeout;
      if (has(text, "global write of") && has(text, ": out of bounds: "))
        return Verdict::kOutOfBounds;
      return Verdict::kDeviceError;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
    case StatusCode::kCompileError:
      return Verdict::kDeviceError;
    default:
      return std::nullopt;
  }
}

std::optional<Verdict> verdict_of_prepare(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
    case StatusCode::kCompileError:
      return Verdict::kCompileError;
    case StatusCode::kDeviceError:
      return Verdict::kDeviceError;
    default:
      return std::nullopt;
  }
}

}  // namespace lssar
