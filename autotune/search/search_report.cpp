#include "autotune/search/search_report.h"

#include "codegen/pass_needs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lssar {
namespace {

constexpr Fate kAllFates[] = {Fate::kWon,         Fate::kSlower, Fate::kRuledOut,
                              Fate::kUnpromising, Fate::kBound,  Fate::kOutOfTime};

// Lists {"forward": {"stages": 3}} as "forward.stages 3".
void list_differences(const nlohmann::json& base, const nlohmann::json& other,
                      const std::string& prefix, std::string* text) {
  for (const auto& [name, value] : other.items()) {
    const nlohmann::json& before = base.contains(name) ? base[name] : nlohmann::json();
    if (value == before) continue;
    if (value.is_object()) {
      list_differences(before, value, prefix + name + ".", text);
    } else {
      const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
      *text += fmt::format("{}{}{} {}", text->empty() ? "" : ", ", prefix, name, shown);
    }
  }
}

std::vector<const CandidateFate*> timed_by_time(const SearchOutcome& outcome) {
  std::vector<const CandidateFate*> timed;
  for (const CandidateFate& fate : outcome.fates) {
    if (fate.ms > 0) timed.push_back(&fate);
  }
  // The winner comes first: within the noise an incumbent wins over a faster candidate.
  std::stable_sort(timed.begin(), timed.end(), [](const auto* a, const auto* b) {
    const bool a_won = a->fate == Fate::kWon, b_won = b->fate == Fate::kWon;
    return a_won != b_won ? a_won : a->ms + a->elsewhere_ms < b->ms + b->elsewhere_ms;
  });
  return timed;
}

// Where, by the model, each of the best spends its time.
std::string terms_table(const std::vector<const CandidateFate*>& timed, int count, ModelKind kind) {
  std::string text = "\nTheir resources, each as if alone (model, ms)\n ";
  for (int i = 0; i < kNumResources; ++i) {
    text += fmt::format(" {:>17}", resource_name(static_cast<Resource>(i), kind));
  }
  text += "\n";
  for (size_t i = 0; i < timed.size() && i < size_t(count); ++i) {
    text += timed[i]->fate == Fate::kWon ? "*" : " ";
    for (const double ms : timed[i]->terms_ms) text += fmt::format(" {:>17.3g}", ms);
    text += "\n";
  }
  return text;
}

std::string why_others_fell(const SearchOutcome& outcome) {
  std::string text;
  for (const Fate fate : kAllFates) {
    if (fate == Fate::kWon) continue;
    // Reasons of one kind have the same words before their figures.
    std::map<std::string, int> reasons;
    int total = 0;
    for (const CandidateFate& one : outcome.fates) {
      if (one.fate != fate) continue;
      ++total;
      if (fate == Fate::kRuledOut) ++reasons[one.reason.substr(0, one.reason.find(':'))];
    }
    if (total == 0) continue;
    text += fmt::format("  {:<12} {:>7}", fate_name(fate), total);
    std::string list;
    for (const auto& [reason, count] : reasons) {
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, reason);
    }
    text += list.empty() ? "\n" : fmt::format("  ({})\n", list);
  }
  uint64_t rejected = 0;
  for (const auto& [rule, count] : outcome.rejected_by_rule) rejected += count;
  text += fmt::format("  {:<12} {:>7}", "not legal", rejected);
  auto rules = outcome.rejected_by_rule;
  std::stable_sort(rules.begin(), rules.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string list;
  for (size_t i = 0; i < rules.size() && i < 6; ++i) {
    list += fmt::format("{}{} by {}", i == 0 ? "" : ", ", rules[i].second, rules[i].first);
  }
  if (rules.size() > 6) list += ", ...";
  text += list.empty() ? "\n" : fmt::format("  ({})\n", list);
  text += fmt::format("  {:<12} {:>7}\n", "same source", outcome.duplicates);
  return text;
}

}  // namespace

std::string schedule_difference(const Schedule& base, const Schedule& schedule) {
  std::string text;
  list_differences(to_json(base), to_json(schedule), "", &text);
  return text.empty() ? "the default" : text;
}

std::string order_text(const SearchOutcome& outcome) {
  if (outcome.resumed_complete || outcome.target.name() != "sm_90a") return "";
  const bool is_predicted = outcome.winner.evidence == Evidence::kPredicted;
  const char* const what = is_predicted ? "Ranked" : "Timed first what is best";
  if (outcome.with_sum == 0) {
    return fmt::format("{} by the cost model{} alone: {}", what, is_predicted ? " and counts" : "",
                       outcome.without_sum > 0 ? outcome.why_no_sum : "no machine code was read");
  }
  std::string text =
      fmt::format("{} by the sum of the cost model and the timing model: {} of {} candidates", what,
                  outcome.with_sum, outcome.with_sum + outcome.without_sum);
  if (outcome.without_sum > 0)
    text += fmt::format("; the others by the cost model alone: {}", outcome.why_no_sum);
  return text;
}

std::string report_text(const SearchOutcome& outcome, const Problem& problem, const Target& target,
                        int count) {
  const TuningRecord& winner = outcome.winner;
  const char* const how =
      winner.evidence == Evidence::kPredicted ? "predicted, not measured" : "measured";
  std::string text;
  if (outcome.resumed_complete) {
    return fmt::format(
        "{}\n  the table has the answer already ({}, {}, search {}): {:.4g} ms\n  {}\n",
        to_string(winner.bucket), how, winner.time, winner.search, winner.ms,
        to_string(winner.schedule));
  }
  text += fmt::format(
      "{}\n{} on {}: {} candidates of {} combinations, {} compiled, {} timed, {} "
      "known; {:.1f} s\n\n",
      to_string(winner.bucket), how, winner.machine.device, outcome.fates.size(),
      outcome.combinations, outcome.compiled, outcome.timed, outcome.reused, outcome.seconds);
  if (!winner.complete) {
    text +=
        "The budget ran out before every promising candidate was tried: run it again to go on.\n\n";
  }
  if (const std::string order = order_text(outcome); !order.empty()) text += order + "\n\n";
  const Schedule base = default_schedule(problem, target, winner.bucket.determinism);
  const std::vector<const CandidateFate*> timed = timed_by_time(outcome);
  const auto elsewhere_ms = [&](const Schedule& schedule) {
    return saves_x(problem, schedule) ? outcome.saving_x_ms : 0;
  };
  const double winner_ms = winner.ms + elsewhere_ms(winner.schedule);
  text += fmt::format("  {:>9} {:>9} {:>7}  {:<24} against the default\n", "ms", "estimate",
                      "ratio", "algorithm");
  for (size_t i = 0; i < timed.size() && i < size_t(count); ++i) {
    text += fmt::format("{} {:>9.4g} {:>9.4g} {:>7.3f}  {:<24} {}\n",
                        timed[i]->fate == Fate::kWon ? "*" : " ", timed[i]->ms,
                        timed[i]->estimate_ms, (timed[i]->ms + timed[i]->elsewhere_ms) / winner_ms,
                        timed[i]->algorithm, schedule_difference(base, timed[i]->schedule));
  }
  text += terms_table(timed, count, model_kind(target));
  if (outcome.default_ms > 0) {
    text += fmt::format("\nThe default takes {:.4g} ms: {:.3f} x the winner's; noise {:.1f} %{}\n",
                        outcome.default_ms, (outcome.default_ms + elsewhere_ms(base)) / winner_ms,
                        outcome.noise * 100,
                        outcome.kept_incumbent ? "; what was best before stays" : "");
  }
  if (outcome.saving_x_ms > 0) {
    text += fmt::format(
        "Ratios count {:.4g} ms with each that takes epsilon from X: what X costs the forward for "
        "training, by the model\n",
        outcome.saving_x_ms);
  }
  text += fmt::format("Rank correlation of the model with these times: {}\n\nWhy the others fell\n",
                      std::isnan(outcome.rank_correlation)
                          ? std::string("not known (fewer than 3 times)")
                          : fmt::format("{:.2f}", outcome.rank_correlation));
  return text + why_others_fell(outcome);
}

nlohmann::json to_json(const SearchOutcome& outcome) {
  const ModelKind kind = model_kind(outcome.target);
  nlohmann::json json;
  json["winner"] = to_json(outcome.winner);
  json["default_ms"] = outcome.default_ms;
  json["saving_x_ms"] = outcome.saving_x_ms;
  json["noise"] = outcome.noise;
  json["kept_incumbent"] = outcome.kept_incumbent;
  json["resumed_complete"] = outcome.resumed_complete;
  json["cancelled"] = outcome.cancelled;
  json["combinations"] = outcome.combinations;
  json["duplicates"] = outcome.duplicates;
  json["rejected_by_rule"] = nlohmann::json::object();
  for (const auto& [rule, count] : outcome.rejected_by_rule) json["rejected_by_rule"][rule] = count;
  json["compiled"] = outcome.compiled;
  json["checked"] = outcome.checked;
  json["timed"] = outcome.timed;
  json["reused"] = outcome.reused;
  json["order"] = order_text(outcome);
  if (!std::isnan(outcome.rank_correlation)) json["rank_correlation"] = outcome.rank_correlation;
  json["seconds"] = outcome.seconds;
  json["candidates"] = nlohmann::json::array();
  for (const CandidateFate& fate : outcome.fates) {
    nlohmann::json one = {{"algorithm", fate.algorithm},     {"schedule", to_json(fate.schedule)},
                          {"fate", fate_name(fate.fate)},    {"reason", fate.reason},
                          {"estimate_ms", fate.estimate_ms}, {"elsewhere_ms", fate.elsewhere_ms}};
    for (int i = 0; i < kNumResources; ++i) {
      one["terms_ms"][resource_name(static_cast<Resource>(i), kind)] = fate.terms_ms[size_t(i)];
    }
    if (fate.ms > 0) one["ms"] = fate.ms;
    if (fate.sum_ms > 0) one["sum_ms"] = fate.sum_ms;
    json["candidates"].push_back(std::move(one));
  }
  return json;
}

}  // namespace lssar
