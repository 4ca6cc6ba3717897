#include "runtime/replay.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/field_json.h"
#include "score/score_function_fields.h"

namespace lssar {
namespace {

using nlohmann::json;

// The fields of `full` that differ from `base`, recursively.
json difference(const json& full, const json& base) {
  json result = json::object();
  for (const auto& [name, value] : full.items()) {
    if (value == base.at(name)) continue;
    result[name] = value.is_object() ? difference(value, base.at(name)) : value;
  }
  return result;
}

// The shortest --schedule text that gives `schedule`, or "" for the default. The defaults of other
// fields depend on variant, epsilon and dq_mode, so these come first.
std::string shortest_schedule(const Schedule& schedule, const Problem& problem,
                              const Target& target) {
  if (schedule == default_schedule(problem, target)) return "";
  const json full = to_json(schedule);
  json named = json::object();
  const auto base_json = [&]() -> Result<json> {
    LSSAR_ASSIGN_OR_RETURN(const Schedule base, schedule_for(problem, target, named));
    return to_json(base);
  };
  for (const char* name : {"variant", "epsilon", "dq_mode"}) {
    const Result<json> base = base_json();
    if (!base.ok()) return full.dump();
    if (full.at(name) != base->at(name)) named[name] = full.at(name);
  }
  const Result<json> base = base_json();
  if (!base.ok()) return full.dump();
  json wanted = difference(full, *base);
  wanted.update(named);
  const Result<Schedule> again = schedule_for(problem, target, wanted);
  return again.ok() && *again == schedule ? wanted.dump() : full.dump();
}

// The options of windows; "" without one.
std::string window_options(const Problem& problem) {
  const Problem none;
  std::string text;
  if (problem.window_left != none.window_left || problem.window_right != none.window_right)
    text += fmt::format(" --window={},{}", problem.window_left, problem.window_right);
  if (problem.window_sinks != 0) text += fmt::format(" --window-sinks {}", problem.window_sinks);
  if (problem.prefix != 0) text += fmt::format(" --prefix {}", problem.prefix);
  if (problem.chunk != 0) text += fmt::format(" --chunk {}", problem.chunk);
  return text;
}

// The options of rotary positions; "" without them.
std::string rotary_options(const Problem& problem) {
  if (problem.rotary_dim == 0) return "";
  return fmt::format(" --rotary-dim {}{}", problem.rotary_dim,
                     problem.rotary_interleaved ? " --rotary-interleaved" : "");
}

std::string problem_options(const Problem& problem) {
  // Expressions contain no quotes.
  const std::string score =
      problem.score == ScoreFunction()
          ? ""
          : fmt::format(" --score '{}'", fields_to_json(problem.score).dump());
  return fmt::format(
      "--pass {} --dtype {} --head-dim {} --head-dim-v {} --p {}{} --offset {} {}{}{}{}{} --batch "
      "{} --heads {} --kv-heads {} --alignment {}",
      pass_name(problem.pass), dtype_name(problem.dtype), problem.head_dim, problem.head_dim_v,
      problem.p, score, problem.offset, problem.causal ? "--causal" : "--no-causal",
      window_options(problem), rotary_options(problem), problem.varlen ? " --varlen" : "",
      problem.invariant ? " --invariant" : "",
      problem.batch, problem.heads, problem.kv_heads, problem.alignment);
}

// The options that say where and how the kernel is made and run.
std::string place_options(const PreparedKernel& kernel, const Problem& problem, Engine& engine) {
  const DeviceInfo& device = engine.device().info();
  std::string text = fmt::format(" --device {} --target {}", device.kind, device.target.name());
  const auto compiler = engine.compiler();
  if (compiler.ok()) text += " --compiler " + (*compiler)->name();
  return text + schedule_option(kernel.schedule, problem, device.target);
}

// The value of --runtime-lengths: which lengths are not fixed in the kernel.
const char* runtime_lengths(const Problem& problem) {
  if (problem.seq_q == 0) return problem.seq_k == 0 ? " --runtime-lengths" : " --runtime-lengths=q";
  return problem.seq_k == 0 ? " --runtime-lengths=k" : "";
}

std::string prepare_command(const PreparedKernel& kernel, const Problem& problem, Engine& engine) {
  return fmt::format("lssar prepare {} --seq {} --seq-k {}{}", problem_options(problem),
                     problem.seq_q, problem.seq_k, place_options(kernel, problem, engine));
}

}  // namespace

std::string prepare_summary(const PreparedKernel& kernel, Engine& engine,
                            const std::string& reason) {
  return fmt::format("{} on {}; schedule: {}; {}; key {}", kernel.source.name,
                     engine.device().info().name, reason, image_origin_text(kernel), kernel.key);
}

std::string prepare_command(const PreparedKernel& kernel, Engine& engine) {
  return prepare_command(kernel, kernel.problem, engine);
}

std::string prepare_line(const PreparedKernel& kernel, Engine& engine, const std::string& reason) {
  return prepare_summary(kernel, engine, reason) + ": " + prepare_command(kernel, engine);
}

std::string execute_line(const PreparedKernel& kernel, Engine& engine, const Sizes& sizes) {
  Problem problem = kernel.problem;
  problem.batch = sizes.batch;
  problem.heads = sizes.heads;
  problem.kv_heads = sizes.kv_heads;
  if (is_of_range(problem.pass)) {  // the command cannot run range passes alone
    return fmt::format("{}, {} queries, keys {} to {}, key {}: {}", kernel.source.name, sizes.seq_q,
                       sizes.range.first_key, sizes.range.first_key + sizes.seq_k, kernel.key,
                       prepare_command(kernel, problem, engine));
  }
  return fmt::format("{}, key {}: lssar verify {} --seq {} --seq-k {}{}{}", kernel.source.name,
                     kernel.key, problem_options(problem), sizes.seq_q, sizes.seq_k,
                     runtime_lengths(problem), place_options(kernel, problem, engine));
}

std::string image_origin_text(const PreparedKernel& kernel) {
  switch (kernel.cache_source) {
    case CacheSource::kMemory:
      return "from memory";
    case CacheSource::kDisk:
      return fmt::format("from the cache in {:.1f} ms", kernel.timings.lookup_ms);
    case CacheSource::kComputed:
      return fmt::format("compiled in {:.0f} ms", kernel.timings.compile_ms);
  }
  return "";
}

std::string schedule_option(const Schedule& schedule, const Problem& problem,
                            const Target& target) {
  const std::string text = shortest_schedule(schedule, problem, target);
  // A schedule's JSON contains no single quotes.
  return text.empty() ? " --untuned" : fmt::format(" --schedule '{}'", text);
}

}  // namespace lssar
