// Published speeds of softmax attention, and the cost model's estimates of the same kernels.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "autotune/model/kernel_work.h"
#include "codegen/problem.h"

namespace lssar {

inline constexpr int kNumLengths = 6;
inline constexpr std::array<int, kNumLengths> kPaperLengths = {512, 1024, 2048, 4096, 8192, 16384};

// A figure or table that measures one pass.
struct PublishedSource {
  const char* library;  // "FlashAttention-3", "cuDNN"
  const char* gpu;      // a part of the device's name
  Pass pass;
};

// One row of a figure or table. TFLOP/s count 4 B H L^2 d operations forward (half of them with a
// causal mask) and 2.5 times as many backward. 0: not published.
struct PublishedRow {
  PublishedSource source;
  int dim;
  bool causal;
  int block_rows, block_cols;  // the kernel's tile, of queries and keys
  std::array<double, kNumLengths> tflops;
  double mean_error;  // the bound on the mean of the model's absolute errors
};

extern const std::vector<PublishedRow> kPublishedRows;

// Whether constants were fitted to the row.
bool is_fitted(const PublishedRow& row);

// The model's TFLOP/s of a row's kernel at one length.
double predicted_tflops(const PublishedRow& row, int length, const GpuModel& gpu);
GpuModel gpu_of(const PublishedRow& row);

}  // namespace lssar
