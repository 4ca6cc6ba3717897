// Collects what the checks report.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "virtual/check/checker.h"
#include "virtual/state/cluster.h"
#include "virtual/state/fault.h"

namespace lssar::vdev {

const char* report_kind_name(ReportKind kind) {
  switch (kind) {
    case ReportKind::kRace:
    case ReportKind::kClusterRace:
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
  reports_.push_back({{kind, &op, other},
                      fmt::format("{}: {}: {}", report_kind_name(kind),
                                  describe_place(*warp.cta, warp.index, op), what)});
}

void Checker::report_between_clusters(const Warp& warp, const Op& op, const std::string& what,
                                      const Op* other) {
  if (!cluster_.launch.many_threads) return report(ReportKind::kRace, warp, op, what, other);
  // The key's order: either of the two may have come second.
  const Op* const first = other == nullptr ? &op : std::min(&op, other);
  const Op* const second = std::max(&op, other);
  if (cluster_races_.size() >= kMaxReports) return;
  if (!seen_reports_.emplace(ReportKind::kClusterRace, first, second).second) return;
  const KernelProgram& program = *cluster_.launch.program;
  const auto quoted = [&](const Op* at) { return describe_line(program.instruction(*at)); };
  cluster_races_.push_back(
      {{ReportKind::kClusterRace, first, second},
       fmt::format("{}: kernel {}, {} and {} access the same global memory in different clusters "
                   "of the grid: nothing orders the two (with one thread the report says where)",
                   report_kind_name(ReportKind::kRace), program.name, quoted(first),
                   quoted(second))});
}

std::vector<Report> Checker::take_reports() {
  std::vector<Report> taken;
  taken.swap(reports_);
  std::move(cluster_races_.begin(), cluster_races_.end(), std::back_inserter(taken));
  cluster_races_.clear();
  return taken;
}

}  // namespace lssar::vdev
