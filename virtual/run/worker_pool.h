// Threads that run the blocks of launches. Any number of launches may run at once; the thread that
// launches works too.
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
  // `num_threads` counts the launching thread. 0: as many as the machine has; a launch then takes no
  // more than ThreadLimit says, and than there are CPUs that its thread may run on, and runs on those.
  explicit WorkerPool(int num_threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

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
    cpu_set_t cpus;   // where the pool's threads run it
    int wanted = 0;   // threads of the pool, and those that came; guarded by the pool's mutex
    int taken = 0;
    int working = 0;  // of them; likewise
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
  std::deque<Job*> jobs_;  // with blocks left
  bool stopping_ = false;
  std::vector<std::unique_ptr<BlockRunner>> idle_runners_;
  std::vector<std::thread> threads_;
};

}  // namespace lssar::vdev
