// Schedule: how a problem's kernels do their work. Plain, comparable, printable, JSON both ways.
//
// Two schedules that emit the same source are the same candidate. validate() decides legality
// before any source is emitted, and gives a reason for each rule.
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
  kSplit,    // in a separate kernel, in a fixed order: 7 products, bitwise repeatable
  kAtomic,   // in the dk/dv kernel by float32 atomics: 5 products, order not fixed
  kOrdered,  // in the dk/dv kernel, key tiles in order, waiting for one another: bitwise repeatable
};

// Where epsilon comes from: the mean of a row's gradient, which every dS of the row needs
// (docs/math.md). It matters only in training, for problems that need it (needs_epsilon). The
// forward for training and its backward must agree.
enum class EpsilonFrom {
  kX,     // X, which the forward for training sums up (one product more) and saves
  kPass,  // a pass over the keys in the backward (two more products), with the tiles of `dq`
};

// One tiled loop. A block owns `block_rows` rows (queries forward, keys in the dk/dv kernel) and
// walks over tiles of `block_cols` of the other side, with `stages` of them in shared memory.
struct Tiling {
  int block_rows = 64;  // 16 rows per warp
  int block_cols = 64;
  int stages = 2;
  // The blocks per SM for which ptxas must leave registers (__launch_bounds__). With 0 ptxas
  // guesses, and spills a little to meet its guess (13.0: up to 24 bytes at d 64, sm_80 and sm_90).
  int min_blocks = 1;

  bool operator==(const Tiling&) const = default;
};

// The cheapest form of softplus that pass 2 and the backward may use for rows whose relevant scores
// are large.
enum class Evaluator {
  kFull,    // only the full form: a polynomial of softplus_degree
  kShort,   // for scores above 3 bits: x + u (c1 + c2 u)
  kLinear,  // also for scores above 10 bits: x
};

// Weights matter to the choice of an evaluator if they are at least 2^-kCutBits of the row's
// largest, which is the rounding of a 16-bit weight. Those above 2^-kMostBits make up most of the
// backward's sum.
inline constexpr double kCutBits = 11, kMostBits = 4;

// Where the products with values read weights from.
enum class WeightsFrom {
  kRegisters,  // block_cols / 4 of them, for training twice that
  kShared,     // a shared memory tile through which every tile's weights pass
};

// How o, or a tile's part of dq, leaves a block.
enum class StorePath {
  kRegisters,  // by each lane: pairs of columns, half (float32: a quarter) of a 32-byte sector
  kTma,        // through shared memory, in whole rows; o uses the query tile's memory, dq its own
};

// The fields of Variant::kHopper. Its tilings have 64 rows per consumer warp group, and one more
// warp group, the producer, that loads. codegen/schedule_fields.h says what each field means.
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

// The fields of Variant::kCpu, which does not read tilings, load paths and the like.
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
  Tiling dq;       // backward, if has_dq_tiles: rows are queries, columns are keys

  int block_dv = 64;
  bool split_dkdv = false;
  DqMode dq_mode = DqMode::kSplit;
  EpsilonFrom epsilon = EpsilonFrom::kX;
  bool skip_tiles = false;
  bool pack_gqa = false;
  int split_keys = 0;       // keys of a chunk; 0: a block has all keys
  HopperOptions hopper;     // used by Variant::kHopper
  CpuOptions cpu;           // used by Variant::kCpu
  int softplus_degree = 4;  // relative errors in docs/math.md

  bool operator==(const Schedule&) const = default;
};

// Whether blocks of the forward divide the keys of few queries among them
// (templates/decode/scores.cuh).
inline bool splits_keys(const Schedule& schedule) { return schedule.split_keys != 0; }
// The same of the problem's pass: other passes ignore the field.
inline bool divides_keys(const Problem& problem, const Schedule& schedule) {
  return problem.pass == Pass::kForward && splits_keys(schedule);
}
// Whether these kernels turn tiles by their rotary positions. Otherwise q and k are turned into the
// workspace before all else.
inline bool turns_tiles(const Problem& problem, const Schedule& schedule) {
  return problem.rotary_dim != 0 && divides_keys(problem, schedule);
}
// The largest Problem::seq_q with which a schedule may have split_keys.
inline constexpr int kMostFewQueries = 16;

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

// The schedule of a problem if nobody gives one and no tuning table has one. It is legal on
// `target` for every valid problem. It depends only on the arguments, so lengths that the problem
// leaves open (0) may have any value. `determinism` matters only to the backward: if the cost model
// says that this is faster, it sums dq in the dk/dv kernel, in a fixed order, or by atomics if
// results need not repeat. REQUIRES: validate(problem).ok().
Schedule default_schedule(const Problem& problem, const Target& target,
                          Determinism determinism = Determinism::kRepeatable);
// The default among schedules that sum dq by `dq_mode` and take epsilon from `epsilon`.
// REQUIRES: validate(problem).ok(), and that the problem may have `epsilon`.
Schedule default_schedule(const Problem& problem, const Target& target, DqMode dq_mode,
                          EpsilonFrom epsilon = EpsilonFrom::kX);

// `schedule` with another source of epsilon. A pass whose tiles were unused until now takes the
// default's. A forward for training becomes the default if the columns of o that it accumulates at
// a time depend on X. The result is not validated.
Schedule with_epsilon(const Schedule& schedule, EpsilonFrom epsilon, const Problem& problem,
                      const Target& target);
const char* epsilon_name(EpsilonFrom epsilon);  // "x", "pass"

// kInvalidArgument names the field, the value, what is allowed and why.
Status validate(const Schedule& schedule, const Problem& problem, const Target& target);

std::string to_string(const Schedule& schedule);
nlohmann::json to_json(const Schedule& schedule);
// The schedule that a user's JSON object means for a problem: its fields over the default for the
// variant, dq_mode and epsilon that it names. Fields that it does not name are adapted to those
// that it names: larger tiles get fewer stages; dq gets a separate kernel if the JSON names that
// kernel's tiles, or dk/dv tiles that cannot sum dq. The result is not validated.
Result<Schedule> schedule_for(const Problem& problem, const Target& target,
                              const nlohmann::json& json,
                              Determinism determinism = Determinism::kRepeatable);

// As problem_from_json, but missing fields keep their value in `defaults`. The result is not
// validated.
Result<Schedule> schedule_from_json(const nlohmann::json& json, const Schedule& defaults);

}  // namespace lssar
