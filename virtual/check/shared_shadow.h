// What the strict mode knows of a block's shared memory, by 4-byte word: who wrote it last, when
// each agent read it last, and which of its bytes are undefined. Used by the checker.
//
// For agents that read whole operands (wgmma), reads are kept by 16-byte unit. Words are grouped in
// chunks of 1 KB; for a chunk it is remembered whether one write made all its words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "virtual/check/stamp.h"

namespace lssar::vdev {

class SharedShadow {
 public:
  static constexpr uint32_t kUnitWords = 4;
  static constexpr uint32_t kChunkWords = 256;
  static constexpr uint32_t kUnitsPerChunk = kChunkWords / kUnitWords;

  // Stamps of earlier clusters stay, because their times lie before `base`. For agents
  // [first_by_unit, end_by_unit) reads are kept by unit.
  void reset(uint32_t bytes, bool forget_stamps, uint32_t first_by_unit, uint32_t end_by_unit);

  Stamp* writers() { return writers_.data(); }
  size_t words() const { return words_; }
  // Changes whenever a writer, or what is undefined, may have changed.
  uint64_t version() const { return version_; }
  // Call it before writers or undefined bytes of words [first, first + count) change.
  void note_write(uint32_t first, uint32_t count) {
    ++version_;
    if (count == 0) return;
    const uint32_t last = (first + count - 1) / kChunkWords;
    for (uint32_t c = first / kChunkWords; c <= last; ++c) only_writers_[c] = kUnknown;
  }
  // The stamp of the write that made all words of a chunk, none of them with undefined bytes; 0:
  // there is none.
  Stamp only_writer(uint32_t chunk) {
    if (only_writers_[chunk] == kUnknown) only_writers_[chunk] = find_only_writer(chunk);
    return only_writers_[chunk];
  }
  // The same if it is known already, for chunks that are written as a whole.
  Stamp known_writer(uint32_t chunk) const {
    return only_writers_[chunk] == kUnknown ? 0 : only_writers_[chunk];
  }
  // Notes that a barrier begins at the word. may_hold_barrier says yes for everything between the
  // lowest and the highest barrier since the reset.
  void note_barrier(uint32_t word) {
    barriers_begin_ = std::min(barriers_begin_, word);
    barriers_end_ = std::max(barriers_end_, word + kBarrierWords);
  }
  bool may_hold_barrier(uint32_t first, uint32_t count) const {
    return first < barriers_end_ && first + count > barriers_begin_;
  }
  // A bit for each undefined byte, 4 bits per word.
  uint8_t* undefined() { return undefined_.data(); }
  // The stamps of an agent's reads by word. The caller is about to set those of words [first, first
  // + count) to `stamp`. Not for agents by unit.
  Stamp* note_reads(uint32_t agent, uint32_t first, uint32_t count, Stamp stamp) {
    return note(make_plane(agent), first, count, stamp);
  }
  // An agent by unit reads units of a chunk, given as bits. Its stamps may come in any order.
  void note_units(uint32_t agent, uint32_t chunk, uint64_t units, Stamp stamp);
  // 0: the agent has not read the word.
  Stamp last_read(uint32_t agent, uint32_t word) const {
    const bool known = agent < planes_.size() && planes_[agent].stamps;
    return known ? planes_[agent].stamps[word >> planes_[agent].shift] : 0;
  }
  // Calls f(word, stamp) for the reads of an active agent that are not older than `limit`; once per
  // unit.
  template <class F>
  void for_reads_since(uint32_t agent, uint32_t first, uint32_t count, Stamp limit, const F& f) {
    const Plane& plane = planes_[agent];
    const uint32_t end = first + count;
    for (uint32_t word = first; word < end;) {
      const uint32_t block = word / kBlockWords;
      const uint32_t block_end = std::min(end, (block + 1) * kBlockWords);
      while (plane.newest[block] >= limit && word < block_end) {
        const uint32_t at = word >> plane.shift;
        if (plane.stamps[at] >= limit) f(word, plane.stamps[at]);
        word = (at + 1) << plane.shift;
      }
      word = block_end;
    }
  }
  // Agents that have read since the reset.
  const std::vector<uint32_t>& active() const { return active_; }

 private:
  static constexpr uint32_t kBlockWords = 64;
  static constexpr uint32_t kBarrierWords = 2;
  static constexpr uint32_t kUnitShift = 2;
  static constexpr Stamp kUnknown = ~Stamp{0};
  struct Plane {
    uint32_t shift = 0;  // 0: by word, kUnitShift: by unit
    std::unique_ptr<Stamp[]> stamps;
    std::unique_ptr<Stamp[]> newest;  // of each block of words
  };

  static Stamp* note(Plane& plane, uint32_t first, uint32_t count, Stamp stamp) {
    for (uint32_t b = first / kBlockWords; b <= (first + count - 1) / kBlockWords; ++b) {
      plane.newest[b] = std::max(plane.newest[b], stamp);
    }
    return plane.stamps.get();
  }
  Plane& make_plane(uint32_t agent) {
    if (agent >= planes_.size() || !planes_[agent].stamps) add_plane(agent);
    if (!is_active_[agent]) {
      is_active_[agent] = true;
      active_.push_back(agent);
    }
    return planes_[agent];
  }
  void add_plane(uint32_t agent);
  Stamp find_only_writer(uint32_t chunk) const;

  size_t words_ = 0;
  uint32_t first_by_unit_ = 0;
  uint32_t end_by_unit_ = 0;
  uint32_t barriers_begin_ = ~0u;
  uint32_t barriers_end_ = 0;
  uint64_t version_ = 0;
  std::vector<Stamp> writers_;
  std::vector<Stamp> only_writers_;  // by chunk; kUnknown: not computed yet
  std::vector<Plane> planes_;        // by agent; made at its first read
  std::vector<uint8_t> undefined_;
  std::vector<uint32_t> active_;
  std::vector<bool> is_active_;
};

}  // namespace lssar::vdev
