#include "virtual/check/shared_shadow.h"

#include <bit>

namespace lssar::vdev {
namespace {
static_assert(SharedShadow::kUnitsPerChunk == 64, "units of a chunk are the bits of a uint64_t");
}  // namespace

void SharedShadow::reset(uint32_t bytes, bool forget_stamps, uint32_t first_by_unit,
                         uint32_t end_by_unit) {
  const size_t words = (size_t{bytes} + 3) / 4;
  const bool other_units = first_by_unit != first_by_unit_ || end_by_unit != end_by_unit_;
  if (words > words_ || forget_stamps || other_units) {
    words_ = words;
    writers_.assign(words, 0);
    planes_.clear();
  }
  first_by_unit_ = first_by_unit;
  end_by_unit_ = end_by_unit;
  undefined_.assign(words_, kAllBytes);
  only_writers_.assign(words_ / kChunkWords + 1, kUnknown);
  active_.clear();
  barriers_begin_ = ~0u;
  barriers_end_ = 0;
  ++version_;
  is_active_.assign(kMaxAgents, false);
}

void SharedShadow::add_plane(uint32_t agent) {
  if (agent >= planes_.size()) planes_.resize(agent + 1);
  Plane& plane = planes_[agent];
  plane.shift = agent >= first_by_unit_ && agent < end_by_unit_ ? kUnitShift : 0;
  plane.stamps.reset(new Stamp[(words_ >> plane.shift) + 1]());
  plane.newest.reset(new Stamp[words_ / kBlockWords + 1]());
}

Stamp SharedShadow::find_only_writer(uint32_t chunk) const {
  const size_t begin = size_t{chunk} * kChunkWords;
  if (begin + kChunkWords > words_) return 0;
  const Stamp* const writers = writers_.data() + begin;
  const Stamp first = writers[0];
  Stamp difference = 0;
  for (uint32_t i = 0; i < kChunkWords; ++i) difference |= writers[i] ^ first;
  uint8_t undefined = 0;
  for (uint32_t i = 0; i < kChunkWords; ++i) undefined |= undefined_[begin + i];
  return difference == 0 && undefined == 0 ? first : 0;
}

void SharedShadow::note_units(uint32_t agent, uint32_t chunk, uint64_t units, Stamp stamp) {
  Plane& plane = make_plane(agent);
  const uint32_t begin = chunk * kChunkWords;
  const auto end = static_cast<uint32_t>(std::min<size_t>(begin + kChunkWords, words_));
  bool newest = true;  // wgmmas' quarters are not issued in the order of their times
  for (uint32_t b = begin / kBlockWords; b <= (end - 1) / kBlockWords; ++b) {
    newest &= plane.newest[b] <= stamp;
  }
  Stamp* const stamps = note(plane, begin, end - begin, stamp) + chunk * kUnitsPerChunk;
  while (units != 0) {
    const auto low = static_cast<uint32_t>(std::countr_zero(units));
    const auto length = static_cast<uint32_t>(std::countr_one(units >> low));
    units = low + length == kUnitsPerChunk ? 0 : units >> (low + length) << (low + length);
    if (newest) {
      std::fill_n(stamps + low, length, stamp);
    } else {
      for (uint32_t u = low; u < low + length; ++u) stamps[u] = std::max(stamps[u], stamp);
    }
  }
}

}  // namespace lssar::vdev
