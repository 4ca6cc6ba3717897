// What the strict mode has reported of a launch, collected from the clusters as they end. Which
// reports come out does not depend on the threads that run the clusters.
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

// A cluster's, and a launch's.
inline constexpr size_t kMaxReports = 32;

struct Report {
  // There is one for each kind and pair of instructions.
  std::tuple<ReportKind, const Op*, const Op*> key;
  std::string text;
};

class LaunchReports {
 public:
  // Those of a cluster, in their order. Any thread.
  void add(uint64_t cluster, std::vector<Report> reports);

  // The first kMaxReports, in the order of the grid, of clusters up to the first that failed, and
  // then why it did: `failure` of `failed_cluster`. Not while clusters run.
  Status result(uint64_t failed_cluster, Status failure) const;

 private:
  struct Place {
    uint64_t cluster;
    size_t order;  // among those of the cluster
    std::string text;
  };
  std::mutex mutex_;
  std::map<decltype(Report::key), Place> first_;  // in the order of the grid
};

}  // namespace lssar::vdev
