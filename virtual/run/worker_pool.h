// Threads that run the blocks of launches. Any number of launches may run at once; the thread that
// launches works too.
#pragma once

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
  // `num_threads` counts the launching thread.
  explicit WorkerPool(int num_threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs every cluster and waits. After a fault no new clusters are begun, and the Status is that
  // of the first one, in the grid's order, that failed. Reports stop nothing: see LaunchReports.
  // Adds to `instructions` in either case.
  Status run(const LaunchContext& launch, uint64_t& instructions);

  // How far the launch is that was begun last.
  LaunchProgress progress() const { return {blocks_done_, blocks_}; }

 private:
  struct Job {
    const LaunchContext* launch = nullptr;
    std::atomic<uint64_t> next = 0;
    std::atomic<bool> failed = false;
    std::atomic<uint64_t> instructions = 0;
    int working = 0;  // threads; guarded by the pool's mutex
    std::mutex mutex;
    uint64_t failed_cluster = ~uint64_t{0};
    Status status;
    LaunchReports reports;
  };
  void work(Job& job);
  void worker_loop();
  std::unique_ptr<BlockRunner> take_runner();
  void give_runner(std::unique_ptr<BlockRunner> runner);

  std::atomic<uint64_t> blocks_done_ = 0, blocks_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::deque<Job*> jobs_;  // with blocks left
  bool stopping_ = false;
  std::vector<std::unique_ptr<BlockRunner>> idle_runners_;
  std::vector<std::thread> threads_;
};

}  // namespace lssar::vdev
