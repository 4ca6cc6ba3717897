#include "autotune/model/gpu_model.h"

#include <cctype>
#include <iterator>

#include <fmt/format.h>

#include "codegen/target.h"

namespace lssar {
namespace {

struct Card {
  int major, minor;
  const char* name;  // a part of what the driver calls it
  int num_sms;
  double clock_ghz;  // the clock for which NVIDIA states tensor rates
  double tensor_flop, mma_sync, issue_slots;
  double l2_bytes_per_clock, dram_gbps, l2_mib;
  bool is_geforce = false;
};

// Rates per SM and clock: CUDA C++ programming guide, "arithmetic instructions" (special functions:
// 16 everywhere; float32: 64 at 8.0, 128 above) and tensor rates over SMs and clock. The others:
//   A100: "NVIDIA A100 Tensor Core GPU Architecture" (312 TFLOPS, L2 of 5120 bytes per clock) and
//         the data sheet of the 80 GB card.
//   H100, H200: "NVIDIA H100 Tensor Core GPU Architecture" (989.4 TFLOPS at 1.83 GHz; PCIe: 756),
//         data sheets of H100 and H200. mma.sync reaches about 0.62 of wgmma: "Benchmarking and
//         Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking" (arXiv 2402.13499).
//   A10, A10G, A40, RTX A6000, RTX 3090: data sheets (125, 70, 149.7 and 154.8 TFLOPS); "NVIDIA
//         Ampere GA102 GPU Architecture" (GeForce: half the rate into float32).
//   L4, L40, L40S, RTX 6000 Ada, RTX 4090: data sheets (121, 181, 362 and 364 TFLOPS); "NVIDIA Ada
//         GPU Architecture" (likewise).
//   B200: data sheet (2.25 PFLOPS, 8 TB/s).
//   RTX 5090, RTX 5080: "NVIDIA RTX Blackwell GPU Architecture" (GeForce: half the rate into
//         float32: 209.5 and 112.6 TFLOPS).
//   RTX PRO 6000: "NVIDIA RTX Blackwell PRO GPU Architecture" (503.8 TFLOPS into float32). Its L2:
//         8.7 TB/s, measured in "Blackwell: Nvidia's Massive GPU" (Chips and Cheese, 2025).
//   GB10: DGX Spark's page (273 GB/s, 6144 CUDA cores of 128 to an SM), NVIDIA's talk at Hot Chips
//         2025 (31 TFLOPS in float32, which is 2.52 GHz; L2 of 24 MB).
// Not published, assumed: L2 bandwidth of the others except A100's (A100's per clock; half of it on
// cards for graphics, a quarter on L4, whose memory is half as wide; RTX 5090, RTX 5080 and GB10:
// by SMs and slices about that of RTX PRO 6000), B200's L2, mma.sync on B200 (a quarter of
// tcgen05's, which is A100's rate), and GB10's tensor rate (GeForce's; NVIDIA gives only FP4's,
// which is GeForce's per SM and clock). The first card of a capability is the usual one.
constexpr Card kCards[] = {
    {8, 0, "A100", 108, 1.41, 2048, 1, 64, 5120, 2039, 40},
    {8, 6, "A10", 72, 1.695, 1024, 1, 128, 2048, 600, 6},
    {8, 6, "A10G", 80, 1.71, 512, 1, 128, 2048, 600, 6},
    {8, 6, "A40", 84, 1.74, 1024, 1, 128, 2560, 696, 6},
    {8, 6, "RTX A6000", 84, 1.8, 1024, 1, 128, 2560, 768, 6},
    {8, 6, "RTX 3090", 82, 1.695, 512, 1, 128, 2560, 936, 6, true},
    {8, 9, "L40S", 142, 2.52, 1024, 1, 128, 2560, 864, 96},
    {8, 9, "L40", 142, 2.49, 512, 1, 128, 2560, 864, 96},
    {8, 9, "L4", 58, 2.04, 1024, 1, 128, 1280, 300, 48},
    {8, 9, "RTX 6000 Ada", 142, 2.505, 1024, 1, 128, 2560, 960, 96},
    {8, 9, "RTX 4090", 128, 2.52, 512, 1, 128, 2560, 1008, 72, true},
    {9, 0, "H200", 132, 1.83, 4096, 0.62, 128, 3840, 4800, 50},
    {9, 0, "H100 PCIe", 114, 1.62, 4096, 0.62, 128, 3840, 2000, 50},
    {9, 0, "H100", 132, 1.83, 4096, 0.62, 128, 3840, 3350, 50},
    {10, 0, "B200", 148, 1.855, 8192, 0.25, 128, 6144, 8000, 126},
    {12, 0, "RTX 5090", 170, 2.407, 512, 1, 128, 3072, 1792, 96, true},
    {12, 0, "RTX 5080", 84, 2.617, 512, 1, 128, 1536, 960, 64, true},
    {12, 0, "RTX PRO 6000", 188, 2.617, 1024, 1, 128, 3328, 1792, 128},
    {12, 1, "GB10", 48, 2.52, 512, 1, 128, 1024, 273, 24},
};

// Whether the words of a card's name are in a device's: "A10" is not in "NVIDIA A10G".
bool has_words(const std::string& device_name, const std::string& words) {
  const auto is_part = [&](size_t at) {
    return at < device_name.size() && std::isalnum(static_cast<unsigned char>(device_name[at]));
  };
  const size_t at = device_name.find(words);
  return at != std::string::npos && !is_part(at - 1) && !is_part(at + words.size());
}

const Card* card_of(const Target& target, const std::string& device_name) {
  const bool is_geforce = has_words(device_name, "GeForce");
  const bool has_kind = is_geforce || has_words(device_name, "NVIDIA");
  const Card* nearest = nullptr;
  for (const Card& card : kCards) {
    const bool is_exact = card.major == target.major && card.minor == target.minor;
    if (is_exact && has_words(device_name, card.name)) return &card;
    // A target without a card uses the card of the last older target. A device without one uses the
    // first of its kind.
    const bool is_older =
        card.major < target.major || (card.major == target.major && card.minor <= target.minor);
    if (!is_older) continue;
    const bool is_same =
        nearest != nullptr && nearest->major == card.major && nearest->minor == card.minor;
    const bool suits_better = has_kind && is_exact && nearest != nullptr &&
                              nearest->is_geforce != is_geforce && card.is_geforce == is_geforce;
    if (!is_same || suits_better) nearest = &card;
  }
  return nearest;
}

}  // namespace

Result<GpuModel> gpu_model(const std::string& target_name, const std::string& device_name,
                           int num_sms, double clock_ghz) {
  LSSAR_ASSIGN_OR_RETURN(const Target target, target_from_name(target_name));
  if (target.is_cpu()) {
    return unsupported(
        fmt::format("target = {}: it is a CPU, which has no model of a GPU", target_name));
  }
  const Card* card = card_of(target, device_name);
  if (card == nullptr) return unsupported("no model of a GPU for target " + target_name);
  GpuModel gpu;
  gpu.name = card->name;
  gpu.target = target_name;
  gpu.num_sms = num_sms > 0 ? num_sms : card->num_sms;
  gpu.clock_ghz = clock_ghz > 0 ? clock_ghz : card->clock_ghz;
  gpu.tensor_flop = card->tensor_flop;
  gpu.mma_sync = card->mma_sync;
  gpu.issue_slots = card->issue_slots;
  gpu.l2_gbps = card->l2_bytes_per_clock * card->clock_ghz;
  gpu.dram_gbps = card->dram_gbps;
  gpu.l2_bytes = card->l2_mib * 1024 * 1024;
  return gpu;
}

}  // namespace lssar
