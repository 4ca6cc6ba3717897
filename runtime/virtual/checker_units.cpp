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
    Stamp* const readers = shadow.note_reads(issue.agent, begin, end - begin, mine);
    for (uint64_t bits = units[entry]; bits != 0; bits &= bits - 1) {
      const uint32_t word = begin + static_cast<uint32_t>(std::countr_zero(bits)) * kUnitWords;
      const Stamp* const w = shadow.writers() + word;
      Stamp* const r = readers + word;
      uint32_t undefined;
      std::memcpy(&undefined, shadow.undefined() + word, sizeof undefined);
      if (((w[0] ^ seen) | (w[1] ^ seen) | (w[2] ^ seen) | (w[3] ^ seen) | undefined) != 0) {
        found.complete &= check_unit(issue, rank, word, found.writers);
        seen = w[kUnitWords - 1];
      }
      // The quarters of a wgmma are not issued in the order of their times.
      for (uint32_t i = 0; i < kUnitWords; ++i) r[i] = std::max(r[i], mine);
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
