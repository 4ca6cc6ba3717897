#include "autotune/measure/candidate_timer.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include <nlohmann/json.hpp>

#include "autotune/measure/check_call.h"
#include "autotune/measure/check_truth.h"
#include "autotune/measure/fault_verdict.h"
#include "codegen/pass_needs.h"
#include "reference/numerics.h"
#include "runtime/multiply_adds.h"
#include "runtime/sequences.h"
#include "virtual/state/units.h"

namespace lssar {
namespace {

constexpr uint64_t kSeed = 1;
// This many times the L2 is written before each launch, so that the L2 holds nothing else. If the
// device does not say how large its L2 is, more is written than any L2 has.
constexpr int64_t kFlushFactor = 2;
constexpr int64_t kUnknownL2Bytes = int64_t{128} << 20;
// While the host enqueues the first samples, the GPU is busy with as many fills. So the queue never
// runs empty, even with short kernels.
constexpr int kLeadingFills = 4;
// A launch of the cpu device has at least this much work for each thread, some 10 ms, if the call
// has as much.
constexpr double kTimedMultiplyAdds = 2.5e8;

// The rows of packed sequences, [heads, total, dim]: each has the first of `drawn`, which is
// [heads, longest, dim].
std::vector<float> packed_rows(const std::vector<float>& drawn, int64_t heads, int64_t longest,
                               int64_t dim, const std::vector<int64_t>& lengths) {
  std::vector<float> all;
  for (int64_t head = 0; head < heads; ++head) {
    const auto begin = drawn.begin() + head * longest * dim;
    for (const int64_t length : lengths) all.insert(all.end(), begin, begin + length * dim);
  }
  return all;
}

double multiply_adds_of_call(const Problem& problem, const Sizes& sizes,
                             const SequenceLengths& lengths) {
  if (lengths.empty()) return multiply_adds(problem, sizes);
  double all = 0;
  for (size_t b = 0; b < lengths.q.size(); ++b)
    all += multiply_adds(problem, sizes_of_sequence(lengths, b, sizes));
  return all;
}

// Every `step`-th sequence, in the order of their work, so that long and short ones remain.
SequenceLengths every_nth(const SequenceLengths& lengths, size_t step) {
  std::vector<size_t> order(lengths.q.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto work = [&](size_t b) {
    return static_cast<double>(lengths.q[b]) * static_cast<double>(lengths.k[b]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return work(a) > work(b); });
  std::vector<size_t> taken;
  for (size_t i = 0; i < order.size(); i += step) taken.push_back(order[i]);
  std::sort(taken.begin(), taken.end());  // as the call has them
  SequenceLengths some;
  for (const size_t b : taken) some.add(lengths.q[b], lengths.k[b]);
  return some;
}

// A seeded order, different in every round, the same on every machine.
std::vector<size_t> order_of_round(size_t count, int round) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(static_cast<uint32_t>(round));
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

}  // namespace

// The memory of all candidates' calls. Inputs exist once; each candidate overwrites the outputs.
class CandidateTimer::Buffers {
 public:
  Buffers(Engine& engine, const RunnerTask& task)
      : engine_(engine), task_(task), rows_(sizes_of_packed(task.lengths, task.sizes)) {}
  ~Buffers() {
    for (const DevicePtr ptr : allocated_) (void)engine_.device().free(ptr);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  Status fill(const std::vector<Prepared>& prepared, InputKind data);
  Status execute(const PreparedKernel& kernel) const {
    return execute_with(kernel, {workspace_, workspace_bytes_});
  }
  // The cpu device computes calls whose inputs the program has just written or read.
  Status flush_l2() const {
    if (engine_.device().info().kind == "cpu") return {};
    return engine_.device().enqueue_fill(flush_, vdev::kPoisonByte, flush_bytes_, nullptr);
  }

 private:
  Status execute_with(const PreparedKernel& kernel, const Workspace& workspace) const {
    if (task_.lengths.empty())
      return engine_.execute(kernel, task_.sizes, tensors_, workspace, nullptr);
    return engine_.execute_sequences(kernel, task_.sizes, sequences_, tensors_, workspace, nullptr);
  }
  Result<size_t> workspace_bytes_of(const Problem& problem, const Schedule& schedule) const;
  Result<const int32_t*> upload_sums(const std::vector<int64_t>& lengths);
  Result<DevicePtr> allocate(size_t bytes);
  Result<DevicePtr> upload(const std::vector<float>& group);
  Status add_sequences(const Sizes& one, RandomInputs* inputs);
  Status add_inputs(InputKind data);
  Status add_saved();
  Status run_plain_forward();

  Engine& engine_;
  const RunnerTask& task_;
  const Sizes rows_;  // of the tensors
  std::vector<DevicePtr> allocated_;
  Tensors tensors_;
  Sequences sequences_;  // with varlen
  DevicePtr workspace_ = 0, flush_ = 0;
  size_t workspace_bytes_ = 0, flush_bytes_ = 0;
};

Result<DevicePtr> CandidateTimer::Buffers::allocate(size_t bytes) {
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr ptr, engine_.device().allocate(bytes));
  if (ptr != 0) allocated_.push_back(ptr);
  LSSAR_RETURN_IF_ERROR(engine_.device().fill(ptr, vdev::kPoisonByte, bytes));
  return ptr;
}

// Every (batch, kv head) has the same numbers, because drawing as many as a GPU can hold takes
// longer than timing.
Result<DevicePtr> CandidateTimer::Buffers::upload(const std::vector<float>& group) {
  const std::vector<std::byte> bytes = pack(task_.problem.dtype, group);
  const size_t groups = static_cast<size_t>(rows_.batch * rows_.kv_heads);
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr ptr, allocate(bytes.size() * groups));
  for (size_t i = 0; i < groups; ++i) {
    LSSAR_RETURN_IF_ERROR(
        engine_.device().copy_to_device(ptr + i * bytes.size(), bytes.data(), bytes.size()));
  }
  return ptr;
}

Result<const int32_t*> CandidateTimer::Buffers::upload_sums(const std::vector<int64_t>& lengths) {
  const std::vector<int32_t> sums = sums_of(lengths);
  const size_t bytes = sums.size() * sizeof(int32_t);
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr ptr, allocate(bytes));
  LSSAR_RETURN_IF_ERROR(engine_.device().copy_to_device(ptr, sums.data(), bytes));
  return reinterpret_cast<const int32_t*>(ptr);
}

Result<size_t> CandidateTimer::Buffers::workspace_bytes_of(const Problem& problem,
                                                           const Schedule& schedule) const {
  if (!task_.lengths.empty())
    return sequences_workspace_bytes(problem, schedule, task_.sizes, rows_.seq_q, rows_.seq_k);
  LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                         workspace_layout(problem, schedule, task_.sizes));
  return layout.total_bytes;
}

// Makes the rows of all sequences from those of one sequence of the longest lengths.
Status CandidateTimer::Buffers::add_sequences(const Sizes& one, RandomInputs* inputs) {
  const Problem& problem = task_.problem;
  const SequenceLengths& lengths = task_.lengths;
  LSSAR_ASSIGN_OR_RETURN(sequences_.cu_seqlens_q, upload_sums(lengths.q));
  LSSAR_ASSIGN_OR_RETURN(sequences_.cu_seqlens_k, upload_sums(lengths.k));
  sequences_.total_q = rows_.seq_q;
  sequences_.total_k = rows_.seq_k;
  inputs->q = packed_rows(inputs->q, one.heads, one.seq_q, problem.head_dim, lengths.q);
  inputs->k = packed_rows(inputs->k, one.kv_heads, one.seq_k, problem.head_dim, lengths.k);
  inputs->v = packed_rows(inputs->v, one.kv_heads, one.seq_k, problem.head_dim_v, lengths.k);
  inputs->grad_o = packed_rows(inputs->grad_o, one.heads, one.seq_q, problem.head_dim_v, lengths.q);
  return {};
}

Status CandidateTimer::Buffers::add_inputs(InputKind data) {
  const Problem& problem = task_.problem;
  const Sizes& s = task_.sizes;
  Sizes one = s;
  one.batch = one.kv_heads = 1;
  one.heads = s.heads / s.kv_heads;
  RandomInputs inputs = random_inputs(problem, one, data, kSeed);
  if (!task_.lengths.empty()) LSSAR_RETURN_IF_ERROR(add_sequences(one, &inputs));
  const auto query_side = [&](DevicePtr ptr, int dim) {
    return contiguous_tensor(ptr, s.heads, rows_.seq_q, dim);
  };
  const auto key_side = [&](DevicePtr ptr, int dim) {
    return contiguous_tensor(ptr, s.kv_heads, rows_.seq_k, dim);
  };
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr q, upload(inputs.q));
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr k, upload(inputs.k));
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr v, upload(inputs.v));
  tensors_.q = query_side(q, problem.head_dim);
  tensors_.k = key_side(k, problem.head_dim);
  tensors_.v = key_side(v, problem.head_dim_v);
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr o, upload(inputs.grad_o));  // has its shape, overwritten
  tensors_.o = query_side(o, problem.head_dim_v);
  if (reads_sink(problem)) {
    std::vector<float> sink;
    for (int64_t i = 0; i < s.kv_heads; ++i)
      sink.insert(sink.end(), inputs.sink.begin(), inputs.sink.end());
    const size_t bytes = sink.size() * sizeof(float);
    LSSAR_ASSIGN_OR_RETURN(tensors_.sink, allocate(bytes));
    LSSAR_ASSIGN_OR_RETURN(tensors_.grad_sink, allocate(bytes));
    LSSAR_RETURN_IF_ERROR(engine_.device().copy_to_device(tensors_.sink, sink.data(), bytes));
  }
  if (reads_alibi(problem)) {
    const std::vector<float> slopes = random_alibi_slopes(s.heads, kSeed);
    const size_t bytes = slopes.size() * sizeof(float);
    LSSAR_ASSIGN_OR_RETURN(tensors_.alibi_slopes, allocate(bytes));
    LSSAR_RETURN_IF_ERROR(
        engine_.device().copy_to_device(tensors_.alibi_slopes, slopes.data(), bytes));
  }
  if (problem.rotary_dim != 0) {
    const size_t bytes = inputs.rotary_cos.size() * sizeof(float);
    LSSAR_ASSIGN_OR_RETURN(tensors_.rotary_cos, allocate(bytes));
    LSSAR_ASSIGN_OR_RETURN(tensors_.rotary_sin, allocate(bytes));
    Device& device = engine_.device();
    LSSAR_RETURN_IF_ERROR(
        device.copy_to_device(tensors_.rotary_cos, inputs.rotary_cos.data(), bytes));
    LSSAR_RETURN_IF_ERROR(
        device.copy_to_device(tensors_.rotary_sin, inputs.rotary_sin.data(), bytes));
    tensors_.rotary_positions = s.seq_k;
  }
  if (problem.pass != Pass::kBackward) return {};
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr grad_o, upload(inputs.grad_o));
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr grad_q, upload(inputs.q));
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr grad_k, upload(inputs.k));
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr grad_v, upload(inputs.v));
  tensors_.grad_o = query_side(grad_o, problem.head_dim_v);
  tensors_.grad_q = query_side(grad_q, problem.head_dim);
  tensors_.grad_k = key_side(grad_k, problem.head_dim);
  tensors_.grad_v = key_side(grad_v, problem.head_dim_v);
  return {};
}

// With X; a candidate with an epsilon pass does not read it.
Status CandidateTimer::Buffers::add_saved() {
  LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved,
                         task_.lengths.empty() ? saved_bytes(task_.problem, Schedule{}, task_.sizes)
                                               : sequences_saved_bytes(task_.problem, Schedule{},
                                                                       task_.sizes, rows_.seq_q));
  LSSAR_ASSIGN_OR_RETURN(tensors_.saved_o, allocate(saved.o));
  LSSAR_ASSIGN_OR_RETURN(tensors_.saved_stats, allocate(saved.stats));
  LSSAR_ASSIGN_OR_RETURN(tensors_.saved_x, allocate(saved.x));
  return {};
}

Status CandidateTimer::Buffers::run_plain_forward() {
  Problem problem = task_.problem;
  problem.pass = Pass::kForwardTrain;
  const Target& target = engine_.device().info().target;
  LSSAR_ASSIGN_OR_RETURN(const Schedule schedule,
                         schedule_for(problem, target, {{"variant", plain_variant(target)}}));
  LSSAR_ASSIGN_OR_RETURN(const std::shared_ptr<const PreparedKernel> kernel,
                         engine_.prepare(problem, schedule));
  LSSAR_ASSIGN_OR_RETURN(const size_t bytes, workspace_bytes_of(problem, schedule));
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr workspace, allocate(bytes));
  LSSAR_RETURN_IF_ERROR(execute_with(*kernel, {workspace, bytes}));
  return engine_.device().synchronize(nullptr);
}

Status CandidateTimer::Buffers::fill(const std::vector<Prepared>& prepared, InputKind data) {
  LSSAR_RETURN_IF_ERROR(add_inputs(data));
  if (task_.problem.pass != Pass::kForward) LSSAR_RETURN_IF_ERROR(add_saved());
  if (task_.problem.pass == Pass::kBackward) LSSAR_RETURN_IF_ERROR(run_plain_forward());
  for (const Prepared& one : prepared) {
    LSSAR_ASSIGN_OR_RETURN(const size_t bytes,
                           workspace_bytes_of(task_.problem, one.kernel->schedule));
    workspace_bytes_ = std::max(workspace_bytes_, bytes);
  }
  LSSAR_ASSIGN_OR_RETURN(workspace_, allocate(workspace_bytes_));
  if (engine_.device().info().kind == "cpu") return {};  // see flush_l2
  const int64_t l2_bytes = engine_.device().info().l2_bytes;
  flush_bytes_ = static_cast<size_t>(kFlushFactor * (l2_bytes > 0 ? l2_bytes : kUnknownL2Bytes));
  LSSAR_ASSIGN_OR_RETURN(flush_, allocate(flush_bytes_));
  return {};
}

Sizes timed_cpu_sizes(const Problem& problem, const Sizes& sizes, int num_threads) {
  Sizes part = sizes;
  if (sizes.kv_heads <= 0 || sizes.heads % sizes.kv_heads != 0) return part;
  const int64_t groups = sizes.batch * sizes.kv_heads, group = sizes.heads / sizes.kv_heads;
  part.batch = 1;
  for (int64_t taken = std::min<int64_t>(num_threads, groups); taken < groups; taken *= 2) {
    part.kv_heads = taken;
    part.heads = taken * group;
    if (multiply_adds(problem, part) >= kTimedMultiplyAdds * num_threads) return part;
  }
  return sizes;
}

SequenceLengths timed_cpu_lengths(const Problem& problem, const SequenceLengths& lengths,
                                  int num_threads, Sizes* sizes) {
  if (sizes->kv_heads <= 0 || sizes->heads % sizes->kv_heads != 0) return lengths;
  const double least = kTimedMultiplyAdds * num_threads;
  Sizes part = *sizes;
  for (int64_t taken = 1; taken < sizes->kv_heads; taken *= 2) {
    part.kv_heads = taken;
    part.heads = sizes->heads / sizes->kv_heads * taken;
    if (multiply_adds_of_call(problem, part, lengths) < least) continue;
    *sizes = part;
    break;
  }
  // With a head for each thread at least as many sequences: else a launch would end with one.
  SequenceLengths some = lengths;
  for (size_t step = 2; step < lengths.q.size(); step *= 2) {
    SequenceLengths fewer = every_nth(lengths, step);
    const bool is_short = multiply_adds_of_call(problem, *sizes, fewer) < least;
    if (is_short || fewer.count() * sizes->kv_heads < num_threads) break;
    some = std::move(fewer);
  }
  *sizes = sizes_of_call(some, sizes->heads, sizes->kv_heads);
  return some;
}

CandidateTimer::CandidateTimer(Engine& engine, const RunnerTask& task)
    : engine_(engine), task_(task) {
  const DeviceInfo& device = engine.device().info();
  if (device.kind != "cpu") return;
  if (task.lengths.empty()) {
    task_.sizes = timed_cpu_sizes(task.problem, task.sizes, device.num_sms);
  } else {
    task_.lengths = timed_cpu_lengths(task.problem, task.lengths, device.num_sms, &task_.sizes);
  }
  share_ = multiply_adds_of_call(task.problem, task_.sizes, task_.lengths) /
           multiply_adds_of_call(task.problem, task.sizes, task.lengths);
}

Status CandidateTimer::time(const std::vector<TimedCandidate>& candidates,
                            const TimeRequest& request, size_t chunk, TimeObserver& observer) {
  std::vector<Prepared> prepared;
  LSSAR_RETURN_IF_ERROR(prepare_all(candidates, observer, &prepared));
  if (prepared.empty()) return {};
  observer.on_prepare({});
  Buffers buffers(engine_, task_);
  LSSAR_RETURN_IF_ERROR(buffers.fill(prepared, request.data));
  LSSAR_RETURN_IF_ERROR(warm_up(buffers, request.warmup, observer, &prepared));

  chunk = std::max<size_t>(chunk, 1);
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<LaunchTimer> timer,
                         engine_.device().make_launch_timer(chunk));
  for (int round = 0; round < request.rounds; ++round) {
    std::vector<const Prepared*> queued;
    for (const size_t i : order_of_round(prepared.size(), round)) {
      if (prepared[i].rounds_done > round) continue;
      queued.push_back(&prepared[i]);
      if (queued.size() < chunk) continue;
      LSSAR_RETURN_IF_ERROR(time_chunk(buffers, queued, request.cold_l2, *timer, observer));
      queued.clear();
    }
    LSSAR_RETURN_IF_ERROR(time_chunk(buffers, queued, request.cold_l2, *timer, observer));
  }
  return {};
}

Status CandidateTimer::prepare_all(const std::vector<TimedCandidate>& candidates,
                                   TimeObserver& observer, std::vector<Prepared>* prepared) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    observer.on_prepare({i});
    const auto kernel =
        engine_.prepare_source(task_.problem, candidates[i].spec.schedule, candidates[i].source);
    if (kernel.ok()) {
      prepared->push_back({i, candidates[i].rounds_done, *kernel});
      continue;
    }
    const std::optional<Verdict> verdict = verdict_of_prepare(kernel.status());
    if (!verdict) return kernel.status();
    observer.on_failed(i, *verdict, kernel.status().message());
  }
  return {};
}

// One by one, so that a failure names its candidate.
Status CandidateTimer::warm_up(const Buffers& buffers, int launches, TimeObserver& observer,
                               std::vector<Prepared>* prepared) {
  Device& device = engine_.device();
  std::vector<Prepared> warm;
  for (const Prepared& one : *prepared) {
    observer.on_run({one.place});
    Status status;
    for (int i = 0; status.ok() && i < std::max(launches, 1); ++i)
      status = buffers.execute(*one.kernel);
    if (status.ok()) status = device.synchronize(nullptr);
    if (status.ok()) {
      warm.push_back(one);
      continue;
    }
    const std::optional<Verdict> verdict = verdict_of_run(status);
    if (!verdict) return status;
    observer.on_failed(one.place, *verdict, status.message());
    // An illegal access leaves the GPU unusable for this process.
    LSSAR_RETURN_IF_ERROR(device.synchronize(nullptr));
  }
  *prepared = std::move(warm);
  return {};
}

Status CandidateTimer::time_chunk(const Buffers& buffers, const std::vector<const Prepared*>& chunk,
                                  bool cold_l2, LaunchTimer& timer, TimeObserver& observer) {
  if (chunk.empty()) return {};
  std::vector<size_t> places;
  for (const Prepared* one : chunk) places.push_back(one->place);
  observer.on_run(places);
  for (int i = 0; i < kLeadingFills; ++i) LSSAR_RETURN_IF_ERROR(buffers.flush_l2());
  // Not timed: the fills have emptied the L2, and the first sample would be the only cold one.
  if (!cold_l2) LSSAR_RETURN_IF_ERROR(buffers.execute(*chunk[0]->kernel));
  for (size_t i = 0; i < chunk.size(); ++i) {
    if (cold_l2) LSSAR_RETURN_IF_ERROR(buffers.flush_l2());
    LSSAR_RETURN_IF_ERROR(timer.begin(i, nullptr));
    LSSAR_RETURN_IF_ERROR(buffers.execute(*chunk[i]->kernel));
    LSSAR_RETURN_IF_ERROR(timer.end(i, nullptr));
  }
  for (size_t i = 0; i < chunk.size(); ++i) {
    const Result<double> ms = timer.ms(i);
    if (!ms.ok()) {
      if (chunk.size() == 1) {
        const std::optional<Verdict> verdict = verdict_of_run(ms.status());
        if (verdict) observer.on_failed(chunk[0]->place, *verdict, ms.status().message());
      }
      return ms.status();
    }
    observer.on_sample(chunk[i]->place, *ms / share_);
  }
  return {};
}

}  // namespace lssar
