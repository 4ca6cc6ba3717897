#include "autotune/measure/worker_protocol.h"

#include <exception>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/launch_json.h"
#include "lssar/lssar.h"

namespace lssar::worker {
namespace {

using nlohmann::json;

constexpr const char* kHello = "lssar_tune_worker";

// Decodes a message. `decode` may throw what the JSON library throws.
template <class Decode>
auto decoded(const char* what, const Decode& decode) -> Result<decltype(decode())> {
  try {
    return decode();
  } catch (const json::exception&) {
    return internal_error(fmt::format("tuning worker: {}: not what this version sends", what));
  } catch (const std::exception& error) {
    return internal_error(fmt::format("tuning worker: {}: {}", what, error.what()));
  }
}

// The value of a result, or an exception that decoded() catches.
template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().to_string());
  return std::move(result).value();
}

template <class Enum>
Enum enum_of(const json& value, Enum last) {
  const int number = value.get<int>();
  if (number < 0 || number > static_cast<int>(last)) throw std::runtime_error("no such value");
  return static_cast<Enum>(number);
}

}  // namespace

json hello() { return {{kHello, LSSAR_VERSION}, {"protocol", kProtocol}}; }

Status check_hello(const json& message) {
  if (message == hello()) return {};
  if (!message.is_object() || !message.contains(kHello)) {
    return unsupported("it is no tuning worker: it began with " + to_line(message).substr(0, 200));
  }
  return unsupported(fmt::format(
      "it is of another version ({}, protocol {}) than this library ({}, protocol {}); install "
      "both together",
      message.at(kHello).dump(), message.value("protocol", json()).dump(), LSSAR_VERSION,
      kProtocol));
}

json encode(const Status& status) {
  return {{"code", static_cast<int>(status.code())}, {"message", status.message()}};
}

Status decode_status(const json& j) {
  using Fields = std::pair<StatusCode, std::string>;
  const Result<Fields> fields = decoded("error", [&] {
    return Fields(enum_of(j.at("code"), StatusCode::kInternal), j.at("message").get<std::string>());
  });
  return fields.ok() ? Status(fields->first, fields->second) : fields.status();
}

json encode(const RunnerTask& task) {
  return {{"problem", to_json(task.problem)},
          {"sizes", to_json(task.sizes)},
          {"lengths", to_json(task.lengths)},
          {"determinism", determinism_name(task.determinism)},
          {"device", static_cast<int>(task.device)},
          {"ordinal", task.ordinal},
          {"target", task.target},
          {"compiler", static_cast<int>(task.compiler)},
          {"cache_directory", task.cache_directory}};
}

Result<RunnerTask> decode_task(const json& j) {
  return decoded("task", [&] {
    RunnerTask task;
    task.problem = value_of(problem_from_json(j.at("problem")));
    task.sizes = value_of(sizes_from_json(j.at("sizes"), "sizes"));
    task.lengths = value_of(lengths_from_json(j.at("lengths"), "lengths"));
    task.determinism = value_of(parse_determinism(j.at("determinism").get<std::string>()));
    task.device = enum_of(j.at("device"), DeviceChoice::kCpu);
    task.ordinal = j.at("ordinal").get<int>();
    task.target = j.at("target").get<std::string>();
    task.compiler = enum_of(j.at("compiler"), CompilerChoice::kLlvm);
    task.cache_directory = j.at("cache_directory").get<std::string>();
    return task;
  });
}

json encode(const DeviceFacts& device) {
  const DeviceInfo& info = device.info;
  return {{"kind", info.kind},
          {"name", info.name},
          {"id", info.id},
          {"driver", info.driver},
          {"num_sms", info.num_sms},
          {"l2_bytes", info.l2_bytes},
          {"target", to_json(info.target)},
          {"image", static_cast<int>(device.image)}};
}

Result<DeviceFacts> decode_device(const json& j) {
  return decoded("device", [&] {
    DeviceFacts device;
    device.info.kind = j.at("kind").get<std::string>();
    device.info.name = j.at("name").get<std::string>();
    device.info.id = j.at("id").get<std::string>();
    device.info.driver = j.at("driver").get<std::string>();
    device.info.num_sms = j.at("num_sms").get<int>();
    device.info.l2_bytes = j.at("l2_bytes").get<int64_t>();
    device.info.target = value_of(target_from_json(j.at("target")));
    device.image = enum_of(j.at("image"), ImageKind::kObject);
    return device;
  });
}

Result<Machine> decode_machine(const json& j) {
  return decoded("machine", [&] { return value_of(machine_from_json(j, "machine")); });
}

json encode(const CandidateSpec& candidate) {
  json j = {{"id", candidate.id}, {"schedule", to_json(candidate.schedule)}};
  if (!candidate.source) return j;
  json steps = json::array();
  for (const LaunchStep& step : candidate.source->steps) steps.push_back(to_json(step));
  j["source"] = {
      {"name", candidate.source->name}, {"text", candidate.source->source}, {"steps", steps}};
  return j;
}

Result<CandidateSpec> decode_candidate(const json& j) {
  return decoded("candidate", [&] {
    CandidateSpec candidate;
    candidate.id = j.at("id").get<std::string>();
    candidate.schedule = value_of(schedule_from_json(j.at("schedule"), Schedule{}));
    if (!j.contains("source")) return candidate;
    const json& source = j.at("source");
    candidate.source.emplace();
    candidate.source->name = source.at("name").get<std::string>();
    candidate.source->source = source.at("text").get<std::string>();
    for (const json& step : source.at("steps"))
      candidate.source->steps.push_back(value_of(launch_step_from_json(step)));
    return candidate;
  });
}

json encode(const CompileReport& report) {
  return {{"verdict", verdict_name(report.verdict)}, {"reason", report.reason},
          {"registers", report.registers},           {"spill_bytes", report.spill_bytes},
          {"shared_bytes", report.shared_bytes},     {"ms", report.ms}};
}

Result<CompileReport> decode_compile_report(const json& j) {
  return decoded("compile report", [&] {
    CompileReport report;
    report.verdict = value_of(parse_verdict(j.at("verdict").get<std::string>()));
    report.reason = j.at("reason").get<std::string>();
    report.registers = j.at("registers").get<int>();
    report.spill_bytes = j.at("spill_bytes").get<int>();
    report.shared_bytes = j.at("shared_bytes").get<int>();
    report.ms = j.at("ms").get<double>();
    return report;
  });
}

json encode(const CheckReport& report) {
  return {{"verdict", verdict_name(report.verdict)},
          {"reason", report.reason},
          {"error", report.error},
          {"baseline_error", report.baseline_error}};
}

Result<CheckReport> decode_check_report(const json& j) {
  return decoded("check report", [&] {
    CheckReport report;
    report.verdict = value_of(parse_verdict(j.at("verdict").get<std::string>()));
    report.reason = j.at("reason").get<std::string>();
    report.error = j.at("error").get<double>();
    report.baseline_error = j.at("baseline_error").get<double>();
    return report;
  });
}

json encode(const TimeRequest& request) {
  return {{"rounds", request.rounds},
          {"warmup", request.warmup},
          {"cold_l2", request.cold_l2},
          {"data", input_kind_name(request.data)}};
}

Result<TimeRequest> decode_time_request(const json& j) {
  return decoded("time request", [&] {
    TimeRequest request;
    request.rounds = j.at("rounds").get<int>();
    request.warmup = j.at("warmup").get<int>();
    request.cold_l2 = j.at("cold_l2").get<bool>();
    request.data = value_of(parse_input_kind(j.at("data").get<std::string>()));
    return request;
  });
}

std::string to_line(const json& message) {
  return message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<json> from_line(const std::string& line) {
  return decoded("message", [&] { return json::parse(line); });
}

}  // namespace lssar::worker
