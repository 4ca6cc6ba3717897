// What the strict mode knows of a block's shared memory, by 4-byte word: who wrote it last, when
// each agent read it last, and which of its bytes are undefined. Used by the checker.
#pragma once

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
    is_active_.assign(kMaxAgents, false);
  }

  Stamp* writers() { return writers_.data(); }
  // Bytes that are undefined, 4 bits for each word.
  uint8_t* undefined() { return undefined_.data(); }
  // Stamps of an agent's reads; made when first asked for.
  Stamp* readers(uint32_t agent) {
    if (agent >= planes_.size()) planes_.resize(agent + 1);
    if (!planes_[agent]) planes_[agent].reset(new Stamp[words_]());
    if (!is_active_[agent]) {
      is_active_[agent] = true;
      active_.push_back(agent);
    }
    return planes_[agent].get();
  }
  // Agents that have read since the reset.
  const std::vector<uint32_t>& active() const { return active_; }

 private:
  size_t words_ = 0;
  std::vector<Stamp> writers_;
  std::vector<std::unique_ptr<Stamp[]>> planes_;
  std::vector<uint8_t> undefined_;
  std::vector<uint32_t> active_;
  std::vector<bool> is_active_;
};

}  // namespace lssar::vdev
