#include "autotune/model/cpu_work.h"

#include <algorithm>
#include <cmath>

#include "autotune/model/kernel_work.h"
#include "codegen/cpu/cpu_shapes.h"
#include "codegen/pass_needs.h"
#include "codegen/shapes.h"
#include "codegen/source/power_chain.h"
#include "device/cpu/cpu_device.h"
#include "runtime/multiply_adds.h"

namespace lssar {
namespace {

using Amounts = std::array<double, kNumResources>;

// A core begins two vector instructions of arithmetic in a cycle, and loads at most two vectors. It
// decodes four instructions in the time of two.
constexpr double kDecodedPerSlot = 2;
// Two a cycle, each of which takes four cycles: with fewer sums they wait for one another.
constexpr double kLeastSums = 8;
constexpr double kLoopInstructions = 4;
// A thread that is woken and waited for, and a launch without one (see cpu_device.cpp).
constexpr double kWakeMs = 5e-3, kLaunchMs = 5e-4;
// The share of a cache that one thread's data can fill beside everything else.
constexpr double kUsableCache = 0.75;
// Nothing is faster than the products at this much above the measured peak, which may have been
// measured at a lower clock.
constexpr double kPeakMargin = 1.25;

double& at(Amounts& amounts, Resource resource) { return amounts[static_cast<size_t>(resource)]; }

double up(double value, double unit) { return std::ceil(value / unit) * unit; }

// The share of the multiply-adds that are made whatever the inputs are: forwards that skip keys may
// multiply hardly any values.
double least_products(const Problem& problem, const Target& target) {
  const bool has_values = problem.pass != Pass::kBackward && problem.pass != Pass::kRowSums;
  if (!has_values || !cpu_skips_keys(problem, target)) return 1;
  return static_cast<double>(problem.head_dim) / (problem.head_dim + problem.head_dim_v);
}

// The share of keys whose values a forward that skips keys multiplies: one of the key's `numbers`
// weights must count. Scores are assumed to be normal with deviation s. Activations are then about
// max(x, 0), their mean is 0.4 s and their maximum 3.5 s, so u reaches `cut` where the score is
// above (0.4 + 3.1 cut) s. Measured with 6 weights and p 15: 0.65 in fp32, and 0.41 in 16 bits.
double live_share(const Problem& problem, int64_t seq_k, double numbers) {
  const bool is_fp32 = problem.dtype == DType::kFp32;
  const double keys = std::max(1.0, static_cast<double>(seq_k));
  // least_weight of templates/cpu/forward_output.h.
  const double least = is_fp32 ? 0x1p-24 / keys : std::min(0x1p-12 / keys, 0x1p-24);
  // Keys are listed by u^(p - 1) in fp32 (templates/cpu/forward.h).
  const int power = std::max(1, effective_power(problem) - (is_fp32 ? 1 : 0));
  const double cut = std::pow(least, 1.0 / power);
  const double of_one = 0.5 * std::erfc((0.4 + 3.1 * cut) / std::sqrt(2.0));
  return 1 - std::pow(1 - of_one, numbers);
}

class CpuWork {
 public:
  CpuWork(const Problem& problem, const Sizes& sizes, const Schedule& schedule,
          const Target& target, const CpuModel& cpu, ProblemFigures& figures)
      : problem_(problem),
        sizes_(sizes),
        schedule_(schedule),
        cpu_(cpu),
        figures_(figures),
        lanes_(cpu_level(target).lanes),
        rows_(rows_of_a_block()),
        vectors_(schedule.cpu.panel_keys / lanes_),
        query_slices_(static_cast<double>(sizes.batch) * static_cast<double>(sizes.heads)),
        key_slices_(static_cast<double>(sizes.batch) * static_cast<double>(sizes.kv_heads)),
        element_bytes_(dtype_bytes(problem.dtype)),
        panel_rows_(cpu_panel_rows(problem, target)),
        has_pairs_(cpu_has_pairs(problem, target)),
        skips_keys_(cpu_skips_keys(problem, target)) {}

  void run() {
    add_packing();
    if (problem_.pass == Pass::kBackward) {
      add_backward();
    } else {
      add_forward();
    }
  }

  const Amounts& amounts() const { return amounts_; }
  double blocks() const { return blocks_; }
  double launches() const { return problem_.pass == Pass::kBackward ? 4 : 2; }

 private:
  // Few queries are taken to be computed one by one. Their own functions (templates/cpu/few_*.h) do
  // less, but no field of a schedule changes them.
  double rows_of_a_block() const {
    const int rows = schedule_.cpu.rows;
    const bool is_few = problem_.pass != Pass::kBackward && 2 * sizes_.seq_q < rows;
    return is_few ? 1 : rows;
  }

  // `numbers` numbers of a product's inner loop, which multiplies a number of each row by `vectors`
  // vectors: sums, then loads of the vectors and of the rows' numbers. Products of pairs take two
  // numbers in a step. They count as the multiply-adds that take as long.
  void add_steps(double numbers, double vectors) {
    const double count = has_pairs_ ? numbers / 2 : numbers;
    const double duration =
        has_pairs_ ? 2 * cpu_.rates.fma_gflops / std::max(cpu_.rates.pair_gflops, 1e-9) : 1;
    const double sums = rows_ * vectors;
    const double loads = rows_ + vectors;
    const double instructions = (sums + loads + kLoopInstructions) / kDecodedPerSlot;
    at(amounts_, Resource::kTensor) += 2 * lanes_ * count * duration * std::max(sums, kLeastSums);
    at(amounts_, Resource::kShared) += count * std::max(loads, instructions);
  }

  // The products of `tiles` tiles, of rows by a panel's keys, with `dim` columns: a chunk of as
  // many columns as a panel has keys at a time, and what is left.
  void add_columns(double tiles, int dim) {
    const double steps = tiles * schedule_.cpu.panel_keys;
    const int chunks = dim / schedule_.cpu.panel_keys;
    const int rest = dim - chunks * schedule_.cpu.panel_keys;
    add_steps(steps * chunks, vectors_);
    if (rest > 0) add_steps(steps, std::ceil(static_cast<double>(rest) / lanes_));
  }

  // Sums of `rows` x `dim` numbers that are loaded and stored `times` times.
  void add_sums(double times, double rows, int dim) {
    constexpr double kCall = 30;
    const double chunks = std::ceil(static_cast<double>(dim) / schedule_.cpu.panel_keys);
    // A store takes two slots.
    at(amounts_, Resource::kIssue) +=
        times * (3 * rows * std::ceil(static_cast<double>(dim) / lanes_) + kCall * chunks);
  }

  void add_bytes(double bytes, double footprint) {
    if (footprint <= cpu_.l1_bytes / 2.0) return;
    if (footprint <= kUsableCache * static_cast<double>(cpu_.l2_bytes)) {
      at(amounts_, Resource::kL2) += bytes;
      return;
    }
    const bool is_in_l3 = footprint * cpu_.num_threads <= kUsableCache * double(cpu_.l3_bytes);
    at(amounts_, Resource::kDram) +=
        is_in_l3 ? bytes : bytes * cpu_.rates.l3_gbps / cpu_.rates.memory_gbps;
  }

  // Instructions for a vector of scores: 2^x, the polynomial of softplus and what is around them.
  double softplus() const {
    if (is_general(problem_))
      return figures_.functions().phi.slots + figures_.functions().phi.special;
    const double exponential = problem_.dtype == DType::kFp32 ? 6 : 4;
    return 11 + exponential + schedule_.softplus_degree;
  }
  double power() const {
    const int p = effective_power(problem_);
    return p < 2 ? 0 : static_cast<double>(power_chain(p).size());
  }

  void add_packing() {
    const double numbers = static_cast<double>(sizes_.seq_k) * panel_rows_;
    at(amounts_, Resource::kIssue) += key_slices_ * numbers / lanes_ * 6;
    at(amounts_, Resource::kDram) += key_slices_ * numbers * (element_bytes_ + 4);
  }

  // Bytes of a head's panels, and of its values.
  double panel_bytes() const {
    return up(static_cast<double>(sizes_.seq_k), schedule_.cpu.panel_keys) * panel_rows_ * 4;
  }
  double value_bytes() const {
    return static_cast<double>(sizes_.seq_k) * problem_.head_dim_v * element_bytes_;
  }

  void add_forward() {
    const CpuOptions& cpu = schedule_.cpu;
    const TileCount all = figures_.query_tiles(static_cast<int>(rows_), cpu.panel_keys);
    const ForwardTiles tiles = forward_tiles(all.tiles * query_slices_);
    const double vectors = rows_ * vectors_;  // of scores, in a tile
    blocks_ = all.blocks * query_slices_;
    // Pass 1, and what is computed again in pass 2.
    add_steps(tiles.computed() * problem_.head_dim, vectors_);
    const double scaling = has_pairs_ ? 2 : 0;
    at(amounts_, Resource::kSpecial) += tiles.summed * vectors * (softplus() + scaling + 2) +
                                        tiles.again * vectors * (softplus() + scaling);
    // Pass 2: the weights, and the values.
    const bool has_x = sums_x(problem_, schedule_);
    at(amounts_, Resource::kSpecial) += tiles.weighed * vectors * (4 + power() + (has_x ? 2 : 0));
    // Two neighbouring keys of a pair are skipped only together.
    const double live =
        skips_keys_ ? live_share(problem_, sizes_.seq_k, has_pairs_ ? 2 * rows_ : rows_) : 1;
    for (int product = 0; product < (has_x ? 2 : 1); ++product)
      add_columns(tiles.weighed * live, problem_.head_dim_v);
    add_forward_rows(tiles, has_x ? 2 : 1);
    add_forward_bytes(tiles);
  }

  // Tiles of pass 1, of scores that are computed again for pass 2, and of pass 2.
  struct ForwardTiles {
    double summed, again, weighed;
    double computed() const { return summed + again; }
  };
  // Over a range of keys each pass is a call of its own.
  ForwardTiles forward_tiles(double all) const {
    if (problem_.pass == Pass::kRowSums) return {all, 0, 0};
    if (problem_.pass == Pass::kWeightedSum) return {0, all, all};
    return {all, tiles_again() * query_slices_, all};
  }

  // Tiles of a head whose activations are not kept.
  double tiles_again() const {
    const CpuOptions& cpu = schedule_.cpu;
    if (sizes_.seq_k <= cpu.kept_keys) return 0;
    return query_tiles_beyond(problem_, sizes_, static_cast<int>(rows_), cpu.panel_keys,
                              cpu.kept_keys);
  }

  // What a tile, a block of keys and a block of rows take beside products and evaluation.
  void add_forward_rows(const ForwardTiles& tiles, double products) {
    constexpr double kTile = 10, kSum = 15, kRow = 60, kBlock = 200;
    const CpuOptions& cpu = schedule_.cpu;
    const double dims = problem_.head_dim + problem_.head_dim_v;
    // A tile's activations are stored, loaded and stored as weights.
    at(amounts_, Resource::kIssue) += tiles.computed() * (kTile + 2 * rows_ * vectors_) +
                                      tiles.weighed * (kTile + 3 * rows_ * vectors_);
    const double blocks_per_tile = static_cast<double>(cpu.panel_keys) / cpu.block_keys;
    at(amounts_, Resource::kIssue) +=
        (2 * tiles.summed + tiles.weighed) * blocks_per_tile * rows_ * kSum;
    add_sums(tiles.weighed * blocks_per_tile * products, rows_, problem_.head_dim_v);
    at(amounts_, Resource::kIssue) += blocks_ * (kBlock + rows_ * (kRow + 4 * dims / lanes_));
  }

  void add_forward_bytes(const ForwardTiles& tiles) {
    const CpuOptions& cpu = schedule_.cpu;
    const double kept = std::min<double>(cpu.kept_keys, up(double(sizes_.seq_k), cpu.block_keys));
    const double kept_bytes = 4 * rows_ * kept;
    const double head = panel_bytes() + value_bytes() + kept_bytes;
    // The groups of a block share what they read.
    const double groups = cpu_groups(problem_, cpu.rows);
    const double keys = cpu.panel_keys / groups;
    add_bytes(tiles.computed() * keys * panel_rows_ * 4, head);
    add_bytes(tiles.weighed * keys * problem_.head_dim_v * element_bytes_, head);
    // Written in pass 1 and read in pass 2, with the panels in between.
    const double tile_scores = rows_ * cpu.panel_keys;
    add_bytes(8 * tile_scores * (tiles.weighed - std::min(tiles.again, tiles.weighed)), kept_bytes);
    // The weights of a block are read for every chunk of columns.
    const double chunks = std::ceil(double(problem_.head_dim_v) / cpu.panel_keys);
    add_bytes(4 * tile_scores * tiles.weighed * (1 + chunks), 4 * rows_ * cpu.block_keys);
  }

  // A function that makes tiles of scores and gradients, and multiplies columns by them. `dims`: of
  // its sums. `tiles`: of rows by a panel. `steps`: of the sums' rows, between their load and their
  // store.
  void add_gradients(double tiles, std::initializer_list<int> dims, double steps) {
    add_steps(tiles * (problem_.head_dim + problem_.head_dim_v), vectors_);
    const double vectors = tiles * rows_ * vectors_;
    // Two divisions take 12 slots; the rest is a product each.
    const double around = 36;
    at(amounts_, Resource::kSpecial) += vectors * (softplus() + power() + around);
    at(amounts_, Resource::kIssue) += 10 * vectors;  // stores and loads of the tile
    double columns = 0;
    for (const int dim : dims) {
      add_columns(tiles, dim);
      add_sums(tiles * schedule_.cpu.panel_keys / steps, rows_, dim);
      columns += dim;
    }
    const double scores = tiles * rows_ * schedule_.cpu.panel_keys;
    const double grad_rows = cpu_grad_rows(schedule_), grad_keys = cpu_grad_keys(schedule_);
    const double tile_bytes = 8 * grad_rows * grad_keys;
    const double chunks = std::ceil(columns / schedule_.cpu.panel_keys);
    add_bytes(scores * (6 * 4 + 4 * chunks), tile_bytes);
    add_bytes(tiles * schedule_.cpu.panel_keys * panel_rows_ * 4, panel_bytes() + tile_bytes);
    // The sums of a tile's rows or keys are read and written again for every tile.
    const double sum_rows = steps == grad_rows ? grad_keys : grad_rows;
    add_bytes(scores / steps * columns * 8, 4 * sum_rows * columns + tile_bytes);
  }

  void add_backward() {
    const int rows = schedule_.cpu.rows, panel = schedule_.cpu.panel_keys;
    const int grad_rows = cpu_grad_rows(schedule_), grad_keys = cpu_grad_keys(schedule_);
    // A block of keys takes whole tiles of queries, and a block of queries whole tiles of keys.
    const TileCount by_key = figures_.key_tiles(grad_keys, rows);
    const TileCount by_query = figures_.query_tiles(grad_rows, panel);
    const double key_tiles = by_key.tiles * query_slices_ * grad_keys / panel;
    blocks_ = by_key.blocks * key_slices_;
    const int dk = problem_.head_dim, dv = problem_.head_dim_v, dq = problem_.head_dim;
    if (sums_dq(schedule_)) {
      add_gradients(key_tiles, {dk, dv, dq}, grad_rows);
    } else {
      add_gradients(key_tiles, {dk, dv}, grad_rows);
      add_gradients(by_query.tiles * query_slices_ * grad_rows / rows, {dq}, grad_keys);
      blocks_ = std::min(blocks_, by_query.blocks * query_slices_);
    }
    constexpr double kRow = 150;  // of lssar_backward_rows, and of loading rows for tiles
    const double row_blocks = by_key.tiles * query_slices_;
    const double dims = problem_.head_dim + problem_.head_dim_v;
    at(amounts_, Resource::kIssue) += static_cast<double>(sizes_.seq_q) * query_slices_ * kRow +
                                      row_blocks * rows * 4 * dims / lanes_;
  }

  const Problem& problem_;
  const Sizes& sizes_;
  const Schedule& schedule_;
  const CpuModel& cpu_;
  ProblemFigures& figures_;
  const int lanes_;
  const double rows_, vectors_;  // of a tile of accumulators
  const double query_slices_, key_slices_, element_bytes_;
  const int panel_rows_;
  const bool has_pairs_, skips_keys_;
  Amounts amounts_ = {};
  double blocks_ = 0;  // of the kernel with the fewest
};

}  // namespace

const char* cpu_resource_name(Resource resource) {
  switch (resource) {
    case Resource::kTensor:
      return "products";
    case Resource::kSpecial:
      return "evaluation";
    case Resource::kIssue:
      return "rows and panels";
    case Resource::kShared:
      return "instructions";
    case Resource::kL2:
      return "L2";
    case Resource::kDram:
      return "memory";
  }
  return "?";
}

std::array<double, kNumResources> cpu_resource_rates(const CpuModel& cpu) {
  const double flop = cpu.rates.fma_gflops * 1e6 * cpu.num_threads;
  const double slots = flop / (2 * cpu.lanes);
  return {flop,
          slots,
          slots,
          slots,
          cpu.rates.l2_gbps * 1e6 * cpu.num_threads,
          cpu.rates.l3_gbps * 1e6 * cpu.num_threads};
}

CostEstimate estimate_cpu(const Problem& problem, const CallParts& parts, const Schedule& schedule,
                          const Target& target, const CpuModel& cpu) {
  Amounts amounts = {};
  double all_blocks = 0, multiplied = 0, launches = 0;
  for (const std::unique_ptr<CallPart>& part : parts) {
    CpuWork work(problem, part->sizes, schedule, target, cpu, part->figures);
    work.run();
    for (size_t i = 0; i < amounts.size(); ++i) amounts[i] += work.amounts()[i];
    all_blocks += work.blocks();
    multiplied += multiply_adds(problem, part->sizes);
    launches = work.launches();  // the blocks of all parts are one launch
  }
  const double threads = worthwhile_threads(cpu.num_threads, multiplied, cpu.lanes);
  // A block is one thread's, and the last ones leave others idle.
  const double blocks = std::max(all_blocks, 1.0);
  const double busy = std::min(threads, blocks);
  const double wave = up(blocks, busy) / blocks;
  const Amounts rates = cpu_resource_rates(cpu);
  CostEstimate estimate;
  for (size_t i = 0; i < rates.size(); ++i)
    estimate.terms_ms[i] = amounts[i] / rates[i] * cpu.num_threads / busy;
  estimate.hidden = 0;  // a core does one after the other, and reads ahead meanwhile
  estimate.wave_factor = wave;
  estimate.launch_ms = launches * (busy > 1 ? kWakeMs : kLaunchMs);
  estimate.ms = combine(estimate.terms_ms, estimate.hidden) * wave + estimate.launch_ms;
  const double peak = cpu_has_pairs(problem, target)
                          ? std::max(1.0, cpu.rates.pair_gflops / cpu.rates.fma_gflops)
                          : 1;
  estimate.lower_bound_ms =
      2 * multiplied * least_products(problem, target) / (rates[0] * peak) / kPeakMargin;
  const auto largest = std::max_element(estimate.terms_ms.begin(), estimate.terms_ms.end());
  estimate.limit = static_cast<Resource>(largest - estimate.terms_ms.begin());
  return estimate;
}

}  // namespace lssar
