// Who accessed a word of memory last: what the shadows of the strict mode hold.
#pragma once

#include <cstdint>

namespace lssar::vdev {

// From the top: time (25 bits), bytes of the word (4), agent (12), lane (6), whether the access is
// strong (1: atomic, volatile, relaxed ...), instruction (16). So stamps of one agent compare as
// their times do. 0: never accessed.
using Stamp = uint64_t;
inline constexpr uint32_t kMaxAgents = 4096;
inline constexpr uint32_t kMaxTime = (1u << 25) - 1;
inline constexpr uint32_t kUnknownOp = (1u << 16) - 1;
inline constexpr uint32_t kAllBytes = 15;

inline constexpr uint32_t kStampTimeShift = 39;
inline constexpr uint32_t kStampBytesShift = 35;
inline constexpr uint32_t kStampAgentShift = 23;
inline constexpr uint32_t kStampLaneShift = 17;
inline constexpr Stamp kStampStrong = 1u << 16;

inline Stamp make_stamp(uint32_t time, uint32_t bytes, uint32_t agent, uint32_t lane, uint32_t op) {
  return Stamp{time} << kStampTimeShift | Stamp{bytes} << kStampBytesShift |
         Stamp{agent} << kStampAgentShift | Stamp{lane} << kStampLaneShift |
         Stamp{op < kUnknownOp ? op : kUnknownOp};
}
// The least stamp of a time.
inline Stamp stamp_limit(uint32_t time) { return Stamp{time} << kStampTimeShift; }
inline uint32_t stamp_time(Stamp s) { return static_cast<uint32_t>(s >> kStampTimeShift); }
inline uint32_t stamp_bytes(Stamp s) {
  return static_cast<uint32_t>(s >> kStampBytesShift) & kAllBytes;
}
inline uint32_t stamp_agent(Stamp s) {
  return static_cast<uint32_t>(s >> kStampAgentShift) & (kMaxAgents - 1);
}
inline uint32_t stamp_lane(Stamp s) { return static_cast<uint32_t>(s >> kStampLaneShift) & 63; }
inline uint32_t stamp_op(Stamp s) { return static_cast<uint32_t>(s) & kUnknownOp; }

}  // namespace lssar::vdev
