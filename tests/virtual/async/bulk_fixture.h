// What the tests of bulk copies share: kernels of one warp with one instruction, in strict and fast
// mode, with every timing of asynchronous operations.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/virtual/async/box_reference.h"
#include "tests/virtual/ptx_fixture.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test {

struct BulkMode {
  const char* name;
  bool strict;
  AsyncTiming timing;
  uint64_t seed;
};
inline void PrintTo(const BulkMode& mode, std::ostream* out) { *out << mode.name; }
inline constexpr BulkMode kBulkModes[] = {
    {"FastLatest", false, AsyncTiming::kLatest, 0},
    {"FastEarliest", false, AsyncTiming::kEarliest, 0},
    {"StrictLatest", true, AsyncTiming::kLatest, 0},
    {"StrictEarliest", true, AsyncTiming::kEarliest, 5},
    {"StrictRandom", true, AsyncTiming::kRandom, 7},
};

struct BulkPointers {
  uint64_t out;    // %rd2
  uint64_t extra;  // %rd3
};

class BulkDevice {
 public:
  explicit BulkDevice(const BulkMode& mode);

  // One block of one warp.
  Status run(const std::string& text, const std::optional<TensorMapRequest>& map,
             const std::vector<int32_t>& coordinates, const BulkPointers& pointers);
  Status run_map(const std::string& text, const TensorMap& map,
                 const std::vector<int32_t>& coordinates, const BulkPointers& pointers,
                 uint32_t cluster = 1);
  // A cluster with this many blocks.
  Status run_cluster(const std::string& text, uint32_t blocks, const BulkPointers& pointers) {
    return run_map(text, {}, {}, pointers, blocks);
  }

  std::shared_ptr<Device> device;
};

// In all kernels: %r1 thread, %r2 the tile, %r3 the barrier (of one arrival), %r4 to %r8 the
// coordinates, %r20 the block's rank in its cluster, %rd1 the tensor map, %p1 thread is not 0.
// "%r4, %r5" for rank 2.
std::string coordinate_list(uint32_t rank);
// A kernel in which `issue` fills the tile of `tile_bytes`; it is awaited and copied to %rd2.
std::string load_kernel(const std::string& issue, uint32_t transaction_bytes, uint32_t tile_bytes);
// A kernel that fills the tile with tile_byte(), then commits `issue` and waits for it.
std::string store_kernel(const std::string& issue, uint32_t tile_bytes);
// A kernel that fills the tile of 256 bytes with tile_byte(). All blocks synchronise, run `body`,
// synchronise, and copy their tiles to %rd2, by rank.
std::string cluster_kernel(const std::string& body);
std::string wait_for_barrier();

uint32_t tile_word(uint32_t index);
uint8_t tile_byte(uint32_t address);

}  // namespace lssar::test
