// The messages between a WorkerRunner and its worker processes: one JSON object per line, over the
// worker's standard input and output.
//
//   worker  {"lssar_tune_worker": VERSION, "protocol": N}      first of all
//   runner  {"task": ..., "device": ...}                       device: for a worker that compiles
//   worker  {"ready": ...} or {"error": ...}
// and then any number of requests,
//   {"compile": candidate}
//   {"check": candidate, "full": bool}
//   {"time": [{"candidate": ..., "rounds_done": n}], "request": ..., "chunk": n}
// each answered by
//   {"on": [places], "phase": "prepare" or "run"}              whose fault it is from here on
//   {"sample": [place, ms]}, {"failed": ...}                   of a timing
//   {"report": ...}, {"done": true} or {"error": ...}          at the end; "spent": true where the
//                                                              worker's device is lost with it
//
// Both sides are of one version, which the first line checks. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "autotune/measure/candidate_host.h"
#include "base/status.h"

namespace lssar::worker {

inline constexpr int kProtocol = 4;

nlohmann::json hello();
// kUnsupported: the versions differ; the message names both.
Status check_hello(const nlohmann::json& message);

// Decoding functions return kInternal for what encode (for a Machine: to_json) does not write.
nlohmann::json encode(const Status& status);
Status decode_status(const nlohmann::json& json);

nlohmann::json encode(const RunnerTask& task);
Result<RunnerTask> decode_task(const nlohmann::json& json);

nlohmann::json encode(const DeviceFacts& device);
Result<DeviceFacts> decode_device(const nlohmann::json& json);

Result<Machine> decode_machine(const nlohmann::json& json);

nlohmann::json encode(const CandidateSpec& candidate);
Result<CandidateSpec> decode_candidate(const nlohmann::json& json);

nlohmann::json encode(const CompileReport& report);
Result<CompileReport> decode_compile_report(const nlohmann::json& json);

nlohmann::json encode(const CheckReport& report);
Result<CheckReport> decode_check_report(const nlohmann::json& json);

nlohmann::json encode(const TimeRequest& request);
Result<TimeRequest> decode_time_request(const nlohmann::json& json);

// One line with its end. Text that is not UTF-8 (from a compiler, say) is made valid.
std::string to_line(const nlohmann::json& message);
Result<nlohmann::json> from_line(const std::string& line);

}  // namespace lssar::worker
