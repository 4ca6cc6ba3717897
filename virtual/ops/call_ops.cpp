// Calls of the functions that every device has.
#include "virtual/ops/device_calls.h"
#include "virtual/ops/rows.h"

namespace lssar::vdev::LSSAR_SIMD {
namespace {

// result, format, arguments
void call_vprintf(Warp& w, const Op& op) {
  s32* d = lanes<s32>(w, op.dst);
  const u64* format = lanes<u64>(w, op.a);
  const u64* arguments = lanes<u64>(w, op.b);
  for (u32 m = w.mask; m != 0; m &= m - 1) {
    const u32 i = lowest_lane(m);
    d[i] = print_from_device(w, op, i, format[i], arguments[i]);
  }
}

// (no result), message, file, line, function
void call_assertfail(Warp& w, const Op& op) {
  const u32 i = lowest_lane(w.mask);
  raise_assertion(w, op, i, lanes<u64>(w, op.a)[i], lanes<u64>(w, op.b)[i], lanes<u32>(w, op.c)[i],
                  lanes<u64>(w, static_cast<u32>(op.imm))[i]);
}

// NOTE: not kAlu, because what may fault must not run on a copy of its op.
const Row kRows[] = {
    {"call.vprintf", Bind::kCollective, "wll", call_vprintf},
    {"call.__assertfail", Bind::kCollective, "wllwl", call_assertfail},
};

}  // namespace

LSSAR_ROWS(kCallRows, kRows);

}  // namespace lssar::vdev::LSSAR_SIMD
