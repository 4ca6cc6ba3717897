// What the strict mode knows of a block's shared memory, by 4-byte word: who wrote it last, when
// each agent read it last, and which of its bytes are undefined. Used by the checker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/virtual/stamp.h"

namespace lssar::vdev {

class SharedShadow {
 public:
  // Stamps of earlier clusters stay: their times lie before `base`.
  void reset(uint32_t bytes, bool forget_stamps) {
    const size_t words = (size_t{bytes} + 3) / 4;
    if (words > words_ || forget_stamps) {
      words_ = words;
      writers_.assign(words, 0);
      planes_.clear();
    }
    undefined_.assign(words, kAllBytes);
    active_.clear();
    ++version_;
    is_active_.assign(kMaxAgents, false);
  }

  Stamp* writers() { return writers_.data(); }
  size_t words() const { return words_; }
  // Changes whenever a writer or what is undefined may have.
  uint64_t version() const { return version_; }
  void note_write() { ++version_; }
  // Bytes that are undefined, 4 bits for each word.
  uint8_t* undefined() { return undefined_.data(); }
  // Stamps of an agent's reads, where those of words [first, first + count) are about to become
  // `stamp`.
  Stamp* note_reads(uint32_t agent, uint32_t first, uint32_t count, Stamp stamp) {
    Plane& plane = make_plane(agent);
    for (uint32_t b = first / kBlockWords; b <= (first + count - 1) / kBlockWords; ++b) {
      plane.newest[b] = std::max(plane.newest[b], stamp);
    }
    return plane.words.get();
  }
  // 0: the agent has not read the word.
  Stamp last_read(uint32_t agent, uint32_t word) const {
    const bool known = agent < planes_.size() && planes_[agent].words;
    return known ? planes_[agent].words[word] : 0;
  }
  // Of an active agent.
  const Stamp* readers(uint32_t agent) const { return planes_[agent].words.get(); }
  // Whether the agent may have read one of the words after `stamp`.
  bool has_read_after(uint32_t agent, uint32_t first, uint32_t count, Stamp stamp) {
    const Plane& plane = make_plane(agent);
    for (uint32_t b = first / kBlockWords; b <= (first + count - 1) / kBlockWords; ++b) {
      if (plane.newest[b] > stamp) return true;
    }
    return false;
  }
  // Calls f(word, stamp) for the reads of an active agent that are not older than `limit`.
  template <class F>
  void for_reads_since(uint32_t agent, uint32_t first, uint32_t count, Stamp limit, const F& f) {
    const Plane& plane = planes_[agent];
    const uint32_t end = first + count;
    for (uint32_t word = first; word < end;) {
      const uint32_t block = word / kBlockWords;
      const uint32_t block_end = std::min(end, (block + 1) * kBlockWords);
      for (; plane.newest[block] >= limit && word < block_end; ++word) {
        if (plane.words[word] >= limit) f(word, plane.words[word]);
      }
      word = block_end;
    }
  }
  // Agents that have read since the reset.
  const std::vector<uint32_t>& active() const { return active_; }

 private:
  static constexpr uint32_t kBlockWords = 64;
  struct Plane {
    std::unique_ptr<Stamp[]> words;
    std::unique_ptr<Stamp[]> newest;  // of each block of words
  };

  Plane& make_plane(uint32_t agent) {
    if (agent >= planes_.size()) planes_.resize(agent + 1);
    Plane& plane = planes_[agent];
    if (!plane.words) {
      plane.words.reset(new Stamp[words_]());
      plane.newest.reset(new Stamp[words_ / kBlockWords + 1]());
    }
    if (!is_active_[agent]) {
      is_active_[agent] = true;
      active_.push_back(agent);
    }
    return plane;
  }

  size_t words_ = 0;
  uint64_t version_ = 0;
  std::vector<Stamp> writers_;
  std::vector<Plane> planes_;  // by agent; made when it first reads
  std::vector<uint8_t> undefined_;
  std::vector<uint32_t> active_;
  std::vector<bool> is_active_;
};

}  // namespace lssar::vdev
