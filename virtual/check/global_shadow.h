// What the strict mode knows of global memory: who wrote each 4-byte word, and who read it last.
// Accesses within a cluster are compared as in shared memory. Between clusters only strong accesses
// and fences order anything, and what these hand on is kept here.
//
// Each runner has one GlobalShadow. What all runners of a launch share is in a GlobalRecord.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "virtual/check/knowledge.h"
#include "virtual/check/stamp.h"
#include "virtual/program/kernel_program.h"
#include "virtual/state/memory_map.h"
#include "virtual/state/warp.h"

namespace lssar::vdev {

class Checker;
struct LaneAccess;
struct LaunchContext;

struct GlobalAccess {
  Warp* warp;
  const Op* op;
  const Knowledge* knowledge;
  uint32_t lane;
  Stamp stamp;  // without bytes
  bool writes;
  bool strong;
  bool async;
  bool reads = !writes;
  const LaneAccess* lanes = nullptr;  // its instruction; null: not one of lanes
  uint32_t together = 0;              // as AsyncIssue has it
};

// The shadow of the memory that a launch touches. The threads that run its clusters share it.
class GlobalRecord {
 public:
  struct Cell {
    Stamp writer = 0;
    uint32_t writer_cluster = 0;  // + 1; 0: nobody
    Stamp reader = 0;
    uint32_t reader_cluster = 0;  // + 1; 0: nobody; kMany
  };
  static constexpr uint32_t kMany = 0xffffffffu;
  static constexpr uint32_t kWordsPerPage = 1024;
  static constexpr uint32_t kWordsPerLine = 16;
  static constexpr uint32_t kLinesPerPage = kWordsPerPage / kWordsPerLine;
  // A line has one cell until it is accessed in parts. Bulk copies seldom do that.
  struct Page {
    std::mutex mutex;
    Cell lines[kLinesPerPage];
    uint64_t in_parts = 0;          // a bit per line that has a cell for each word
    std::unique_ptr<Cell[]> cells;  // for the words of those lines
    // The cell of a word of the page.
    Cell& cell(uint32_t word);
  };
  static_assert(kLinesPerPage <= 64, "Page::in_parts has a bit for each");
  // The page of a word; made on first use.
  Page& page(uint64_t number);

  // What was seen of each cluster, by cluster + 1.
  using Clocks = std::map<uint32_t, SyncClock>;
  static void join(Clocks& to, const Clocks& from);
  std::mutex sync_mutex;
  // What was released through each address that strong accesses use.
  std::unordered_map<uint64_t, Clocks> releases;

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
};

class GlobalShadow {
 public:
  void begin_cluster(const LaunchContext& launch, uint64_t cluster);
  void access(Checker& checker, const GlobalAccess& access, uint64_t address, uint32_t bytes);
  // access() keeps the last page locked until this is called.
  void release_page();
  // A strong access hands on what was released through its address now, before memory has its value.
  // What it takes is taken by take_found().
  void synchronise(Checker& checker, const GlobalAccess& access, const OpFacts& facts,
                   uint64_t address);
  // Takes what was released through the addresses of strong reads. Called when they have their values:
  // what another thread released in between came with the value.
  void take_found(Checker& checker) {
    if (!reads_.empty()) take_reads(checker);
  }
  // A fence of device scope by a warp. Its strong writes may from now on hand on what it had seen;
  // it has from now on seen what its strong reads found.
  void fence(Checker& checker, Warp& warp, uint32_t lanes);

 private:
  struct Fence {
    uint32_t time;  // of the warp
    uint32_t lane;  // one of the lanes that made it
    SyncClock seen;
  };
  struct Found {  // by a strong read
    uint32_t time;
    uint32_t lane;
    GlobalRecord::Clocks clocks;
  };
  struct Fences {
    std::vector<Fence> made;   // the latest ones
    std::vector<Found> found;  // likewise
  };
  struct StrongRead {
    Warp* warp;
    Stamp stamp;
    uint32_t lane;
    bool acquires;
    uint64_t address;
  };
  void take_reads(Checker& checker);
  void note_found(const StrongRead& read, const GlobalRecord::Clocks& clocks);
  void add_fenced(const GlobalAccess& access, SyncClock& into) const;
  void take(Checker& checker, Warp& warp, const GlobalRecord::Clocks& found);
  void check_cell(Checker& checker, const GlobalAccess& access, GlobalRecord::Cell& cell,
                  uint64_t address, uint32_t bytes);
  bool access_line(Checker& checker, const GlobalAccess& access, uint64_t address, uint64_t end);
  void check_written(Checker& checker, const GlobalAccess& access, uint64_t address);
  void check_line_written(Checker& checker, const GlobalAccess& access, uint64_t address);
  uint8_t* unwritten_mark(uint64_t address);
  // kOtherProxy: the generic proxy sees it, and this access is by the async one.
  enum class Order : uint8_t { kSeen, kOtherProxy, kNone };
  struct Earlier {
    Stamp stamp;
    uint32_t cluster;
    bool wrote;
    Order order;
  };
  Order order(const Checker& checker, const GlobalAccess& access, Stamp stamp,
              uint32_t cluster) const;
  static bool is_same_store(const GlobalAccess& access, uint64_t address, Stamp earlier);
  void report(Checker& checker, const GlobalAccess& access, uint64_t address,
              const Earlier& earlier);

  GlobalRecord* record_ = nullptr;
  const RangeTable* ranges_ = nullptr;
  const RangeTable::Range* range_ = nullptr;     // of the last access
  uint32_t cluster_ = 0;                         // + 1
  GlobalRecord::Clocks known_;                   // of other clusters; all warps know the same
  std::unordered_map<uint32_t, Fences> fences_;  // by warp
  std::vector<StrongRead> reads_;                // of the instruction that runs
  uint64_t last_page_ = ~uint64_t{0};
  GlobalRecord::Page* page_ = nullptr;
  std::unique_lock<std::mutex> lock_;  // holds the mutex of page_
};

}  // namespace lssar::vdev
