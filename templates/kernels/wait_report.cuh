// What a wait that lasts too long writes for the host: see ptx/wait_limit.cuh.
//
// Read by the host compiler too (runtime/wait_limit.cpp prints it): plain types only.
#pragma once

namespace lssar_device {

// NOTE: enumerators: compilers put constants into the image.
enum WaitSizes : int {
  kMaxWaitRecords = 32,
  kClusterWatchBytes = 16,  // at the end of dynamic shared memory: see ptx/cluster_watch.cuh
};

enum WaitKind : unsigned { kWaitMbarrier, kWaitTurn, kWaitCluster };

struct WaitRecord {
  unsigned kind;              // a WaitKind
  unsigned line;              // lines from kWaitBaseLine to the wait
  unsigned block, thread;     // the first thread of those that wait here together
  unsigned long long place;   // an mbarrier's place in shared memory, a counter's address
  unsigned long long wanted;  // parity of the phase, value of the counter
};

// In the order in which they came: who is first waits longest.
struct WaitReport {
  unsigned count;  // also of those that found no room
  unsigned reserved;
  WaitRecord records[kMaxWaitRecords];
};

}  // namespace lssar_device
