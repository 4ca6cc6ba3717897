#include "autotune/model/schedule_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "autotune/model/cost_model.h"
#include "autotune/table/record_time.h"
#include "autotune/table/table_lines.h"

namespace lssar {
namespace {

// A record whose sizes are this far away is as good as one of the same sizes. One from further away
// must be faster than the default by the cost model.
constexpr double kNearOctaves = 1;

struct Wanted {
  Bucket bucket;
  const Problem& problem;
  const Target& target;
  const Machine& machine;
  Sizes sizes;  // all known, or typical
  Determinism determinism;
};

// A record that may decide.
struct Applicant {
  const TuningRecord* record = nullptr;
  const TuningTable* table = nullptr;
  ScheduleOrigin step = ScheduleOrigin::kDefault;
  bool is_far = false;
  unsigned lacks = 0;   // what the problem has and the record was not measured with: Feature
  double distance = 0;  // of sizes, in octaves
  size_t table_idx = 0;
  bool is_other_kind = false;  // its lengths are fixed and the problem's are not, or the reverse
  bool is_other_device = false;
  int64_t sms_apart = 0;
  bool is_other_compiler = false;
  bool is_other_driver = false;
  // Made at the first comparison. A table may have thousands of records with one time.
  mutable std::string text = {};

  auto rank() const {
    return std::tie(is_far, step, lacks, distance, table_idx, is_other_kind, is_other_device,
                    sms_apart, is_other_compiler, is_other_driver);
  }
};

const std::string& text_of(const Applicant& one) {
  if (one.text.empty()) one.text = record_text(*one.record);
  return one.text;
}

bool comes_before(const Applicant& a, const Applicant& b) {
  if (a.rank() != b.rank()) return a.rank() < b.rank();
  if (a.record->time != b.record->time) return a.record->time > b.record->time;
  // Both records are of one table (table_idx). No search could give its winner a later time than
  // the last possible one, so the later record wins.
  if (is_last_time(a.record->time)) return a.record > b.record;
  return text_of(a) < text_of(b);
}

struct PassedOver {
  int stale = 0;    // the generator now makes another source
  int illegal = 0;  // for this problem, on this device
  int foreign = 0;  // of other targets
  int slower = 0;   // of distant sizes, and slower than the default by the cost model

  std::string text() const {
    std::string list;
    const auto add = [&](int count, const char* what) {
      if (count > 0) list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, what);
    };
    add(stale, "of another generator");
    add(illegal, "not legal here");
    add(foreign, "of other architectures");
    add(slower, "of distant sizes and slower than the default by the cost model");
    return list.empty() ? "" : "; records passed over: " + list;
  }
};

// A schedule that is best for fixed lengths is good for open ones, and the reverse. One that is
// best without a window is good for a problem with one, but not the reverse: its tiles may be as
// small as the window. Other features are alike: rules leave out fields that serve other problems.
bool is_near(Bucket its, const Bucket& wanted) {
  its.fixed_lengths = wanted.fixed_lengths;
  return same_but_sizes(its, without(wanted, lacking(its, wanted)));
}

ScheduleOrigin step_of(const TuningRecord& record, const Wanted& wanted) {
  if (record.evidence == Evidence::kPredicted) return ScheduleOrigin::kPredicted;
  const bool is_this_gpu = record.machine.device == wanted.machine.device &&
                           record.machine.num_sms == wanted.machine.num_sms;
  if (!is_this_gpu) return ScheduleOrigin::kArchitecture;
  return record.bucket == wanted.bucket ? ScheduleOrigin::kExact : ScheduleOrigin::kNearest;
}

std::vector<Applicant> applicants(const Wanted& wanted,
                                  const std::vector<const TuningTable*>& tables,
                                  PassedOver& passed_over) {
  const auto is_other = [](const std::string& its, const std::string& ours) {
    return !ours.empty() && its != ours;
  };
  std::vector<Applicant> list;
  for (size_t i = 0; i < tables.size(); ++i) {
    for (const TuningRecord& record : tables[i]->records()) {
      if (!record.chosen || record.verdict != Verdict::kOk) continue;
      if (!is_near(record.bucket, wanted.bucket)) continue;
      if (record.machine.target != wanted.target.name()) {
        ++passed_over.foreign;
        continue;
      }
      list.push_back(
          {.record = &record,
           .table = tables[i],
           .step = step_of(record, wanted),
           .is_far = widest_size_gap(record.bucket, wanted.bucket) > kNearOctaves,
           .lacks = lacking(record.bucket, wanted.bucket),
           .distance = size_distance(record.bucket, wanted.bucket),
           .table_idx = i,
           .is_other_kind = record.bucket.fixed_lengths != wanted.bucket.fixed_lengths,
           .is_other_device = record.machine.device != wanted.machine.device,
           .sms_apart = std::abs(int64_t{record.machine.num_sms} - wanted.machine.num_sms),
           .is_other_compiler = is_other(record.machine.compiler, wanted.machine.compiler),
           .is_other_driver = is_other(record.machine.driver, wanted.machine.driver)});
    }
  }
  std::sort(list.begin(), list.end(), comes_before);
  return list;
}

bool is_legal(const TuningRecord& record, const Wanted& wanted) {
  const bool has_any_order =
      wanted.problem.pass == Pass::kBackward && record.schedule.dq_mode == DqMode::kAtomic;
  if (has_any_order && wanted.bucket.determinism == Determinism::kRepeatable) return false;
  return validate(record.schedule, wanted.problem, wanted.target).ok();
}

// Emits the record's kernel, which takes a tenth of a millisecond.
bool is_stale(const TuningRecord& record, const Target& target) {
  const auto hash = schedule_source_hash(record.problem, record.schedule, target);
  return !hash.ok() || *hash != record.source_hash;
}

// Sizes for the cost model. Unknown ones get the values that size_distance uses.
Sizes estimated_sizes(Sizes sizes) {
  if (sizes.batch <= 0) sizes.batch = 4;
  if (sizes.heads <= 0) sizes.heads = 16;
  if (sizes.kv_heads <= 0) sizes.kv_heads = sizes.heads;
  if (sizes.seq_q <= 0) sizes.seq_q = 4096;
  if (sizes.seq_k <= 0) sizes.seq_k = 4096;
  return sizes;
}

// Estimates of a record's schedule and of the default, for the problem in question.
struct Estimates {
  double record_ms = 0;
  double default_ms = 0;
};

Result<Estimates> estimate_both(const TuningRecord& record, const Wanted& wanted) {
  Machine machine = wanted.machine;
  machine.target = wanted.target.name();
  LSSAR_ASSIGN_OR_RETURN(const DeviceModel model, common_device_model(machine));
  const auto estimate_ms = [&](const Schedule& schedule) {
    return estimate_cost(wanted.problem, wanted.sizes, schedule, wanted.target, model).ms;
  };
  return Estimates{
      estimate_ms(record.schedule),
      estimate_ms(default_schedule(wanted.problem, wanted.target, wanted.determinism))};
}

// Whether a record of distant sizes decides here. `why` gets the reason's addition.
bool beats_default(const Applicant& one, const Wanted& wanted, std::string& why) {
  const Result<Estimates> estimates = estimate_both(*one.record, wanted);
  if (!estimates.ok() || estimates->record_ms >= estimates->default_ms) return false;
  why = fmt::format("; here {:.2f} x as fast as the default by the cost model",
                    estimates->default_ms / estimates->record_ms);
  return true;
}

std::string reason_for(const Applicant& chosen, const Wanted& wanted) {
  const TuningRecord& record = *chosen.record;
  std::string text =
      record.evidence == Evidence::kPredicted
          ? fmt::format("predicted {:.4g} ms for {}", record.ms, record.machine.target)
          : fmt::format("{}: measured {:.4g} ms on {}", origin_name(chosen.step), record.ms,
                        record.machine.device);
  if (!record.complete) text += ", search cut short";
  if (!record.time.empty()) text += " on " + record.time.substr(0, record.time.find('T'));
  text += ", bucket " + to_string(record.bucket);
  if (record.bucket != wanted.bucket) {
    text += fmt::format(", {:.2g} octaves from seq {}x{} slices {}", chosen.distance,
                        wanted.bucket.seq_q, wanted.bucket.seq_k, wanted.bucket.slices);
  }
  if (chosen.lacks != 0) {
    text +=
        fmt::format(", {} without {}", evidence_name(record.evidence), feature_names(chosen.lacks));
  }
  if (chosen.is_other_compiler) text += ", compiled by " + record.machine.compiler;
  if (chosen.table != &shipped_table() && !chosen.table->name().empty())
    text += ", table " + chosen.table->name();
  return text;
}

ScheduleChoice choice_of(const Applicant& chosen, const Wanted& wanted, const std::string& why) {
  ScheduleChoice choice{chosen.record->schedule, chosen.step, "", chosen.table == &shipped_table()};
  choice.reason = fmt::format("{} ({}{})", source_name(choice), reason_for(chosen, wanted), why);
  return choice;
}

ScheduleChoice default_choice(const Wanted& wanted, bool has_tables, const std::string& why) {
  const std::string& device = wanted.machine.device;
  const std::string place =
      device.empty() ? wanted.target.name() : fmt::format("{} ({})", device, wanted.target.name());
  return {
      default_schedule(wanted.problem, wanted.target, wanted.determinism), ScheduleOrigin::kDefault,
      has_tables
          ? fmt::format("default (no record for {} on {}{})", to_string(wanted.bucket), place, why)
          : "default (tuning tables left out)"};
}

}  // namespace

ScheduleChoice choose_schedule(const Problem& problem, const Sizes& sizes, Determinism determinism,
                               const Target& target, const Machine& machine,
                               const std::vector<const TuningTable*>& tables,
                               const std::optional<Schedule>& given) {
  if (given) return {*given, ScheduleOrigin::kGiven, "given by the caller"};
  const Wanted wanted{bucket_of(problem, sizes, determinism),
                      problem,
                      target,
                      machine,
                      estimated_sizes(sizes),
                      determinism};
  PassedOver passed_over;
  for (const Applicant& one : applicants(wanted, tables, passed_over)) {
    std::string why;
    if (!is_legal(*one.record, wanted)) {
      ++passed_over.illegal;
    } else if (is_stale(*one.record, target)) {
      ++passed_over.stale;
    } else if (one.is_far && !beats_default(one, wanted, why)) {
      ++passed_over.slower;
    } else {
      return choice_of(one, wanted, why + passed_over.text());
    }
  }
  return default_choice(wanted, !tables.empty(), passed_over.text());
}

RecordState record_state(const TuningRecord& record) {
  const auto target = target_from_name(record.machine.target);
  if (!target.ok() || !validate(record.schedule, record.problem, *target).ok()) {
    return RecordState::kIllegal;
  }
  return is_stale(record, *target) ? RecordState::kStale : RecordState::kCurrent;
}

Machine machine_of(const DeviceInfo& device, const std::string& compiler) {
  Machine machine;
  machine.target = device.target.name();
  machine.compiler = compiler;
  if (device.kind == "virtual") {
    machine.device = device.kind;
    return machine;
  }
  machine.device = device.name;
  machine.num_sms = device.num_sms;
  machine.driver = device.driver;
  return machine;
}

}  // namespace lssar
