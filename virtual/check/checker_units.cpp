// Reads of whole wgmma operands from shared memory: many words that few operations wrote.
#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "virtual/check/checker.h"
#include "virtual/check/checker_access.h"
#include "virtual/state/cluster.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kUnitBytes = 16;
constexpr uint32_t kUnitWords = SharedShadow::kUnitWords;
constexpr size_t kMostWriters = 16;

// Notes a writer. False: there are too many to keep.
bool add_writer(std::vector<Stamp>& writers, Stamp writer) {
  if (std::find(writers.begin(), writers.end(), writer) != writers.end()) return true;
  if (writers.size() == kMostWriters) return false;
  writers.push_back(writer);
  return true;
}

// Whether all words, at least four, have this writer and are defined.
bool same_writer(const Stamp* writers, const uint8_t* undefined, uint32_t count, Stamp writer) {
  Stamp difference = 0;
  uint32_t any = 0;
  for (uint32_t i = 0; i < count; i += kUnitWords) {
    for (uint32_t k = 0; k < kUnitWords; ++k) difference |= writers[i + k] ^ writer;
    uint32_t unit;
    std::memcpy(&unit, undefined + i, sizeof unit);
    any |= unit;
  }
  return difference == 0 && any == 0;
}

}  // namespace

void Checker::async_units(const AsyncIssue& issue, uint32_t rank, const ChunkUnits* chunks,
                          size_t count, CheckedReads& found) {
  const Who who = who_issued(issue);
  check_block_use(*issue.warp, *issue.op, rank);
  SharedShadow& shadow = shadows_[rank];
  found.writers.clear();
  found.version = shadow.version();
  found.complete = true;
  Stamp seen = 0;
  const Stamp mine = who.stamp | Stamp{kAllBytes} << kStampBytesShift;
  for (size_t i = 0; i < count; ++i) {
    const Stamp writer = shadow.only_writer(chunks[i].chunk);
    if (writer == 0 || writer >= async_limits_[stamp_agent(writer)]) {
      check_chunk(who, rank, chunks[i], found);
    } else if (writer != seen) {
      found.complete &= add_writer(found.writers, writer);
      seen = writer;
    }
    shadow.note_units(issue.agent, chunks[i].chunk, chunks[i].units, mine);
  }
}

// Checks units of a chunk that several operations wrote, or that not every reader has seen.
void Checker::check_chunk(const Who& who, uint32_t rank, const ChunkUnits& chunk,
                          CheckedReads& found) {
  const Stamp* const writers = shadows_[rank].writers();
  const uint8_t* const undefined = shadows_[rank].undefined();
  Stamp seen = 0;
  for (uint64_t units = chunk.units; units != 0;) {
    const auto low = static_cast<uint32_t>(std::countr_zero(units));
    const auto length = static_cast<uint32_t>(std::countr_one(units >> low));
    units = low + length == 64 ? 0 : units >> (low + length) << (low + length);
    const uint32_t word = chunk.chunk * SharedShadow::kChunkWords + low * kUnitWords;
    const uint32_t end = word + length * kUnitWords;
    if (same_writer(writers + word, undefined + word, end - word, seen)) continue;
    for (uint32_t w = word; w < end; w += kUnitWords) {
      if (same_writer(writers + w, undefined + w, kUnitWords, seen)) continue;
      found.complete &= check_unit(who, rank, w, found.writers);
      seen = writers[w + kUnitWords - 1];
    }
  }
}

// False: every warp must check the reads itself.
bool Checker::check_unit(const Who& who, uint32_t rank, uint32_t word,
                         std::vector<Stamp>& writers) {
  const Stamp* const w = shadows_[rank].writers() + word;
  bool complete = true;
  for (uint32_t i = 0; i < kUnitWords; ++i) {
    complete &= add_writer(writers, w[i]);
    if (w[i] < async_limits_[stamp_agent(w[i])]) continue;
    compare(who, rank, word + i, w[i], true, kAllBytes);
  }
  const uint32_t address = word * kUnitBytes / kUnitWords;
  if (any_undefined(rank, address, kUnitBytes)) {
    report(ReportKind::kUndefined, who.warp, who.op,
           fmt::format("reads shared memory that nobody wrote, or that an operation in flight is "
                       "to write, at {:#x}",
                       address));
    complete = false;
  }
  return complete;
}

bool Checker::are_seen(const AsyncIssue& issue, uint32_t rank, const CheckedReads& reads) {
  if (!reads.complete || reads.version != shadows_[rank].version()) return false;
  refresh_limits(*issue.warp);
  return std::all_of(reads.writers.begin(), reads.writers.end(),
                     [&](Stamp w) { return w < async_limits_[stamp_agent(w)]; });
}

}  // namespace lssar::vdev
