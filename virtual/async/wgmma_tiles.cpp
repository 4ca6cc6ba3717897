#include "virtual/async/wgmma_tiles.h"

#include <algorithm>

#include "virtual/async/matrix_descriptor.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {

size_t hash(const WgmmaTileKey& key) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u;
  const uint64_t rest =
      uint64_t{key.first} << 40 | uint64_t{key.rows} << 1 | (key.mn_major ? 1 : 0);
  return static_cast<size_t>((key.descriptor + rest * kOdd) * kOdd >> 32);
}

std::vector<ChunkUnits> units_of(std::vector<uint32_t> addresses) {
  std::sort(addresses.begin(), addresses.end());
  std::vector<ChunkUnits> units;
  for (const uint32_t address : addresses) {
    const uint32_t unit = address / kChunkBytes;
    const uint32_t chunk = unit / SharedShadow::kUnitsPerChunk;
    if (units.empty() || units.back().chunk != chunk) units.push_back({chunk, 0});
    units.back().units |= uint64_t{1} << unit % SharedShadow::kUnitsPerChunk;
  }
  return units;
}

}  // namespace

std::shared_ptr<const WgmmaTile> WgmmaTiles::find(const WgmmaTileKey& key, const char*& why) {
  const size_t begin = hash(key);
  size_t probe = 0;
  for (; probe < kProbes; ++probe) {
    const auto& candidate = slots_[(begin + probe) % kSlots];
    if (candidate == nullptr) break;
    if (candidate->key == key) return candidate;
  }
  if (probe == kProbes) probe = 0;
  MatrixDescriptor descriptor;
  why = decode_matrix_descriptor(key.descriptor, descriptor);
  if (why != nullptr) return nullptr;
  auto tile = std::make_shared<WgmmaTile>();
  tile->key = key;
  tile->chunks.resize(size_t{2} * key.rows);
  find_matrix_chunks(descriptor, key.mn_major, key.first, key.rows, tile->chunks.data());
  tile->highest = *std::max_element(tile->chunks.begin(), tile->chunks.end());
  tile->units = units_of(tile->chunks);
  std::shared_ptr<const WgmmaTile>& slot = slots_[(begin + probe) % kSlots];
  slot = std::move(tile);
  return slot;
}

}  // namespace lssar::vdev
