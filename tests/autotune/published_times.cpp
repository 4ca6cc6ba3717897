#include "tests/autotune/published_times.h"

#include "autotune/model/problem_figures.h"

namespace lssar {
namespace {

constexpr const char* kFa3 = "FlashAttention-3";
constexpr const char* kCudnn = "cuDNN";

// Figures 5 and 6 of the paper (arXiv 2407.08608): H100 SXM5, fp16, 16384 tokens in all, 2048 / d
// heads. Figure 5 was read off the picture of the project's repository
// (assets/flash3_fp16_fwd.png); figure 6 is as third parties transcribed it.
constexpr PublishedSource kFa3Forward = {kFa3, "H100", Pass::kForward};
constexpr PublishedSource kFa3Backward = {kFa3, "H100", Pass::kBackward};
constexpr PublishedSource kCudnnForward = {kCudnn, "H100", Pass::kForward};
// cudnn-frontend, benchmark/sdpa_benchmark_training/results/h200_919_only_cudnn: bf16, one batch of
// 64 query heads and 8 key heads.
constexpr PublishedSource kCudnnTableForward = {kCudnn, "H200", Pass::kForward};
constexpr PublishedSource kCudnnTableBackward = {kCudnn, "H200", Pass::kBackward};

// Tiles of FlashAttention-3: hopper/tile_size.h and flash_bwd_launch_template.h. Tiles of cuDNN:
// its open kernels for Hopper (cudnn-frontend, sm90/prefill) have 128 x 128. Those of d 256 and of
// the backward are not known, so FlashAttention-3's stand for them.
}  // namespace

// clang-format off
const std::vector<PublishedRow> kPublishedRows = {
    {kFa3Forward, 128, false, 128, 176, {467, 565, 625, 638, 646, 648}, 0.022},
    {kFa3Forward, 64, false, 192, 128, {333, 392, 460, 476, 496, 497}, 0.024},
    {kFa3Forward, 256, false, 128, 80, {482, 0, 707, 736, 746, 756}, 0.101},
    {kFa3Forward, 64, true, 192, 128, {197, 265, 371, 420, 460, 473}, 0.013},
    {kFa3Forward, 128, true, 128, 128, {292, 423, 521, 579, 602, 616}, 0.035},
    {kFa3Forward, 256, true, 128, 80, {286, 427, 537, 612, 628, 642}, 0.048},
    {kFa3Backward, 64, false, 128, 128, {272, 363, 422, 453, 472, 474}, 0.065},
    {kFa3Backward, 128, false, 80, 128, {316, 424, 501, 542, 559, 561}, 0.11},
    {kCudnnForward, 64, false, 128, 128, {335, 373, 395, 408, 412, 413}, 0.044},
    {kCudnnForward, 128, false, 128, 128, {497, 574, 617, 609, 600, 595}, 0.053},
    {kCudnnForward, 256, false, 128, 80, {470, 546, 580, 581, 580, 581}, 0.124},
    {kCudnnForward, 64, true, 128, 128, {225, 288, 334, 363, 379, 388}, 0.097},
    {kCudnnForward, 128, true, 128, 128, {315, 410, 484, 518, 529, 539}, 0.151},
    {kCudnnForward, 256, true, 128, 80, {308, 391, 450, 483, 497, 509}, 0.278},
    {kCudnnTableForward, 128, false, 128, 128, {0, 0, 633, 671, 691, 702}, 0.112},
    {kCudnnTableForward, 128, true, 128, 128, {0, 0, 484, 591, 644, 673}, 0.055},
    {kCudnnTableBackward, 128, false, 80, 128, {0, 0, 504, 560, 594, 612}, 0.082},
};
// clang-format on

namespace {

bool is_of_table(const PublishedRow& row) { return row.source.gpu == std::string("H200"); }

Problem problem_of(const PublishedRow& row) {
  Problem problem;
  problem.pass = row.source.pass;
  problem.dtype = is_of_table(row) ? DType::kBf16 : DType::kFp16;
  problem.head_dim = problem.head_dim_v = row.dim;
  problem.causal = row.causal;
  problem.p = 0;
  problem.score.scale.name = ScaleName::kInvSqrtDim;
  problem.score.qk_norm = false;
  problem.score.phi = Activation(apply(Expression::Kind::kExp, Expression(Variable::kX)));
  return problem;
}

Sizes sizes_of(const PublishedRow& row, int length) {
  if (is_of_table(row)) return {1, 64, 8, length, length};
  constexpr int kTokens = 16384, kHidden = 2048;
  const int heads = kHidden / row.dim;
  return {kTokens / length, heads, heads, length, length};
}

// How these kernels work: warps with roles, products in flight beside arithmetic, consumers in turn
// up to d 128, persistent blocks, and forward clusters of 2 where there is no mask and d is at
// least 128.
Schedule schedule_of(const PublishedRow& row) {
  Schedule schedule;
  schedule.variant = Variant::kHopper;
  schedule.block_dv = row.dim;
  schedule.forward = {row.block_rows, row.block_cols, 4, 1};
  schedule.dkdv = {row.block_cols, row.block_rows, 2, 1};
  schedule.dq_mode = DqMode::kAtomic;
  HopperOptions& hopper = schedule.hopper;
  hopper.ping_pong = row.dim <= 128 && row.source.pass == Pass::kForward;
  hopper.persistent = row.source.pass == Pass::kForward;
  hopper.tickets = row.causal;
  const bool is_pair = row.source.library == std::string(kFa3) && row.dim >= 128 && !row.causal;
  hopper.cluster = row.source.pass == Pass::kForward && is_pair ? 2 : 1;
  hopper.store_path = hopper.sum_path = StorePath::kTma;
  return schedule;
}

// Read from the machine code of FlashAttention-3's forward (v3 sources, CUTLASS 4.2, ptxas 13.0):
// 471 slots for 88 scores at d 128 and 504 for 96 at d 64. The backward's are counted from its
// source.
constexpr double kForwardSlots = 3.5, kForwardTile = 100;
constexpr double kBackwardSlots = 5.5, kBackwardTile = 140;

double slots_of(const PublishedRow& row) {
  if (row.source.pass == Pass::kForward)
    return kForwardSlots + (kForwardTile + row.dim / 2.0) / (row.block_cols / 2.0);
  return kBackwardSlots + kBackwardTile / (row.block_rows / 2.0);
}

}  // namespace

bool is_fitted(const PublishedRow& row) { return &row == kPublishedRows.data(); }

GpuModel gpu_of(const PublishedRow& row) { return *gpu_model("sm_90a", row.source.gpu); }

double predicted_tflops(const PublishedRow& row, int length, const GpuModel& gpu) {
  const Problem problem = problem_of(row);
  const Sizes sizes = sizes_of(row, length);
  const Target target = *target_from_name("sm_90a");
  const Schedule schedule = schedule_of(row);
  ProblemFigures figures(problem, sizes);
  PassWork pass = work_of(problem, sizes, schedule, target, gpu, figures);
  KernelWork& kernel = pass.kernels[0];
  Phase& phase = kernel.phases[0];
  const double scores = phase.tiles * row.block_rows * row.block_cols;
  kernel.spill_factor = 1;  // as published, they do not spill in their loops
  // In the backward a row of softmax has two constants. A row of our family's kernels has eight
  // words.
  constexpr double kFewerConstants = (8 - 2) * 2;
  if (row.source.pass == Pass::kBackward)
    phase.amount[static_cast<size_t>(Resource::kShared)] -= kFewerConstants * scores;
  // Their backward has products in flight beside its arithmetic. Ours does not, and the model
  // counts it so.
  constexpr double kStreams = 1.5;
  const double alone = gpu.constants.hidden_alone;
  if (row.source.pass == Pass::kBackward) kernel.hidden = alone + (1 - alone) * (kStreams - 1);
  phase.amount[static_cast<size_t>(Resource::kSpecial)] = scores;
  phase.amount[static_cast<size_t>(Resource::kIssue)] = scores * slots_of(row);
  if (row.source.pass == Pass::kForward) {  // no norms of keys: one launch
    pass.launches = 1;
    pass.row_bytes = 0;
  }
  CostModel model(problem, sizes, target, gpu);
  const double ms = model.estimate(pass, Variant::kHopper).ms;
  const double flop = (row.source.pass == Pass::kForward ? 4.0 : 10.0) * (row.causal ? 0.5 : 1.0) *
                      static_cast<double>(sizes.batch * sizes.heads) * length * length * row.dim;
  return flop / ms * 1e-9;
}

}  // namespace lssar
