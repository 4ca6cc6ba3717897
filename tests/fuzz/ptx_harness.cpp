#include "tests/fuzz/ptx_harness.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fuzz/complain.h"
#include "virtual/ptx/ptx_parser.h"
#include "virtual/run/module.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {
namespace {

constexpr size_t kMaxInput = 80 << 10;  // the largest kernel of tests/virtual/data fits
constexpr uint64_t kMaxVariables = 1 << 20;
constexpr uint32_t kMaxThreads = 384;
constexpr size_t kBufferBytes = 16 << 10;
constexpr size_t kFilledBytes = 12 << 10;  // the rest is uninitialised
// Limits of a block. The larger one is for loops that wait and for kernels of many warps.
constexpr uint64_t kMaxInstructions = 3000;
constexpr uint64_t kManyInstructions = 30000;

struct alignas(128) ParameterBlock {
  uint8_t bytes[4096];
};

uint64_t hash_first_line(std::string_view input) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : input.substr(0, input.find('\n'))) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  }
  return hash ^ hash >> 29;
}

// Draws small numbers from the hash.
struct Draw {
  uint64_t state;
  uint32_t below(uint32_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33) % n;
  }
};

bool draw_strict(Draw& draw) { return draw.below(2) != 0; }

VirtualOptions make_options(Draw& draw) {
  VirtualOptions options;
  options.strict = draw_strict(draw);
  Target& target = options.target;
  target.major = 9;
  target.minor = 0;
  target.suffix = "a";
  target.shared_bytes_per_block = 227 << 10;
  target.shared_bytes_per_sm = 228 << 10;
  target.threads_per_sm = 2048;
  options.num_threads = 1;
  options.simd = SimdLevel::kPlain;
  options.max_block_instructions = draw.below(8) == 0 ? kManyInstructions : kMaxInstructions;
  options.count = draw.below(2) != 0;
  options.schedule_seed = draw.below(8);
  options.approx = static_cast<ApproxMode>(draw.below(4));
  return options;
}

bool variables_are_small(const vdev::ParsedModule& module) {
  uint64_t total = 0;
  for (const vdev::Variable& v : module.variables) total += v.bytes;
  return total <= kMaxVariables;
}

// A map of 64 x 64 bfloat16, in boxes of 16 x 16 or swizzled boxes of 64 x 64, sometimes with more
// dimensions.
TensorMapRequest make_map(DevicePtr memory, Draw& draw) {
  TensorMapRequest request;
  request.type = TensorDataType::kBfloat16;
  request.rank = draw.below(4) == 0 ? 1 + draw.below(kMaxTensorRank) : 2;
  request.global_address = memory;
  const bool whole = draw.below(2) != 0;
  for (uint32_t i = 0; i < request.rank; ++i) {
    request.global_dims[i] = i < 2 ? 64 : 1;
    request.box_dims[i] = i >= 2 ? 1 : whole ? 64 : 16;
    if (i > 0) request.global_strides[i - 1] = i < 2 ? 128 : 8192;
  }
  if (whole) request.swizzle = TensorSwizzle::k128Bytes;
  return request;
}

// Pointers where they fit, a tensor map where one does, else a small number.
bool fill_parameters(Device& device, const vdev::ParsedKernel& kernel, DevicePtr memory, Draw& draw,
                     ParameterBlock& parameters) {
  const Result<TensorMap> map = device.encode_tensor_map(make_map(memory, draw));
  if (!map.ok()) complain("the tensor map", map.status());
  constexpr uint32_t kNumbers[] = {16, 1, 2, 64};
  const uint32_t number = kNumbers[draw.below(4)];
  for (const vdev::Variable& p : kernel.params) {
    if (p.address + p.bytes > sizeof parameters.bytes) return false;
    uint8_t* const place = parameters.bytes + p.address;
    const uint64_t pointer = memory + 4096;
    if (p.bytes >= sizeof(TensorMap)) {
      std::memcpy(place, &*map, sizeof(TensorMap));
    } else if (p.bytes >= sizeof pointer) {
      for (size_t i = 0; i + sizeof pointer <= p.bytes; i += sizeof pointer) {
        std::memcpy(place + i, &pointer, sizeof pointer);
      }
    } else {
      std::memcpy(place, &number, std::min<size_t>(p.bytes, sizeof number));
    }
  }
  return true;
}

LaunchConfig make_config(const vdev::ParsedKernel& kernel, Draw& draw) {
  LaunchConfig config;
  constexpr uint32_t kBlocks[] = {32, 128, 1, 40};
  constexpr uint32_t kShared[] = {0, 1024, 36864, 100000, 200000, 65536, 36864, 100000};
  constexpr uint32_t kClusters[] = {1, 2, 1, 2, 1, 2, 4, 16};
  config.block[0] = kBlocks[draw.below(4)];
  if (kernel.max_threads != 0 && draw.below(8) != 0) config.block[0] = kernel.max_threads;
  if (kernel.has_required_block) std::copy_n(kernel.required_block, 3, config.block);
  config.cluster[0] = kClusters[draw.below(8)];
  if (kernel.has_required_cluster) std::copy_n(kernel.required_cluster, 3, config.cluster);
  const uint32_t clusters = 1 + draw.below(2);
  for (int i = 0; i < 3; ++i) config.grid[i] = config.cluster[i] * (i == 0 ? clusters : 1);
  config.shared_bytes = kShared[draw.below(8)];
  return config;
}

bool is_small(const LaunchConfig& config) {
  constexpr uint32_t kMaxCluster = 16;
  const auto& b = config.block;
  const auto& c = config.cluster;
  return c[0] <= kMaxCluster && c[1] <= kMaxCluster && c[2] <= kMaxCluster &&
         c[0] * c[1] * c[2] <= kMaxCluster && b[0] <= kMaxThreads && b[1] <= kMaxThreads &&
         b[2] <= kMaxThreads && uint64_t{b[0]} * b[1] * b[2] <= kMaxThreads;
}

PtxOutcome launch(Device& device, const DeviceFunction& function, const vdev::ParsedKernel& kernel,
                  const LaunchConfig& config, Draw& draw) {
  const Result<DevicePtr> memory = device.allocate(kBufferBytes);
  if (!memory.ok()) complain("allocate", memory.status());
  if (Status s = device.fill(*memory, 0x3c, kFilledBytes); !s.ok()) complain("fill", s);
  ParameterBlock parameters = {};
  if (!fill_parameters(device, kernel, *memory, draw, parameters)) return PtxOutcome::kSkipped;
  Status status = device.prepare(function, config.shared_bytes);
  if (status.ok()) {
    status = device.launch(function, config, parameters.bytes, kernel.params_bytes, nullptr);
  }
  if (status.ok()) return PtxOutcome::kClean;
  check_error(status);
  return PtxOutcome::kReported;
}

}  // namespace

bool runs_strict(std::string_view input) {
  Draw draw{hash_first_line(input)};
  return draw_strict(draw);
}

PtxOutcome run_ptx_input(std::string_view input) {
  if (input.size() > kMaxInput) return PtxOutcome::kSkipped;
  const auto parsed = vdev::parse_ptx(std::string(input));
  if (!parsed.ok()) {
    check_error(parsed.status());
    return PtxOutcome::kRefused;
  }
  if (!variables_are_small(**parsed)) return PtxOutcome::kSkipped;

  Draw draw{hash_first_line(input)};
  const std::shared_ptr<Device> device = make_virtual_device(make_options(draw));
  Image image;
  image.bytes = input;
  const auto module = device->load(image);
  if (!module.ok()) {
    check_error(module.status());
    return PtxOutcome::kRefused;
  }
  if ((*parsed)->kernels.empty()) return PtxOutcome::kSkipped;
  const vdev::ParsedKernel& kernel = *(*parsed)->kernels[0];
  const auto function = (*module)->function(std::string(kernel.name));
  if (!function.ok()) complain("a kernel that was parsed is not there", function.status());
  const Status& refusal = dynamic_cast<const vdev::Function&>(**function).program().refusal;
  if (!refusal.ok()) {
    check_error(refusal);
    return PtxOutcome::kRefused;
  }
  const LaunchConfig config = make_config(kernel, draw);
  if (!is_small(config)) return PtxOutcome::kSkipped;
  return launch(*device, **function, kernel, config, draw);
}

}  // namespace lssar::test
