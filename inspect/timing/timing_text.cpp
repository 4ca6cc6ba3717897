#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "inspect/timing/kernel_timing.h"

namespace lssar {
namespace {

struct Bound {
  const char* name;
  double clocks;
};

std::vector<Bound> bounds_of(const LoopTiming& timing) {
  return {{"issue", timing.issue_bound},   {"fma", timing.fma_bound},
          {"alu", timing.alu_bound},       {"special", timing.special_bound},
          {"tensor", timing.tensor_bound}, {"shared", timing.shared_bound},
          {"L2", timing.data_bound}};
}

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// "issue 45 %, tensor 20 %", largest first, without what is under half a percent.
std::string uses_text(const LoopTiming& timing) {
  std::vector<int> order;
  for (int i = 0; i < kNumClockUses; ++i)
    if (share(timing.uses[size_t(i)], timing.clocks) >= 0.5) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return timing.uses[size_t(a)] > timing.uses[size_t(b)]; });
  std::string text;
  for (const int i : order) {
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ",
                        clock_use_name(static_cast<ClockUse>(i)),
                        share(timing.uses[size_t(i)], timing.clocks));
  }
  return text;
}

std::string bounds_text(const LoopTiming& timing) {
  std::vector<Bound> bounds = bounds_of(timing);
  std::stable_sort(bounds.begin(), bounds.end(),
                   [](const Bound& a, const Bound& b) { return a.clocks > b.clocks; });
  std::string text;
  for (const Bound& bound : bounds) {
    if (bound.clocks > 0)
      text += fmt::format("{}{} {:.0f}", text.empty() ? "" : ", ", bound.name, bound.clocks);
  }
  return text;
}

std::string run_text(const char* what, const InstructionRun& run) {
  return run.length == 0 ? "" : fmt::format("{} of {} at {:0>4x}", run.length, what, run.address);
}

std::string way_text(const WayTiming& way) {
  std::string text = fmt::format("    {} instructions: {} tensor, {} special, {} fma\n",
                                 way.instructions, way.tensor, way.special, way.fma);
  text += fmt::format("      predicted {:.0f} clocks", way.timing.clocks);
  if (way.scores > 0)
    text +=
        fmt::format(", {:.3f} per score ({} scores)", way.timing.clocks / way.scores, way.scores);
  text += fmt::format("\n      a warp's clocks: {}\n", uses_text(way.timing));
  text += fmt::format("      at least, in clocks: {}\n", bounds_text(way.timing));
  const std::string special = run_text("MUFU", way.special_run);
  const std::string fma = run_text("FFMA, FMUL or FADD", way.fma_run);
  if (!special.empty() || !fma.empty())
    text += fmt::format("      longest run: {}{}{}\n", special,
                        special.empty() || fma.empty() ? "" : "; ", fma);
  for (const std::string& note : way.notes) text += fmt::format("      {}\n", note);
  return text;
}

nlohmann::json run_json(const InstructionRun& run) {
  return {{"address", run.address}, {"length", run.length}};
}

nlohmann::json way_json(const WayTiming& way) {
  nlohmann::json json = {{"instructions", way.instructions},
                         {"tensor", way.tensor},
                         {"special", way.special},
                         {"fma", way.fma},
                         {"scores", way.scores},
                         {"predicted_clocks", way.timing.clocks},
                         {"uses", nlohmann::json::object()},
                         {"bounds", nlohmann::json::object()},
                         {"longest_special_run", run_json(way.special_run)},
                         {"longest_fma_run", run_json(way.fma_run)},
                         {"notes", way.notes}};
  if (way.scores > 0) json["predicted_clocks_per_score"] = way.timing.clocks / way.scores;
  for (int i = 0; i < kNumClockUses; ++i)
    json["uses"][clock_use_name(static_cast<ClockUse>(i))] = way.timing.uses[size_t(i)];
  for (const Bound& bound : bounds_of(way.timing)) json["bounds"][bound.name] = bound.clocks;
  return json;
}

}  // namespace

std::string timing_text(const std::vector<KernelTiming>& kernels) {
  std::string text =
      "\nTiming, predicted from machine code: an iteration of each loop with matrix products\n";
  for (const KernelTiming& kernel : kernels) {
    for (const HotLoopTiming& loop : kernel.loops) {
      text += fmt::format("  {} {:0>4x}-{:0>4x}, {} warp{} per scheduler\n", kernel.name,
                          loop.first_address, loop.last_address, loop.warps,
                          loop.warps == 1 ? "" : "s");
      for (const WayTiming& way : loop.ways) text += way_text(way);
    }
  }
  return text;
}

nlohmann::json to_json(const std::vector<KernelTiming>& kernels) {
  nlohmann::json json = nlohmann::json::array();
  for (const KernelTiming& kernel : kernels) {
    for (const HotLoopTiming& loop : kernel.loops) {
      json.push_back({{"kernel", kernel.name},
                      {"first_address", loop.first_address},
                      {"last_address", loop.last_address},
                      {"warps_per_scheduler", loop.warps},
                      {"ways", nlohmann::json::array()}});
      for (const WayTiming& way : loop.ways) json.back()["ways"].push_back(way_json(way));
    }
  }
  return json;
}

}  // namespace lssar
