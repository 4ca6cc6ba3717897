#include "tests/golden/hopper_forward_row.h"

#include <nlohmann/json.hpp>

#include "codegen/schedule.h"
#include "codegen/target.h"

namespace lssar {
namespace {

using nlohmann::json;

// Values that only change the schedule, each as JSON over the others. The first is the simplest: it
// is legal with every value of the other factors that is legal at all.
const std::vector<std::vector<const char*>>& patches() {
  static const auto& kPatches = *new std::vector<std::vector<const char*>>{
      // Consumers, at once or in turn.
      {R"({"forward": {"block_rows": 128}, "hopper": {"ping_pong": false}})",
       R"({"forward": {"block_rows": 128}, "hopper": {"ping_pong": true}})",
       R"({"forward": {"block_rows": 64}, "hopper": {"ping_pong": false}})",
       R"({"forward": {"block_rows": 192}, "hopper": {"ping_pong": true}})",
       R"({"forward": {"block_rows": 192}, "hopper": {"ping_pong": false}})"},
      // What shares loads of keys: nothing, the blocks of a cluster, or query tiles of a block.
      {"{}", R"({"hopper": {"cluster": 2}})", R"({"hopper": {"cluster": 4}})",
       R"({"hopper": {"stagger": 3}})"},
      {R"({"hopper": {"score_cols": 64}})", R"({"hopper": {"score_cols": 8}})",
       R"({"hopper": {"score_cols": 104}})"},
      {R"({"forward": {"block_cols": 64}})", R"({"forward": {"block_cols": 16}})",
       R"({"forward": {"block_cols": 80}})"},
      // How a block gets its next work tile.
      {R"({"hopper": {"persistent": true, "tickets": false}})",
       R"({"hopper": {"persistent": true, "tickets": true}})",
       R"({"hopper": {"persistent": false, "tickets": false}})"},
      {R"({"forward": {"stages": 2}})", R"({"forward": {"stages": 3}})",
       R"({"forward": {"stages": 6}})"},
      {R"({"hopper": {"head_group": 1}})", R"({"hopper": {"head_group": 3}})"},
      {R"({"hopper": {"store_path": "registers"}})", R"({"hopper": {"store_path": "tma"}})"},
      {R"({"hopper": {"weights_from": "registers"}})", R"({"hopper": {"weights_from": "shared"}})"},
      {R"({"hopper": {"queries_in_registers": false}})",
       R"({"hopper": {"queries_in_registers": true}})"},
      {R"({"hopper": {"overlap": true}})", R"({"hopper": {"overlap": false}})"},
      {R"({"skip_tiles": false})", R"({"skip_tiles": true})"},
      // Registers as launched, or as the default has them.
      {R"({"hopper": {"producer_registers": 0, "consumer_registers": 0}})", "{}"},
  };
  return kPatches;
}

// The others: dims, the columns of o at a time (all of them or half), and the call.
constexpr int kDims[][2] = {{64, 64}, {72, 40}, {96, 112}};
constexpr int kNumParts = 2;
struct Call {
  Pass pass;
  bool causal;
  DType dtype;
};
constexpr Call kCalls[] = {{Pass::kForward, true, DType::kBf16},
                           {Pass::kForwardTrain, false, DType::kFp16}};

int value_of(const FactorRow& row, size_t factor) {
  return row[factor] == kAnyValue ? 0 : row[factor];
}

}  // namespace

std::vector<int> hopper_forward_counts() {
  std::vector<int> counts;
  for (const auto& values : patches()) counts.push_back(static_cast<int>(values.size()));
  counts.insert(counts.end(), {std::size(kDims), kNumParts, std::size(kCalls)});
  return counts;
}

HopperForward hopper_forward(const FactorRow& row) {
  json schedule = json::object();
  size_t factor = 0;
  for (; factor < patches().size(); ++factor)
    schedule.merge_patch(json::parse(patches()[factor][value_of(row, factor)]));
  HopperForward forward;
  Problem& problem = forward.problem;
  problem.head_dim = kDims[value_of(row, factor)][0];
  problem.head_dim_v = kDims[value_of(row, factor)][1];
  const int parts = value_of(row, factor + 1) + 1;
  schedule["block_dv"] = (problem.head_dim_v / 8 + parts - 1) / parts * 8;
  const Call& call = kCalls[value_of(row, factor + 2)];
  problem.pass = call.pass;
  problem.causal = call.causal;
  problem.dtype = call.dtype;
  schedule["variant"] = "hopper";
  forward.schedule_json = schedule.dump();
  return forward;
}

bool allows_hopper_forward(const FactorRow& row) {
  const HopperForward forward = hopper_forward(row);
  const Target target = target_from_name("sm_90a").value();
  const auto schedule = schedule_for(forward.problem, target, json::parse(forward.schedule_json));
  return schedule.ok() && validate(*schedule, forward.problem, target).ok();
}

std::vector<FactorRow> hopper_forward_rows() {
  return covering_rows(hopper_forward_counts(), allows_hopper_forward);
}

}  // namespace lssar
