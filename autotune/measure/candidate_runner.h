// CandidateRunner: compiles, checks and times candidates for the search, so that a wrong candidate
// does no harm.
//
// There are two implementations. CandidateHost works in its own process, and dies with a candidate
// that crashes. WorkerRunner keeps worker processes, each a CandidateHost behind a pipe; it ends
// those that take too long and starts new ones. Tests of the search have a fake one. Threads:
// compile may be called from any number of threads at once, the others from one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autotune/table/bucket.h"
#include "autotune/table/sequence_lengths.h"
#include "autotune/table/tuning_record.h"
#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/sizes.h"
#include "compile/compiler.h"
#include "device/device.h"
#include "reference/random_inputs.h"
#include "runtime/open_device.h"

namespace lssar {

// What is tuned. Constant for the life of a runner.
struct RunnerTask {
  Problem problem;
  Sizes sizes;  // of timed runs
  SequenceLengths lengths = {};  // of their sequences, with problem.varlen; none: even_lengths
  Determinism determinism = Determinism::kRepeatable;

  DeviceChoice device = DeviceChoice::kAuto;
  int ordinal = 0;
  std::string target;  // "": the device's own
  CompilerChoice compiler = CompilerChoice::kAuto;
  std::string cache_directory;  // for compiled images; "none": they are kept in memory

  double compile_timeout_s = 120;
  // Limits one run of a check, including what is computed from its results, and one candidate's
  // share of the launches that are queued together. The worker processes enforce both.
  double run_timeout_s = 30;
};

struct CandidateSpec {
  std::string id;  // for messages: unique within a search
  Schedule schedule;
  // Used instead of the generated source, e.g. after an edit by hand.
  std::optional<KernelSource> source;
};

struct CompileReport {
  Verdict verdict = Verdict::kOk;  // kOk, kSpills, kAssemblerWarning, kCompileError, kTimeout, ...
  std::string reason;
  int registers = -1;    // most over the kernels; -1 = not known (no cubin was made)
  int spill_bytes = -1;  // sum over the kernels
  int shared_bytes = 0;  // most over the kernels, static and dynamic
  double ms = 0;         // of the compile; 0 if it was cached
};

struct CheckReport {
  Verdict verdict = Verdict::kOk;
  std::string reason;         // which tensor, where, how far
  double error = 0;           // largest relative L2 error of an output, beyond the rule's floor
  double baseline_error = 0;  // of the plain kernel (check_truth.h), same inputs
};

enum class CheckDepth {
  kQuick,  // small sizes, tile edges, two kinds of data
  kFull,   // every kind of data, sizes around the schedule's tiles, strict mode on a virtual device
};

struct TimeRequest {
  int rounds = 1;                      // every candidate once per round, in an order that changes
  int warmup = 1;                      // launches of each before the first round
  InputKind data = InputKind::kGauss;  // never zeros
  // Whether a GPU's L2 is emptied before every launch. If not, a launch finds in it what the one
  // before left, as in a program that does nothing else in between.
  bool cold_l2 = true;
};

struct TimeReport {
  Verdict verdict = Verdict::kOk;  // kOk, kTimeout, kCrashed, kDeviceError
  std::string reason;
  std::vector<double> samples_ms;  // one per round
};

// Launches that a runner queues before it looks at its limits.
inline constexpr size_t kSamplesPerQueue = 8;

class CandidateRunner {
 public:
  virtual ~CandidateRunner() = default;

  // The device that candidates run on, with the target that they are made for. `machine`: the same,
  // and the compiler, as records name them.
  virtual const DeviceInfo& device_info() const = 0;
  virtual const Machine& machine() const = 0;
  // Whether times are measured; a virtual device's are counted.
  virtual Evidence evidence() const = 0;

  // An error is the runner's (no device, no worker program, no memory) and ends the search. The
  // report says what is wrong with a candidate.
  virtual Result<CompileReport> compile(const CandidateSpec& candidate) = 0;
  // Fills outputs with poison before the run and puts guard zones around them. Compares with the
  // float64 reference (error_bound of candidate_check.h) and, if the determinism requires it, with
  // a second run, bit by bit.
  virtual Result<CheckReport> check(const CandidateSpec& candidate, CheckDepth depth) = 0;
  // One report per candidate. Launches are queued, so that the host's time is not measured.
  virtual Result<std::vector<TimeReport>> time(const std::vector<CandidateSpec>& candidates,
                                               const TimeRequest& request) = 0;
};

// In this process, without protection. Errors: those of open_device and open_compiler.
Result<std::unique_ptr<CandidateRunner>> open_candidate_host(const RunnerTask& task);

// In separate processes. `worker` is the path of the worker program; "": LSSAR_TUNE_WORKER, else
// lssar-tune-worker beside this library or command, or in ../libexec/lssar. kMissing lists what was
// tried.
Result<std::unique_ptr<CandidateRunner>> open_worker_runner(const RunnerTask& task,
                                                            int num_compile_workers,
                                                            const std::string& worker = "");

}  // namespace lssar
