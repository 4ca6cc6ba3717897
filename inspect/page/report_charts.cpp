#include "inspect/page/report_charts.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

#include <fmt/format.h>

#include "autotune/search/search_report.h"
#include "runtime/multiply_adds.h"

namespace lssar {
namespace {

using nlohmann::json;

// Few digits, but enough to draw with.
double rounded(double value, int digits = 4) {
  if (!std::isfinite(value) || value == 0) return 0;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

// The memories for which a roofline can be drawn. What a CPU loads from its first-level cache
// counts as instructions.
std::vector<Resource> memories_of(ModelKind kind) {
  if (kind == ModelKind::kCpu) return {Resource::kL2, Resource::kDram};
  return {Resource::kShared, Resource::kL2, Resource::kDram};
}

json names_of(const std::vector<Resource>& resources, ModelKind kind) {
  json names = json::array();
  for (const Resource resource : resources) names.push_back(resource_name(resource, kind));
  return names;
}

constexpr double kIntensityBins = 4, kSpeedBins = 8;  // per factor of two

// Counts of candidates by place in the roofline.
class Bins {
 public:
  Bins(double flop, const std::array<double, kNumResources>& rates, std::vector<Resource> memories)
      : flop_(flop), rates_(rates), memories_(std::move(memories)) {}

  void add(const CostEstimate& estimate) {
    const double speed = flop_ / estimate.ms * 1e-9;  // TFLOP/s
    for (const Resource memory : memories_) {
      const double bytes = estimate.terms_ms[size_t(memory)] * rates_[size_t(memory)];
      if (bytes <= 0 || speed <= 0) continue;
      ++counts_[{memory, int(std::floor(std::log2(flop_ / bytes) * kIntensityBins)),
                 int(std::floor(std::log2(speed) * kSpeedBins))}];
    }
  }

  json to_json() const {
    json bins = json::array();
    for (const auto& [place, count] : counts_) {
      const auto [memory, x, y] = place;
      bins.push_back({int(memory), rounded(std::exp2(x / kIntensityBins)),
                      rounded(std::exp2((x + 1) / kIntensityBins)),
                      rounded(std::exp2(y / kSpeedBins)), rounded(std::exp2((y + 1) / kSpeedBins)),
                      count});
    }
    return bins;
  }

 private:
  double flop_;
  std::array<double, kNumResources> rates_;
  std::vector<Resource> memories_;
  std::map<std::tuple<Resource, int, int>, uint64_t> counts_;
};

// Seconds since 1970 of "2026-11-21T13:16:13Z"; -1: not such a text.
int64_t seconds_of(const std::string& text) {
  std::tm time = {};
  if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%dZ", &time.tm_year, &time.tm_mon, &time.tm_mday,
                  &time.tm_hour, &time.tm_min, &time.tm_sec) != 6)
    return -1;
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  return timegm(&time);
}

struct TileField {
  const char* name;
  int (*value)(const Schedule&);
};

// The tile sizes that matter to a pass. The page begins with the first two as axes.
std::vector<TileField> tile_fields(const Problem& problem, const Schedule& schedule) {
  std::vector<TileField> fields;
  if (schedule.variant == Variant::kCpu) {
    fields = {{"cpu.rows", [](const Schedule& s) { return s.cpu.rows; }},
              {"cpu.panel_keys", [](const Schedule& s) { return s.cpu.panel_keys; }}};
    if (problem.pass == Pass::kBackward) return fields;
    fields.push_back({"cpu.block_keys", [](const Schedule& s) { return s.cpu.block_keys; }});
    fields.push_back({"cpu.kept_keys", [](const Schedule& s) { return s.cpu.kept_keys; }});
    return fields;
  }
  const bool is_hopper = schedule.variant == Variant::kHopper;
  if (problem.pass != Pass::kBackward) {
    fields = {{"forward.block_cols", [](const Schedule& s) { return s.forward.block_cols; }},
              {"forward.block_rows", [](const Schedule& s) { return s.forward.block_rows; }},
              {"forward.stages", [](const Schedule& s) { return s.forward.stages; }},
              {"forward.min_blocks", [](const Schedule& s) { return s.forward.min_blocks; }}};
    if (is_hopper) {
      fields.push_back(
          {"hopper.score_cols", [](const Schedule& s) { return s.hopper.score_cols; }});
    }
    return fields;
  }
  fields = {{"dkdv.block_cols", [](const Schedule& s) { return s.dkdv.block_cols; }},
            {"dkdv.block_rows", [](const Schedule& s) { return s.dkdv.block_rows; }},
            {"dkdv.stages", [](const Schedule& s) { return s.dkdv.stages; }}};
  if (has_dq_tiles(schedule)) {
    fields.push_back({"dq.block_cols", [](const Schedule& s) { return s.dq.block_cols; }});
    fields.push_back({"dq.block_rows", [](const Schedule& s) { return s.dq.block_rows; }});
  }
  return fields;
}

double time_of(const Explanation& explanation, const ConsideredCandidate& one) {
  return one.record < 0 ? 0 : explanation.records[size_t(one.record)].ms;
}

std::vector<Resource> all_resources() {
  std::vector<Resource> all;
  for (int i = 0; i < kNumResources; ++i) all.push_back(static_cast<Resource>(i));
  return all;
}

}  // namespace

json missing_chart(const std::string& why) { return {{"missing", why}}; }

double useful_flop(const Problem& problem, const Sizes& sizes) {
  constexpr double kBackwardWork = 2.5;
  const double dims = double(problem.head_dim) + problem.head_dim_v;
  return count_scores(problem, sizes) * 2 * dims *
         (problem.pass == Pass::kBackward ? kBackwardWork : 1);
}

json candidates_chart(const Explanation& explanation, const ExplanationRequest& request,
                      size_t shown) {
  const double flop = useful_flop(request.problem, request.sizes);
  const Schedule& chosen = explanation.choice.schedule;
  const ModelKind kind = model_kind(request.target);
  const auto rates = resource_rates(request.model, chosen.variant, true);
  const auto nominal = resource_rates(request.model, chosen.variant, false);
  json chart = {{"flop", flop},
                {"rates", rates},
                {"nominal_rates", nominal},
                {"resources", names_of(all_resources(), kind)},
                {"memories", names_of(memories_of(kind), kind)},
                {"peak", resource_name(Resource::kTensor, kind)},
                {"peak_name", kind == ModelKind::kCpu ? "multiply-adds, all threads"
                                                      : "tensor cores, sustained"},
                {"total", explanation.candidates.size()},
                {"columns",
                 {"algorithm", "standing", "estimate_ms", "record_ms", "spread_ms", "evidence",
                  "error", "registers", "spills", "terms", "stall_ms", "difference", "reason"}},
                {"rows", json::array()}};
  Bins rest(flop, rates, memories_of(kind));
  for (size_t i = 0; i < explanation.candidates.size(); ++i) {
    const ConsideredCandidate& one = explanation.ranked(i);
    if (i >= shown) {
      rest.add(one.estimate);
      continue;
    }
    const TuningRecord* record =
        one.record < 0 ? nullptr : &explanation.records[size_t(one.record)];
    json terms = json::array();
    for (const double ms : one.estimate.terms_ms) terms.push_back(rounded(ms));
    json row = {one.algorithm, int(one.standing), rounded(one.estimate.ms, 5)};
    if (record != nullptr) {
      row.insert(row.end(), {rounded(record->ms, 5), rounded(record->spread_ms, 2),
                             evidence_name(record->evidence), rounded(record->error, 3),
                             record->registers, record->spill_bytes});
    } else {
      row.insert(row.end(), {0, 0, "", 0, -1, -1});
    }
    row.push_back(std::move(terms));
    row.push_back(rounded(one.estimate.stall_ms));
    row.push_back(i == 0 ? "" : schedule_difference(chosen, one.schedule));
    row.push_back(record == nullptr ? "" : reason_of(explanation, one));
    chart["rows"].push_back(std::move(row));
  }
  chart["bins"] = rest.to_json();
  return chart;
}

json landscape_chart(const Explanation& explanation, const ExplanationRequest& request) {
  const std::vector<TileField> fields = tile_fields(request.problem, explanation.choice.schedule);
  struct Cell {
    double estimate = 0, time = 0;
    uint64_t count = 0;
    bool is_chosen = false;
  };
  std::map<std::vector<int>, Cell> cells;  // by algorithm and values
  for (const ConsideredCandidate& one : explanation.candidates) {
    std::vector<int> key = {one.algorithm};
    for (const TileField& field : fields) key.push_back(field.value(one.schedule));
    Cell& cell = cells[key];
    ++cell.count;
    if (cell.estimate == 0 || one.estimate.ms < cell.estimate) cell.estimate = one.estimate.ms;
    const double ms = time_of(explanation, one);
    if (ms > 0 && (cell.time == 0 || ms < cell.time)) cell.time = ms;
    cell.is_chosen |= one.standing == Standing::kChosen;
  }
  json chart = {{"fields", json::array()}, {"cells", json::array()}};
  for (const TileField& field : fields) chart["fields"].push_back(field.name);
  for (const auto& [key, cell] : cells) {
    json row = key;
    row.insert(row.end(),
               {rounded(cell.estimate), rounded(cell.time), cell.count, cell.is_chosen ? 1 : 0});
    chart["cells"].push_back(std::move(row));
  }
  return chart;
}

json search_chart(const Explanation& explanation, const ExplanationRequest& request) {
  if (!explanation.is_searched) {
    return missing_chart("`lssar tune` does not search schedules for row-sums and weighted-sum.");
  }
  struct Point {
    int64_t seconds;
    const TuningRecord* record;
  };
  std::vector<Point> points;
  for (const TuningRecord& record : explanation.records) {
    const int64_t seconds = seconds_of(record.time);
    if (seconds >= 0) points.push_back({seconds, &record});
  }
  if (points.size() < 2) {
    return missing_chart(fmt::format(
        "{} in the tuning table for this problem on {}: `lssar tune` with the problem's options "
        "writes one record for every candidate it looks at.",
        points.empty() ? "There is no record" : "There is one record", request.target.name()));
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const Point& a, const Point& b) { return a.seconds < b.seconds; });
  json chart = {
      {"begin", points[0].record->time},
      {"columns", {"seconds", "ms", "estimate_ms", "verdict", "evidence", "search", "difference"}},
      {"rows", json::array()}};
  for (const Point& point : points) {
    const TuningRecord& record = *point.record;
    chart["rows"].push_back({point.seconds - points[0].seconds, rounded(record.ms, 5),
                             rounded(record.estimate_ms), verdict_name(record.verdict),
                             evidence_name(record.evidence), record.search,
                             schedule_difference(explanation.choice.schedule, record.schedule)});
  }
  return chart;
}

}  // namespace lssar
