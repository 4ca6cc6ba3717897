// Reads of whole operands of wgmma from shared memory: many words that few operations wrote.
#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "runtime/virtual/block_runner.h"
#include "runtime/virtual/checker.h"

namespace lssar::vdev {
namespace {

constexpr uint32_t kUnitBytes = 16;
constexpr uint32_t kUnitWords = 4;
constexpr uint32_t kUnitsPerEntry = 64;
constexpr size_t kMostWriters = 16;

// Notes a writer; false where there are too many to keep.
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

void Checker::async_units(const AsyncIssue& issue, uint32_t rank, const uint64_t* units,
                          uint32_t first, uint32_t last, CheckedReads& found) {
  refresh_limits(*issue.warp);
  check_block_use(*issue.warp, *issue.op, rank);
  last_time_ = std::max(last_time_, issue.time);
  SharedShadow& shadow = shadows_[rank];
  const uint32_t op = runner_.launch().program->index_of(*issue.op);
  const Stamp mine = make_stamp(issue.time, kAllBytes, issue.agent, kWholeWarp, op);
  found.writers.clear();
  found.version = shadow.version();
  found.complete = true;
  Stamp seen = 0;
  for (uint32_t entry = first; entry <= last; ++entry) {
    if (units[entry] == 0) continue;
    const uint32_t begin = entry * kUnitsPerEntry * kUnitWords;
    const auto end = static_cast<uint32_t>(
        std::min<size_t>(begin + kUnitsPerEntry * kUnitWords, shadow.words()));
    // The quarters of wgmmas are not issued in the order of their times.
    const bool newest = !shadow.has_read_after(issue.agent, begin, end - begin, mine);
    Stamp* const readers = shadow.note_reads(issue.agent, begin, end - begin, mine);
    for (uint64_t bits = units[entry]; bits != 0;) {
      const auto low = static_cast<uint32_t>(std::countr_zero(bits));
      const auto length = static_cast<uint32_t>(std::countr_one(bits >> low));
      bits = low + length == kUnitsPerEntry ? 0 : bits >> (low + length) << (low + length);
      const uint32_t word = begin + low * kUnitWords;
      const uint32_t run_end = word + length * kUnitWords;
      const Stamp* const writers = shadow.writers();
      const uint8_t* const undefined = shadow.undefined();
      if (!same_writer(writers + word, undefined + word, run_end - word, seen)) {
        for (uint32_t w = word; w < run_end; w += kUnitWords) {
          if (same_writer(writers + w, undefined + w, kUnitWords, seen)) continue;
          found.complete &= check_unit(issue, rank, w, found.writers);
          seen = writers[w + kUnitWords - 1];
        }
      }
      if (newest) {
        std::fill(readers + word, readers + run_end, mine);
      } else {
        for (uint32_t w = word; w < run_end; ++w) readers[w] = std::max(readers[w], mine);
      }
    }
  }
}

// False: the reads must be looked at again by every warp.
bool Checker::check_unit(const AsyncIssue& issue, uint32_t rank, uint32_t word,
                         std::vector<Stamp>& writers) {
  const uint32_t address = word * kUnitBytes / kUnitWords;
  const Stamp* const w = shadows_[rank].writers() + word;
  bool complete = true;
  bool seen = true;
  for (uint32_t i = 0; i < kUnitWords; ++i) {
    seen &= w[i] < async_limits_[stamp_agent(w[i])];
    complete &= add_writer(writers, w[i]);
  }
  if (!seen) async_shared(issue, rank, address, kUnitBytes, false);
  if (any_undefined(rank, address, kUnitBytes)) {
    report(ReportKind::kUndefined, *issue.warp, *issue.op,
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
