// Emits C++ for CPU targets from templates/cpu/ and a problem's constants.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "codegen/cpu/cpu_shapes.h"
#include "codegen/emit.h"
#include "codegen/pass_needs.h"
#include "codegen/score_source.h"
#include "codegen/shapes.h"
#include "codegen/source/expression_source.h"
#include "codegen/source/power_chain.h"
#include "codegen/source/softplus_poly.h"
#include "codegen/source/source_writer.h"
#include "codegen/source/tailored_source.h"
#include "codegen/source_header.h"
#include "codegen/steps.h"
#include "codegen/templates.h"
#include "codegen/visible_keys.h"
#include "templates/kernels/params.cuh"
#include "templates/kernels/rotary_params.cuh"

namespace lssar {
namespace {

// Polynomials for 2^x on [-1/2, 1/2], constant first. They are minimax in relative error, with the
// value 1 at 0, so that a score of 0 has softplus 1 bit. Degree 4 has an error of 2.8e-6, which is
// below the error of the softplus polynomial in 16-bit problems. Degree 6 has 1.6e-8.
constexpr double kExp2Degree4[] = {1.0, 0.693124175f, 0.240240991f, 0.055906482f, 0.0095828753f};
constexpr double kExp2Degree6[] = {1.0,
                                   0.693147182f,
                                   0.240226477f,
                                   0.0555033237f,
                                   0.00961843692f,
                                   0.00133988785f,
                                   0.000153533736f};

// The function NAME_polynomial, and its coefficients for cpu/lockstep.h, constant first.
void write_polynomial(SourceWriter& out, const char* name, const char* terms,
                      std::span<const double> coefficients) {
  std::string list;
  for (const double c : coefficients) list += (list.empty() ? "" : ", ") + float_literal(c);
  out.line("static constexpr float $terms$[] = {$list$};", {{"terms", terms}, {"list", list}});
  out.open("static LSSAR_HOST Vector $name$_polynomial(Vector x)", {{"name", name}});
  out.line("Vector sum = $c$ * x + $next$;",
           {{"c", float_literal(coefficients.back())},
            {"next", float_literal(coefficients[coefficients.size() - 2])}});
  for (size_t i = coefficients.size() - 2; i-- > 0;)
    out.line("sum = sum * x + $c$;", {{"c", float_literal(coefficients[i])}});
  out.line("return sum;");
  out.close();
}

// Rows of a block of lssar_backward_rows.
constexpr int kConstantRows = 64;

// u^(p - 1) where u > 0, and u^p. In fp32, and with invariant, the latter is made of the former, so
// that both forwards have the same o.
void write_powers(SourceWriter& out, const Problem& problem) {
  const int power = effective_power(problem);
  out.open("static LSSAR_HOST Vector power_slope(Vector u)");
  if (power == 1) {
    out.line("return u == 0.0f ? Vector{} : Vector{} + 1.0f;");
  } else {
    write_power_chain(out, "Vector", power - 1);
  }
  out.close();
  out.open("static LSSAR_HOST Vector power(Vector u)");
  if ((problem.dtype == DType::kFp32 || problem.invariant) && power != 1) {
    out.line("return u * power_slope(u);");
  } else {
    write_power_chain(out, "Vector", power);
  }
  out.close();
}

void write_shape(SourceWriter& out, const Problem& problem, const Schedule& schedule,
                 const Target& target) {
  const auto constant = [&out](const char* name, int value) {
    out.constant("int", name, std::to_string(value));
  };
  const int lanes = cpu_level(target).lanes;
  const CpuOptions& cpu = schedule.cpu;
  constant("kLanes", lanes);
  constant("kHeadDim", problem.head_dim);
  constant("kHeadDimPadded", cpu_padded_dim(problem.head_dim, target));
  constant("kHeadDimV", problem.head_dim_v);
  constant("kHeadDimVPadded", cpu_padded_dim(problem.head_dim_v, target));
  out.constant("double", "kLogHeadDim", fmt::format("{:.17g}", std::log(problem.head_dim)));
  out.line("static constexpr i64 kSeqQ = $n$;  // 0: given by the call",
           {{"n", std::to_string(built_in_seq_q(problem))}});
  out.line("static constexpr i64 kSeqK = $n$;", {{"n", std::to_string(built_in_seq_k(problem))}});
  out.constant("bool", "kIsCausal", problem.causal ? "true" : "false");
  constant("kPower", effective_power(problem));
  out.constant("float", "kOffset", float_literal(effective_offset(problem)));
  constant("kRows", cpu.rows);
  constant("kPanelKeys", cpu.panel_keys);
  constant("kPanelVectors", cpu.panel_keys / lanes);
  constant("kPanelRows", cpu_panel_rows(problem, target));
  constant("kPackKeys", cpu_pack_keys(schedule));
  constant("kGroups", cpu_groups(problem, cpu.rows));
  constant("kBlockKeys", cpu.block_keys);
  constant("kKeptKeys", cpu.kept_keys);
  constant("kGradRows", cpu_grad_rows(schedule));
  constant("kGradKeys", cpu_grad_keys(schedule));
  constant("kConstantRows", kConstantRows);
  if (!cpu_takes_few_queries(problem)) return;
  constant("kFewRows", kCpuFewRows);
  constant("kFewKeys", kCpuFewKeys);
  constant("kFewPitchV", cpu_few_pitch(problem));
}

// A causal mask is a kWindowRight of 0.
void write_window(SourceWriter& out, const Problem& problem) {
  const auto constant = [&out](const char* name, int64_t value) {
    out.line("static constexpr i64 $name$ = $value$;",
             {{"name", name}, {"value", std::to_string(value)}});
  };
  out.constant("bool", "kHasWindow", has_window(problem) ? "true" : "false");
  constant("kWindowLeft", problem.window_left);
  constant("kWindowRight", window_right_of(problem));
  constant("kWindowSinks", problem.window_sinks);
  constant("kPrefix", problem.prefix);
  constant("kChunk", problem.chunk);
}

// In 16 bits the lesser degree has errors far below those of rounding, unless a large power
// multiplies them.
void write_exp2_polynomial(SourceWriter& out, const Problem& problem) {
  if (needs_precise_functions(problem)) {
    write_polynomial(out, "exp2", "kExp2Terms", kExp2Degree6);
  } else {
    write_polynomial(out, "exp2", "kExp2Terms", kExp2Degree4);
  }
}

std::string config_source(const Problem& problem, const Schedule& schedule, const Target& target) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  const bool is_backward = problem.pass == Pass::kBackward;
  SourceWriter out;
  if (is_general(problem)) write_cpu_expression_declarations(out, cpu_level(target).lanes);
  out.line("// Constants of the problem and of the schedule.");
  out.open("struct Config");
  out.line("using Element = $type$;", {{"type", element_type(problem.dtype)}});
  out.line("using SavedX = $type$;", {{"type", problem.dtype == DType::kFp32 ? "float" : "Bf16"}});
  const std::string lanes = std::to_string(cpu_level(target).lanes);
  out.line("using Vector = VectorOf<$lanes$>::Floats;", {{"lanes", lanes}});
  const bool has_pairs = cpu_has_pairs(problem, target);
  out.line("using Factors = VectorOf<$lanes$>::$type$;",
           {{"lanes", lanes}, {"type", has_pairs ? "Words" : "Floats"}});
  write_shape(out, problem, schedule, target);
  write_window(out, problem);
  if (problem.rotary_dim != 0) {
    out.constant("int", "kRotaryDim", std::to_string(problem.rotary_dim));
    out.constant("bool", "kRotaryInterleaved", flag(problem.rotary_interleaved));
  }
  out.constant("bool", "kHasPairs", flag(has_pairs));
  out.constant("bool", "kIsBackward", flag(is_backward));
  out.constant("bool", "kIsRange", flag(is_of_range(problem.pass)));
  out.constant("bool", "kIsInvariant", flag(problem.invariant));
  out.constant("bool", "kIsTraining", flag(problem.pass == Pass::kForwardTrain));
  out.constant("bool", "kSavesO", flag(saves_o(problem)));
  out.constant("bool", "kSkipsKeys", flag(cpu_skips_keys(problem, target)));
  out.constant("bool", "kSumsX", flag(sums_x(problem, schedule)));
  out.constant("bool", "kNeedsX", flag(is_backward && saves_x(problem, schedule)));
  out.constant("bool", "kSumsDq", flag(is_backward && sums_dq(schedule)));
  out.constant("bool", "kIsGeneral", flag(is_general(problem)));
  out.constant("bool", "kHasNorms", flag(problem.score.qk_norm));
  if (is_general(problem)) {
    write_score_constants(out, problem);
    out.constant("bool", "kReadsSink", flag(reads_sink(problem)));
    out.constant("bool", "kHasPassOne", flag(has_pass_one(problem)));
    out.constant("bool", "kNeedsEpsilon", flag(needs_epsilon(problem)));
  } else {
    out.constant("bool", "kChangesScores", "false");
  }
  out.line();
  out.line(
      "// 2^x for x in [-1/2, 1/2]; P(u) with log2(1 + u) = u P(u) for u in [0, 1]; u^(p - 1)");
  out.line("// where u > 0; u^p.");
  write_exp2_polynomial(out, problem);
  write_polynomial(
      out, "softplus", "kSoftplusTerms",
      softplus_coefficients(is_general(problem) ? kMaxSoftplusDegree : schedule.softplus_degree));
  write_powers(out, problem);
  if (is_general(problem)) write_score_functions(out, problem, true);
  out.close(";");
  return out.text();
}

// `scratch`: the type of the function's working memory, in C++, where it has some.
struct CpuStep : Step {
  std::string scratch;
};

CpuStep cpu_step(const std::string& call, GridRows grid_rows, int rows_per_block,
                 int scratch_bytes = 0, const std::string& scratch = "") {
  CpuStep step;
  step.launch.entry = "lssar_" + call;
  step.launch.grid_rows = grid_rows;
  step.launch.rows_per_block = rows_per_block;
  step.launch.threads = 1;
  step.launch.shared_bytes = scratch_bytes;
  step.call = call;
  step.scratch = scratch;
  return step;
}

CpuStep dkdv_step(const Problem& problem, const Schedule& schedule, const Target& target) {
  return cpu_step(
      "backward_dkdv", GridRows::kKeys, cpu_grad_keys(schedule),
      cpu_dkdv_scratch_bytes(problem, schedule, target),
      sums_dq(schedule) ? "sizeof(DkdvScratch) + sizeof(QuerySums)" : "sizeof(DkdvScratch)");
}

CpuStep dq_step(const Problem& problem, const Schedule& schedule, const Target& target) {
  return cpu_step("backward_dq", GridRows::kQueries, cpu_grad_rows(schedule),
                  cpu_dq_scratch_bytes(problem, schedule, target), "sizeof(DqScratch)");
}

// The function of a forward, or of one of its two passes.
const char* forward_name(Pass pass) {
  return pass == Pass::kRowSums       ? "row_sums"
         : pass == Pass::kWeightedSum ? "weighted_sum"
                                      : "forward";
}

// What a forward's block has in its memory.
std::string scratch_types(const Problem& problem, const Schedule& schedule) {
  std::string types = "sizeof(ForwardScratch)";
  if (sums_x(problem, schedule)) types += " + sizeof(SlopeScratch)";
  if (problem.invariant) types += " + sizeof(BlockTotals)";
  return types;
}

// The steps after the packing of keys, of a score function given as expressions.
std::vector<CpuStep> general_steps(const CpuStep& pack, const Problem& problem,
                                   const Schedule& schedule, const Target& target) {
  const auto general = [](CpuStep step) {
    step.call = "general_" + step.call;
    return step;
  };
  if (problem.pass != Pass::kBackward)
    return {pack, general(cpu_step(forward_name(problem.pass), GridRows::kQueries,
                                   schedule.cpu.rows, cpu_scratch_bytes(problem, schedule, target),
                                   scratch_types(problem, schedule)))};
  std::vector<CpuStep> steps = {
      pack,
      general(cpu_step("backward_rows", GridRows::kQueries, cpu_grad_rows(schedule),
                       cpu_tile_bytes(problem, schedule), "sizeof(GradientTile)")),
      dkdv_step(problem, schedule, target), dq_step(problem, schedule, target)};
  if (reads_sink(problem)) steps.push_back(cpu_step("backward_sink", GridRows::kHeads, 1));
  return steps;
}

// The steps of few queries after those of more queries.
void add_few_steps(std::vector<CpuStep>& steps, const Problem& problem, const Schedule& schedule,
                   const Target& target) {
  for (CpuStep& step : steps) step.launch.least_rows = kCpuFewRows + 1;
  for (CpuStep step : {cpu_step("few_scores", GridRows::kKeys, kCpuFewKeys,
                                cpu_few_scratch_bytes(problem, schedule, target),
                                problem.invariant ? "sizeof(FewScratch)" : ""),
                       cpu_step("few_values", GridRows::kKeys, kCpuFewKeys),
                       cpu_step("few_outputs", GridRows::kQueries, 1)}) {
    step.launch.most_rows = kCpuFewRows;
    steps.push_back(std::move(step));
  }
}

// The steps of a forward, or of one of its two passes.
std::vector<CpuStep> forward_steps(const CpuStep& pack, const Problem& problem,
                                   const Schedule& schedule, const Target& target) {
  std::vector<CpuStep> steps = {
      pack, cpu_step(forward_name(problem.pass), GridRows::kQueries,
                     cpu_groups(problem, schedule.cpu.rows) * schedule.cpu.rows,
                     cpu_scratch_bytes(problem, schedule, target),
                     scratch_types(problem, schedule))};
  if (cpu_takes_few_queries(problem)) add_few_steps(steps, problem, schedule, target);
  return steps;
}

CpuStep rotation_step(Rotation rotation, const char* name, GridRows rows) {
  CpuStep step = cpu_step(name, rows, kConstantRows);
  step.launch.rotation = rotation;
  const bool is_back = rotation == Rotation::kGradQ || rotation == Rotation::kGradK;
  step.call = is_back ? "rotate_back" : "rotate";
  return step;
}

// Turns q and k before the steps that compute attention, and the gradients back behind them.
std::vector<CpuStep> with_rotations(const Problem& problem, std::vector<CpuStep> steps) {
  if (problem.rotary_dim == 0) return steps;
  steps.insert(steps.begin(), {rotation_step(Rotation::kQ, "rotate_q", GridRows::kQueries),
                               rotation_step(Rotation::kK, "rotate_k", GridRows::kKeys)});
  if (problem.pass != Pass::kBackward) return steps;
  steps.push_back(rotation_step(Rotation::kGradQ, "rotate_grad_q", GridRows::kQueries));
  steps.push_back(rotation_step(Rotation::kGradK, "rotate_grad_k", GridRows::kKeys));
  return steps;
}

// The steps after q and k have been rotated.
std::vector<CpuStep> attention_steps(const Problem& problem, const Schedule& schedule,
                                     const Target& target) {
  const CpuStep pack = cpu_step("pack_keys", GridRows::kKeys, cpu_pack_keys(schedule));
  if (is_general(problem)) return general_steps(pack, problem, schedule, target);
  if (problem.pass != Pass::kBackward) return forward_steps(pack, problem, schedule, target);
  return {pack, cpu_step("backward_rows", GridRows::kQueries, kConstantRows),
          dkdv_step(problem, schedule, target),
          sums_dq(schedule) ? cpu_step("backward_dq_finish", GridRows::kQueries, kConstantRows)
                            : dq_step(problem, schedule, target)};
}

std::string entries_source(const Problem& problem, const std::vector<CpuStep>& steps) {
  SourceWriter out;
  out.line("static_assert(sizeof(AttentionParams) == $bytes$, \"laid out as the host does\");",
           {{"bytes", std::to_string(sizeof(lssar_device::AttentionParams))}});
  if (problem.rotary_dim != 0)
    out.line("static_assert(sizeof(RotaryParams) == $bytes$, \"laid out as the host does\");",
             {{"bytes", std::to_string(sizeof(lssar_device::RotaryParams))}});
  for (const CpuStep& step : steps)
    if (!step.scratch.empty())
      out.line("static_assert($scratch$ == $bytes$, \"as the host allocates it\");",
               {{"scratch", step.scratch}, {"bytes", std::to_string(step.launch.shared_bytes)}});
  out.line();
  out.line("}  // namespace lssar_device");
  for (const CpuStep& step : steps) {
    out.line();
    const bool is_rotation = step.launch.rotation != Rotation::kNone;
    out.line(
        "extern \"C\" void $entry$(const lssar_device::$type$* params,",
        {{"entry", step.launch.entry}, {"type", is_rotation ? "RotaryParams" : "AttentionParams"}});
    out.open("    unsigned block, void* scratch)");
    out.line("lssar_device::$call$(*params, block, scratch);", {{"call", step.call}});
    out.close();
  }
  return out.text();
}

const char* forward_root(const Problem& problem) {
  const bool is_range = is_of_range(problem.pass);
  if (is_general(problem))
    return is_range ? "templates/cpu/general_range.h" : "templates/cpu/general_forward.h";
  return is_range ? "templates/cpu/forward_range.h" : "templates/cpu/forward.h";
}

}  // namespace

KernelSource emit_cpu_kernel(const Problem& problem, const Schedule& schedule,
                             const Target& target) {
  const std::vector<CpuStep> steps =
      with_rotations(problem, attention_steps(problem, schedule, target));
  std::vector<std::string> roots = {"templates/cpu/types.h", "templates/cpu/pack_keys.h"};
  const bool general = is_general(problem);
  if (problem.pass == Pass::kBackward) {
    roots.insert(roots.end(), {"templates/cpu/backward_dkdv.h", "templates/cpu/backward_dq.h"});
    if (general) {
      roots.insert(roots.end(),
                   {"templates/cpu/general_backward_rows.h", "templates/cpu/backward_sink.h"});
    } else {
      roots.push_back("templates/cpu/backward_rows.h");
    }
  } else {
    roots.push_back(forward_root(problem));
    if (cpu_takes_few_queries(problem)) roots.push_back("templates/cpu/few_outputs.h");
  }
  if (problem.rotary_dim != 0) roots.push_back("templates/cpu/rotate.h");
  std::vector<SourcePart> parts = template_parts(roots);
  // This part comes after the types that it uses.
  parts.insert(parts.begin() + 1,
               {"this kernel's constants and functions", config_source(problem, schedule, target)});
  KernelSource kernel;
  kernel.name = kernel_name(problem);
  const std::string entries = entries_source(problem, steps);
  kernel.source =
      source_header(kernel.name, problem, schedule, target, {steps.begin(), steps.end()}) +
      tailor_source(parts, entries + "kHeadDim kHeadDimV kSeqQ kSeqK kIsCausal kPower") + entries;
  for (const CpuStep& step : steps) kernel.steps.push_back(step.launch);
  return kernel;
}

}  // namespace lssar
