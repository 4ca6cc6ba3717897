#include "autotune/space/schedule_set.h"

#include <bit>
#include <iterator>
#include <utility>

#include "codegen/schedule_fields.h"

namespace lssar {
namespace {

// Bits that distinguish the values of a field's type. A legal schedule's numbers fit in 16.
template <typename T>
consteval int bits_of() {
  if constexpr (has_fields<T>) {
    int bits = 0;
    for_each_field<T>([&]<typename M>(const Field<T, M>&) { bits += bits_of<M>(); });
    return bits;
  } else if constexpr (std::is_enum_v<T>) {
    return std::bit_width(std::size(enum_names<T>) - 1);
  } else {
    return std::is_same_v<T, bool> ? 1 : 16;
  }
}

// Packs field after field, from the lowest bit of the first word on.
template <size_t N>
class Packer {
 public:
  template <typename S>
  void add(const S& from) {
    for_each_field<S>([&]<typename T>(const Field<S, T>& field) {
      const T& value = from.*field.member;
      if constexpr (has_fields<T>) {
        add(value);
      } else {
        put(std::is_same_v<T, int> ? static_cast<uint16_t>(value) : static_cast<uint64_t>(value),
            bits_of<T>());
      }
    });
  }
  const std::array<uint64_t, N>& words() const { return words_; }

 private:
  void put(uint64_t value, int bits) {
    const int word = at_ / 64, shift = at_ % 64;
    words_[word] |= value << shift;
    if (shift + bits > 64) words_[word + 1] |= value >> (64 - shift);
    at_ += bits;
  }

  std::array<uint64_t, N> words_ = {};
  int at_ = 0;
};

}  // namespace

ScheduleSet::Packed ScheduleSet::pack(const Schedule& schedule) {
  static_assert(bits_of<Schedule>() <= 64 * std::tuple_size_v<Packed>, "Packed has room for it");
  Packer<std::tuple_size_v<Packed>> packer;
  packer.add(schedule);
  return packer.words();
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
