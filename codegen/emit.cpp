// Emission: header comment, the problem's constants and functions, the template parts the kernels
// reach, the entry points.
#include "codegen/emit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "codegen/launch_step.h"
#include "codegen/pass_needs.h"
#include "codegen/score_source.h"
#include "codegen/shapes.h"
#include "codegen/source/expression_source.h"
#include "codegen/source/power_chain.h"
#include "codegen/source/softplus_poly.h"
#include "codegen/source/source_tokens.h"
#include "codegen/source/source_writer.h"
#include "codegen/source/tailored_source.h"
#include "codegen/source_header.h"
#include "codegen/steps.h"
#include "codegen/templates.h"
#include "codegen/visible_keys.h"
#include "codegen/wgmma_source.h"
#include "templates/kernels/params.cuh"
#include "templates/kernels/rotary_params.cuh"

namespace lssar {
const char* element_type(DType dtype) {
  switch (dtype) {
    case DType::kFp16:
      return "Fp16";
    case DType::kBf16:
      return "Bf16";
    case DType::kFp32:
      return "float";
  }
  return "";
}

namespace {

std::string number(int64_t value) { return std::to_string(value); }
std::string boolean(bool value) { return value ? "true" : "false"; }

void write_power(SourceWriter& out, const char* name, int exponent) {
  out.open("static LSSAR_DEVICE float $name$(float u)", {{"name", name}});
  if (exponent == 0) {
    out.line("return u > 0.0f ? 1.0f : 0.0f;");
  } else {
    write_power_chain(out, "float", exponent);
  }
  out.close();
}

// A call of `polynomial`, its arguments in lines of at most kLineWidth.
void write_polynomial(SourceWriter& out, const char* name, int degree) {
  const auto coefficients = softplus_coefficients(degree);
  out.open("static LSSAR_DEVICE float $name$(float u)", {{"name", name}});
  std::string line = "return polynomial(u";
  for (size_t i = coefficients.size(); i-- > 0;) {
    const std::string next = float_literal(coefficients[i]) + (i == 0 ? ");" : ",");
    line += ",";
    if (4 + line.size() + 1 + next.size() > kLineWidth) {
      out.line(line);
      line = std::string(std::strlen("return polynomial("), ' ') + next;
    } else {
      line += " " + next;
    }
    if (i != 0) line.pop_back();
  }
  out.line(line);
  out.close();
}

void write_functions(SourceWriter& out, const Problem& problem, const Schedule& schedule) {
  const int power = effective_power(problem);
  out.line();
  if (is_general(problem)) {
    write_score_functions(out, problem, false);
  } else {
    out.line("// c_i log2(e) = log(d) log2(N_i).");
    out.open("static LSSAR_DEVICE float score_scale_bits(float num_keys)");
    out.line("return $log_dim$ * log2_approx(num_keys);",
             {{"log_dim", float_literal(std::log(problem.head_dim))}});
    out.close();
  }
  // The error of the second one would decide whether a row of equal scores is dead.
  out.line(
      "// P(u) of log2(1 + u) = u P(u) on [0, 1]: for every score, and for a row's own figures.");
  write_polynomial(out, "softplus_polynomial", schedule.softplus_degree);
  write_polynomial(out, "row_polynomial", kMaxSoftplusDegree);
  out.line("// u^(p - 1) where u > 0, and u^p.");
  write_power(out, "power_slope", power - 1);
  if (problem.dtype == DType::kFp32 || problem.invariant) {
    // A forward that sums up X computes it so. Then both give the same o, bit by bit.
    out.open("static LSSAR_DEVICE float power(float u)");
    out.line("return u * power_slope(u);");
    out.close();
  } else {
    write_power(out, "power", power);
  }
}

int num_evaluators(const Problem& problem, const Schedule& schedule) {
  if (!may_abridge_softplus(problem, schedule)) return 1;
  return 1 + static_cast<int>(schedule.hopper.evaluator);
}

// Weights that skip_tiles leaves out: in fp32 even 2^24 of them add up to a rounding only.
constexpr double kSkipBits = 24.0, kSkipBitsFp32 = 48.0;

// u where u^p (for X and the backward: u^(p-1)) = 2^-bits.
double weight_at(const Problem& problem, const Schedule& schedule, double bits) {
  const bool has_slope = sums_x(problem, schedule) || problem.pass == Pass::kBackward;
  const int power = effective_power(problem) - (has_slope ? 1 : 0);
  return power == 0 ? 0.0 : std::exp2(-bits / power);
}

void write_hopper_constants(SourceWriter& out, const Problem& problem, const Schedule& schedule) {
  const HopperOptions& hopper = schedule.hopper;
  const bool is_backward = problem.pass == Pass::kBackward;
  out.constant("int", "kScoreCols",
               number(is_backward ? hopper.score_cols : hopper_score_cols(problem, schedule)));
  out.constant("bool", "kOverlap", boolean(hopper.overlap));
  out.constant("bool", "kPingPong", boolean(hopper.ping_pong));
  out.constant("bool", "kQueriesInRegisters", boolean(hopper.queries_in_registers));
  out.constant("bool", "kWeightsInShared", boolean(hopper.weights_from == WeightsFrom::kShared));
  out.constant("bool", "kIsPersistent", boolean(hopper.persistent));
  out.constant("int", "kCluster", number(hopper.cluster));
  if (!is_backward) out.constant("int", "kStagger", number(hopper.stagger));
  out.constant("int", "kHeadGroup", number(hopper.head_group));
  // In other passes the producers of sequences need fewer registers, and some consumers need all
  // that is left.
  const bool has_sequences = problem.varlen && problem.pass == Pass::kForwardTrain;
  const auto registers = [&](const std::string& name, const Tiling& t, int cluster = 1) {
    const RegisterSplit split = hopper_registers(hopper, t, cluster, has_sequences);
    out.constant("int", "k" + name + "ProducerRegisters", number(split.producer));
    out.constant("int", "k" + name + "ConsumerRegisters", number(split.consumer));
  };
  if (!is_backward) {
    registers("Forward", schedule.forward, hopper.cluster);
  } else {
    out.constant("bool", "kSumsByTma", boolean(sums_by_tma(schedule)));
    registers("Dkdv", schedule.dkdv);
    if (has_dq_tiles(schedule)) registers("Dq", schedule.dq);
  }
}

// No limit is -1, and 0 for kChunk. A causal mask is a kWindowRight of 0, and kIsCausal is false.
void write_window_constants(SourceWriter& out, const Problem& problem) {
  out.constant("bool", "kHasWindow", boolean(has_window(problem)));
  if (!has_window(problem)) return;
  out.constant("i64", "kWindowLeft", number(problem.window_left));
  out.constant("i64", "kWindowRight", number(window_right_of(problem)));
  out.constant("i64", "kWindowSinks", number(problem.window_sinks));
  out.constant("i64", "kPrefix", number(problem.prefix));
  out.constant("int", "kChunk", number(problem.chunk));
}

void write_rotary_constants(SourceWriter& out, const Problem& problem) {
  out.constant("int", "kRotaryDim", number(problem.rotary_dim));
  if (problem.rotary_dim == 0) return;
  out.constant("bool", "kRotaryInterleaved", boolean(problem.rotary_interleaved));
}

void write_config(SourceWriter& out, const Problem& problem, const Schedule& schedule) {
  const bool is_fp32 = problem.dtype == DType::kFp32;
  const bool is_training = problem.pass == Pass::kForwardTrain;
  const auto tiling = [&](const char* name, const Tiling& t) {
    const std::string prefix = std::string("k") + name;
    out.constant("int", prefix + "BlockRows", number(t.block_rows));
    out.constant("int", prefix + "BlockCols", number(t.block_cols));
    out.constant("int", prefix + "Stages", number(t.stages));
  };
  // What Config uses of the templates that come after it.
  const char* mma = is_fp32 ? "TileMma32" : "TileMma16";
  out.line("template <class T>");
  out.line("struct $mma$;", {{"mma", mma}});
  out.line("LSSAR_DEVICE float fma(float a, float b, float c);");
  out.line("LSSAR_DEVICE float log2_approx(float x);");
  out.line();
  out.line("// By Horner's rule; `sum` is the first coefficient, that of the highest power.");
  out.line("template <class... Floats>");
  out.open("LSSAR_DEVICE float polynomial(float u, float sum, Floats... coefficients)");
  out.line("((sum = fma(sum, u, coefficients)), ...);");
  out.line("return sum;");
  out.close();
  if (is_general(problem)) write_expression_declarations(out);
  out.line();
  out.line(
      "// Branches that these constants decide are removed already: emit another kernel to change "
      "those.");
  out.open("struct Config");
  out.line("using Element = $type$;", {{"type", element_type(problem.dtype)}});
  out.line("using Mma = $mma$<Element>;", {{"mma", mma}});
  out.line("using SavedX = $type$;", {{"type", is_fp32 ? "float" : "Bf16"}});
  out.constant("bool", "kIsFp32", boolean(is_fp32));
  out.constant("bool", "kIsFp16", boolean(problem.dtype == DType::kFp16));
  out.constant("int", "kHeadDim", number(problem.head_dim));
  out.constant("int", "kHeadDimV", number(problem.head_dim_v));
  out.constant("int", "kHeadDimPadded", number(padded_dim(problem.head_dim)));
  out.constant("int", "kHeadDimVPadded", number(padded_dim(problem.head_dim_v)));
  out.line("static constexpr i64 kSeqQ = $n$;  // 0: given by the call",
           {{"n", number(built_in_seq_q(problem))}});
  out.line("static constexpr i64 kSeqK = $n$;", {{"n", number(built_in_seq_k(problem))}});
  out.constant("bool", "kHasLengths", boolean(problem.varlen));
  out.constant("bool", "kAppends", boolean(takes_new_keys(problem)));
  out.constant("bool", "kIsInvariant", boolean(problem.invariant));
  out.constant("bool", "kIsCausal", boolean(problem.causal && !has_window(problem)));
  write_window_constants(out, problem);
  write_rotary_constants(out, problem);
  out.constant("int", "kPower", number(effective_power(problem)));
  out.constant("float", "kOffset", float_literal(effective_offset(problem)));
  out.constant("bool", "kIsGeneral", boolean(is_general(problem)));
  out.constant("bool", "kHasNorms", boolean(problem.score.qk_norm));
  out.constant("bool", "kScalesWeights", boolean(scales_weights(problem)));
  write_score_constants(out, problem);
  out.constant("bool", "kDivisorIsSum", boolean(divisor_is_sum(problem, schedule)));
  out.constant("bool", "kIsAligned", boolean(schedule.load_path == LoadPath::kCpAsync));
  out.constant("bool", "kIsTraining", boolean(is_training));
  out.constant(
      "bool", "kNeedsX",
      boolean((is_training || problem.pass == Pass::kBackward) && saves_x(problem, schedule)));
  out.constant("bool", "kIsRange", boolean(is_of_range(problem.pass)));
  out.constant("bool", "kOrderedDq",
               boolean(problem.pass == Pass::kBackward && schedule.dq_mode == DqMode::kOrdered));
  out.constant("int", "kRowThreads", number(kRowThreads));
  const bool is_split = divides_keys(problem, schedule);
  out.constant("int", "kSplitKeys", number(is_split ? schedule.split_keys : 0));
  out.constant("bool", "kTakesTickets", boolean(takes_tickets(problem, schedule)));
  if (schedule.variant == Variant::kHopper) write_hopper_constants(out, problem, schedule);
  out.constant("int", "kNumEvaluators", number(num_evaluators(problem, schedule)));
  if (num_evaluators(problem, schedule) > 1)
    out.constant("float", "kCutWeight", float_literal(weight_at(problem, schedule, kCutBits)));
  if (num_evaluators(problem, schedule) > 1 && problem.pass == Pass::kBackward)
    out.constant("float", "kMostWeight", float_literal(weight_at(problem, schedule, kMostBits)));
  if (problem.pass == Pass::kBackward) {
    tiling("Dkdv", schedule.dkdv);
    out.constant("bool", "kSplitDkdv", boolean(schedule.split_dkdv));
    out.constant("bool", "kSumsDq", boolean(sums_dq(schedule)));
    if (has_dq_tiles(schedule)) tiling("Dq", schedule.dq);
  } else {
    // Sums are known before weights are made if blocks divide the keys.
    out.constant("bool", "kHasPassOne", boolean(is_split || has_pass_one(problem)));
    out.constant("bool", "kHasPassTwo", boolean(problem.pass != Pass::kRowSums));
    tiling("Forward", schedule.forward);
    out.constant("int", "kBlockDv", number(schedule.block_dv));
    out.constant("bool", "kStoresByTma",
                 boolean(schedule.variant == Variant::kHopper &&
                         schedule.hopper.store_path == StorePath::kTma));
    out.constant("bool", "kSavesPassOneEarly", boolean(schedule.variant == Variant::kHopper));
    out.constant("bool", "kPackGqa", boolean(schedule.pack_gqa));
    out.constant("bool", "kSkipTiles", boolean(schedule.skip_tiles));
    if (schedule.skip_tiles)
      out.constant(
          "float", "kSkipWeight",
          float_literal(weight_at(problem, schedule, is_fp32 ? kSkipBitsFp32 : kSkipBits)));
  }
  write_functions(out, problem, schedule);
  out.close(";");
}

// Constants of the problem: in Config even where all that they decide is decided already.
constexpr const char* kProblemConstants = "kHeadDim kHeadDimV kSeqQ kSeqK kIsCausal kPower kOffset";

// Puts what is made for this kernel behind the types that it is written in.
void add_made_parts(const Problem& problem, const Schedule& schedule,
                    std::vector<SourcePart>& parts) {
  constexpr const char* kWords = "ptx/types.cuh";
  const auto words = std::find_if(parts.begin(), parts.end(),
                                  [&](const SourcePart& part) { return part.title == kWords; });
  std::rotate(parts.begin(), words, words + 1);
  SourceWriter config, products;
  write_config(config, problem, schedule);
  write_wgmma(products, problem, schedule);
  parts.insert(parts.begin() + 1, {{"this kernel's constants and functions", config.text()},
                                   {"this kernel's products", products.text()}});
}

static_assert(lssar_constants::kSequenceSharedBytes % 16 == 0 &&
                  lssar_constants::kSequenceSharedBytes >=
                      sizeof(lssar_device::AttentionParams) + 2 * sizeof(int),
              "a block's parameters, its sequence and its number there");

// Kernel `i` of sequences: a block's sequence, then the kernel as for that sequence alone. Kernels
// of tiles share the parameters, because they have no registers left. Kernels of rows read few of
// them, so each thread has its own copy. Kernels with maps keep the parameters where producer and
// consumers find them (templates/kernels/tma_sequences.cuh).
void write_sequence_call(SourceWriter& out, const std::vector<Step>& steps, size_t i) {
  const Step& step = steps[i];
  if (step.launch.grid_rows == GridRows::kOnce) {
    out.line("lssar_device::$call$(params);", {{"call", step.call}});
  } else if (step.launch.grid_rows == GridRows::kHeads) {
    out.line("lssar_device::$call$_of_sequences(params);", {{"call", step.call}});
  } else if (step.launch.grid_rows == GridRows::kNewKeys) {
    out.line("lssar_device::$call$<$i$>(params);",
             {{"call", step.call}, {"i", number(static_cast<int64_t>(i))}});
  } else if (step.launch.rotation != Rotation::kNone) {
    out.line("lssar_device::RotaryParams own;");
    out.line("if (lssar_device::enter_rotary_sequence<$i$>(own, params))",
             {{"i", number(static_cast<int64_t>(i))}});
    out.line("  lssar_device::$call$(own);", {{"call", step.call}});
  } else if (!step.launch.maps.empty()) {
    out.line("if (lssar_device::enter_tma_sequence<$i$, $ticket$>(params.sequences))",
             {{"i", number(static_cast<int64_t>(i))}, {"ticket", boolean(step.takes_ticket)}});
    out.line("  lssar_device::$call$(params.tma);", {{"call", step.call}});
  } else {
    const bool is_shared = !step.shared_bytes.empty();
    out.line("$where$lssar_device::AttentionParams own;",
             {{"where", is_shared ? "__shared__ " : ""}});
    out.line("if (lssar_device::enter_sequence<$i$, $ticket$, $shared$>(own, params))",
             {{"i", number(static_cast<int64_t>(i))},
              {"ticket", boolean(step.takes_ticket)},
              {"shared", boolean(is_shared)}});
    out.line("  lssar_device::$call$($params$);",
             {{"call", step.call}, {"params", step.reads_all ? "own, params" : "own"}});
  }
}

// The argument of a launch's kernel.
const char* params_type(const Problem& problem, const LaunchStep& launch) {
  const bool has_maps = !launch.maps.empty();
  if (launch.rotation != Rotation::kNone)
    return problem.varlen ? "RotarySequencesParams" : "RotaryParams";
  if (problem.varlen) return has_maps ? "SequencesTmaParams" : "SequencesParams";
  return has_maps ? "TmaParams" : "AttentionParams";
}

bool has_maps(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(),
                     [](const Step& step) { return !step.launch.maps.empty(); });
}

void write_entries(SourceWriter& out, const Problem& problem, const std::vector<Step>& steps) {
  out.line("static_assert(sizeof(AttentionParams) == $bytes$, \"laid out as the host does\");",
           {{"bytes", number(sizeof(lssar_device::AttentionParams))}});
  if (has_maps(steps))
    out.line("static_assert(sizeof(TmaParams) == $bytes$, \"laid out as the host does\");",
             {{"bytes", number(sizeof(lssar_device::TmaParams))}});
  if (problem.varlen)
    out.line("static_assert(sizeof(SequencesParams) == $bytes$, \"laid out as the host does\");",
             {{"bytes", number(sizeof(lssar_device::SequencesParams))}});
  if (problem.varlen && has_maps(steps))
    out.line(
        "static_assert(sizeof(TmaSequence) + 2 * sizeof(int) <= $bytes$, "
        "\"static shared memory\");",
        {{"bytes", number(lssar_constants::kSequenceTmaSharedBytes)}});
  const bool has_rotations = std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    return step.launch.rotation != Rotation::kNone;
  });
  if (has_rotations)
    out.line("static_assert(sizeof(RotaryParams) == $bytes$, \"laid out as the host does\");",
             {{"bytes", number(sizeof(lssar_device::RotaryParams))}});
  if (has_rotations && problem.varlen)
    out.line("static_assert(sizeof(RotarySequencesParams) == $bytes$, \"as on the host\");",
             {{"bytes", number(sizeof(lssar_device::RotarySequencesParams))}});
  for (const Step& step : steps)
    if (!step.shared_bytes.empty())
      out.line("static_assert($device$ == $host$, \"as the host launches it\");",
               {{"device", step.shared_bytes}, {"host", number(step.launch.shared_bytes)}});
  out.line("}  // namespace lssar_device");
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    out.line();
    out.line("extern \"C\" __global__ void __launch_bounds__($threads$$min_blocks$)",
             {{"threads", number(step.launch.threads)},
              {"min_blocks", step.min_blocks == 0 ? "" : ", " + number(step.min_blocks)}});
    const bool has_maps = !step.launch.maps.empty();
    out.open("    $entry$(const $qualifier$lssar_device::$type$ params)",
             {{"entry", step.launch.entry},
              {"qualifier", has_maps || problem.varlen ? "LSSAR_GRID_CONSTANT " : ""},
              {"type", params_type(problem, step.launch)}});
    if (problem.varlen) {
      write_sequence_call(out, steps, i);
    } else {
      out.line("lssar_device::$call$(params);", {{"call", step.call}});
    }
    out.close();
  }
}

}  // namespace

std::string kernel_name(const Problem& problem) {
  std::string pass = pass_name(problem.pass);
  std::replace(pass.begin(), pass.end(), '-', '_');
  std::string name =
      fmt::format("lssar_{}_{}_d{}", pass, dtype_name(problem.dtype), problem.head_dim);
  if (problem.head_dim_v != problem.head_dim) name += fmt::format("v{}", problem.head_dim_v);
  return name +
         fmt::format("_p{}{}{}{}", problem.p, problem.causal ? "_causal" : "",
                     has_window(problem) ? "_window" : "", problem.varlen ? "_varlen" : "") +
         (problem.rotary_dim != 0 ? "_rotary" : "");
}

Result<KernelSource> emit_kernel(const Problem& problem, const Schedule& schedule,
                                 const Target& target) {
  LSSAR_RETURN_IF_ERROR(validate(problem));
  LSSAR_RETURN_IF_ERROR(validate(schedule, problem, target));
  if (target.is_cpu()) return emit_cpu_kernel(problem, schedule, target);
  const std::vector<Step> steps = plan_steps(problem, schedule);
  KernelSource kernel;
  kernel.name = kernel_name(problem);
  std::vector<SourcePart> parts = template_parts(template_roots(problem, schedule));
  add_made_parts(problem, schedule, parts);
  SourceWriter entries;
  write_entries(entries, problem, steps);
  kernel.source = source_header(kernel.name, problem, schedule, target, steps) +
                  tailor_kernels(parts, entries.text(), kProblemConstants);
  for (const Step& step : steps) kernel.steps.push_back(step.launch);
  return kernel;
}

}  // namespace lssar
