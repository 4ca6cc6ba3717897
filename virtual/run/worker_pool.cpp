#include "virtual/run/worker_pool.h"

#include <algorithm>

#include "device/default_float_mode.h"
#include "device/thread_value.h"
#include "virtual/state/launch_context.h"

namespace lssar::vdev {
WorkerPool::WorkerPool(int num_threads) : follows_caller_(num_threads <= 0) {
  if (follows_caller_) num_threads = static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 1; i < num_threads; ++i) threads_.emplace_back([this] { worker_loop(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::unique_ptr<BlockRunner> WorkerPool::take_runner() {
  const std::lock_guard lock(mutex_);
  if (idle_runners_.empty()) return std::make_unique<BlockRunner>();
  auto runner = std::move(idle_runners_.back());
  idle_runners_.pop_back();
  return runner;
}

void WorkerPool::give_runner(std::unique_ptr<BlockRunner> runner) {
  const std::lock_guard lock(mutex_);
  idle_runners_.push_back(std::move(runner));
}

void WorkerPool::work(Job& job) {
  const DefaultFloatMode float_mode;
  std::unique_ptr<BlockRunner> runner = take_runner();
  const uint64_t num_clusters = job.launch->num_clusters();
  const auto fail = [&job](uint64_t cluster, Status status) {
    const std::lock_guard lock(job.mutex);
    if (!job.failed || cluster < job.failed_cluster) {
      job.failed_cluster = cluster;
      job.status = std::move(status);
    }
    job.failed = true;
  };
  if (Status status = runner->prepare(*job.launch); !status.ok()) fail(0, std::move(status));
  uint64_t instructions = 0;
  while (!job.failed) {
    const uint64_t cluster = job.next.fetch_add(1);
    if (cluster >= num_clusters) break;
    if (Status status = runner->run(cluster); !status.ok()) fail(cluster, std::move(status));
    job.reports.add(cluster, runner->take_reports());
    instructions += runner->instructions();
    ++blocks_done_;
  }
  runner->finish();
  job.instructions += instructions;
  give_runner(std::move(runner));
}

void WorkerPool::ask_for_threads(Job& job) const {
  job.wanted = static_cast<int>(threads_.size());
  if (!follows_caller_) return;
  // An error if the machine has more CPUs than the set holds: then all threads are used.
  const bool known = sched_getaffinity(0, sizeof(job.cpus), &job.cpus) == 0;
  const int num_cpus = known ? CPU_COUNT(&job.cpus) : num_threads();
  if (!known) CPU_ZERO(&job.cpus);
  const int limit = ThreadLimit::get();
  job.wanted = std::min(job.wanted, (limit == 0 ? num_cpus : std::min(limit, num_cpus)) - 1);
}

void WorkerPool::worker_loop() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job& job = *jobs_.front();
    ++job.working;
    if (++job.taken == job.wanted) jobs_.pop_front();
    lock.unlock();
    if (CPU_COUNT(&job.cpus) > 0 && !CPU_EQUAL(&job.cpus, &mine)) {
      mine = job.cpus;
      // If it fails because a CPU has gone, the thread stays where it was.
      (void)sched_setaffinity(0, sizeof(mine), &mine);
    }
    work(job);
    lock.lock();
    // The job has nothing left to begin.
    if (const auto it = std::find(jobs_.begin(), jobs_.end(), &job); it != jobs_.end()) {
      jobs_.erase(it);
    }
    if (--job.working == 0) done_.notify_all();
  }
}

Status WorkerPool::run(const LaunchContext& launch, uint64_t& instructions) {
  Job job;
  job.launch = &launch;
  blocks_done_ = 0;
  blocks_ = launch.num_clusters();
  CPU_ZERO(&job.cpus);
  ask_for_threads(job);
  const bool share = launch.num_blocks() > 1 && job.wanted > 0;
  if (share) {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
  }
  if (share) wake_.notify_all();
  work(job);
  if (share) {
    std::unique_lock lock(mutex_);
    if (const auto it = std::find(jobs_.begin(), jobs_.end(), &job); it != jobs_.end()) {
      jobs_.erase(it);
    }
    done_.wait(lock, [&job] { return job.working == 0; });
  }
  instructions += job.instructions;
  return job.reports.result(job.failed_cluster, std::move(job.status));
}

}  // namespace lssar::vdev
