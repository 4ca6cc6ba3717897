#include "tests/virtual/strict/adversary.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/target.h"
#include "tests/virtual/strict/data_ptx.h"

namespace lssar::test {
namespace {

constexpr uint32_t kSharedBytes = 32 << 10;
constexpr uint32_t kRowWords = 32;
constexpr uint32_t kWords = 8192;  // of in, out and scratch

// The arguments of the kernels in adversary.cuh.
struct Arguments {
  uint64_t in, out, scratch;
  TensorMap map_in, map_out, map_tile;
};
static_assert(sizeof(Arguments) == 64 + 3 * 128);

// Two small whole numbers in bf16: exact, and not the same anywhere near.
std::vector<uint32_t> random_words() {
  constexpr uint32_t kNumbers[] = {0x3f80, 0x4000, 0x4040, 0x4080, 0xbf80, 0xc000, 0xc040, 0xc080};
  std::mt19937 random(5);
  std::vector<uint32_t> words(kWords);
  for (uint32_t& w : words) w = kNumbers[random() % 8] | kNumbers[random() % 8] << 16;
  return words;
}

TensorMapRequest map_request(uint64_t address, bool tile) {
  TensorMapRequest map;
  map.type = tile ? TensorDataType::kBfloat16 : TensorDataType::kUint32;
  map.rank = 2;
  map.global_address = address;
  map.global_dims[0] = tile ? 2 * kRowWords : kRowWords;
  map.global_dims[1] = kWords / kRowWords;
  map.global_strides[0] = kRowWords * 4;
  map.box_dims[0] = tile ? 2 * kRowWords : kRowWords;
  map.box_dims[1] = tile ? 64 : 32;
  map.swizzle = tile ? TensorSwizzle::k128Bytes : TensorSwizzle::kNone;
  return map;
}

Result<Arguments> make_arguments(Device& device, const std::vector<uint32_t>& words) {
  Arguments args = {};
  for (uint64_t* address : {&args.in, &args.out, &args.scratch}) {
    LSSAR_ASSIGN_OR_RETURN(*address, device.allocate(kWords * 4));
  }
  LSSAR_RETURN_IF_ERROR(device.copy_to_device(args.in, words.data(), kWords * 4));
  LSSAR_RETURN_IF_ERROR(device.fill(args.scratch, 0, kWords * 4));
  LSSAR_ASSIGN_OR_RETURN(args.map_in, device.encode_tensor_map(map_request(args.in, false)));
  LSSAR_ASSIGN_OR_RETURN(args.map_out, device.encode_tensor_map(map_request(args.out, false)));
  LSSAR_ASSIGN_OR_RETURN(args.map_tile, device.encode_tensor_map(map_request(args.in, true)));
  return args;
}

Result<std::string> launch(const AdversaryKernel& kernel, const std::string& text, Device& device) {
  Image image;
  image.bytes = text;
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module, device.load(image));
  LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* function, module->function(kernel.entry));
  const std::vector<uint32_t> words = random_words();
  LSSAR_ASSIGN_OR_RETURN(const Arguments args, make_arguments(device, words));
  LaunchConfig config;
  config.grid[0] = kernel.blocks;
  config.block[0] = kernel.threads;
  config.cluster[0] = kernel.cluster;
  config.shared_bytes = kSharedBytes;
  LSSAR_RETURN_IF_ERROR(device.launch(*function, config, &args, sizeof args, nullptr));
  LSSAR_RETURN_IF_ERROR(device.synchronize(nullptr));
  std::vector<uint32_t> out(kernel.words);
  LSSAR_RETURN_IF_ERROR(device.copy_to_host(out.data(), args.out, out.size() * 4));
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] != words[i]) return fmt::format("word {} is {:#x}, not {:#x}", i, out[i], words[i]);
  }
  return std::string();
}

bool mentions(const std::string& message, const std::string& text, const std::string& expected) {
  if (expected[0] != '@') return message.find(expected) != std::string::npos;
  const std::vector<int> lines = marked_lines(text, expected.substr(1));
  return std::any_of(lines.begin(), lines.end(), [&](int line) {
    return message.find(fmt::format("line {} ", line)) != std::string::npos;
  });
}

const AdversaryKernel* find_kernel(const std::string& entry) {
  for (const AdversaryKernel& kernel : adversary_kernels()) {
    if (kernel.entry == entry) return &kernel;
  }
  return nullptr;
}

}  // namespace

const std::vector<AdversaryKernel>& adversary_kernels() {
  static const std::vector<AdversaryKernel> kKernels = {
      {"adversary_copies", "copy_for_others", 1, 64, 1, 64},
      {"adversary_copies", "copy_own", 1, 32, 1, 64},
      {"adversary_copies", "copy_source", 1, 32, 1, 32},
      {"adversary_copies", "block_exchange", 1, 64, 1, 128},
      {"adversary_copies", "lane_exchange", 1, 32, 1, 64},
      {"adversary_copies", "whole_warp_barrier", 1, 64, 1, 64},
      {"adversary_copies", "named_barriers", 1, 64, 1, 64},
      {"adversary_copies", "global_exchange", 1, 64, 1, 64},
      {"adversary_copies", "global_blocks", 2, 32, 1, 64},
      {"adversary_copies", "plain_accesses", 1, 32, 1, 32},
      {"adversary_copies", "poison", 1, 32, 1, 32},
      {"adversary_copies", "loop", 1, 32, 1, 32},
      {"adversary_bulk", "bulk_in", 1, 64, 1, 1024},
      {"adversary_bulk", "bulk_phases", 1, 64, 1, 4096},
      {"adversary_bulk", "bulk_out", 1, 64, 1, 2048},
      {"adversary_bulk", "bulk_out_and_back", 1, 32, 1, 1024},
      {"adversary_bulk", "bulk_over_stores", 1, 64, 1, 1024},
      {"adversary_bulk", "barrier_again", 1, 32, 1, 2048},
      {"adversary_bulk", "bulk_pipeline", 1, 64, 1, 6144},
      {"adversary_bulk", "map_in_memory", 1, 32, 1, 1024},
      {"adversary_wgmma", "product", 1, 128, 1, 2048},
      {"adversary_wgmma", "product_phases", 1, 128, 1, 4096},
      {"adversary_wgmma", "products_in_flight", 1, 128, 1, 4096},
      {"adversary_wgmma", "product_of_registers", 1, 128, 1, 2048},
      {"adversary_wgmma", "product_of_stored", 1, 128, 1, 2048},
      {"adversary_wgmma", "registers", 1, 384, 1, 384},
      {"adversary_warp", "waits_apart", 1, 32, 1, 64},
      {"adversary_warp", "rows_back", 1, 32, 1, 32},
      {"adversary_warp", "stores_together", 1, 32, 1, 1024},
      {"adversary_warp", "multicast_and_end", 2, 32, 2, 256},
      {"adversary_cluster", "peer_read", 2, 64, 2, 128},
      {"adversary_cluster", "peer_write", 2, 64, 2, 128},
      {"adversary_cluster", "multicast", 2, 64, 2, 4096},
  };
  return kKernels;
}

std::string adversary_text(const AdversaryKernel& kernel) {
  return extract_entry(data_ptx(kernel.file), kernel.entry);
}

AdversaryRun run_adversary(const AdversaryKernel& kernel, const std::string& text, uint64_t seed,
                           bool letter) {
  VirtualOptions options;
  options.target = *target_from_name("sm_90a");
  options.num_threads = 1;
  options.strict = true;
  options.letter = letter;
  options.schedule_seed = seed;
  options.max_block_instructions = 1'000'000;
  const auto device = make_virtual_device(options);
  const Result<std::string> difference = launch(kernel, text, *device);
  return difference.ok() ? AdversaryRun{{}, *difference} : AdversaryRun{difference.status(), {}};
}

void check_correct(const AdversaryKernel& kernel) {
  const std::string text = adversary_text(kernel);
  ASSERT_FALSE(text.empty());
  for (int seed = 0; seed < kAdversarySeeds; ++seed) {
    const AdversaryRun run = run_adversary(kernel, text, seed);
    ASSERT_TRUE(run.status.ok()) << "seed " << seed << ": " << run.status.to_string();
    ASSERT_EQ(run.difference, "") << "seed " << seed;
  }
}

void check_adversary(const Adversary& adversary) {
  const AdversaryKernel* kernel = find_kernel(adversary.entry);
  ASSERT_NE(kernel, nullptr) << adversary.entry;
  std::string text = adversary_text(*kernel);
  for (const Edit& edit : adversary.edits) ASSERT_TRUE(apply_edit(text, edit)) << edit.mark;
  std::string messages;
  for (int seed = 0; seed < kAdversarySeeds; ++seed) {
    const AdversaryRun run = run_adversary(*kernel, text, seed);
    const std::string message = run.status.ok() ? run.difference : run.status.to_string();
    if (adversary.expect.empty()) {
      ASSERT_EQ(message, "") << "seed " << seed;
      continue;
    }
    if (!run.status.ok() && std::all_of(adversary.expect.begin(), adversary.expect.end(),
                                        [&](const std::string& expected) {
                                          return mentions(message, text, expected);
                                        })) {
      return;
    }
    messages += fmt::format("\nseed {}: {}", seed, message);
  }
  if (!adversary.expect.empty()) ADD_FAILURE() << "not reported as expected:" << messages;
}

}  // namespace lssar::test
