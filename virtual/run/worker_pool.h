// Threads that run the blocks of launches. Any number of launches may run at once. The launching
// thread works too.
#pragma once

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "virtual/run/block_runner.h"

namespace lssar::vdev {

class WorkerPool {
 public:
  // `num_threads` includes the launching thread. 0: as many as the machine has. A launch then uses
  // no more threads than ThreadLimit says and than its thread has CPUs, and runs on those CPUs.
  explicit WorkerPool(int num_threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Runs every cluster and waits. After a fault no new cluster begins; the Status is that of the
  // first cluster, in the grid's order, that failed. Reports of the strict mode stop nothing
  // (LaunchReports). Adds to `instructions` in either case.
  Status run(const LaunchContext& launch, uint64_t& instructions);

  // How far the most recent launch is.
  LaunchProgress progress() const { return {blocks_done_, blocks_}; }

 private:
  struct Job {
    const LaunchContext* launch = nullptr;
    std::atomic<uint64_t> next = 0;
    std::atomic<bool> failed = false;
    std::atomic<uint64_t> instructions = 0;
    cpu_set_t cpus;  // where the pool's threads run it
    int wanted = 0;  // threads of the pool that it wants; guarded by the pool's mutex
    int taken = 0;
    int working = 0;  // threads of the pool that work on it; guarded likewise
    std::mutex mutex;
    uint64_t failed_cluster = ~uint64_t{0};
    Status status;
    LaunchReports reports;
  };
  void ask_for_threads(Job& job) const;
  void work(Job& job);
  void worker_loop();
  std::unique_ptr<BlockRunner> take_runner();
  void give_runner(std::unique_ptr<BlockRunner> runner);

  std::atomic<uint64_t> blocks_done_ = 0, blocks_ = 0;
  const bool follows_caller_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::deque<Job*> jobs_;  // those that have blocks left
  bool stopping_ = false;
  std::vector<std::unique_ptr<BlockRunner>> idle_runners_;
  std::vector<std::thread> threads_;
};

}  // namespace lssar::vdev
