// What the checks report, collected.
#include <fmt/format.h>

#include "runtime/virtual/block_runner.h"
#include "runtime/virtual/checker.h"
#include "runtime/virtual/fault.h"

namespace lssar::vdev {

const char* report_kind_name(ReportKind kind) {
  switch (kind) {
    case ReportKind::kRace:
      return "race";
    case ReportKind::kProxyFence:
      return "missing fence.proxy.async";
    case ReportKind::kUndefined:
      return "undefined value";
    case ReportKind::kSynchronise:
      return "synchronisation";
    case ReportKind::kAsync:
      return "operation in flight";
    case ReportKind::kUninitialised:
      return "uninitialised global memory";
  }
  return "";
}

void Checker::report(ReportKind kind, const Warp& warp, const Op& op, const std::string& what,
                     const Op* other) {
  if (full() || !seen_reports_.emplace(kind, &op, other).second) return;
  reports_.push_back(fmt::format("{}: {}: {}", report_kind_name(kind),
                                 describe_place(*warp.cta, warp.index, op), what));
}

std::vector<std::string> Checker::take_reports() {
  std::vector<std::string> taken;
  taken.swap(reports_);
  return taken;
}

}  // namespace lssar::vdev
