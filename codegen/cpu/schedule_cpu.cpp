// Rules and defaults of Variant::kCpu.
#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "codegen/cpu/cpu_shapes.h"
#include "codegen/pass_needs.h"
#include "codegen/schedule_fields.h"
#include "codegen/schedule_rules.h"
#include "codegen/shapes.h"
#include "codegen/visible_keys.h"

namespace lssar {
namespace {

// The most scratch memory of a thread.
constexpr int64_t kMaxScratchBytes = int64_t{16} << 20;

Breach check_whole(const Refuse& refuse, const char* field, int value, int least, const char* unit,
                   int of) {
  if (value >= least && value % of == 0) return {};
  return refuse(field, value, [&] {
    return fmt::format("allowed are multiples of {}, at least {}, because it must be whole {}", of,
                       least, unit);
  });
}

Breach check_forward(const Refuse& refuse, const CpuOptions& cpu, const Problem& problem) {
  LSSAR_RETURN_IF_BROKEN(check_whole(refuse, "cpu.block_keys", cpu.block_keys, cpu.panel_keys,
                                     "panels", cpu.panel_keys));
  constexpr int kMostBlockKeys = 4096;
  if (cpu.block_keys > kMostBlockKeys)
    return refuse("cpu.block_keys", cpu.block_keys, [&] {
      return fmt::format("allowed are at most {}, because float sums over a block lose precision",
                         kMostBlockKeys);
    });
  LSSAR_RETURN_IF_BROKEN(
      check_whole(refuse, "cpu.kept_keys", cpu.kept_keys, 0, "blocks", cpu.block_keys));
  const int64_t rows = int64_t{cpu_groups(problem, cpu.rows)} * cpu.rows;
  const int64_t bytes = 4 * rows * (int64_t{cpu.kept_keys} + cpu.block_keys);
  if (bytes <= kMaxScratchBytes) return {};
  return refuse("cpu.kept_keys", cpu.kept_keys, [&] {
    return fmt::format(
        "with cpu.rows {} and cpu.block_keys {} the activations of a block's {} rows take {} "
        "bytes, and a thread has at most {} for them",
        cpu.rows, cpu.block_keys, rows, bytes, kMaxScratchBytes);
  });
}

// `dim` rounded up to vectors of every level.
int whole_vectors(int dim) {
  constexpr int kMostLanes = 16;
  return (dim + kMostLanes - 1) / kMostLanes * kMostLanes;
}

// Bytes of 64-byte lines, so that arrays begin at a line.
int64_t lines(int64_t floats) { return (floats * 4 + 63) / 64 * 64; }

// Rows and keys of a tile of accumulators.
struct CpuTile {
  int rows, panel_keys;
};

// Accumulators take 24 of 32 registers, or 12 of 16. The panel's vectors and a row's number also
// need some. A backward with 32 registers takes 16 of them: on a Zen 4 this was 3 to 13 % faster
// than 24 with products of single numbers, and up to 40 % slower with pairs. A forward that skips
// keys takes 12, because fewer keys count for any of 3 rows than for any of 6. With 4096 keys and
// p 15 that was 7 and 9 % faster in fp32 (d 64 and 128), and 4 and 5 % with pairs.
CpuTile default_tile(const Problem& problem, const Target& target) {
  const CpuLevel& level = cpu_level(target);
  if (level.registers != 32) return {6, 2 * level.lanes};
  const bool is_backward = problem.pass == Pass::kBackward;
  if (is_backward && !problem.invariant && !cpu_has_pairs(problem, target))
    return {8, 2 * level.lanes};
  const bool multiplies_values = !is_backward && problem.pass != Pass::kRowSums;
  return {multiplies_values && cpu_skips_keys(problem, target) ? 3 : 6, 4 * level.lanes};
}

// With problem.invariant: fields that decide the order of sums, or the polynomial of softplus, have
// their defaults. rows and kept_keys of a forward change no bits.
Breach check_order(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                   const Target& target) {
  const bool is_backward = problem.pass == Pass::kBackward;
  const auto check = [&](const char* field, const auto& value, const auto& allowed) {
    return check_fixed(refuse, field, value, allowed);
  };
  const CpuTile tile = default_tile(problem, target);
  LSSAR_RETURN_IF_BROKEN(check("cpu.panel_keys", schedule.cpu.panel_keys, tile.panel_keys));
  LSSAR_RETURN_IF_BROKEN(check("softplus_degree", schedule.softplus_degree,
                               default_softplus_degree(problem)));
  if (!is_backward) return check("cpu.block_keys", schedule.cpu.block_keys, kCpuFewKeys);
  LSSAR_RETURN_IF_BROKEN(check("cpu.rows", schedule.cpu.rows, tile.rows));
  const DqMode mode = is_general(problem) ? DqMode::kSplit : DqMode::kOrdered;
  return check("dq_mode", std::string_view(enum_name(schedule.dq_mode)),
               std::string_view(enum_name(mode)));
}

// X is saved for the default score function only. The kernels of the others sum epsilon.
Breach check_epsilon(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                     const Target& target) {
  if (problem.pass != Pass::kForwardTrain && problem.pass != Pass::kBackward) return {};
  const bool has_pass = is_general(problem) && needs_epsilon(problem);
  if (schedule.epsilon == (has_pass ? EpsilonFrom::kPass : EpsilonFrom::kX)) return {};
  return refuse("epsilon", epsilon_name(schedule.epsilon), [&] {
    return has_pass ? fmt::format("allowed is pass on {} with this problem.score", target.name())
                    : fmt::format("allowed is x on {}, whose backward has no pass for it",
                                  target.name());
  });
}

}  // namespace

Breach check_cpu(const Refuse& refuse, const Schedule& schedule, const Problem& problem,
                 const Target& target) {
  const CpuOptions& cpu = schedule.cpu;
  const CpuLevel& level = cpu_level(target);
  if (schedule.variant != Variant::kCpu)
    return refuse("variant", enum_name(schedule.variant), [&] {
      return fmt::format("allowed is cpu on {}, because it is a CPU", target.name());
    });
  if (cpu.rows < 1) return refuse("cpu.rows", cpu.rows, "allowed are 1 and more");
  LSSAR_RETURN_IF_BROKEN(
      check_whole(refuse, "cpu.panel_keys", cpu.panel_keys, level.lanes, "vectors", level.lanes));
  // The accumulators, a panel's vectors, and one vector with a number of a row in every lane.
  const int vectors = cpu.panel_keys / level.lanes;
  const int64_t registers = int64_t{cpu.rows} * vectors + vectors + 1;
  if (registers > level.registers)
    return refuse("cpu.rows", cpu.rows, [&] {
      return fmt::format(
          "with cpu.panel_keys {} the two products need {} vector registers (rows times {} "
          "accumulators, {} for the panel, 1 for the row), and {} has {}",
          cpu.panel_keys, registers, vectors, vectors, target.name(), level.registers);
    });
  LSSAR_RETURN_IF_BROKEN(check_epsilon(refuse, schedule, problem, target));
  if (problem.invariant)
    LSSAR_RETURN_IF_BROKEN(check_order(refuse, schedule, problem, target));
  if (problem.pass == Pass::kBackward && is_general(problem) && sums_dq(schedule))
    return refuse("dq_mode", enum_name(schedule.dq_mode), [&] {
      return fmt::format("allowed is split on {} with this problem.score", target.name());
    });
  if (problem.pass == Pass::kBackward && schedule.dq_mode == DqMode::kAtomic)
    return refuse("dq_mode", "atomic", [&] {
      return fmt::format("allowed are ordered and split on {}, whose results are repeatable",
                         target.name());
    });
  return problem.pass == Pass::kBackward ? Breach{} : check_forward(refuse, cpu, problem);
}

namespace {

// The most keys that a block's rows may see, as far as it is known before the call.
int64_t most_seen_keys(const Problem& problem, const CpuOptions& cpu) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  const int64_t all = problem.seq_k == 0 ? kAny : problem.seq_k;
  const int64_t rows = int64_t{cpu_groups(problem, cpu.rows)} * cpu.rows;
  const int64_t right = window_right_of(problem);
  int64_t keys = kAny;
  if (problem.window_left >= 0 && right >= 0) keys = problem.window_left + right + rows;
  // The rows may be of two chunks or more.
  if (problem.chunk > 0) keys = std::min(keys, 2 * problem.chunk + rows);
  if (keys == kAny) return all;
  const int64_t head = std::max(problem.prefix, problem.window_sinks);
  const int64_t blocks = (head + cpu.block_keys - 1) / cpu.block_keys;
  return std::min(all, blocks * cpu.block_keys + keys + cpu.panel_keys);
}

}  // namespace

void choose_cpu(Schedule& schedule, const Problem& problem, const Target& target) {
  schedule.variant = Variant::kCpu;
  CpuOptions& cpu = schedule.cpu;
  const CpuTile tile = default_tile(problem, target);
  cpu.rows = tile.rows;
  cpu.panel_keys = tile.panel_keys;
  // invariant: a chunk of few queries, so that both have the same sums. With AVX-512 512 keys were
  // 0.3 to 2 % faster than 256, at head dims 64 and 128.
  const bool is_wide = cpu_level(target).lanes == 16;
  cpu.block_keys = problem.invariant ? kCpuFewKeys : is_wide ? 512 : 256;
  // 192 or 384 KiB, so that the second-level cache also has room for panels and values. It has 512
  // KiB or more, and with AVX-512 1 MiB or more in servers. There 8192 kept keys of 8192 made a
  // forward a fifth faster than 4096.
  const int64_t most_kept = is_wide ? 8192 : 4096;
  int64_t keys = std::min(most_seen_keys(problem, cpu), most_kept);
  // No pass comes back to them.
  if (!has_pass_one(problem) || is_of_range(problem.pass)) keys = 0;
  cpu.kept_keys = static_cast<int>((keys + cpu.block_keys - 1) / cpu.block_keys) * cpu.block_keys;
}

// Measured on a Zen 4 with Gaussian inputs, 4096 keys and no mask. In fp32 with AVX-512 a forward
// that skips takes 0.95 of the time with p 2 and 0.82 with p 15 at d 64, and 0.77 at d 128. With
// AVX2 and p 15 it takes 1.01 and 0.92. In 16 bits AVX2 gains 9 to 16 % with p 15, and a forward
// with pairs takes 1.05 with p 3.
bool cpu_skips_keys(const Problem& problem, const Target& target) {
  if (problem.p == 0 || is_general(problem)) return false;
  if (problem.dtype == DType::kFp32 && cpu_level(target).lanes >= 16) return true;
  constexpr int kLeastPower = 8, kLeastColumns = 128;
  return effective_power(problem) >= kLeastPower &&
         (problem.dtype != DType::kFp32 || problem.head_dim_v >= kLeastColumns);
}

int cpu_groups(const Problem& problem, int rows) {
  constexpr int kBlockRows = 12;
  return is_general(problem) ? 1 : std::max(2, kBlockRows / rows);
}

int cpu_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target) {
  const CpuOptions& cpu = schedule.cpu;
  const int64_t rows = int64_t{cpu_groups(problem, cpu.rows)} * cpu.rows;
  const int64_t outputs = lines(rows * cpu_padded_dim(problem.head_dim_v, target));
  int64_t bytes =
      lines(rows * (cpu.kept_keys + cpu.block_keys)) + outputs + lines(rows * problem.head_dim);
  if (sums_x(problem, schedule)) bytes += lines(rows * cpu.block_keys) + outputs;
  if (problem.invariant) bytes += sums_x(problem, schedule) ? 2 * outputs : outputs;
  return static_cast<int>(bytes);
}

int cpu_pack_keys(const Schedule& schedule) {
  constexpr int kLeast = 128;  // as few blocks as leave work for every thread
  const int panel = schedule.cpu.panel_keys;
  return (kLeast + panel - 1) / panel * panel;
}

int cpu_grad_rows(const Schedule& schedule) { return 8 * schedule.cpu.rows; }

// With d 64 a tile and its sums take 87 KiB with AVX2, 100 KiB with AVX-512 and 171 KiB with pairs,
// which fit in the second-level cache of a core. More keys would leave fewer blocks for threads.
int cpu_grad_keys(const Schedule& schedule) {
  constexpr int kLeast = 96;
  const int whole = std::lcm(schedule.cpu.panel_keys, schedule.cpu.rows);
  return (kLeast + whole - 1) / whole * whole;
}

int cpu_tile_bytes(const Problem& problem, const Schedule& schedule) {
  const CpuOptions& cpu = schedule.cpu;
  return static_cast<int>(2 * lines(int64_t{cpu_grad_rows(schedule)} * cpu_grad_keys(schedule)) +
                          lines(int64_t{cpu.rows} * problem.head_dim) +
                          lines(int64_t{cpu.rows} * problem.head_dim_v));
}

int cpu_dkdv_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target) {
  const int64_t keys = cpu_grad_keys(schedule);
  const int64_t dim = cpu_padded_dim(problem.head_dim, target);
  const int64_t query_sums = sums_dq(schedule) ? lines(cpu_grad_rows(schedule) * dim) : 0;
  return static_cast<int>(cpu_tile_bytes(problem, schedule) + lines(keys * dim) +
                          lines(keys * cpu_padded_dim(problem.head_dim_v, target)) + query_sums);
}

int cpu_dq_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target) {
  return static_cast<int>(
      cpu_tile_bytes(problem, schedule) +
      lines(int64_t{cpu_grad_rows(schedule)} * cpu_padded_dim(problem.head_dim, target)));
}

int cpu_padded_dim(int dim, const Target& target) {
  const int lanes = cpu_level(target).lanes;
  return (dim + lanes - 1) / lanes * lanes;
}

int cpu_panel_rows(const Problem& problem) {
  const bool is_backward = problem.pass == Pass::kBackward;
  return problem.head_dim + (is_backward ? problem.head_dim_v + 1 : 0);
}

bool cpu_has_pairs(const Problem& problem, const Target& target) {
  // Few queries multiply values in float32, and two keys of a pair are left out only together.
  if (problem.invariant) return false;
  return problem.dtype == DType::kBf16 && cpu_level(target).has_bf16_pairs;
}

int cpu_panel_rows(const Problem& problem, const Target& target) {
  if (!cpu_has_pairs(problem, target)) return cpu_panel_rows(problem);
  const bool is_backward = problem.pass == Pass::kBackward;
  const int numbers = problem.head_dim + (is_backward ? problem.head_dim_v : 0);
  return numbers / 2 + 1;
}

int64_t cpu_query_sum_bytes(const Problem& problem, int64_t seq_q) {
  return seq_q * whole_vectors(problem.head_dim) * 4;
}

int64_t cpu_turn_bytes(const Schedule& schedule, int64_t seq_q) {
  return (seq_q + cpu_grad_rows(schedule) - 1) / cpu_grad_rows(schedule) * 4;
}

int64_t cpu_packed_bytes(const Problem& problem, const Schedule& schedule, int64_t seq_k) {
  const int64_t panel = schedule.cpu.panel_keys;
  return (seq_k + panel - 1) / panel * panel * cpu_panel_rows(problem) * 4;
}

bool cpu_takes_few_queries(const Problem& problem) {
  return problem.pass == Pass::kForward && built_in_seq_q(problem) <= kCpuFewRows &&
         !is_general(problem);
}

int cpu_few_scratch_bytes(const Problem& problem, const Schedule& schedule, const Target& target) {
  if (!problem.invariant) return 0;
  return static_cast<int>(
      lines(int64_t{kCpuFewRows} * problem.head_dim) +
      lines(int64_t{cpu_panel_rows(problem, target)} * schedule.cpu.panel_keys));
}

int cpu_few_pitch(const Problem& problem) { return whole_vectors(problem.head_dim_v); }

// FewSlice in templates/cpu/few_queries.h.
int64_t cpu_few_bytes(const Problem& problem, int64_t rows, int64_t seq_k) {
  const int64_t chunks = (seq_k + kCpuFewKeys - 1) / kCpuFewKeys;
  const int64_t key_pitch = (seq_k + 63) / 64 * 64, chunk_pitch = (chunks + 15) / 16 * 16;
  return 4 * rows * (key_pitch + 3 * chunk_pitch + chunks * cpu_few_pitch(problem));
}

namespace {

int64_t sharing_heads(const Sizes& sizes) {
  return sizes.heads / std::max<int64_t>(sizes.kv_heads, 1);
}

bool has_few_queries(const Problem& problem, const Sizes& sizes) {
  return cpu_takes_few_queries(problem) && sizes.seq_q * sharing_heads(sizes) <= kCpuFewRows;
}

// The number of (batch, kv head) pairs that must be computed at once, so that the threads of a
// large machine have work. Few queries divide the keys among threads.
int64_t least_slices(const Problem& problem, const Schedule& schedule, const Sizes& sizes) {
  constexpr int64_t kLeastBlocks = 256;
  if (has_few_queries(problem, sizes)) return 1;
  const int64_t rows = cpu_groups(problem, schedule.cpu.rows) * schedule.cpu.rows;
  const int64_t blocks =
      std::max<int64_t>((sizes.seq_q + rows - 1) / rows * sharing_heads(sizes), 1);
  return (kLeastBlocks + blocks - 1) / blocks;
}

}  // namespace

int64_t cpu_slice_bytes(const Problem& problem, const Schedule& schedule, const Sizes& sizes) {
  if (has_few_queries(problem, sizes))
    return cpu_few_bytes(problem, sizes.seq_q * sharing_heads(sizes), sizes.seq_k);
  return cpu_packed_bytes(problem, schedule, sizes.seq_k);
}

int64_t cpu_sequences_slice_bytes(const Problem& problem, const Schedule& schedule, int64_t batch,
                                  int64_t total_k) {
  const int64_t panel = schedule.cpu.panel_keys;
  const int64_t packed = cpu_packed_bytes(problem, schedule, total_k + batch * panel);
  if (!cpu_takes_few_queries(problem)) return packed;
  const int64_t few = cpu_few_bytes(problem, kCpuFewRows, total_k + panel);
  const int64_t more = few - cpu_packed_bytes(problem, schedule, total_k);
  return packed + std::max<int64_t>(more, 0) + batch * cpu_few_bytes(problem, kCpuFewRows, 1);
}

int64_t cpu_panel_slices(const Problem& problem, const Schedule& schedule, const Sizes& sizes) {
  constexpr int64_t kMostBytes = int64_t{32} << 20;
  const int64_t slices = std::max<int64_t>(sizes.batch * sizes.kv_heads, 1);
  const int64_t bytes = std::max<int64_t>(cpu_slice_bytes(problem, schedule, sizes), 1);
  const int64_t least = least_slices(problem, schedule, sizes);
  const int64_t most = std::clamp<int64_t>(std::max(kMostBytes / bytes, least), 1, slices);
  const int64_t turns = (slices + most - 1) / most;
  return (slices + turns - 1) / turns;  // as many in every turn
}

}  // namespace lssar
