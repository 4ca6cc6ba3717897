// Schedule: how a problem's kernels do their work. Plain, comparable, printable, JSON both ways.
//
// Two schedules that emit the same source are the same candidate. Legality (validate) is decided
// before any source is emitted, each rule with its reason.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "codegen/determinism.h"
#include "codegen/problem.h"
#include "codegen/target.h"

namespace lssar {

// The algorithm and instruction family.
enum class Variant {
  kPortable,  // mma.sync, ldmatrix, cp.async: sm_80 and later; fp32 by FMA in the same fragments
  kHopper,    // wgmma, TMA, warps with roles: sm_90a; fp16 and bf16, problem.alignment 16
  kCpu,       // vectors of an x86-64 target: the only variant there, and nowhere else
};

// How tiles reach shared memory.
enum class LoadPath {
  kCpAsync,  // 16 bytes at a time, asynchronously: problem.alignment must be 16
  kPlain,    // element loads through registers: any element-aligned layout
};

// Where the gradient of q is summed (backward only).
enum class DqMode {
  kSplit,    // a kernel of its own, in a fixed order: 7 products, bitwise repeatable
  kAtomic,   // float32 atomics from the dk/dv kernel: 5 products, order not fixed
  kOrdered,  // the same in the order of key tiles, which wait for one another: bitwise repeatable
};

// Where epsilon comes from: the mean of a row's gradient, which every dS of the row needs
// (docs/math.md). Only for training, and only for problems that need it (needs_epsilon). The
// forward for training and the backward of its results must agree.
enum class EpsilonFrom {
  kX,     // X, which the forward for training sums up (one product more) and saves
  kPass,  // a pass over the keys in the backward (two products more), with the tiles of `dq`
};

// One tiled loop: a block owns `block_rows` rows (queries forward, keys in the dk/dv kernel) and
// walks over tiles of `block_cols` of the other side, `stages` of them in shared memory.
struct Tiling {
  int block_rows = 64;  // 16 rows per warp
  int block_cols = 64;
  int stages = 2;
  // Blocks per SM that ptxas must leave registers for (__launch_bounds__). With 0 it guesses, and
  // spills a little for its guess (13.0: up to 24 bytes at d 64, sm_80 and sm_90).
  int min_blocks = 1;

  bool operator==(const Tiling&) const = default;
};

// The cheapest form of softplus that pass 2 and the backward may take for rows whose scores that
// matter are large.
enum class Evaluator {
  kFull,    // none: a polynomial of softplus_degree
  kShort,   // scores above 3 bits: x + u (c1 + c2 u)
  kLinear,  // also scores above 10 bits: x
};

// Weights that matter to the choice of an evaluator: at least 2^-kCutBits of the row's largest, the
// rounding of a 16-bit weight beside it. Those above 2^-kMostBits are most of the backward's sum.
inline constexpr double kCutBits = 11, kMostBits = 4;

// Where the weights that multiply values are read from.
enum class WeightsFrom {
  kRegisters,  // block_cols / 4 of them, for training twice that
  kShared,     // a tile of shared memory, which every tile's weights go through
};

// How o leaves a block, and a tile's part of dq.
enum class StorePath {
  kRegisters,  // from each lane: pairs of columns, half (float32: a quarter) of a 32-byte sector
  kTma,        // through shared memory, in whole rows: for o the query tile's, for dq its own
};

// What Variant::kHopper adds. Its tilings have 64 rows per consumer warp group. One more warp
// group, the producer, loads. codegen/schedule_fields.h says what each field means.
struct HopperOptions {
  int score_cols = 160;
  bool overlap = true;
  bool ping_pong = true;
  bool queries_in_registers = false;
  bool persistent = true;
  bool tickets = false;
  int cluster = 1;
  int stagger = 1;
  int head_group = 8;
  WeightsFrom weights_from = WeightsFrom::kRegisters;
  StorePath store_path = StorePath::kRegisters;
  StorePath sum_path = StorePath::kRegisters;
  Evaluator evaluator = Evaluator::kLinear;
  int producer_registers = 0;
  int consumer_registers = 0;

  bool operator==(const HopperOptions&) const = default;
};

// What Variant::kCpu has in place of tilings, load paths and the like, which it does not read.
// codegen/schedule_fields.h says what each field means.
struct CpuOptions {
  int rows = 6;
  int panel_keys = 16;
  int block_keys = 256;
  int kept_keys = 8192;

  bool operator==(const CpuOptions&) const = default;
};

// codegen/schedule_fields.h says what each field means.
struct Schedule {
  Variant variant = Variant::kPortable;
  LoadPath load_path = LoadPath::kCpAsync;

  Tiling forward;  // forward, forward-train
  Tiling dkdv;     // backward: rows are keys, columns are queries
  Tiling dq;       // backward, has_dq_tiles: rows are queries, columns are keys

  int block_dv = 64;
  bool split_dkdv = false;
  DqMode dq_mode = DqMode::kSplit;
  EpsilonFrom epsilon = EpsilonFrom::kX;
  bool skip_tiles = false;
  bool pack_gqa = false;
  HopperOptions hopper;     // Variant::kHopper
  CpuOptions cpu;           // Variant::kCpu
  int softplus_degree = 4;  // relative errors in docs/math.md

  bool operator==(const Schedule&) const = default;
};

// Whether the dk/dv kernel sums dq.
inline bool sums_dq(const Schedule& schedule) { return schedule.dq_mode != DqMode::kSplit; }

// Whether it does so by TMA.
inline bool sums_by_tma(const Schedule& schedule) {
  return schedule.variant == Variant::kHopper && schedule.dq_mode == DqMode::kAtomic &&
         schedule.hopper.sum_path == StorePath::kTma;
}

// Whether the backward has a kernel with the tiles of Schedule::dq: that of dq, or of epsilon.
inline bool has_dq_tiles(const Schedule& schedule) {
  return schedule.dq_mode == DqMode::kSplit || schedule.epsilon == EpsilonFrom::kPass;
}

// The schedule of a problem for which nobody gives one and no tuning table has one. It is legal on
// `target` for every valid problem, and depends on nothing else: lengths that the problem leaves
// open (0) may be any. `determinism` matters to the backward only. Its sums of dq are in the kernel
// of dk and dv if the cost model says that this is faster: in a fixed order, or atomic if results
// need not repeat.
// REQUIRES: validate(problem).ok().
Schedule default_schedule(const Problem& problem, const Target& target,
                          Determinism determinism = Determinism::kRepeatable);
// The default among schedules that sum dq by `dq_mode` and take epsilon from `epsilon`.
// REQUIRES: validate(problem).ok(), and that the problem may have `epsilon`.
Schedule default_schedule(const Problem& problem, const Target& target, DqMode dq_mode,
                          EpsilonFrom epsilon = EpsilonFrom::kX);

// `schedule` with another source of epsilon. A pass that had no use for its tiles so far takes the
// default's. A forward for training whose columns of o at a time depend on X is the default. Not
// validated: call validate.
Schedule with_epsilon(const Schedule& schedule, EpsilonFrom epsilon, const Problem& problem,
                      const Target& target);
const char* epsilon_name(EpsilonFrom epsilon);  // "x", "pass"

// kUnsupported where the target has no kernels for the problem whatever the schedule: a CPU target
// has those of the forward with the default score function.
Status check_target(const Problem& problem, const Target& target);

// kInvalidArgument; names the field, the value, what is allowed and why. And check_target.
Status validate(const Schedule& schedule, const Problem& problem, const Target& target);

std::string to_string(const Schedule& schedule);
nlohmann::json to_json(const Schedule& schedule);
// The schedule that a user's JSON object means for a problem: its fields over the default schedule
// for its variant, dq_mode and epsilon, as far as it names them. Fields that it does not name are
// fitted to those it names: fewer stages for larger tiles; dq in a kernel of its own if it names
// that kernel's tiles, or tiles of the dk/dv kernel that cannot sum dq. Not validated against the
// problem: call validate.
Result<Schedule> schedule_for(const Problem& problem, const Target& target,
                              const nlohmann::json& json,
                              Determinism determinism = Determinism::kRepeatable);

// As problem_from_json, but missing fields keep the value they have in `defaults`. Not validated
// against a problem: call validate.
Result<Schedule> schedule_from_json(const nlohmann::json& json, const Schedule& defaults);

}  // namespace lssar
