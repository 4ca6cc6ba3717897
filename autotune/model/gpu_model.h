// GpuModel: the peak rates of a GPU, for the cost model.
//
// Figures and their sources are in gpu_model.cpp. Threads: plain values and pure functions.
#pragma once

#include <string>

#include "autotune/model/cost_constants.h"
#include "base/status.h"

namespace lssar {

// Rates are per SM and clock unless they say otherwise.
struct GpuModel {
  std::string name;  // "H200 SXM"
  std::string target;
  int num_sms = 0;
  double clock_ghz = 0;      // boost
  double sustained = 0.855;  // share of the clock that remains under dense tensor work
  double tensor_flop = 0;    // dense fp16/bf16 into float32, 2 per multiply-add
  double mma_sync = 1;       // share of tensor_flop that mma.sync reaches
  double special = 16;       // special functions
  double issue_slots = 128;  // instruction lanes
  double shared_bytes = 128;
  double l2_gbps = 0;  // GB/s, whole GPU
  double dram_gbps = 0;
  double l2_bytes = 0;
  double launch_us = 3;  // of one kernel, besides its work
  CostConstants constants;
};

// By target name, for predictions without a GPU: the usual card of that architecture (A100 for
// sm_80, H200 for sm_90a, ...), or another known one whose name `device_name` contains. `num_sms`
// and `clock_ghz` of a real GPU override the model's if > 0.
Result<GpuModel> gpu_model(const std::string& target, const std::string& device_name = "",
                           int num_sms = 0, double clock_ghz = 0);

}  // namespace lssar
