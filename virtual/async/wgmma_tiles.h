// Operands of wgmma in shared memory: where their descriptors place each 16 bytes. They are cached,
// because kernels use the same few again and again. Used by the wgmma unit, by one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "virtual/check/checker.h"

namespace lssar::vdev {

// The key of an operand, or of a warp's rows of it.
struct WgmmaTileKey {
  uint64_t descriptor = 0;
  uint32_t first = 0;  // row
  uint32_t rows = 0;
  bool mn_major = false;
  bool operator==(const WgmmaTileKey&) const = default;
};

struct WgmmaTile {
  WgmmaTileKey key;
  std::vector<uint32_t> chunks;   // as find_matrix_chunks gives them
  uint32_t highest = 0;           // the largest of them
  std::vector<ChunkUnits> units;  // the same chunks for the checker, in rising order
};

class WgmmaTiles {
 public:
  // Null: `why` gets what is wrong with the descriptor.
  std::shared_ptr<const WgmmaTile> find(const WgmmaTileKey& key, const char*& why);

 private:
  static constexpr size_t kSlots = 512;  // a power of two
  static constexpr size_t kProbes = 16;  // slots that are tried for a key
  std::array<std::shared_ptr<const WgmmaTile>, kSlots> slots_;
};

}  // namespace lssar::vdev
