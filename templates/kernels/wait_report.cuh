// What a wait that lasts too long reports to the host: see ptx/wait_limit_on.cuh.
//
// The host compiler reads this file too (runtime/debug/wait_limit.cpp prints the report), so it has only
// plain types.
#pragma once

namespace lssar_device {

// NOTE: enumerators, because compilers would put constants into the image.
enum WaitSizes : int {
  kMaxWaitRecords = 32,
  kClusterWatchBytes = 16,  // at the end of dynamic shared memory: see ptx/cluster_watch.cuh
};

enum WaitKind : unsigned { kWaitMbarrier, kWaitTurn, kWaitCluster };

struct WaitRecord {
  unsigned kind;              // a WaitKind
  unsigned line;              // lines from kWaitBaseLine to the wait
  unsigned block, thread;     // the first of the threads that wait here together
  unsigned long long place;   // address of the mbarrier in shared memory, or of the counter
  unsigned long long wanted;  // parity of the phase, or value of the counter
};

// Records are in the order in which waits reached half their limit, so the first one waits longest.
struct WaitReport {
  unsigned count;  // of all records, including those that did not fit
  unsigned reserved;
  WaitRecord records[kMaxWaitRecords];
};

}  // namespace lssar_device
