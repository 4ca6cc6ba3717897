// Compile, check and time: what happens to a candidate that is kept.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "autotune/measure/samples.h"
#include "autotune/search/search_run.h"
#include "autotune/table/record_time.h"

namespace lssar {
namespace {

// Candidates that are compiled and timed together: enough to keep the compilers busy, and few
// enough that the bound of the best so far can spare the rest.
constexpr size_t kMinBatch = 4;

// If this many candidates of an algorithm have wrong numbers, and none has right ones, tiles are
// not the reason. The reason may be a rounding that matters with these data.
constexpr int kWrongOfAlgorithm = 3;

}  // namespace

std::vector<size_t> SearchRun::alive_by_score() const {
  std::vector<size_t> alive;
  for (size_t i = 0; i < trials_.size(); ++i) {
    if (trials_[i].state == Trial::State::kAlive) alive.push_back(i);
  }
  std::stable_sort(alive.begin(), alive.end(), [&](size_t a, size_t b) {
    return trials_[a].whole_ms() < trials_[b].whole_ms();
  });
  return alive;
}

Status SearchRun::try_all(Stage stage, const std::vector<size_t>& trials, double share) {
  const size_t batch_size = std::max(kMinBatch, size_t(2 * request_.parallel_compiles));
  const int total = static_cast<int>(trials.size());
  size_t next = 0;
  while (next < trials.size()) {
    report(stage, static_cast<int>(next), total);
    if (should_stop()) return {};
    const bool is_late = out_of_time(share);
    std::vector<size_t> batch;
    for (; next < trials.size() && batch.size() < batch_size; ++next) {
      Trial& trial = trials_[trials[next]];
      if (is_late && !trial.always_tried) continue;  // stays waiting: out of time
      if (!trial.always_tried && is_dropped(trial)) continue;
      batch.push_back(trials[next]);
    }
    LSSAR_RETURN_IF_ERROR(try_batch(batch, share));
  }
  report(stage, total, total);
  return {};
}

// Whether this one need not run, by what is known of others. If so, it is out, with the reason.
bool SearchRun::is_dropped(Trial& trial) const {
  const std::vector<size_t> best = alive_by_score();
  const double least_ms = trial.estimate.lower_bound_ms + trial.estimate.elsewhere_ms;
  if (!best.empty() && least_ms > trials_[best[0]].whole_ms()) {
    trial.state = Trial::State::kOut;
    trial.fate = Fate::kBound;
    trial.reason = fmt::format("at least {:.4g} ms by the model; the best takes {:.4g} ms",
                               least_ms, trials_[best[0]].whole_ms());
    return true;
  }
  int wrong = 0;
  for (const Trial& other : trials_) {
    if (other.algorithm != trial.algorithm) continue;
    if (other.state == Trial::State::kAlive) return false;
    if (other.record.verdict == Verdict::kWrong) ++wrong;
  }
  if (wrong < kWrongOfAlgorithm) return false;
  trial.state = Trial::State::kOut;
  trial.fate = Fate::kRuledOut;
  trial.reason = fmt::format(
      "algorithm wrong: {} others of it gave wrong numbers, and none right ones", wrong);
  return true;
}

Status SearchRun::try_batch(const std::vector<size_t>& batch, double share) {
  std::vector<size_t> fresh;
  for (const size_t i : batch) {
    Trial& trial = trials_[i];
    const TuningRecord* known = known_record(trial.source_hash);
    if (known == nullptr || (known->verdict == Verdict::kOk && known->ms <= 0)) {
      fresh.push_back(i);
      continue;
    }
    ++outcome_.reused;
    trial.record = *known;
    trial.record.chosen = false;
    if (known->verdict == Verdict::kOk) {
      trial.state = Trial::State::kAlive;
      trial.score_ms = known->ms;
    } else {
      trial.state = Trial::State::kOut;
      trial.fate = Fate::kRuledOut;
      trial.reason = fmt::format("{}: {}", verdict_name(known->verdict), known->reason);
    }
  }
  LSSAR_RETURN_IF_ERROR(compile_batch(fresh, share));
  order_by_sum(&fresh);
  std::vector<size_t> passed;
  bool has_checked = false;
  for (const size_t i : fresh) {
    if (!trials_[i].is_compiled || trials_[i].state == Trial::State::kOut) continue;
    if (should_stop()) return {};
    // One goes on although it is late. With a budget too short for a batch, each search must still
    // get further than the last.
    if (has_checked && out_of_time(share) && !trials_[i].always_tried) continue;  // stays waiting
    has_checked = true;
    LSSAR_RETURN_IF_ERROR(check(trials_[i], CheckDepth::kQuick));
    if (trials_[i].state != Trial::State::kOut) passed.push_back(i);
  }
  return time_batch(passed, share);
}

// Times candidates for the first time. On a GPU all are timed in one call, side by side. A count
// takes long and needs no others beside it, so each gets its own call. Except for the first, those
// without time left stay waiting.
Status SearchRun::time_batch(const std::vector<size_t>& passed, double share) {
  const bool is_counted = runner_.evidence() == Evidence::kPredicted;
  TimeRequest how;
  how.rounds = request_.budget.first_rounds;
  const size_t step = is_counted ? 1 : passed.size();
  for (size_t next = 0; next < passed.size(); next += step) {
    if (should_stop()) return {};
    if (next > 0 && out_of_time(share) && !trials_[passed[next]].always_tried) continue;
    const auto first = passed.begin() + std::ptrdiff_t(next);
    const std::vector<size_t> timed(first, first + std::ptrdiff_t(step));
    LSSAR_RETURN_IF_ERROR(time_trials(timed, how));
    for (const size_t i : timed) {
      if (trials_[i].state == Trial::State::kAlive) LSSAR_RETURN_IF_ERROR(keep(trials_[i]));
    }
  }
  return {};
}

// work(0) ... work(count - 1), on as many threads as may compile. None is begun after the caller
// ended the search.
void SearchRun::in_parallel(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> is_cancelled{false};
  const auto help = [&] {
    for (size_t i = next++; i < count && !is_cancelled; i = next++) work(i);
  };
  std::vector<std::jthread> helpers;
  for (int i = 1; i < request_.parallel_compiles && size_t(i) < count; ++i) {
    try {
      helpers.emplace_back(help);
    } catch (const std::system_error&) {
      break;  // no more threads are available: the others do the rest
    }
  }
  for (size_t i = next++; i < count; i = next++) {
    if (should_stop()) is_cancelled = true;  // only this thread may ask the caller
    if (is_cancelled) break;
    work(i);
  }
}

// Those without time left, or after the caller ended the search, stay waiting.
Status SearchRun::compile_batch(const std::vector<size_t>& batch, double share) {
  std::vector<Result<CompileReport>> reports(batch.size(), Result<CompileReport>(CompileReport{}));
  std::vector<std::optional<Result<std::vector<double>>>> loops(batch.size());
  in_parallel(batch.size(), [&](size_t i) {
    Trial& trial = trials_[batch[i]];
    if (out_of_time(share) && !trial.always_tried) return;
    trial.is_compiled = true;
    try {
      reports[i] = runner_.compile(trial.spec);
      if (!reports[i].ok()) return;
      trial.record.spill_bytes = reports[i]->spill_bytes;
      if (reports[i]->verdict != Verdict::kOk || out_of_time(share)) return;
      if (needs_loops(trial)) loops[i] = read_loops(trial);
    } catch (const std::exception& error) {
      reports[i] = internal_error(error.what());
    }
  });
  for (size_t i = 0; i < batch.size(); ++i) {
    LSSAR_RETURN_IF_ERROR(reports[i].status());
    Trial& trial = trials_[batch[i]];
    if (!trial.is_compiled) continue;
    if (loops[i]) note_loops(trial, *loops[i]);
    ++outcome_.compiled;
    trial.record.registers = reports[i]->registers;
    trial.record.shared_bytes = reports[i]->shared_bytes;
    if (reports[i]->verdict != Verdict::kOk) {
      LSSAR_RETURN_IF_ERROR(rule_out(trial, reports[i]->verdict, reports[i]->reason));
    }
  }
  return {};
}

Status SearchRun::check(Trial& trial, CheckDepth depth) {
  LSSAR_ASSIGN_OR_RETURN(const CheckReport report, runner_.check(trial.spec, depth));
  ++outcome_.checked;
  trial.record.error = std::max(trial.record.error, report.error);
  trial.record.baseline_error = std::max(trial.record.baseline_error, report.baseline_error);
  if (report.verdict == Verdict::kOk) return {};
  return rule_out(trial, report.verdict, report.reason);
}

Status SearchRun::rule_out(Trial& trial, Verdict verdict, const std::string& reason) {
  trial.state = Trial::State::kOut;
  trial.fate = Fate::kRuledOut;
  trial.reason = fmt::format("{}: {}", verdict_name(verdict), reason);
  trial.record.verdict = verdict;
  trial.record.reason = reason;
  return keep(trial);
}

Status SearchRun::keep(Trial& trial) {
  if (!request_.keep_record) return {};
  trial.record.time = std::max(utc_now(), request_.earliest_time);
  trial.record.search = name_;
  return request_.keep_record(trial.record);
}

// The best candidate so far with a known time, so that its place survives rejections.
void SearchRun::choose_anchor() {
  if (has_anchor_ && trials_[anchor_].state == Trial::State::kAlive) return;
  const std::vector<size_t> alive = alive_by_score();
  has_anchor_ = !alive.empty();
  if (!has_anchor_) return;
  anchor_ = alive[0];
  anchor_ms_ = trials_[anchor_].score_ms;
  anchor_count_ms_ = 0;
}

// Times `trials` beside the anchor, round by round. One that fails is rejected. If it is the
// anchor, the others are timed again beside another one.
Status SearchRun::time_trials(std::vector<size_t> trials, const TimeRequest& how) {
  while (!trials.empty()) {
    choose_anchor();
    const bool is_known = has_anchor_ && anchor_count_ms_ > 0 && how.data == InputKind::kGauss;
    if (!has_anchor_) {
      // The first call of all: the first candidate becomes the anchor.
      anchor_ = trials[0];
      anchor_ms_ = 0;
    } else if (!is_known && std::find(trials.begin(), trials.end(), anchor_) == trials.end()) {
      trials.insert(trials.begin(), anchor_);
    }
    std::vector<CandidateSpec> specs;
    for (const size_t i : trials) specs.push_back(trials_[i].spec);
    LSSAR_ASSIGN_OR_RETURN(const std::vector<TimeReport> reports, runner_.time(specs, how));
    if (reports.size() != trials.size()) return internal_error("time: one report per candidate");

    TimeReport beside;  // the anchor's
    beside.samples_ms.assign(static_cast<size_t>(how.rounds), anchor_count_ms_);
    const auto at = std::find(trials.begin(), trials.end(), anchor_);
    if (at != trials.end()) beside = reports[static_cast<size_t>(at - trials.begin())];
    if (beside.verdict == Verdict::kOk) note_anchor(median(beside.samples_ms), how.data);
    std::vector<size_t> again;
    for (size_t i = 0; i < trials.size(); ++i) {
      Trial& trial = trials_[trials[i]];
      if (reports[i].verdict != Verdict::kOk) {
        LSSAR_RETURN_IF_ERROR(rule_out(trial, reports[i].verdict, reports[i].reason));
      } else if (beside.verdict != Verdict::kOk) {
        again.push_back(trials[i]);
      } else {
        add_samples(trial, reports[i].samples_ms, beside.samples_ms);
      }
    }
    trials = std::move(again);
  }
  return {};
}

// Notes the anchor's time in this call. A count never changes, so it is not repeated beside the
// others.
void SearchRun::note_anchor(double ms, InputKind data) {
  if (anchor_ms_ <= 0) anchor_ms_ = ms;
  if (runner_.evidence() == Evidence::kPredicted && data == InputKind::kGauss)
    anchor_count_ms_ = ms;
}

void SearchRun::add_samples(Trial& trial, const std::vector<double>& ms,
                            const std::vector<double>& anchor_ms) {
  for (size_t r = 0; r < ms.size(); ++r) trial.relative.push_back(ms[r] / anchor_ms[r]);
  trial.state = Trial::State::kAlive;
  trial.score_ms = median(trial.relative) * anchor_ms_;
  trial.record.ms = trial.score_ms;
  trial.record.spread_ms = half_quartile_range(trial.relative) * anchor_ms_;
  trial.record.samples = static_cast<int>(trial.relative.size());
}

}  // namespace lssar
