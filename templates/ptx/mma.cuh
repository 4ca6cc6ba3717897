// A product of one warp in float32: d[16x8] += a[16x16] b[16x8].
//
// Fragments, with lane = 4 g + t. Accumulators 0 and 1 are row g, columns 2t and 2t + 1; 2 and 3
// are the same columns of row g + 8. Register i of a holds row g + 8 (i % 2), columns 2t + 8 (i /
// 2) and the next. Register i of b holds rows (k) 2t + 8 i and the next, column g.
#pragma once

#include "templates/ptx/types.cuh"

namespace lssar_device {

LSSAR_DEVICE void mma_m16n8k16(Bf16*, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
LSSAR_DEVICE void mma_m16n8k16(Fp16*, float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace lssar_device
