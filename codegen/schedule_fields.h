// The list of Schedule's fields (base/field_list.h). docs/fields.md is made from it.
//
// To add a field: the member in codegen/schedule.h, its line here, and the code that reads it (a
// rule in schedule_*.cpp, the emitter, and a row in autotune/space/dimensions.cpp if it is
// searched).
#pragma once

#include <string>
#include <string_view>
#include <tuple>

#include <nlohmann/json_fwd.hpp>

#include "base/field_list.h"
#include "codegen/schedule.h"
#include "codegen/source/softplus_poly.h"

namespace lssar {

template <>
inline constexpr EnumName<Variant> enum_names<Variant>[] = {
    {Variant::kPortable, "portable"}, {Variant::kHopper, "hopper"}, {Variant::kCpu, "cpu"}};
template <>
inline constexpr EnumName<LoadPath> enum_names<LoadPath>[] = {{LoadPath::kCpAsync, "cp_async"},
                                                              {LoadPath::kPlain, "plain"}};
template <>
inline constexpr EnumName<DqMode> enum_names<DqMode>[] = {
    {DqMode::kSplit, "split"}, {DqMode::kAtomic, "atomic"}, {DqMode::kOrdered, "ordered"}};
template <>
inline constexpr EnumName<EpsilonFrom> enum_names<EpsilonFrom>[] = {{EpsilonFrom::kX, "x"},
                                                                    {EpsilonFrom::kPass, "pass"}};
template <>
inline constexpr EnumName<WeightsFrom> enum_names<WeightsFrom>[] = {
    {WeightsFrom::kRegisters, "registers"}, {WeightsFrom::kShared, "shared"}};
template <>
inline constexpr EnumName<StorePath> enum_names<StorePath>[] = {
    {StorePath::kRegisters, "registers"}, {StorePath::kTma, "tma"}};
template <>
inline constexpr EnumName<Evaluator> enum_names<Evaluator>[] = {
    {Evaluator::kFull, "full"}, {Evaluator::kShort, "short"}, {Evaluator::kLinear, "linear"}};

// The passes whose sources depend on a schedule's field: bits of Field::readers.
enum ScheduleReader : unsigned {
  kReadByForward = 1,   // any forward
  kReadByTraining = 2,  // the forward for training
  kReadByBackward = 4,
};

inline constexpr unsigned readers_of(Pass pass) {
  if (pass == Pass::kBackward) return kReadByBackward;
  return pass == Pass::kForwardTrain ? kReadByForward | kReadByTraining : kReadByForward;
}

template <>
inline constexpr auto fields_of<Tiling> = std::tuple(
    field("block_rows", &Tiling::block_rows)
        .whole(16, 256, 16)
        .text("{}")
        .means("rows of a block: portable 16 per warp; hopper 64 per consumer, up to 192"),
    field("block_cols", &Tiling::block_cols)
        .whole(16, 256, 16)
        .text("x{}")
        .means("rows of the other side in one tile"),
    field("stages", &Tiling::stages)
        .whole(1, 12)
        .text("x{}")
        .means("tiles in shared memory: portable 1 to 8; hopper 2 to 12"),
    field("min_blocks", &Tiling::min_blocks)
        .whole(0, 32)
        .text("@{}")
        .text_of(0, "")
        .means("blocks per SM that the assembler leaves registers for; portable: 0 lets it guess; "
               "hopper: 1 to 4"));

template <>
inline constexpr auto fields_of<HopperOptions> = std::tuple(
    field("score_cols", &HopperOptions::score_cols)
        .whole(8, 256, 8)
        .read_by(kReadByForward)
        .text(" score_cols {}")
        .means("forward: keys per tile in pass 1, which has no value product, so that its tile may "
               "be wider; with `stagger` above 1 pass 2's are taken"),
    field("overlap", &HopperOptions::overlap)
        .text(" overlap")
        .text_of(false, "")
        .means("forward, dq (not epsilon): the next tile's products of scores are in flight beside "
               "this tile's arithmetic"),
    field("ping_pong", &HopperOptions::ping_pong)
        .text(" ping_pong")
        .text_of(false, "")
        .means("consumers start products one after another; not with atomic or ordered dq"),
    field("queries_in_registers", &HopperOptions::queries_in_registers)
        .read_by(kReadByForward)
        .text(" queries_in_registers")
        .text_of(false, "")
        .means("forward, up to d 128: queries as operands in registers, head_dim / 4 of them; the "
               "query tile is free at once, and products read half as much shared memory; not with "
               "`store_path` tma"),
    field("persistent", &HopperOptions::persistent)
        .text(" persistent")
        .text_of(false, "")
        .means("as many blocks as the GPU holds, each with work tile after work tile; not with "
               "ordered dq"),
    field("tickets", &HopperOptions::tickets)
        .read_by(kReadByForward)
        .text(" tickets")
        .text_of(false, "")
        .means("persistent, without clusters: a block takes its next work tile from a counter when "
               "it is ready, instead of every n-th tile"),
    field("cluster", &HopperOptions::cluster)
        .allows("1, 2, 4")
        .read_by(kReadByForward)
        .text(" cluster {}")
        .text_of(1, "")
        .means("forward: blocks of consecutive query tiles that run as a cluster and share the "
               "loads of keys and values"),
    field("stagger", &HopperOptions::stagger)
        .whole(1, 64)
        .read_by(kReadByForward)
        .text(" stagger {}")
        .text_of(1, "")
        .means("query tiles of a head that a block takes in a row, each one's pass 1 beside pass 2 "
               "of the one before; 1: passes apart"),
    field("head_group", &HopperOptions::head_group)
        .whole(1, 1024)
        .text(" head_group {}")
        .means("heads whose work tiles run together, those with the most keys first"),
    field("weights_from", &HopperOptions::weights_from)
        .read_by(kReadByForward)
        .text(" weights from {}")
        .means("forward: where the weights that multiply values are read from; a tile of shared "
               "memory costs a stage or two, and frees block_cols / 4 registers, twice "
               "that for training"),
    field("store_path", &HopperOptions::store_path)
        .read_by(kReadByForward)
        .text(" store {}")
        .means("forward: `tma`: o goes through the query tile, in whole rows; `registers`: each "
               "lane stores its pairs of columns, which fill half of every 32-byte sector"),
    field("sum_path", &HopperOptions::sum_path)
        .read_by(kReadByBackward)
        .text(" sum {}")
        .means("atomic dq: `tma`: each warp's part goes through shared memory of its own, from "
               "where one instruction adds whole rows; `registers`: each lane adds its pairs of "
               "columns"),
    field("evaluator", &HopperOptions::evaluator)
        .text(" evaluator {}")
        .means("the cheapest form of softplus that pass 2 and the backward may take for rows whose "
               "scores that matter are large"),
    field("producer_registers", &HopperOptions::producer_registers)
        .allows("multiples of 8 from 24 to 240, or 0 with `consumer_registers` 0")
        .text(" registers {}")
        .means("registers per thread of the producer; 0 and 0: what threads and blocks per SM "
               "allow"),
    field("consumer_registers", &HopperOptions::consumer_registers)
        .allows("multiples of 8 from 24 to 240, or 0 with `producer_registers` 0")
        .text("/{}")
        .means("the same of a consumer"));

template <>
inline constexpr auto fields_of<CpuOptions> = std::tuple(
    field("rows", &CpuOptions::rows)
        .whole(1, 30)
        .text(" rows {}")
        .means("rows of queries that are computed together; their accumulators, rows times the "
               "vectors of a panel, must fit in the target's vector registers"),
    field("panel_keys", &CpuOptions::panel_keys)
        .whole(8, 240, 8)
        .text(" panel_keys {}")
        .means("keys of a packed panel, and columns of v at a time: whole vectors, 8 floats each "
               "with x86-64-v3 and 16 with x86-64-v4"),
    field("block_keys", &CpuOptions::block_keys)
        .whole(8, 4096, 8)
        .read_by(kReadByForward)
        .text(" block_keys {}")
        .means("keys whose weights are made before values are multiplied: whole panels"),
    field("kept_keys", &CpuOptions::kept_keys)
        .whole(0, 1 << 20, 8)
        .read_by(kReadByForward)
        .text(" kept_keys {}")
        .means("keys of a row, from the first on, whose activations stay in the core's cache from "
               "pass 1 to pass 2: whole blocks; those of further keys are computed again"));

// `operands`, unit vectors in fp16, failed the tuner's check and was removed.
template <>
inline constexpr RetiredField retired_fields<HopperOptions>[] = {{"norm_form", "scores"}};

template <>
inline constexpr auto fields_of<Schedule> = std::tuple(
    field("variant", &Schedule::variant)
        .text("{}")
        .means("algorithm and instruction family: mma.sync and cp.async (sm_80 and later), or "
               "wgmma, TMA and warps with roles (sm_90a; fp16 and bf16 of alignment 16), or "
               "vectors (x86-64 targets)"),
    field("load_path", &Schedule::load_path)
        .text(" {}")
        .means("how tiles reach shared memory: 16 bytes at a time, for which problem.alignment "
               "must be 16, or element by element through registers"),
    field("forward", &Schedule::forward)
        .read_by(kReadByForward)
        .text(" forward {}")
        .means("tiling: rows are queries, columns are keys"),
    field("block_dv", &Schedule::block_dv)
        .whole(8, 256, 8)
        .read_by(kReadByForward)
        .text(" block_dv {}")
        .means("columns of o (and X) accumulated at a time; fewer than head_dim_v repeat pass 2"),
    field("dkdv", &Schedule::dkdv)
        .read_by(kReadByBackward)
        .text(" dkdv {}")
        .means("tiling: rows are keys, columns are queries"),
    field("split_dkdv", &Schedule::split_dkdv)
        .read_by(kReadByBackward)
        .text(" (split)")
        .text_of(false, "")
        .means("dk and dv in sweeps of their own, for one more product, where their accumulators "
               "do not fit in registers together"),
    field("dq", &Schedule::dq)
        .read_by(kReadByBackward)
        .text(" dq {}")
        .means("tiling of the kernel of dq, or of epsilon's pass: rows are queries, columns are "
               "keys"),
    field("dq_mode", &Schedule::dq_mode)
        .read_by(kReadByBackward)
        .text(" {}")
        .means("where dq is summed: by a kernel of its own (7 products, repeatable); by atomics of "
               "the dk/dv kernel (5 products); by the same in the order of key tiles (repeatable)"),
    field("epsilon", &Schedule::epsilon)
        .read_by(kReadByTraining | kReadByBackward)
        .text(" epsilon by {}")
        .text_of(EpsilonFrom::kX, "")
        .means("where the mean of a row's gradient comes from: X, which the forward for training "
               "saves, or a pass over the keys in the backward; both passes must have the same"),
    field("skip_tiles", &Schedule::skip_tiles)
        .read_by(kReadByForward)
        .text(" skip_tiles")
        .text_of(false, "")
        .means("pass 2 leaves out the special functions and the product of a tile of keys whose "
               "weights are all below 2^-24 of their row's largest (fp32: 2^-48), for a comparison "
               "per score; not with p = 0"),
    field("pack_gqa", &Schedule::pack_gqa)
        .read_by(kReadByForward)
        .text(" pack_gqa")
        .text_of(false, "")
        .means("rows of a query tile are queries of all heads that share keys, the heads of a "
               "query side by side"),
    field("split_keys", &Schedule::split_keys)
        .whole(0, 4096, 128)
        .read_by(kReadByForward)
        .text(" split_keys {}")
        .text_of(0, "")
        .no_json_of_default()
        .means("few queries (`seq_q` 1 to 16; with `varlen` also 0): keys of a chunk; blocks divide "
               "the chunks among them, keep scores in the workspace, and read only the values that "
               "have weights; 0: a block has all keys of its queries"),
    field("softplus_degree", &Schedule::softplus_degree)
        .whole(kMinSoftplusDegree, kMaxSoftplusDegree)
        .text(" softplus_degree {}")
        .means("degree of the polynomial P in log2(1 + u) = u P(u)"),
    // Its text is written only for Variant::kHopper, by to_string.
    field("hopper", &Schedule::hopper).means("what variant hopper adds: its fields are below"),
    // Variant::kCpu writes only this text, by to_string.
    field("cpu", &Schedule::cpu).means("the fields of variant cpu, listed below"));

// A field without fields of its own, as a number. Its name is the one in JSON: "hopper.cluster".
struct ScheduleLeaf {
  std::string name;
  int (*get)(const Schedule&);
  void (*set)(Schedule&, int);
  // In JSON form: all enumerators, or false and true. Empty for other types.
  nlohmann::json (*values)();
};
// Null if there is no field of that name.
const ScheduleLeaf* find_leaf(std::string_view name);

}  // namespace lssar
