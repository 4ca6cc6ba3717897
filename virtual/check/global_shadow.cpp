#include "virtual/check/global_shadow.h"

#include <algorithm>

#include <fmt/format.h>

#include "virtual/check/checker.h"
#include "virtual/check/checker_access.h"
#include "virtual/state/cluster.h"
#include "virtual/state/fault.h"
#include "virtual/state/launch_context.h"
#include "virtual/state/splits.h"
#include "virtual/state/units.h"

namespace lssar::vdev {
namespace {
constexpr uint64_t kLineBytes = uint64_t{GlobalRecord::kWordsPerLine} * kWordBytes;
constexpr size_t kMostFences = 32;  // of a warp that others may still hand on
constexpr uint64_t kPageBytes = uint64_t{GlobalRecord::kWordsPerPage} * kWordBytes;
}  // namespace

GlobalRecord::Page& GlobalRecord::page(uint64_t number) {
  const std::lock_guard lock(mutex_);
  auto& place = pages_[number];
  if (!place) place = std::make_unique<Page>();
  return *place;
}

GlobalRecord::Cell& GlobalRecord::Page::cell(uint32_t word) {
  const uint32_t line = word / kWordsPerLine;
  if (((in_parts >> line) & 1) == 0) {
    if (!cells) cells = std::make_unique<Cell[]>(kWordsPerPage);
    std::fill_n(cells.get() + line * kWordsPerLine, kWordsPerLine, lines[line]);
    in_parts |= uint64_t{1} << line;
  }
  return cells[word];
}

void GlobalShadow::begin_cluster(const LaunchContext& launch, uint64_t cluster) {
  // NOTE: the record may have the address of an earlier launch's, but its pages are different.
  record_ = launch.global_record;
  last_page_ = ~uint64_t{0};
  ranges_ = launch.ranges.get();
  range_ = nullptr;
  cluster_ = static_cast<uint32_t>(cluster) + 1;
  known_.clear();
  fences_.clear();
  reads_.clear();
}

// How this access sees an earlier one.
GlobalShadow::Order GlobalShadow::order(const Checker& checker, const GlobalAccess& access,
                                        Stamp stamp, uint32_t cluster) const {
  if (access.strong && (stamp & kStampStrong) != 0) return Order::kSeen;
  if (cluster != cluster_) {
    const auto known = known_.find(cluster);
    const bool seen =
        known != known_.end() &&
        known->second.seen.covers(stamp_agent(stamp), stamp_time(stamp), stamp_lane(stamp));
    return seen ? Order::kSeen : Order::kNone;
  }
  const uint32_t agent = stamp_agent(stamp);
  if (agent == stamp_agent(access.stamp) && checker.is_in_order(stamp)) {
    return Order::kSeen;
  }
  const Knowledge& k = *access.knowledge;
  const uint32_t time = stamp_time(stamp);
  const uint32_t lanes = access.together != 0 ? access.together : 1u << access.lane;
  if (!k.covers(lanes, agent, time, stamp_lane(stamp))) return Order::kNone;
  if (!access.async || !checker.is_generic(stamp)) return Order::kSeen;
  return k.proxied(lanes, agent, time, stamp_lane(stamp)) ? Order::kSeen : Order::kOtherProxy;
}

// If lanes write one word by one instruction, any of them may win; that is no race.
bool GlobalShadow::is_same_store(const GlobalAccess& access, uint64_t address, Stamp earlier) {
  const uint32_t lane = stamp_lane(earlier);
  return access.writes && access.lanes != nullptr &&
         make_stamp(stamp_time(earlier), 0, stamp_agent(earlier), lane, stamp_op(earlier)) ==
             make_stamp(stamp_time(access.stamp), 0, stamp_agent(access.stamp), lane,
                        stamp_op(access.stamp)) &&
         access.lanes->touched(lane, {StateSpace::kGlobal, false, 0, address & ~uint64_t{3}});
}

void GlobalShadow::report(Checker& checker, const GlobalAccess& access, uint64_t address,
                          const Earlier& earlier) {
  const KernelProgram& program = *access.warp->cta->launch->program;
  const uint32_t index = stamp_op(earlier.stamp);
  const Op* other = index < program.ops.size() ? &program.ops[index] : nullptr;
  std::string what = fmt::format("lane {} {} global address {:#x}, which ", access.lane,
                                 access.writes ? "writes" : "reads", address);
  if (earlier.cluster == cluster_) {
    what += checker.describe(earlier.stamp, earlier.wrote);
  } else {
    what += earlier.cluster == GlobalRecord::kMany
                ? "several clusters"
                : fmt::format("cluster {} of the grid", earlier.cluster - 1);
    what += earlier.wrote ? " wrote" : " read";
    if (other != nullptr) what += " at " + describe_line(program.instruction(*other));
  }
  if (earlier.cluster != cluster_) {
    what += ": nothing orders the two";
    return checker.report_between_clusters(*access.warp, *access.op, what, other);
  }
  const bool proxy = earlier.order == Order::kOtherProxy;
  what += proxy ? ": visible to it, but not to the async proxy" : ": nothing orders the two";
  checker.report(proxy ? ReportKind::kProxyFence : ReportKind::kRace, *access.warp, *access.op,
                 what, other);
}

void GlobalShadow::check_cell(Checker& checker, const GlobalAccess& access,
                              GlobalRecord::Cell& cell, uint64_t address, uint32_t bytes) {
  const Stamp mine = access.stamp | Stamp{bytes} << kStampBytesShift;
  if (cell.writer_cluster != 0 && (stamp_bytes(cell.writer) & bytes) != 0) {
    const Order seen = order(checker, access, cell.writer, cell.writer_cluster);
    if (seen != Order::kSeen && !is_same_store(access, address, cell.writer)) {
      report(checker, access, address, {cell.writer, cell.writer_cluster, true, seen});
    }
  }
  if (access.writes) {
    if (cell.reader_cluster != 0 && (stamp_bytes(cell.reader) & bytes) != 0) {
      // NOTE: only the last of several readers is known. If readers belong to several clusters, one
      // that this cluster has not heard of is a race.
      const Order seen = cell.reader_cluster != GlobalRecord::kMany
                             ? order(checker, access, cell.reader, cell.reader_cluster)
                         : access.strong || !known_.empty() ? Order::kSeen
                                                            : Order::kNone;
      if (seen != Order::kSeen) {
        report(checker, access, address, {cell.reader, cell.reader_cluster, false, seen});
      }
    }
    cell.writer = mine;
    cell.writer_cluster = cluster_;
  }
  if (access.reads) {
    const bool others = cell.reader_cluster != 0 && cell.reader_cluster != cluster_;
    cell.reader = mine;
    cell.reader_cluster = others ? GlobalRecord::kMany : cluster_;
  }
}

// Reports words of an allocation that nobody has written, if the device follows it.
void GlobalShadow::check_written(Checker& checker, const GlobalAccess& access, uint64_t address) {
  uint8_t* const mark = unwritten_mark(address);
  if (mark == nullptr || __atomic_load_n(mark, __ATOMIC_RELAXED) == 0) return;
  if (access.reads) {
    checker.report(ReportKind::kUninitialised, *access.warp, *access.op,
                   fmt::format("lane {} reads global address {:#x}, byte {} of an allocation, "
                               "which nobody has written",
                               access.lane, address, address - range_->begin));
  }
  if (access.writes) __atomic_store_n(mark, uint8_t{0}, __ATOMIC_RELAXED);
}

// The mark that nobody has written the word; null if the device does not follow it.
uint8_t* GlobalShadow::unwritten_mark(uint64_t address) {
  if (range_ == nullptr || address - range_->begin >= range_->bytes) {
    range_ = ranges_->find(address, 1);
  }
  if (range_ == nullptr || !range_->unwritten) return nullptr;
  return range_->unwritten->data() + (address - range_->begin) / kWordBytes;
}

// Fast path: mostly all words of a line were written.
void GlobalShadow::check_line_written(Checker& checker, const GlobalAccess& access,
                                      uint64_t address) {
  const uint8_t* const marks = unwritten_mark(address);
  if (range_ != nullptr && range_->bytes - (address - range_->begin) >= kLineBytes) {
    uint8_t any = 0;
    for (uint32_t i = 0; marks != nullptr && i < GlobalRecord::kWordsPerLine; ++i) {
      any |= __atomic_load_n(marks + i, __ATOMIC_RELAXED);
    }
    if (any == 0) return;
  }
  for (uint64_t word = address; word < address + kLineBytes; word += kWordBytes) {
    check_written(checker, access, word);
  }
}

// Checks a whole line at once, if the access covers it and it was never accessed in parts.
bool GlobalShadow::access_line(Checker& checker, const GlobalAccess& access, uint64_t address,
                               uint64_t end) {
  if (address % kLineBytes != 0 || end - address < kLineBytes) return false;
  const uint64_t line = address % kPageBytes / kLineBytes;
  if (((page_->in_parts >> line) & 1) != 0) return false;
  check_line_written(checker, access, address);
  check_cell(checker, access, page_->lines[line], address, kAllBytes);
  return true;
}

void GlobalShadow::access(Checker& checker, const GlobalAccess& access, uint64_t address,
                          uint32_t bytes) {
  const uint64_t end = address + bytes;
  while (address < end) {
    const uint64_t number = address / kPageBytes;
    if (number != last_page_ || !lock_.owns_lock()) {
      release_page();
      if (number != last_page_) page_ = &record_->page(number);
      last_page_ = number;
      lock_ = std::unique_lock(page_->mutex);
    }
    while (address < end && address / kPageBytes == number) {
      if (access_line(checker, access, address, end)) {
        address += kLineBytes;
        continue;
      }
      const uint64_t next = std::min(end, address / kWordBytes * kWordBytes + kWordBytes);
      const auto part = static_cast<uint32_t>(next - address);
      const uint32_t mask = ((1u << part) - 1) << (address % kWordBytes);
      check_written(checker, access, address);
      check_cell(checker, access, page_->cell(address % kPageBytes / kWordBytes), address, mask);
      address = next;
    }
  }
}

void GlobalShadow::release_page() {
  if (lock_.owns_lock()) lock_.unlock();
}

void GlobalRecord::join(Clocks& to, const Clocks& from) {
  for (const auto& [cluster, clock] : from) to[cluster].join(clock);
}

// What fences handed on, as far as this access has seen them; its own warp's fences too.
void GlobalShadow::add_fenced(const GlobalAccess& access, SyncClock& into) const {
  for (const auto& [agent, fences] : fences_) {
    for (auto fence = fences.made.rbegin(); fence != fences.made.rend(); ++fence) {
      if (agent != access.warp->agent &&
          !access.knowledge->covers(1u << access.lane, agent, fence->time, fence->lane)) {
        continue;
      }
      into.join(fence->seen);
      break;
    }
  }
}

// Notes what a later fence may make visible, of this warp or of another that has seen this read.
void GlobalShadow::note_found(const StrongRead& read, const GlobalRecord::Clocks& clocks) {
  auto& found = fences_[read.warp->agent].found;
  const uint32_t time = stamp_time(read.stamp);
  if (found.empty() || found.back().time != time || found.back().lane != read.lane) {
    if (found.size() == kMostFences) found.erase(found.begin());
    found.push_back({time, read.lane, {}});
  }
  GlobalRecord::join(found.back().clocks, clocks);
}

// A thread that reads what was released has seen it.
void GlobalShadow::take(Checker& checker, Warp& warp, const GlobalRecord::Clocks& found) {
  for (const auto& [cluster, clock] : found) {
    if (cluster == cluster_) {
      checker.acquire(warp, warp.mask, clock);
    } else {
      known_[cluster].join(clock);
    }
  }
}

void GlobalShadow::synchronise(Checker& checker, const GlobalAccess& access, const OpFacts& facts,
                               uint64_t address) {
  release_page();
  Warp& warp = *access.warp;
  SyncClock seen;
  if (facts.releases) checker.release(warp, warp.mask, seen);
  const bool fenced = !facts.releases && !fences_.empty();
  if (fenced) add_fenced(access, seen);
  if (access.reads) reads_.push_back({&warp, access.stamp, access.lane, facts.acquires, address});
  if (!access.writes || !(facts.releases || fenced)) return;
  const std::lock_guard lock(record_->sync_mutex);
  GlobalRecord::Clocks& released = record_->releases[address];
  released[cluster_].join(seen);
  // The cluster also hands on what it has heard of others.
  GlobalRecord::join(released, known_);
}

void GlobalShadow::take_reads(Checker& checker) {
  for (const StrongRead& read : reads_) {
    GlobalRecord::Clocks found;
    {
      const std::lock_guard lock(record_->sync_mutex);
      const auto place = record_->releases.find(read.address);
      if (place == record_->releases.end()) continue;
      found = place->second;
    }
    if (read.acquires) {
      take(checker, *read.warp, found);
    } else {
      note_found(read, found);
    }
  }
  reads_.clear();
}

void GlobalShadow::fence(Checker& checker, Warp& warp, uint32_t lanes) {
  const uint32_t lane = lowest_bit(lanes);
  const uint32_t time = checker.time_of(warp);
  Fences& fences = fences_[warp.agent];
  SyncClock seen;
  checker.release(warp, lanes, seen);
  if (fences.made.size() == kMostFences) fences.made.erase(fences.made.begin());
  fences.made.push_back({time, lane, std::move(seen)});
  for (const auto& [agent, others] : fences_) {
    for (const Found& found : others.found) {
      if (agent == warp.agent || checker.covers(warp, lane, agent, found.time, found.lane)) {
        take(checker, warp, found.clocks);
      }
    }
  }
}

}  // namespace lssar::vdev
