// Emits C++ for CPU targets from templates/cpu/ and a problem's constants.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "codegen/emit.h"
#include "codegen/pass_needs.h"
#include "codegen/shapes.h"
#include "codegen/softplus_poly.h"
#include "codegen/source/expression_source.h"
#include "codegen/source/power_chain.h"
#include "codegen/source/source_writer.h"
#include "codegen/source/tailored_source.h"
#include "codegen/source_header.h"
#include "codegen/steps.h"
#include "codegen/templates.h"
#include "templates/kernels/params.cuh"

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

void write_polynomial(SourceWriter& out, const char* name, std::span<const double> coefficients) {
  out.open("static LSSAR_HOST Vector $name$(Vector x)", {{"name", name}});
  out.line("Vector sum = $c$ * x + $next$;",
           {{"c", float_literal(coefficients.back())},
            {"next", float_literal(coefficients[coefficients.size() - 2])}});
  for (size_t i = coefficients.size() - 2; i-- > 0;)
    out.line("sum = sum * x + $c$;", {{"c", float_literal(coefficients[i])}});
  out.line("return sum;");
  out.close();
}

void write_power(SourceWriter& out, int exponent) {
  out.open("static LSSAR_HOST Vector power(Vector u)");
  write_power_chain(out, "Vector", exponent);
  out.close();
}

std::string config_source(const Problem& problem, const Schedule& schedule, const Target& target) {
  const int lanes = cpu_level(target).lanes;
  const CpuOptions& cpu = schedule.cpu;
  SourceWriter out;
  out.line("// Constants of the problem and of the schedule.");
  out.open("struct Config");
  out.line("using Element = $type$;", {{"type", element_type(problem.dtype)}});
  out.line("using Vector = VectorOf<$lanes$>::Floats;", {{"lanes", std::to_string(lanes)}});
  out.constant("int", "kLanes", std::to_string(lanes));
  out.constant("int", "kHeadDim", std::to_string(problem.head_dim));
  out.constant("int", "kHeadDimV", std::to_string(problem.head_dim_v));
  out.constant("int", "kHeadDimVPadded",
               std::to_string(cpu_padded_dim(problem.head_dim_v, target)));
  out.constant("double", "kLogHeadDim", fmt::format("{:.17g}", std::log(problem.head_dim)));
  out.line("static constexpr i64 kSeqQ = $n$;  // 0: given by the call",
           {{"n", std::to_string(problem.seq_q)}});
  out.line("static constexpr i64 kSeqK = $n$;", {{"n", std::to_string(problem.seq_k)}});
  out.constant("bool", "kIsCausal", problem.causal ? "true" : "false");
  out.constant("int", "kPower", std::to_string(effective_power(problem)));
  out.constant("float", "kOffset", float_literal(effective_offset(problem)));
  out.constant("int", "kRows", std::to_string(cpu.rows));
  out.constant("int", "kPanelKeys", std::to_string(cpu.panel_keys));
  out.constant("int", "kPanelVectors", std::to_string(cpu.panel_keys / lanes));
  out.constant("int", "kBlockKeys", std::to_string(cpu.block_keys));
  out.constant("int", "kKeptKeys", std::to_string(cpu.kept_keys));
  out.line();
  out.line("// 2^x for x in [-1/2, 1/2]; P(u) with log2(1 + u) = u P(u) for u in [0, 1]; u^p.");
  if (problem.dtype == DType::kFp32) {
    write_polynomial(out, "exp2_polynomial", kExp2Degree6);
  } else {
    write_polynomial(out, "exp2_polynomial", kExp2Degree4);
  }
  write_polynomial(out, "softplus_polynomial", softplus_coefficients(schedule.softplus_degree));
  write_power(out, effective_power(problem));
  out.close(";");
  return out.text();
}

std::vector<Step> cpu_steps(const Problem& problem, const Schedule& schedule,
                            const Target& target) {
  Step pack;
  pack.launch.entry = "lssar_pack_keys";
  pack.launch.grid_rows = GridRows::kKeys;
  pack.launch.rows_per_block = schedule.cpu.panel_keys;
  pack.launch.threads = 1;
  pack.call = "pack_keys";
  Step forward;
  forward.launch.entry = "lssar_forward";
  forward.launch.grid_rows = GridRows::kQueries;
  forward.launch.rows_per_block = schedule.cpu.rows;
  forward.launch.threads = 1;
  forward.launch.shared_bytes = cpu_scratch_bytes(problem, schedule, target);
  forward.call = "forward";
  return {pack, forward};
}

std::string entries_source(const std::vector<Step>& steps) {
  SourceWriter out;
  out.line("static_assert(sizeof(AttentionParams) == $bytes$, \"laid out as the host does\");",
           {{"bytes", std::to_string(sizeof(lssar_device::AttentionParams))}});
  out.line("static_assert(sizeof(ForwardScratch) == $bytes$, \"as the host allocates it\");",
           {{"bytes", std::to_string(steps.back().launch.shared_bytes)}});
  out.line();
  out.line("}  // namespace lssar_device");
  for (const Step& step : steps) {
    out.line();
    out.line("extern \"C\" void $entry$(const lssar_device::AttentionParams* params,",
             {{"entry", step.launch.entry}});
    out.open("    unsigned block, void* scratch)");
    out.line("lssar_device::$call$(*params, block, scratch);", {{"call", step.call}});
    out.close();
  }
  return out.text();
}

}  // namespace

KernelSource emit_cpu_kernel(const Problem& problem, const Schedule& schedule,
                             const Target& target) {
  const std::vector<Step> steps = cpu_steps(problem, schedule, target);
  std::vector<SourcePart> parts = template_parts(
      {"templates/cpu/types.h", "templates/cpu/pack_keys.h", "templates/cpu/forward.h"});
  // This part comes after the types that it uses.
  parts.insert(parts.begin() + 1,
               {"this kernel's constants and functions", config_source(problem, schedule, target)});
  KernelSource kernel;
  kernel.name = kernel_name(problem);
  const std::string entries = entries_source(steps);
  kernel.source =
      source_header(kernel.name, problem, schedule, target, steps) +
      tailor_source(parts, entries + "kHeadDim kHeadDimV kSeqQ kSeqK kIsCausal kPower") + entries;
  for (const Step& step : steps) kernel.steps.push_back(step.launch);
  return kernel;
}

}  // namespace lssar
