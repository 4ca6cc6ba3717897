// The strict mode's reports of a launch, collected from the clusters as they end. What comes out
// does not depend on the threads that run the clusters, but for one thing: whether two instructions
// that race between clusters are found to do so.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"

namespace lssar::vdev {

struct Op;
enum class ReportKind : uint8_t;

// Limit for a cluster, and for a launch.
inline constexpr size_t kMaxReports = 32;

struct Report {
  // At most one report has this key: the kind and the pair of instructions.
  std::tuple<ReportKind, const Op*, const Op*> key;
  std::string text;
};

class LaunchReports {
 public:
  // Adds the reports of a cluster, in their order. Any thread.
  void add(uint64_t cluster, std::vector<Report> reports);

  // The first kMaxReports reports: those of clusters in the order of the grid, then races between
  // clusters in the order of their instructions. Clusters after the first that failed are left out,
  // and `failure`, the Status of `failed_cluster`, comes last. Call it when no cluster runs.
  Status result(uint64_t failed_cluster, Status failure) const;

 private:
  struct Place {
    uint64_t cluster;
    size_t order;  // among those of the cluster
    std::string text;
  };
  std::mutex mutex_;
  std::map<decltype(Report::key), Place> first_;  // the first of each key in the grid's order
};

}  // namespace lssar::vdev
