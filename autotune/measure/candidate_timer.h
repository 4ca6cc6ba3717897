// Times candidates on a GPU, all of them in rounds, without the host's time, and with a cold L2 if
// the request does not say otherwise. On the cpu device it times a part of the call, in caches as
// the call before left them.
//
// Used by CandidateHost. Threads: one at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autotune/measure/candidate_runner.h"
#include "runtime/engine.h"

namespace lssar {

struct TimedCandidate {
  CandidateSpec spec;
  KernelSource source;  // the candidate's own, or what its schedule emits
  int rounds_done = 0;  // by an earlier process, which ended
};

// Told of events when they happen. So an observer knows which candidate ran when a process dies.
class TimeObserver {
 public:
  virtual ~TimeObserver() = default;
  // What begins now may take as long as a compile.
  virtual void on_prepare(const std::vector<size_t>& candidates) = 0;
  // These candidates run now, by their places in the list. If there are several, their launches are
  // queued together.
  virtual void on_run(const std::vector<size_t>& candidates) = 0;
  virtual void on_sample(size_t candidate, double ms) = 0;
  virtual void on_failed(size_t candidate, Verdict verdict, const std::string& reason) = 0;
};

class CandidateTimer {
 public:
  // REQUIRES: the engine's device has a LaunchTimer.
  CandidateTimer(Engine& engine, const RunnerTask& task);

  // Takes one sample per candidate and round that is not done yet, except for candidates that
  // failed. Queues at most `chunk` samples before it waits for one. An error is the device's or the
  // host's; the device may be unusable afterwards.
  Status time(const std::vector<TimedCandidate>& candidates, const TimeRequest& request,
              size_t chunk, TimeObserver& observer);

 private:
  struct Prepared {
    size_t place = 0;
    int rounds_done = 0;
    std::shared_ptr<const PreparedKernel> kernel;
  };
  class Buffers;

  Status prepare_all(const std::vector<TimedCandidate>& candidates, TimeObserver& observer,
                     std::vector<Prepared>* prepared);
  Status warm_up(const Buffers& buffers, int launches, TimeObserver& observer,
                 std::vector<Prepared>* prepared);
  Status time_chunk(const Buffers& buffers, const std::vector<const Prepared*>& chunk, bool cold_l2,
                    LaunchTimer& timer, TimeObserver& observer);

  Engine& engine_;
  RunnerTask task_;   // with the sizes of the launches
  double share_ = 1;  // of the work of the caller's sizes
};

// The sizes that stand for `sizes` in timed launches of the cpu device: fewer heads and batch
// entries where a call would take long, because a CPU computes them one after the other. Heads that
// share keys stay together.
Sizes timed_cpu_sizes(const Problem& problem, const Sizes& sizes, int num_threads);
// The same of a call of sequences: fewer heads, then every n-th sequence. `sizes` are the call's,
// and become those of the sequences returned.
SequenceLengths timed_cpu_lengths(const Problem& problem, const SequenceLengths& lengths,
                                  int num_threads, Sizes* sizes);

}  // namespace lssar
