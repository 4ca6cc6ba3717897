#include "codegen/steps.h"

#include <cstddef>
#include <utility>

#include "codegen/pass_needs.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

Step row_step(const char* entry, GridRows rows, const char* call) {
  Step step;
  step.launch.entry = entry;
  step.launch.grid_rows = rows;
  step.launch.rows_per_block = kRowThreads / kRowGroupThreads;
  step.launch.threads = kRowThreads;
  step.call = call;
  return step;
}

// One block for each head.
Step sink_step() {
  Step step = row_step("lssar_backward_sink", GridRows::kHeads, "backward_sink");
  step.launch.rows_per_block = 1;
  step.launch.threads = lssar_constants::kSinkThreads;
  step.launch.shared_bytes = lssar_constants::kSinkThreads / kWarpThreads * 4;
  return step;
}

// One block, before all other launches.
Step order_step() {
  Step step = row_step("lssar_order_sequences", GridRows::kOnce, "order_sequences");
  step.launch.rows_per_block = 1;
  step.launch.threads = lssar_constants::kSequenceThreads;
  return step;
}

// What calls of sequences have before all else.
std::vector<Step> first_steps(const Problem& problem) {
  std::vector<Step> steps;
  if (problem.varlen) steps.push_back(order_step());
  if (takes_new_keys(problem))
    steps.push_back(row_step("lssar_append", GridRows::kNewKeys, "append_rows"));
  return steps;
}

Step tile_step(const char* entry, GridRows rows, const Tiling& tiling, int shared_bytes,
               const char* call, const char* shape) {
  Step step;
  step.launch.entry = entry;
  step.launch.grid_rows = rows;
  step.launch.rows_per_block = tiling.block_rows;
  step.launch.threads = tiling_threads(tiling);
  step.launch.shared_bytes = shared_bytes;
  step.min_blocks = tiling.min_blocks;
  step.call = call;
  step.shared_bytes = std::string(shape) + "::kSharedBytes";
  return step;
}

// A kernel of warps with roles has one warp group more than its tiling has rows for.
Step hopper_step(const char* entry, GridRows rows, const Tiling& tiling, int shared_bytes,
                 const char* call, const char* shape, std::vector<MapSpec> maps) {
  Step step = tile_step(entry, rows, tiling, shared_bytes, call, shape);
  step.launch.threads = hopper_threads(tiling);
  step.launch.maps = std::move(maps);
  return step;
}

void pack_queries(LaunchStep& launch, int packed_rows) {
  launch.grid_rows = GridRows::kPackedQueries;
  launch.packed_rows = packed_rows;
}

constexpr int kChunkCols = lssar_constants::kSwizzleBytes / 2;  // 16-bit columns of a swizzled box

MapSpec matrix_map(MapTensor tensor, int rows) { return {tensor, rows, kChunkCols, true}; }
MapSpec norm_map(int keys) { return {MapTensor::kKeyNorms, 1, keys, false}; }

// Maps in the order of ForwardMap (templates/kernels/hopper_forward_layout.cuh).
Step hopper_forward_step(const Problem& problem, const Schedule& schedule) {
  const Tiling& tiling = schedule.forward;
  const HopperOptions& hopper = schedule.hopper;
  // With packed heads, each consumer's rows are a box of their own.
  const int query_rows = schedule.pack_gqa ? kWarpGroupRows : tiling.block_rows;
  std::vector<MapSpec> maps = {
      matrix_map(MapTensor::kQ, query_rows),
      matrix_map(MapTensor::kK, hopper_score_cols(problem, schedule) / hopper.cluster),
      matrix_map(MapTensor::kK, tiling.block_cols / hopper.cluster),
      matrix_map(MapTensor::kV, tiling.block_cols / hopper.cluster),
      norm_map(hopper_score_cols(problem, schedule)),
      norm_map(tiling.block_cols)};
  if (hopper.store_path == StorePath::kTma)
    maps.push_back(matrix_map(MapTensor::kO, kWarpGroupRows));
  for (MapSpec& map : maps)
    map.packed = schedule.pack_gqa && (map.tensor == MapTensor::kQ || map.tensor == MapTensor::kO);
  Step step = hopper_step("lssar_forward", GridRows::kQueries, tiling,
                          hopper_forward_shared_bytes(problem, schedule), "hopper_forward",
                          "HopperForwardShape", std::move(maps));
  step.launch.is_persistent = hopper.persistent;
  step.launch.cluster = hopper.cluster;
  step.launch.rows_per_block *= hopper.stagger;
  if (schedule.pack_gqa) pack_queries(step.launch, kWarpGroupRows);
  step.launch.blocks_per_sm = tiling.min_blocks;
  return step;
}

// Maps in the order of DkdvMap (templates/kernels/hopper_backward_dkdv_layout.cuh).
Step hopper_dkdv_step(const Problem& problem, const Schedule& schedule) {
  const Tiling& tiling = schedule.dkdv;
  Step step = hopper_step(
      "lssar_backward_dkdv", GridRows::kKeys, tiling, hopper_dkdv_shared_bytes(problem, schedule),
      "hopper_backward_dkdv", "HopperDkdvShape",
      {matrix_map(MapTensor::kK, tiling.block_rows),
       matrix_map(MapTensor::kV, tiling.block_rows),
       matrix_map(MapTensor::kQ, tiling.block_cols),
       matrix_map(MapTensor::kGradO, tiling.block_cols),
       {MapTensor::kRowConstants, tiling.block_cols, lssar_constants::kRowPlaneFloats, false}});
  if (sums_by_tma(schedule))
    step.launch.maps.push_back(
        {MapTensor::kGradQSum, kWarpRows, hopper_sum_cols(problem, schedule), false});
  step.launch.is_persistent = schedule.hopper.persistent;
  step.launch.blocks_per_sm = tiling.min_blocks;
  return step;
}

// The kernel of dq, or the kernel of epsilon, which has the same tiles. Maps in the order of DqMap
// (templates/kernels/hopper_backward_dq.cuh).
Step hopper_dq_step(const Problem& problem, const Schedule& schedule, const char* entry,
                    const char* call) {
  const Tiling& tiling = schedule.dq;
  Step step =
      hopper_step(entry, GridRows::kQueries, tiling, hopper_dq_shared_bytes(problem, schedule),
                  call, "HopperDqShape",
                  {matrix_map(MapTensor::kQ, tiling.block_rows),
                   matrix_map(MapTensor::kGradO, tiling.block_rows),
                   matrix_map(MapTensor::kK, tiling.block_cols),
                   matrix_map(MapTensor::kV, tiling.block_cols), norm_map(tiling.block_cols)});
  step.launch.is_persistent = schedule.hopper.persistent;
  step.launch.blocks_per_sm = tiling.min_blocks;
  return step;
}

// Turns q and k before the steps that compute attention, and the gradients back behind them.
std::vector<Step> with_rotations(const Problem& problem, const Schedule& schedule,
                                 std::vector<Step> steps) {
  if (problem.rotary_dim == 0 || turns_tiles(problem, schedule)) return steps;
  const auto rotation = [](Rotation what, const char* entry, GridRows rows) {
    const bool is_back = what == Rotation::kGradQ || what == Rotation::kGradK;
    Step step = row_step(entry, rows, is_back ? "rotate_back" : "rotate");
    step.launch.rotation = what;
    return step;
  };
  const auto first = steps.begin() + static_cast<std::ptrdiff_t>(first_steps(problem).size());
  steps.insert(first, {rotation(Rotation::kQ, "lssar_rotate_q", GridRows::kQueries),
                       rotation(Rotation::kK, "lssar_rotate_k", GridRows::kKeys)});
  if (problem.pass != Pass::kBackward) return steps;
  steps.push_back(rotation(Rotation::kGradQ, "lssar_rotate_grad_q", GridRows::kQueries));
  steps.push_back(rotation(Rotation::kGradK, "lssar_rotate_grad_k", GridRows::kKeys));
  return steps;
}

// Blocks divide the keys of few queries among them.
std::vector<Step> decode_steps(const Problem& problem, const Schedule& schedule) {
  const auto of_chunks = [&](const char* entry, int shared_bytes, const char* call,
                             const char* shape) {
    Step step = tile_step(entry, GridRows::kKeys, schedule.forward, shared_bytes, call, shape);
    step.launch.rows_per_block = schedule.split_keys;
    return step;
  };
  Step outputs = row_step("lssar_decode_outputs", GridRows::kQueries, "decode_outputs");
  outputs.launch.rows_per_block = 1;
  outputs.launch.shared_bytes = decode_outputs_shared_bytes(problem);
  outputs.shared_bytes = "DecodeOutputShape::kSharedBytes";
  std::vector<Step> steps = first_steps(problem);
  steps.insert(steps.end(),
               {of_chunks("lssar_decode_scores", forward_shared_bytes(problem, schedule),
                          "decode_scores", "ForwardShape"),
                of_chunks("lssar_decode_values", decode_values_shared_bytes(problem, schedule),
                          "decode_values", "DecodeValueShape"),
                outputs});
  return steps;
}

// The steps after q and k have been rotated.
std::vector<Step> attention_steps(const Problem& problem, const Schedule& schedule) {
  if (divides_keys(problem, schedule)) return decode_steps(problem, schedule);
  std::vector<Step> steps = first_steps(problem);
  steps.push_back(row_step(kKeyNormsEntry, GridRows::kKeys, "key_norms"));
  if (keeps_key_norms(problem)) {
    steps.back().call = "key_norms_of_sequence";
    steps.back().reads_all = true;
  }
  if (problem.pass != Pass::kBackward && schedule.variant == Variant::kHopper) {
    steps.push_back(hopper_forward_step(problem, schedule));
    return steps;
  }
  if (problem.pass != Pass::kBackward) {
    const char* name = problem.pass == Pass::kRowSums       ? "row_sums"
                       : problem.pass == Pass::kWeightedSum ? "weighted_sum"
                                                            : "forward";
    const std::string call = (is_general(problem) ? "general_" : "") + std::string(name);
    steps.push_back(tile_step((std::string("lssar_") + name).c_str(), GridRows::kQueries,
                              schedule.forward, forward_shared_bytes(problem, schedule),
                              call.c_str(), "ForwardShape"));
    if (schedule.pack_gqa) pack_queries(steps.back().launch, schedule.forward.block_rows);
    return steps;
  }
  steps.push_back(row_step("lssar_backward_rows", GridRows::kQueries, "backward_rows"));
  const bool has_epsilon_pass = schedule.epsilon == EpsilonFrom::kPass;
  const bool is_hopper = schedule.variant == Variant::kHopper;
  const auto dq_step = [&](const char* entry, const std::string& call) {
    if (is_hopper) return hopper_dq_step(problem, schedule, entry, ("hopper_" + call).c_str());
    return tile_step(entry, GridRows::kQueries, schedule.dq, dq_shared_bytes(problem, schedule),
                     call.c_str(), "DqShape");
  };
  if (has_epsilon_pass) steps.push_back(dq_step("lssar_backward_epsilon", "backward_epsilon"));
  steps.push_back(is_hopper ? hopper_dkdv_step(problem, schedule)
                            : tile_step("lssar_backward_dkdv", GridRows::kKeys, schedule.dkdv,
                                        dkdv_shared_bytes(problem, schedule), "backward_dkdv",
                                        "DkdvShape"));
  steps.back().takes_ticket = schedule.dq_mode == DqMode::kOrdered;
  steps.push_back(sums_dq(schedule) ? row_step("lssar_backward_dq_finish", GridRows::kQueries,
                                               "backward_dq_finish")
                                    : dq_step("lssar_backward_dq", "backward_dq"));
  if (reads_sink(problem)) steps.push_back(sink_step());
  return steps;
}

}  // namespace

std::vector<Step> plan_steps(const Problem& problem, const Schedule& schedule) {
  return with_rotations(problem, schedule, attention_steps(problem, schedule));
}

std::vector<std::string> template_roots(const Problem& problem, const Schedule& schedule) {
  std::vector<std::string> roots = {
      "templates/kernels/params.cuh",
      problem.dtype == DType::kFp32 ? "templates/tile/mma32.cuh" : "templates/tile/mma16.cuh",
      "templates/kernels/key_norms.cuh"};
  const bool is_decode = divides_keys(problem, schedule);
  if (problem.varlen) roots.push_back("templates/kernels/order_sequences.cuh");
  if (takes_new_keys(problem)) roots.push_back("templates/decode/append.cuh");
  if (problem.rotary_dim != 0 && !is_decode)
    roots.push_back(problem.varlen ? "templates/kernels/rotate_sequences.cuh"
                                   : "templates/kernels/rotate.cuh");
  if (is_decode) {
    roots.insert(roots.end(), {"templates/decode/values.cuh", "templates/decode/outputs.cuh"});
    return roots;
  }
  if (problem.pass != Pass::kBackward) {
    const bool is_range = is_of_range(problem.pass);
    roots.push_back(schedule.variant == Variant::kHopper ? "templates/kernels/hopper_forward.cuh"
                    : is_general(problem) ? (is_range ? "templates/kernels/general_range.cuh"
                                                      : "templates/kernels/general_forward.cuh")
                    : is_range            ? "templates/kernels/forward_range.cuh"
                                          : "templates/kernels/forward.cuh");
    return roots;
  }
  roots.push_back("templates/kernels/backward_rows.cuh");
  const bool is_hopper = schedule.variant == Variant::kHopper;
  if (schedule.epsilon == EpsilonFrom::kPass)
    roots.push_back(is_hopper ? "templates/kernels/hopper_backward_epsilon.cuh"
                              : "templates/kernels/backward_epsilon.cuh");
  roots.push_back(is_hopper ? "templates/kernels/hopper_backward_dkdv.cuh"
                            : "templates/kernels/backward_dkdv.cuh");
  roots.push_back(sums_dq(schedule) ? "templates/kernels/backward_dq_finish.cuh"
                  : is_hopper       ? "templates/kernels/hopper_backward_dq.cuh"
                                    : "templates/kernels/backward_dq.cuh");
  if (reads_sink(problem)) roots.push_back("templates/kernels/backward_sink.cuh");
  return roots;
}

}  // namespace lssar
