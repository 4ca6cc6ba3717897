#include "inspect/timing/kernel_timing.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "autotune/model/gpu_model.h"
#include "compile/cubin_info.h"
#include "inspect/disassembler.h"
#include "inspect/timing/loop_program.h"
#include "inspect/timing/loop_ways.h"

namespace lssar {
namespace {

constexpr int kRowsOfProduct = 64;

bool has_opcode(const SassKernel& kernel, std::string_view prefix) {
  return std::any_of(kernel.instructions.begin(), kernel.instructions.end(),
                     [&](const SassInstruction& in) { return in.opcode.rfind(prefix, 0) == 0; });
}

// Scores of one iteration on the SM. Each is an element of a product that begins a sum. A backward
// has two such products for each: q k and do v.
int scores_of(const LoopProgram& program, const KernelShape& shape) {
  const FreshProducts fresh = fresh_products(program);
  const int tiles = shape.is_backward && fresh.count > 1 ? fresh.count / 2 : fresh.count;
  return tiles * fresh.columns * kRowsOfProduct * program.warps();
}

Result<WayTiming> time_way(const SassKernel& kernel, const LoopWay& way, const KernelShape& shape,
                           const TimingConstants& constants) {
  LoopSettings settings;
  settings.blocks = shape.blocks_per_sm;
  settings.block_warps = multiplying_warps(kernel, shape);
  settings.streams_all_products = !shape.is_backward;
  // Every block of the SM streams its own tiles, and a cluster's blocks share theirs.
  settings.l2_bytes_per_clock = shape.l2_bytes_per_clock * shape.cluster / shape.blocks_per_sm;
  LSSAR_ASSIGN_OR_RETURN(LoopProgram program, loop_program(kernel, way, settings, constants));
  WayTiming out;
  out.instructions = uint32_t(way.instructions.size());
  out.tensor = way.tensor;
  out.special = way.special;
  out.fma = way.fma;
  out.scores = scores_of(program, shape);
  LSSAR_ASSIGN_OR_RETURN(out.timing, simulate(program, constants));
  out.special_run = longest_run(program, SmPipe::kSpecial);
  out.fma_run = longest_run(program, SmPipe::kFma);
  out.notes = std::move(program.notes);
  return out;
}

bool do_the_same(const WayTiming& one, const WayTiming& other) {
  return one.tensor == other.tensor && one.special == other.special && one.scores == other.scores;
}
bool do_the_same(const HotLoopTiming& one, const HotLoopTiming& other) {
  return std::equal(one.ways.begin(), one.ways.end(), other.ways.begin(), other.ways.end(),
                    [](const WayTiming& a, const WayTiming& b) { return do_the_same(a, b); });
}
double clocks_of(const HotLoopTiming& loop) {
  double clocks = 0;
  for (const WayTiming& way : loop.ways) clocks += way.timing.clocks;
  return clocks;
}

// Two loops with the same products and special functions differ by what few tiles need, such as a
// mask. So the faster one counts.
void add_loop(std::vector<HotLoopTiming>& loops, HotLoopTiming added) {
  for (HotLoopTiming& loop : loops) {
    if (!do_the_same(loop, added)) continue;
    if (clocks_of(added) < clocks_of(loop)) loop = std::move(added);
    return;
  }
  loops.push_back(std::move(added));
}

Status nothing_to_time() {
  return unsupported(
      "the timing model needs a kernel with HGMMA (wgmma), and there is none; only Hopper kernels "
      "(sm_90a) have it");
}

Result<KernelShape> shape_of(const StepFacts& facts, Pass pass, const Target& target) {
  LSSAR_ASSIGN_OR_RETURN(const GpuModel gpu, gpu_model(target.name()));
  KernelShape shape;
  shape.threads = facts.step.threads;
  shape.blocks_per_sm = std::max(1, facts.occupancy.blocks);
  if (facts.step.is_persistent)
    shape.blocks_per_sm = std::min(shape.blocks_per_sm, facts.step.blocks_per_sm);
  shape.cluster = facts.step.cluster;
  shape.is_backward = pass == Pass::kBackward;
  shape.l2_bytes_per_clock = gpu.l2_gbps / gpu.clock_ghz / gpu.num_sms;
  return shape;
}

}  // namespace

int multiplying_warps(const SassKernel& kernel, const KernelShape& shape) {
  const int groups = shape.threads / kWarpGroup;
  const int moving = has_opcode(kernel, "USETMAXREG.DEALLOC") ? 1 : 0;
  return std::max(1, groups - moving);
}

Result<KernelTiming> kernel_timing(const SassKernel& kernel, const KernelShape& shape,
                                   const TimingConstants& constants) {
  if (!has_opcode(kernel, "HGMMA"))
    return unsupported(
        fmt::format("{}: it has no HGMMA; only kernels that have it are timed", kernel.name));
  KernelTiming out;
  out.name = kernel.name;
  for (const SassLoop& loop : kernel.loops) {
    if (!loop.is_hot) continue;
    HotLoopTiming timing;
    timing.first_address = loop.first_address;
    timing.last_address = loop.last_address;
    timing.warps = multiplying_warps(kernel, shape) * shape.blocks_per_sm;
    for (const LoopWay& way : loop_ways(kernel, loop)) {
      LSSAR_ASSIGN_OR_RETURN(WayTiming timed, time_way(kernel, way, shape, constants));
      timing.ways.push_back(std::move(timed));
    }
    add_loop(out.loops, std::move(timing));
  }
  return out;
}

Result<std::vector<KernelTiming>> facts_timing(const KernelFacts& facts, Pass pass,
                                               const Target& target) {
  if (facts.image.kind != ImageKind::kCubin) {
    return unsupported("the timing model reads a cubin, which NVRTC makes for sm_90a");
  }
  LSSAR_ASSIGN_OR_RETURN(const std::string listing,
                         disassemble(facts.image.bytes, ListingWords::kShown));
  LSSAR_ASSIGN_OR_RETURN(const std::vector<SassKernel> kernels, parse_sass(listing));
  std::vector<KernelTiming> timed;
  for (const SassKernel& kernel : kernels) {
    const auto step =
        std::find_if(facts.steps.begin(), facts.steps.end(),
                     [&](const StepFacts& step) { return step.step.entry == kernel.name; });
    if (step == facts.steps.end() || !has_opcode(kernel, "HGMMA")) continue;
    LSSAR_ASSIGN_OR_RETURN(const KernelShape shape, shape_of(*step, pass, target));
    LSSAR_ASSIGN_OR_RETURN(KernelTiming timing, kernel_timing(kernel, shape));
    timed.push_back(std::move(timing));
  }
  if (timed.empty()) return nothing_to_time();
  return timed;
}

std::vector<double> clocks_per_score(const std::vector<KernelTiming>& kernels) {
  std::vector<double> least_of_loops;
  for (const KernelTiming& kernel : kernels) {
    for (const HotLoopTiming& loop : kernel.loops) {
      std::optional<double> least;
      for (const WayTiming& way : loop.ways) {
        if (way.scores <= 0) continue;
        const double clocks = way.timing.clocks / way.scores;
        least = std::min(clocks, least.value_or(clocks));
      }
      if (!least) return {};
      least_of_loops.push_back(*least);
    }
  }
  return least_of_loops;
}

Result<std::vector<KernelTiming>> cubin_timing(const std::string& cubin, Pass pass) {
  constexpr int kRegistersPerLane = 512;  // of an SM, for each of 128 threads
  LSSAR_ASSIGN_OR_RETURN(const std::vector<KernelResources> resources, read_cubin_resources(cubin));
  LSSAR_ASSIGN_OR_RETURN(const std::string listing, disassemble(cubin, ListingWords::kShown));
  LSSAR_ASSIGN_OR_RETURN(const std::vector<SassKernel> kernels, parse_sass(listing));
  KernelShape shape;
  shape.is_backward = pass == Pass::kBackward;
  std::vector<KernelTiming> timed;
  for (const SassKernel& kernel : kernels) {
    if (!has_opcode(kernel, "HGMMA")) continue;
    const auto found =
        std::find_if(resources.begin(), resources.end(),
                     [&](const KernelResources& one) { return one.entry == kernel.name; });
    const int registers = found == resources.end() ? 0 : found->registers;
    if (registers < 1) return invalid_argument(kernel.name + ": its registers are not known");
    shape.threads = kRegistersPerLane / registers * kWarpGroup;
    LSSAR_ASSIGN_OR_RETURN(KernelTiming timing, kernel_timing(kernel, shape));
    timed.push_back(std::move(timing));
  }
  if (timed.empty()) return nothing_to_time();
  return timed;
}

}  // namespace lssar
