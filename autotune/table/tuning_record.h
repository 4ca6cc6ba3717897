// TuningRecord: what is known of one candidate for one bucket on one GPU. It is one JSON object,
// one line of the tuning table.
//
// Threads: plain values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "autotune/table/bucket.h"
#include "autotune/table/sequence_lengths.h"
#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"

namespace lssar {

// The result of trying a candidate.
enum class Verdict {
  kOk,                // right; measured, or (in predicted records) counted
  kSpills,            // registers in local memory
  kAssemblerWarning,  // the assembler serialised wgmma or ignored setmaxnreg
  kCompileError,
  kWrong,          // numbers beyond the error bound
  kOutOfBounds,    // wrote outside of its outputs, or left some of them unwritten
  kNotRepeatable,  // bits differ between runs where they must repeat
  kRace,           // the strict virtual device reported one
  kCrashed,        // its process died
  kTimeout,        // compile or run took longer than allowed
  kDeviceError,    // load, launch or an illegal access
};
const char* verdict_name(Verdict verdict);  // "ok", "spills", "assembler-warning", ...
Result<Verdict> parse_verdict(const std::string& name);

// Where the time of a record comes from.
enum class Evidence {
  kMeasured,   // on the GPU it names
  kPredicted,  // by the cost model, without a GPU; never beside a measured record of its bucket
};
const char* evidence_name(Evidence evidence);  // "measured", "predicted"
Result<Evidence> parse_evidence(const std::string& name);

// Decides whether a time can be trusted for a run on this machine.
struct Machine {
  std::string device;    // "NVIDIA H200"; "virtual" for predicted records
  std::string target;    // "sm_90a"
  int num_sms = 0;       // 0: not known (predicted)
  std::string driver;    // as DeviceInfo
  std::string compiler;  // "nvrtc 13.0.88"

  bool operator==(const Machine&) const = default;
};

struct TuningRecord {
  Bucket bucket;
  // The problem and sizes that stood for the bucket.
  Problem problem;
  Sizes sizes;
  SequenceLengths lengths;  // with problem.varlen
  Schedule schedule;
  // The first kShownHashDigits digits of the SHA-256 of the source that emit_kernel makes of
  // problem and schedule for the target, without its header comment. If the generator makes another
  // source, the record does not apply to it.
  std::string source_hash;

  Machine machine;
  Evidence evidence = Evidence::kPredicted;
  Verdict verdict = Verdict::kOk;
  std::string reason;   // why not kOk; "" for kOk
  bool chosen = false;  // the winner of its search; a later chosen record of the bucket replaces it
  // For a chosen record: its search tried everything it meant to. False: the budget ran out, and
  // the next search of the bucket continues. Absent in a file: true.
  bool complete = true;

  double ms = 0;           // median; predicted: the model's; 0 = not timed (not promising enough)
  double spread_ms = 0;    // half the distance of the quartiles; 0 for predicted records
  int samples = 0;         // launches timed
  double estimate_ms = 0;  // of the cost model
  std::map<std::string, double> terms;  // of the cost model, ms by resource
  double error = 0;                     // largest relative L2 error over the outputs
  double baseline_error = 0;            // the plain kernel's
  int registers = -1;                   // most over the kernels; -1 = not known
  int spill_bytes = -1;
  int shared_bytes = 0;
  std::string time;    // UTC, "2026-11-21T13:16:13Z"
  std::string search;  // the tuner's run: budget and a random id, "quick-3f9a12"

  bool operator==(const TuningRecord&) const = default;
};

// The hash of a source, and of the source that a schedule emits: the first 16 digits described above.
// Errors: those of emit_kernel. A hash that was made before in this process costs some microseconds.
std::string source_hash(const std::string& source);
Result<std::string> schedule_source_hash(const Problem& problem, const Schedule& schedule,
                                         const Target& target);

nlohmann::json to_json(const Machine& machine);
// No field may be missing. `where` names the object in errors.
Result<Machine> machine_from_json(const nlohmann::json& json, const std::string& where);

nlohmann::json to_json(const TuningRecord& record);
// An unknown field is ignored, because a later version may have written it. A missing or malformed
// one is an error that names it.
Result<TuningRecord> record_from_json(const nlohmann::json& json);

}  // namespace lssar
