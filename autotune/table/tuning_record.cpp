#include "autotune/table/tuning_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "autotune/table/record_time.h"
#include "autotune/table/required_fields.h"
#include "cache/sha256.h"
#include "codegen/emit.h"
#include "codegen/launch_json.h"

namespace lssar {

using nlohmann::json;

namespace {

constexpr EnumName<Verdict> kVerdicts[] = {{Verdict::kOk, "ok"},
                                           {Verdict::kSpills, "spills"},
                                           {Verdict::kAssemblerWarning, "assembler-warning"},
                                           {Verdict::kCompileError, "compile-error"},
                                           {Verdict::kWrong, "wrong"},
                                           {Verdict::kOutOfBounds, "out-of-bounds"},
                                           {Verdict::kNotRepeatable, "not-repeatable"},
                                           {Verdict::kRace, "race"},
                                           {Verdict::kCrashed, "crashed"},
                                           {Verdict::kTimeout, "timeout"},
                                           {Verdict::kDeviceError, "device-error"}};
constexpr EnumName<Evidence> kEvidence[] = {{Evidence::kMeasured, "measured"},
                                            {Evidence::kPredicted, "predicted"}};

constexpr int64_t kMostInt = std::numeric_limits<int>::max();

// JSON has no names for these, and the error of a wrong candidate may be any of the three.
struct NonFinite {
  const char* name;
  double value;
};
constexpr NonFinite kNonFinite[] = {{"nan", std::numeric_limits<double>::quiet_NaN()},
                                    {"inf", std::numeric_limits<double>::infinity()},
                                    {"-inf", -std::numeric_limits<double>::infinity()}};

json number_to_json(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return kNonFinite[0].name;
  return kNonFinite[value > 0 ? 1 : 2].name;
}

Status number_from_json(const json& value, const std::string& field, double& out) {
  if (value.is_number()) {
    out = value.get<double>();
    return {};
  }
  for (const NonFinite& special : kNonFinite) {
    if (value != special.name) continue;
    out = special.value;
    return {};
  }
  return invalid_argument(field + ": allowed is a number, \"nan\", \"inf\" or \"-inf\"");
}

void need_number(RequiredFields& fields, const json& object, const char* name, double& out) {
  fields.require(name);
  if (fields.has(name)) {
    fields.fail(number_from_json(object.at(name), std::string("record.") + name, out));
  }
}

json terms_to_json(const std::map<std::string, double>& terms) {
  json object = json::object();
  for (const auto& [name, ms] : terms) object[name] = number_to_json(ms);
  return object;
}

Status read_terms(const json& object, std::map<std::string, double>& terms) {
  for (const auto& [name, ms] : object.items()) {
    LSSAR_RETURN_IF_ERROR(number_from_json(ms, "record.terms." + name, terms[name]));
  }
  return {};
}

// Reads the objects within a record, each with a reader of its own.
Status read_parts(RequiredFields& fields, TuningRecord& record) {
  for (const char* name : {"bucket", "problem", "sizes", "schedule", "machine", "terms"}) {
    fields.require(name);
  }
  const json* bucket = fields.object("bucket");
  const json* problem = fields.object("problem");
  const json* sizes = fields.object("sizes");
  const json* schedule = fields.object("schedule");
  const json* machine = fields.object("machine");
  const json* terms = fields.object("terms");
  LSSAR_RETURN_IF_ERROR(fields.status());
  LSSAR_ASSIGN_OR_RETURN(record.bucket, bucket_from_json(*bucket));
  LSSAR_ASSIGN_OR_RETURN(record.problem, problem_from_json(*problem));
  LSSAR_ASSIGN_OR_RETURN(record.sizes, sizes_from_json(*sizes, "record.sizes"));
  // The record's writer may not have known a field of the schedule. It then had the default's
  // effect.
  LSSAR_ASSIGN_OR_RETURN(record.schedule, schedule_from_json(*schedule, Schedule{}));
  LSSAR_ASSIGN_OR_RETURN(record.machine, machine_from_json(*machine, "record.machine"));
  if (const json* lengths = fields.object("lengths")) {
    LSSAR_ASSIGN_OR_RETURN(record.lengths, lengths_from_json(*lengths, "record.lengths"));
  }
  return read_terms(*terms, record.terms);
}

Status check_hash(const std::string& hash) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (hash.size() == kShownHashDigits && std::all_of(hash.begin(), hash.end(), is_digit)) return {};
  return invalid_argument(fmt::format(
      "record.source_hash = \"{}\": allowed are {} hexadecimal digits", hash, kShownHashDigits));
}

// Only a wrong candidate's error may be NaN or infinite.
Status check_number(const std::string& field, double value, bool may_be_wrong = false) {
  if (may_be_wrong && (std::isnan(value) || value >= 0)) return {};
  if (value >= 0 && std::isfinite(value)) return {};
  return invalid_argument(fmt::format("record.{} = {}: allowed are {}numbers from 0", field, value,
                                      may_be_wrong ? "nan, inf and " : "finite "));
}

// Another program may have written the record. A time of 0 or less, or an infinite one, would win
// against every other or spoil every mean.
Status check_numbers(const TuningRecord& record) {
  for (const auto& [name, ms] : {std::pair{"ms", record.ms},
                                 std::pair{"spread_ms", record.spread_ms},
                                 std::pair{"estimate_ms", record.estimate_ms}}) {
    LSSAR_RETURN_IF_ERROR(check_number(name, ms));
  }
  for (const auto& [name, ms] : record.terms) {
    LSSAR_RETURN_IF_ERROR(check_number("terms." + name, ms));
  }
  const bool is_wrong = record.verdict != Verdict::kOk;
  LSSAR_RETURN_IF_ERROR(check_number("error", record.error, is_wrong));
  return check_number("baseline_error", record.baseline_error, is_wrong);
}

// Rejects what no search writes: a winner without a time, or one of another bucket.
Status check_agreement(const TuningRecord& record) {
  if (record.chosen && (record.verdict != Verdict::kOk || record.ms == 0)) {
    return invalid_argument(fmt::format(
        "record.chosen = true with verdict {} and ms {}: a winner has verdict ok and a time",
        verdict_name(record.verdict), record.ms));
  }
  const Status lengths = check_lengths(record.problem, record.sizes, record.lengths);
  if (!lengths.ok()) return lengths.with_context("record");
  const Bucket bucket = bucket_of(record.problem, record.sizes, record.bucket.determinism);
  if (record.bucket == bucket) return {};
  return invalid_argument(
      fmt::format("record.bucket = {}: allowed is that of the record's problem and sizes, {}",
                  to_string(record.bucket), to_string(bucket)));
}

}  // namespace

const char* verdict_name(Verdict verdict) { return enum_name(kVerdicts, verdict); }
Result<Verdict> parse_verdict(const std::string& name) {
  return parse_enum(kVerdicts, "verdict", name);
}
const char* evidence_name(Evidence evidence) { return enum_name(kEvidence, evidence); }
Result<Evidence> parse_evidence(const std::string& name) {
  return parse_enum(kEvidence, "evidence", name);
}

std::string source_hash(const std::string& source) {
  return to_hex(sha256(source_without_header(source))).substr(0, kShownHashDigits);
}

namespace {

// Hashes that were made in this process. Making one takes milliseconds, and a table may name one
// schedule thousands of times.
class SourceHashes {
 public:
  std::string find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto at = hashes_.find(key);
    return at == hashes_.end() ? "" : at->second;
  }
  void keep(const std::string& key, const std::string& hash) {
    constexpr size_t kMost = 20000;  // some 30 MB
    const std::lock_guard lock(mutex_);
    if (hashes_.size() >= kMost) hashes_.clear();
    hashes_[key] = hash;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> hashes_;
};

SourceHashes& source_hashes() {
  static auto* const instance = new SourceHashes;  // never destroyed: threads may plan during exit
  return *instance;
}

}  // namespace

Result<std::string> schedule_source_hash(const Problem& problem, const Schedule& schedule,
                                         const Target& target) {
  const auto text = [](const json& object) {  // of anything, bad UTF-8 too
    return object.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
  };
  const std::string key = text(to_json(problem)) + text(to_json(schedule)) + target.name();
  if (std::string known = source_hashes().find(key); !known.empty()) return known;
  LSSAR_ASSIGN_OR_RETURN(const KernelSource kernel, emit_kernel(problem, schedule, target));
  const std::string hash = source_hash(kernel.source);
  source_hashes().keep(key, hash);
  return hash;
}

json to_json(const Machine& machine) {
  return {{"device", machine.device},
          {"target", machine.target},
          {"num_sms", machine.num_sms},
          {"driver", machine.driver},
          {"compiler", machine.compiler}};
}

Result<Machine> machine_from_json(const json& object, const std::string& where) {
  RequiredFields fields(object, where);
  Machine machine;
  fields.need("device", machine.device);
  fields.need("target", machine.target);
  fields.need_whole("num_sms", 0, kMostInt, machine.num_sms);
  fields.need("driver", machine.driver);
  fields.need("compiler", machine.compiler);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  return machine;
}

json to_json(const TuningRecord& record) {
  json object = {{"bucket", to_json(record.bucket)},
                 {"problem", to_json(record.problem)},
                 {"sizes", to_json(record.sizes)},
                 {"schedule", to_json(record.schedule)},
                 {"source_hash", record.source_hash},
                 {"machine", to_json(record.machine)},
                 {"evidence", evidence_name(record.evidence)},
                 {"verdict", verdict_name(record.verdict)},
                 {"reason", record.reason},
                 {"chosen", record.chosen},
                 {"complete", record.complete},
                 {"ms", number_to_json(record.ms)},
                 {"spread_ms", number_to_json(record.spread_ms)},
                 {"samples", record.samples},
                 {"estimate_ms", number_to_json(record.estimate_ms)},
                 {"terms", terms_to_json(record.terms)},
                 {"error", number_to_json(record.error)},
                 {"baseline_error", number_to_json(record.baseline_error)},
                 {"registers", record.registers},
                 {"spill_bytes", record.spill_bytes},
                 {"shared_bytes", record.shared_bytes},
                 {"time", record.time},
                 {"search", record.search}};
  if (!record.lengths.empty()) object["lengths"] = to_json(record.lengths);
  return object;
}

Result<TuningRecord> record_from_json(const json& object) {
  TuningRecord record;
  RequiredFields fields(object, "record");
  LSSAR_RETURN_IF_ERROR(read_parts(fields, record));
  fields.need("source_hash", record.source_hash);
  fields.need_named("evidence", parse_evidence, record.evidence);
  fields.need_named("verdict", parse_verdict, record.verdict);
  fields.need("reason", record.reason);
  fields.need("chosen", record.chosen);
  fields.read("complete", record.complete);
  need_number(fields, object, "ms", record.ms);
  need_number(fields, object, "spread_ms", record.spread_ms);
  fields.need_whole("samples", 0, kMostInt, record.samples);
  need_number(fields, object, "estimate_ms", record.estimate_ms);
  need_number(fields, object, "error", record.error);
  need_number(fields, object, "baseline_error", record.baseline_error);
  fields.need_whole("registers", -1, kMostInt, record.registers);
  fields.need_whole("spill_bytes", -1, kMostInt, record.spill_bytes);
  fields.need_whole("shared_bytes", 0, kMostInt, record.shared_bytes);
  fields.need("time", record.time);
  fields.need("search", record.search);
  LSSAR_RETURN_IF_ERROR(fields.status());
  LSSAR_RETURN_IF_ERROR(check_hash(record.source_hash));
  LSSAR_RETURN_IF_ERROR(check_numbers(record));
  LSSAR_RETURN_IF_ERROR(check_record_time(record.time));
  LSSAR_RETURN_IF_ERROR(check_agreement(record));
  return record;
}

}  // namespace lssar
