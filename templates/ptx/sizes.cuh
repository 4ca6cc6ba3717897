// Sizes that the kernels and the code that launches them share.
//
// The host compiler reads this file too (codegen/shapes.h), so it has only plain constants. NOTE:
// the namespace is separate because lssar.h has an enum lssar_device.
#pragma once

namespace lssar_constants {

inline constexpr int kWarpThreads = 32;
inline constexpr int kWarpRows = 16;  // rows of an accumulator fragment
// A consumer of a Hopper kernel is a warp group and owns 64 rows.
inline constexpr int kWarpGroupThreads = 128;
inline constexpr int kWarpGroupRows = 64;
// Lanes per row in kernels that work on whole rows.
inline constexpr int kRowGroupThreads = 8;
inline constexpr int kSinkThreads = 256;  // of the kernel that sums sinks' gradients

// Numbers that a chunk of keys has for each row of few queries (decode/memory.cuh).
inline constexpr int kDecodeParts = 4;
inline constexpr int kDecodeValueStages = 2;  // the most tiles of values in shared memory
inline constexpr int kDecodeKeysPerWord = 8;  // of the words that say which keys have weights

inline constexpr int kSequenceThreads = 512;  // of kernels/order_sequences.cuh
// Static shared memory of kernels of sequences (tile/sequences.cuh): a block's parameters, its
// sequence and its number there, rounded up to the alignment of dynamic shared memory.
inline constexpr int kSequenceSharedBytes = 432;
// The same of kernels with tensor maps (kernels/tma_sequences.cuh). Their tiles are aligned to 1024
// bytes.
inline constexpr int kSequenceTmaSharedBytes = 1024;

inline constexpr int kRowConstantBytes = 32;  // of a query row: tile/row_constants.cuh
inline constexpr int kRowPlaneFloats = 4;     // of these, the floats in one TMA box
inline constexpr int kGradQSumCols = 8;       // neighbours in the sums of dq: tile/grad_q_sum.cuh

inline constexpr int kBarrierBytes = 8;    // of an mbarrier
inline constexpr int kSwizzleBytes = 128;  // of a row of a swizzled tile: tile/swizzled_tile.cuh
inline constexpr int kTicketBytes = 4;
inline constexpr int kWorkIndexBytes = 16;  // what a Hopper forward's producer tells consumers

}  // namespace lssar_constants
