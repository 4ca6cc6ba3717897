#include "virtual/check/launch_reports.h"

#include <algorithm>
#include <utility>

#include "virtual/check/checker.h"

namespace lssar::vdev {

void LaunchReports::add(uint64_t cluster, std::vector<Report> reports) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < reports.size(); ++i) {
    Place place = {cluster, i, std::move(reports[i].text)};
    const auto [found, added] = first_.try_emplace(reports[i].key, std::move(place));
    if (!added && cluster < found->second.cluster) found->second = std::move(place);
  }
}

Status LaunchReports::result(uint64_t failed_cluster, Status failure) const {
  std::vector<const Place*> places;
  std::vector<const Place*> between_clusters;  // in the order of the instructions, as the map is
  for (const auto& [key, place] : first_) {
    // Which cluster finds a race between clusters depends on the threads.
    if (std::get<ReportKind>(key) == ReportKind::kClusterRace) {
      between_clusters.push_back(&place);
    } else if (failure.ok() || place.cluster <= failed_cluster) {
      places.push_back(&place);
    }
  }
  std::sort(places.begin(), places.end(), [](const Place* a, const Place* b) {
    return std::tie(a->cluster, a->order) < std::tie(b->cluster, b->order);
  });
  places.insert(places.end(), between_clusters.begin(), between_clusters.end());
  if (places.empty()) return failure;
  if (places.size() > kMaxReports) places.resize(kMaxReports);
  std::string text;
  for (const Place* place : places) {
    if (!text.empty()) text += "\n";
    text += place->text;
  }
  if (!failure.ok()) text += "\n" + std::string(failure.message());
  return device_error(std::move(text));
}

}  // namespace lssar::vdev
