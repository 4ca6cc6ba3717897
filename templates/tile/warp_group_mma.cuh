// Products by wgmma: 64 rows of a warp group, kTiles x 8 columns.
//
// The operands are 16-bit tiles. The functions start a product and return; the caller commits and
// waits (ptx/wgmma.cuh).
#pragma once

#include "templates/ptx/assembler.cuh"
#include "templates/ptx/warp_group.cuh"
#include "templates/ptx/wgmma.cuh"
#include "templates/tile/fragment.cuh"
#include "templates/tile/mma16.cuh"
#include "templates/tile/swizzled_tile.cuh"

namespace lssar_device {

// The wgmma steps of a product over kCols columns. Padding columns of a tile are zeros.
template <int kCols>
inline constexpr int kDepthSteps = (kCols + 15) / 16;

// kCols columns of 16 rows as the left operand, in T.
template <class T, int kCols>
using ColumnsOperand = typename TileMma16<T>::template Operand<2 * kDepthSteps<kCols>>;

// Descriptors of 64 rows of a tile from row0 on, and of all rows of another tile.
//
// Other columns, and tiles that follow these two in memory, are at constant distances from them.
// NOTE: separate descriptors for each tile take up to ten more instructions if two products follow
// one another.
struct RowDescriptors {
  DescriptorWords words;
  u64 left;
  u64 right;

  template <class TileA, class TileB>
  LSSAR_DEVICE RowDescriptors(TileA a, int row0, TileB b)
      : words(b.base),
        left(a.by_rows(row0, words.high)),
        right(b.by_rows(0, words.high)) {}
};

// Starts d = a bT: 64 rows of `a`, all rows of `b`; the depth is the columns of both.
//
// TileA and TileB are left_distance and right_distance (both constant) after what `from` describes.
template <class TileA, class TileB, int kTiles>
LSSAR_DEVICE void start_multiply_transposed(Fragment<kTiles>& d, const RowDescriptors& from,
                                            u32 left_distance = 0, u32 right_distance = 0) {
  static_assert(TileA::kCols == TileB::kCols, "both tiles have the depth as columns");
  static_assert(TileB::kRows == kTiles * kTileCols, "one row of b per column of d");
  using Instruction = Wgmma<typename TileA::Element, TileB::kRows>;
#pragma unroll
  for (int step = 0; step < kDepthSteps<TileA::kCols>; ++step) {
    const u64 left = from.words.advance(from.left, left_distance + TileA::columns_distance(step));
    const u64 right =
        from.words.advance(from.right, right_distance + TileB::columns_distance(step));
    if (step == 0) {
      Instruction::template begin_shared<0, 0>(d.at, left, right);
    } else {
      Instruction::template add_shared<0, 0>(d.at, left, right);
    }
  }
}
template <int kTiles, class TileA, class TileB>
LSSAR_DEVICE void start_multiply_transposed(Fragment<kTiles>& d, TileA a, int row0, TileB b) {
  start_multiply_transposed<TileA, TileB>(d, RowDescriptors(a, row0, b));
}

// The same with the 16 rows of each warp's `a` in registers (load_operand).
template <class T, int kCols, int kTiles, class TileB>
LSSAR_DEVICE void start_multiply_transposed(Fragment<kTiles>& d, const ColumnsOperand<T, kCols>& a,
                                            TileB b) {
  const DescriptorWords words(b.base);
  static_assert(TileB::kCols == kCols, "both have the depth as columns");
  static_assert(TileB::kRows == kTiles * kTileCols, "one row of b per column of d");
  using Instruction = Wgmma<T, TileB::kRows>;
  const u64 right = b.by_rows(0, words.high);
  Instruction::template begin_registers<0>(d.at, a.at[0], right);
#pragma unroll
  for (int step = 1; step < kDepthSteps<kCols>; ++step)
    Instruction::template add_registers<0>(d.at, a.at[step],
                                           words.advance(right, TileB::columns_distance(step)));
}

// Starts d += a b with `a` from registers; the depth is the rows of `b`. Only one step (a constant)
// of 16 columns of a. TileB is right_distance (a constant) after what `from` describes.
template <class TileB, int kDepthTiles, int kTiles>
LSSAR_DEVICE void start_multiply_step(
    Fragment<kTiles>& d,
    const typename TileMma16<typename TileB::Element>::template Operand<kDepthTiles>& a, int step,
    const RowDescriptors& from, u32 right_distance = 0) {
  static_assert(TileB::kRows == kDepthTiles * kTileCols, "one row of b per column of a");
  static_assert(TileB::kCols == kTiles * kTileCols, "one column of b per column of d");
  using Instruction = Wgmma<typename TileB::Element, TileB::kCols>;
  constexpr u32 kToColumns = TileB::kToColumns;
  Instruction::template add_registers<1>(
      d.at, a.at[step],
      from.words.advance(from.right, kToColumns + right_distance + TileB::rows_distance(step)));
}

// The same for all steps.
template <class T, int kDepthTiles, int kTiles, class TileB>
LSSAR_DEVICE void start_multiply(Fragment<kTiles>& d,
                                 const typename TileMma16<T>::template Operand<kDepthTiles>& a,
                                 TileB b) {
  const DescriptorWords words(b.base);
  static_assert(TileB::kRows == kDepthTiles * kTileCols, "one row of b per column of a");
  static_assert(TileB::kCols == kTiles * kTileCols, "one column of b per column of d");
  using Instruction = Wgmma<T, TileB::kCols>;
  const u64 right = b.by_columns(0, words.high);
#pragma unroll
  for (int step = 0; step < kDepthTiles / 2; ++step)
    Instruction::template add_registers<1>(d.at, a.at[step],
                                           words.advance(right, TileB::rows_distance(step)));
}

// The same with `a` from shared memory: 64 rows of a tile from row0 on.
template <int kTiles, class TileA, class TileB>
LSSAR_DEVICE void start_multiply(Fragment<kTiles>& d, TileA a, int row0, TileB b) {
  static_assert(TileB::kRows == TileA::kCols, "one row of b per column of a");
  static_assert(TileB::kCols == kTiles * kTileCols, "one column of b per column of d");
  using Instruction = Wgmma<typename TileA::Element, TileB::kCols>;
  const DescriptorWords words(b.base);
  const u64 left = a.by_rows(row0, words.high);
  const u64 right = b.by_columns(0, words.high);
#pragma unroll
  for (int step = 0; step < TileA::kCols / 16; ++step)
    Instruction::template add_shared<0, 1>(d.at, words.advance(left, TileA::columns_distance(step)),
                                           words.advance(right, TileB::rows_distance(step)));
}

// Starts d = aT b; the depth is the rows of both. d's rows are the first 64 columns of a, its
// columns are b's from b_col0 on (see SwizzledTile::by_columns).
template <int kTiles, class TileA, class TileB>
LSSAR_DEVICE void start_multiply_left_transposed(Fragment<kTiles>& d, TileA a, TileB b,
                                                 int b_col0) {
  const DescriptorWords words(b.base);
  static_assert(TileA::kRows == TileB::kRows, "both tiles have the depth as rows");
  using Instruction = Wgmma<typename TileA::Element, kTiles * kTileCols>;
  const u64 left = a.by_columns(0, words.high);
  const u64 right = b.by_columns(b_col0, words.high);
  Instruction::template begin_shared<1, 1>(d.at, left, right);
#pragma unroll
  for (int step = 1; step < TileA::kRows / 16; ++step)
    Instruction::template add_shared<1, 1>(d.at, words.advance(left, TileA::rows_distance(step)),
                                           words.advance(right, TileB::rows_distance(step)));
}

// Loads the tile's 16 rows from row0 (a multiple of 8) on as an operand. The inverse of
// store_operand.
template <class Operand, class Tile>
LSSAR_DEVICE void load_operand(Operand& operand, Tile tile, int row0) {
  const int lane = warp_group_lane();
  int step = 0;
#pragma unroll
  for (auto& matrices : operand.at) {
    load_matrices(matrices, tile.address(row0 + lane % 16, step * Tile::kDepth + lane / 16 * 8));
    ++step;
  }
}

// Where a lane writes the first step of an operand of 16 rows, from row0 (a multiple of 8) on.
template <class Tile>
LSSAR_DEVICE u32 operand_address(Tile tile, int row0) {
  const int lane = warp_group_lane();
  return tile.address(row0 + lane % 16, lane / 16 * 8);
}

// Writes a step. `first` is the operand_address.
template <class Tile>
LSSAR_DEVICE void store_step(u32 first, const u32 (&matrices)[4], int step) {
  // Matrices 0 to 3 of a step: rows 0-7 and 8-15 of its first 8 columns, then of its last 8. Vector
  // v of row r is at v ^ (r % 8), so the next step changes two bits of the address.
  constexpr int kStepBytes = 2 * kVectorBytes;
  constexpr int kStepsPerChunk = kSwizzleBytes / kStepBytes;
  store_matrices(
      (first ^ step % kStepsPerChunk * kStepBytes) + step / kStepsPerChunk * Tile::kChunkBytes,
      matrices);
}

template <class Operand, class Tile>
LSSAR_DEVICE void store_operand(Tile tile, int row0, const Operand& operand) {
  const u32 first = operand_address(tile, row0);
  int step = 0;
#pragma unroll
  for (const auto& matrices : operand.at) store_step<Tile>(first, matrices, step++);
}

// Called before wgmma_fence(). Otherwise the compiler would write some registers after it.
//
// Those are the zeros with which a sum begins.
template <int kTiles>
LSSAR_DEVICE void pin(Fragment<kTiles>& x) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) pin_register(x.at[n][e]);
}

// Pins one step of an operand.
LSSAR_DEVICE void pin_registers(u32 (&step)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) pin_register(step[i]);
}

// Pins the operand of a product that is about to start, or has ended.
template <class Operand>
LSSAR_DEVICE void pin_operand(Operand& operand) {
#pragma unroll
  for (auto& step : operand.at)
#pragma unroll
    for (u32& matrix : step) pin_register(matrix);
}

// Waits until at most kPending groups are in flight; `x` is then valid.
template <int kPending, int kTiles>
LSSAR_DEVICE void finish(Fragment<kTiles>& x) {
  wgmma_wait<kPending>();
  pin(x);
}

}  // namespace lssar_device
