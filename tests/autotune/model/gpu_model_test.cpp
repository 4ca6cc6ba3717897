#include <gtest/gtest.h>

#include "autotune/model/cost_model.h"

namespace lssar {
namespace {

TEST(GpuModel, IsFoundByTargetAndName) {
  EXPECT_EQ(gpu_model("sm_90a")->name, "H200");
  EXPECT_EQ(gpu_model("sm_90a", "NVIDIA H100 80GB HBM3")->name, "H100");
  EXPECT_EQ(gpu_model("sm_90a", "NVIDIA H100 PCIe")->num_sms, 114);
  EXPECT_EQ(gpu_model("sm_80", "NVIDIA A100-SXM4-80GB")->name, "A100");
  EXPECT_EQ(gpu_model("sm_89", "NVIDIA GeForce RTX 4090")->tensor_flop, 512);
  // Whole words of a name, and an unknown card of GeForce gets GeForce's rate.
  EXPECT_EQ(gpu_model("sm_86", "NVIDIA A10G")->name, "A10G");
  EXPECT_EQ(gpu_model("sm_86", "NVIDIA A10")->name, "A10");
  EXPECT_EQ(gpu_model("sm_86", "NVIDIA RTX A4000")->name, "A10");
  EXPECT_EQ(gpu_model("sm_86", "NVIDIA GeForce RTX 3070")->name, "RTX 3090");
  EXPECT_EQ(gpu_model("sm_89", "NVIDIA L4")->name, "L4");
  EXPECT_EQ(gpu_model("sm_89", "NVIDIA L40S")->name, "L40S");
  EXPECT_EQ(gpu_model("sm_89", "NVIDIA RTX 6000 Ada Generation")->name, "RTX 6000 Ada");
  EXPECT_EQ(gpu_model("sm_89", "NVIDIA GeForce RTX 4070")->tensor_flop, 512);
  EXPECT_EQ(gpu_model("sm_120a", "NVIDIA RTX PRO 4500 Blackwell")->name, "RTX PRO 6000");
  // An unknown card has its architecture's figures, with its own SMs and clock.
  const GpuModel other = *gpu_model("sm_86", "NVIDIA RTX A2000", 26, 1.2);
  EXPECT_EQ(other.num_sms, 26);
  EXPECT_EQ(other.clock_ghz, 1.2);
  EXPECT_FALSE(gpu_model("sm_75").ok());
}

// The data sheets' dense TFLOPS, from the figures of the table.
TEST(GpuModel, HasTheTensorRatesOfTheDataSheets) {
  const auto tflops = [](const char* target, const char* name) {
    const GpuModel gpu = *gpu_model(target, name);
    return gpu.num_sms * gpu.clock_ghz * gpu.tensor_flop * 1e-3;
  };
  EXPECT_NEAR(tflops("sm_80", "A100"), 312, 1);
  EXPECT_NEAR(tflops("sm_86", "A10"), 125, 1);
  EXPECT_NEAR(tflops("sm_86", "A10G"), 70, 1);
  EXPECT_NEAR(tflops("sm_86", "A40"), 149.7, 1);
  EXPECT_NEAR(tflops("sm_86", "RTX A6000"), 154.8, 1);
  EXPECT_NEAR(tflops("sm_86", "RTX 3090"), 71, 1);
  EXPECT_NEAR(tflops("sm_89", "L40S"), 366, 1);
  EXPECT_NEAR(tflops("sm_89", "L40"), 181, 1);
  EXPECT_NEAR(tflops("sm_89", "L4"), 121, 1);
  EXPECT_NEAR(tflops("sm_89", "RTX 6000 Ada"), 364, 1);
  EXPECT_NEAR(tflops("sm_89", "RTX 4090"), 165, 1);
  EXPECT_NEAR(tflops("sm_90a", "H100"), 989, 1);
  EXPECT_NEAR(tflops("sm_90a", "H100 PCIe"), 756, 1);
  EXPECT_NEAR(tflops("sm_100", "B200"), 2250, 5);
  EXPECT_NEAR(tflops("sm_120", "RTX 5090"), 209.5, 1);
  EXPECT_NEAR(tflops("sm_120", "RTX 5080"), 112.6, 1);
  EXPECT_NEAR(tflops("sm_120", "RTX PRO 6000"), 503.8, 1);
}

}  // namespace
}  // namespace lssar
