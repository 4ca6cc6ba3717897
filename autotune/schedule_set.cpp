#include "autotune/schedule_set.h"

#include <initializer_list>
#include <utility>

namespace lssar {
namespace {

// Four numbers of 16 bits.
uint64_t word(int a, int b, int c, int d) {
  return uint64_t(uint16_t(a)) << 48 | uint64_t(uint16_t(b)) << 32 | uint64_t(uint16_t(c)) << 16 |
         uint16_t(d);
}

uint64_t word(const Tiling& tiling) {
  return word(tiling.block_rows, tiling.block_cols, tiling.stages, tiling.min_blocks);
}

// Flags and enumerators, a nibble each.
uint64_t nibbles(std::initializer_list<int> values) {
  uint64_t bits = 0;
  for (const int value : values) bits = bits << 4 | static_cast<uint64_t>(value);
  return bits;
}

}  // namespace

ScheduleSet::Packed ScheduleSet::pack(const Schedule& s) {
  const HopperOptions& h = s.hopper;
  const int flags = s.split_dkdv << 0 | s.skip_tiles << 1 | s.pack_gqa << 2 | h.overlap << 3 |
                    h.ping_pong << 4 | h.queries_in_registers << 5 | h.persistent << 6 |
                    h.tickets << 7;
  return {word(s.forward),
          word(s.dkdv),
          word(s.dq),
          word(s.block_dv, s.softplus_degree, h.score_cols, flags),
          word(h.cluster, h.stagger, h.producer_registers, h.consumer_registers),
          uint64_t(h.head_group) << 36 |
              nibbles({int(s.variant), int(s.load_path), int(s.dq_mode), int(s.epsilon),
                       int(h.weights_from), int(h.store_path), int(h.sum_path), int(h.norm_form),
                       int(h.evaluator)})};
}

uint32_t ScheduleSet::hash_of(const Packed& packed) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a, in words
  for (const uint64_t one : packed) {
    hash = (hash ^ one) * 1099511628211u;
    hash ^= hash >> 32;
  }
  return static_cast<uint32_t>(hash);
}

size_t ScheduleSet::slot_of(const Packed& packed, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].number != kFree &&
         (slots_[at].hash != hash || packed_[slots_[at].number] != packed))
    at = (at + 1) & mask;
  return at;
}

bool ScheduleSet::insert(const Schedule& schedule) {
  if (2 * packed_.size() >= slots_.size()) grow();
  const Packed packed = pack(schedule);
  const uint32_t hash = hash_of(packed);
  Slot& slot = slots_[slot_of(packed, hash)];
  if (slot.number != kFree) return false;
  slot = {hash, static_cast<uint32_t>(packed_.size())};
  packed_.push_back(packed);
  return true;
}

std::optional<size_t> ScheduleSet::find(const Schedule& schedule) const {
  if (slots_.empty()) return std::nullopt;
  const Packed packed = pack(schedule);
  const Slot& slot = slots_[slot_of(packed, hash_of(packed))];
  if (slot.number == kFree) return std::nullopt;
  return slot.number;
}

void ScheduleSet::grow() {
  constexpr size_t kFewest = 1024, kFactor = 4;
  const std::vector<Slot> before = std::move(slots_);
  slots_.assign(before.empty() ? kFewest : kFactor * before.size(), Slot());
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.number == kFree) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].number != kFree) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace lssar
