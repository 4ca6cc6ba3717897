// Bulk copies and tensor maps, and values sent to other blocks. Rows only: their handlers are
// compiled once for all instruction sets.
#include "device/tensor_map_field.h"
#include "virtual/async/bulk_copy.h"
#include "virtual/async/copy_arrival.h"
#include "virtual/async/remote_store.h"
#include "virtual/async/tensor_map_change.h"
#include "virtual/ops/rows.h"
#include "virtual/program/bulk_operands.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

#define BULK_BARRIER ".mbarrier::complete_tx::bytes"
#define BULK_HINT "[.L2::cache_hint]"
#define BULK_TO_SHARED ".(shared::cluster|shared::cta).global"
#define BULK_TO_GLOBAL ".global.shared::cta"
#define BULK_BETWEEN ".shared::cluster.shared::cta"
#define TENSOR_DIM ".(1d|2d|3d|4d|5d)"

#define POLICY ".(L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged)"
#define SECOND_POLICY "[.L2::evict_first|.L2::evict_unchanged]"
#define STORE_ASYNC "st.async[.weak][.shared::cluster]" BULK_BARRIER
#define REDUCE_ASYNC "red.async.relaxed.cluster[.shared::cluster]" BULK_BARRIER

#define REPLACE "tensormap.replace.tile."
#define IN_MAP "[.global|.shared::cta].b1024."

constexpr uint8_t arg(TensorMapField field) {
  return static_cast<uint8_t>(static_cast<uint8_t>(field) << 1 | kOpWrites);
}
constexpr uint8_t arg(BulkReduceOp reduce) {
  return static_cast<uint8_t>(static_cast<uint8_t>(reduce) << 1 | kOpWrites);
}

const Row kRows[] = {
    {"cp.async.bulk" BULK_TO_SHARED BULK_BARRIER "[.multicast::cluster]" BULK_HINT, Bind::kBulk, "",
     bulk_load},
    {"cp.async.bulk.tensor" TENSOR_DIM BULK_TO_SHARED "[.tile]" BULK_BARRIER
     "[.multicast::cluster]" BULK_HINT,
     Bind::kBulk, "", bulk_load},
    {"cp.async.bulk" BULK_TO_GLOBAL ".bulk_group" BULK_HINT, Bind::kBulk, "", bulk_store},
    {"cp.async.bulk.tensor" TENSOR_DIM BULK_TO_GLOBAL "[.tile].bulk_group" BULK_HINT, Bind::kBulk,
     "", bulk_store},
    {"cp.async.bulk" BULK_BETWEEN BULK_BARRIER, Bind::kBulk, "", bulk_copy},

    {"cp.reduce.async.bulk" BULK_TO_GLOBAL ".bulk_group" BULK_HINT
     ".add.(u32|s32|u64|f32|f64|noftz.f16|noftz.bf16)",
     Bind::kBulk, "", bulk_store},
    {"cp.reduce.async.bulk" BULK_TO_GLOBAL ".bulk_group" BULK_HINT
     ".(min|max).(u32|s32|u64|s64|f16|bf16)",
     Bind::kBulk, "", bulk_store},
    {"cp.reduce.async.bulk" BULK_TO_GLOBAL ".bulk_group" BULK_HINT ".(inc|dec).u32", Bind::kBulk,
     "", bulk_store},
    {"cp.reduce.async.bulk" BULK_TO_GLOBAL ".bulk_group" BULK_HINT ".(and|or|xor).(b32|b64)",
     Bind::kBulk, "", bulk_store},
    {"cp.reduce.async.bulk.tensor" TENSOR_DIM BULK_TO_GLOBAL
     ".(add|min|max|inc|dec|and|or|xor)[.tile].bulk_group" BULK_HINT,
     Bind::kBulk, "", bulk_store},
    {"cp.reduce.async.bulk" BULK_BETWEEN BULK_BARRIER ".add.(u32|s32|u64)", Bind::kBulk, "",
     bulk_copy},
    {"cp.reduce.async.bulk" BULK_BETWEEN BULK_BARRIER ".(min|max).(u32|s32)", Bind::kBulk, "",
     bulk_copy},
    {"cp.reduce.async.bulk" BULK_BETWEEN BULK_BARRIER ".(inc|dec).u32", Bind::kBulk, "", bulk_copy},
    {"cp.reduce.async.bulk" BULK_BETWEEN BULK_BARRIER ".(and|or|xor).b32", Bind::kBulk, "",
     bulk_copy},

    {"cp.async.bulk.prefetch.L2.global" BULK_HINT, Bind::kBulk, "", bulk_prefetch},
    {"cp.async.bulk.prefetch.tensor" TENSOR_DIM ".L2.global[.tile]" BULK_HINT, Bind::kBulk, "",
     bulk_prefetch},
    {"cp.async.bulk.commit_group", Bind::kNone, "", bulk_commit_group},
    {"cp.async.bulk.wait_group", Bind::kImmediate, "", bulk_wait_group},
    {"cp.async.bulk.wait_group.read", Bind::kImmediate, "", bulk_wait_group_read},

    {STORE_ASYNC ".(b32|u32|s32|f32)", Bind::kGeneric, "@w@", store_async_1x32},
    {STORE_ASYNC ".(b64|u64|s64|f64)", Bind::kGeneric, "@l@", store_async_1x64},
    {STORE_ASYNC ".v2.(b32|u32|s32|f32)", Bind::kGeneric, "@{ww}@", store_async_2x32},
    {STORE_ASYNC ".v2.(b64|u64|s64|f64)", Bind::kGeneric, "@{ll}@", store_async_2x64},
    {STORE_ASYNC ".v4.(b32|u32|s32|f32)", Bind::kGeneric, "@{wwww}@", store_async_4x32},
    {REDUCE_ASYNC ".inc.u32", Bind::kGeneric, "@w@", reduce_async_u32, arg(BulkReduceOp::kInc)},
    {REDUCE_ASYNC ".dec.u32", Bind::kGeneric, "@w@", reduce_async_u32, arg(BulkReduceOp::kDec)},
    {REDUCE_ASYNC ".min.u32", Bind::kGeneric, "@w@", reduce_async_u32, arg(BulkReduceOp::kMin)},
    {REDUCE_ASYNC ".max.u32", Bind::kGeneric, "@w@", reduce_async_u32, arg(BulkReduceOp::kMax)},
    {REDUCE_ASYNC ".min.s32", Bind::kGeneric, "@w@", reduce_async_s32, arg(BulkReduceOp::kMin)},
    {REDUCE_ASYNC ".max.s32", Bind::kGeneric, "@w@", reduce_async_s32, arg(BulkReduceOp::kMax)},
    {REDUCE_ASYNC ".add.(u32|s32)", Bind::kGeneric, "@w@", reduce_async_u32,
     arg(BulkReduceOp::kAdd)},
    {REDUCE_ASYNC ".add.(u64|s64)", Bind::kGeneric, "@l@", reduce_async_u64,
     arg(BulkReduceOp::kAdd)},
    {REDUCE_ASYNC ".and.b32", Bind::kGeneric, "@w@", reduce_async_u32, arg(BulkReduceOp::kAnd)},
    {REDUCE_ASYNC ".or.b32", Bind::kGeneric, "@w@", reduce_async_u32, arg(BulkReduceOp::kOr)},
    {REDUCE_ASYNC ".xor.b32", Bind::kGeneric, "@w@", reduce_async_u32, arg(BulkReduceOp::kXor)},

    {"cp.async.mbarrier.arrive[.shared|.shared::cta].b64", Bind::kGeneric, "@", copy_arrive},
    {"cp.async.mbarrier.arrive.noinc[.shared|.shared::cta].b64", Bind::kGeneric, "@",
     copy_arrive_noinc},

    {"createpolicy.fractional" POLICY SECOND_POLICY ".b64", Bind::kGeneric, "Lw?", create_policy},
    {"createpolicy.range[.global]" POLICY SECOND_POLICY ".b64", Bind::kGeneric, "L@ww",
     create_policy},
    {"createpolicy.cvt.L2.b64", Bind::kGeneric, "Ll", create_policy},
    {"prefetch[.param|.const].tensormap", Bind::kNone, "@", bulk_prefetch},
    {"fence.proxy.tensormap::generic.acquire.(cta|cluster|gpu|sys)", Bind::kNone, "@#",
     fence_tensor_map},
    {"fence.proxy.tensormap::generic.release.(cta|cluster|gpu|sys)", Bind::kNone, "",
     fence_tensor_map},
    {REPLACE "global_address" IN_MAP "b64", Bind::kGeneric, "@l", replace_map_address,
     arg(TensorMapField::kGlobalAddress)},
    {REPLACE "rank" IN_MAP "b32", Bind::kGeneric, "@w", replace_map_word,
     arg(TensorMapField::kRank)},
    {REPLACE "box_dim" IN_MAP "b32", Bind::kGeneric, "@iw", replace_map_dimension,
     arg(TensorMapField::kBoxDim)},
    {REPLACE "global_dim" IN_MAP "b32", Bind::kGeneric, "@iw", replace_map_dimension,
     arg(TensorMapField::kGlobalDim)},
    {REPLACE "global_stride" IN_MAP "b64", Bind::kGeneric, "@il", replace_map_stride,
     arg(TensorMapField::kGlobalStride)},
    {REPLACE "element_stride" IN_MAP "b32", Bind::kGeneric, "@iw", replace_map_dimension,
     arg(TensorMapField::kElementStride)},
    {REPLACE "elemtype" IN_MAP "b32", Bind::kGeneric, "@i", replace_map_mode,
     arg(TensorMapField::kType)},
    {REPLACE "interleave_layout" IN_MAP "b32", Bind::kGeneric, "@i", replace_map_mode,
     arg(TensorMapField::kInterleave)},
    {REPLACE "swizzle_mode" IN_MAP "b32", Bind::kGeneric, "@i", replace_map_mode,
     arg(TensorMapField::kSwizzle)},
    {REPLACE "fill_mode" IN_MAP "b32", Bind::kGeneric, "@i", replace_map_mode,
     arg(TensorMapField::kFill)},
    {"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.(cta|cluster|gpu|sys)"
     ".sync.aligned",
     Bind::kGeneric, "*@#", copy_map},
};

}  // namespace

LSSAR_ROWS(kBulkRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
