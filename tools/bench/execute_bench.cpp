// Host overhead of lssar_execute_* through the C API. The device only records launches, so only the
// library's own checks and calls are timed. Target: at most 5 us. Runs for sm_80 and for sm_90a,
// whose calls also make tensor maps (without the driver's own work).
#include <benchmark/benchmark.h>
#include <lssar/lssar.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kHeads = 16;
constexpr int64_t kLength = 1024;
constexpr int64_t kHeadDim = 64;
constexpr int64_t kCacheLength = 4096;  // keys of a decode
constexpr int64_t kEntries = 8;         // of a batch of caches
constexpr size_t kElemBytes = 2;        // bf16

struct Deleter {
  void operator()(lssar_context* context) const { lssar_context_destroy(context); }
  void operator()(lssar_plan* plan) const { lssar_plan_destroy(plan); }
};

enum class Calls {
  kTraining,    // all passes
  kOpenDecode,  // one query of each head against a cache, in a plan for any number of queries
  kDecode,      // the same in a plan that states one query, so that blocks divide the keys
  kCaches,      // and that for a batch, each of whose caches has its own length and gets a new key
};

// A prepared plan, and a call whose buffers the record device never touches.
class RecordedPlan {
 public:
  explicit RecordedPlan(Calls calls) : calls_(calls) {}
  ~RecordedPlan() {
    plan_.reset();
    for (void* buffer : buffers_) (void)lssar_buffer_free(context_.get(), buffer);
  }

  // False with the library's detail if something failed.
  bool open(const char* target, std::string* detail) {
    if (open_context(target) && open_plan() && open_call()) return true;
    *detail = lssar_last_error_detail();
    return false;
  }
  const lssar_plan* plan() const { return plan_.get(); }
  const lssar_call* call() const { return &call_; }

 private:
  bool open_context(const char* target) {
    lssar_context_options options = {};
    options.struct_size = sizeof options;
    options.device = LSSAR_DEVICE_RECORD;
    options.target = target;
    options.cache_directory = "none";
    lssar_context* context = nullptr;
    const lssar_status status = lssar_context_create(&options, &context);
    context_.reset(context);
    return status == LSSAR_STATUS_OK;
  }

  bool open_plan() {
    lssar_problem problem = {};
    problem.struct_size = sizeof problem;
    problem.passes = LSSAR_PASS_FORWARD;
    if (calls_ == Calls::kTraining)
      problem.passes |= LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
    problem.varlen = calls_ == Calls::kCaches ? 1 : 0;
    problem.seq_q = calls_ == Calls::kDecode || calls_ == Calls::kCaches ? 1 : 0;
    problem.dtype = LSSAR_DTYPE_BF16;
    problem.head_dim = kHeadDim;
    problem.heads = kHeads;
    problem.causal = 1;
    problem.p = 15;
    problem.offset = 1;
    lssar_plan* plan = nullptr;
    const lssar_status status = lssar_plan_create(context_.get(), &problem, nullptr, &plan);
    plan_.reset(plan);
    return status == LSSAR_STATUS_OK && lssar_plan_prepare(plan) == LSSAR_STATUS_OK;
  }

  bool open_call() {
    call_.struct_size = sizeof call_;
    const bool is_training = calls_ == Calls::kTraining;
    const int64_t batch = calls_ == Calls::kCaches ? kEntries : 1;
    const int64_t queries = is_training ? kLength : 1;
    const int64_t keys = is_training ? kLength : kCacheLength;
    call_.sizes = {batch, kHeads, kHeads, queries, keys};
    for (lssar_tensor* tensor : {&call_.q, &call_.o, &call_.grad_o, &call_.grad_q})
      if (!open_tensor(tensor, batch, queries)) return false;
    for (lssar_tensor* tensor : {&call_.k, &call_.v, &call_.grad_k, &call_.grad_v})
      if (!open_tensor(tensor, batch, keys)) return false;
    return calls_ == Calls::kCaches ? open_caches() : open_workspace();
  }

  bool open_tensor(lssar_tensor* tensor, int64_t batch, int64_t length) {
    tensor->strides[0] = kHeads * length * kHeadDim;
    tensor->strides[1] = length * kHeadDim;
    tensor->strides[2] = kHeadDim;
    tensor->data = allocate(batch * kHeads * length * kHeadDim * kElemBytes);
    return tensor->data != nullptr;
  }

  bool open_caches() {
    call_.seqused_k = static_cast<int32_t*>(allocate(kEntries * sizeof(int32_t)));
    call_.total_q = kEntries;
    call_.total_k = kEntries * kCacheLength;
    call_.seq_new = 1;
    for (lssar_tensor* tensor : {&call_.k_new, &call_.v_new})
      if (!open_tensor(tensor, kEntries, 1)) return false;
    if (lssar_plan_varlen_sizes(plan(), &call_.sizes, call_.total_q, call_.total_k,
                                &call_.workspace_bytes, nullptr) != LSSAR_STATUS_OK)
      return false;
    call_.workspace = allocate(call_.workspace_bytes);
    return true;
  }

  bool open_workspace() {
    lssar_saved_sizes saved = {};
    if (lssar_plan_saved_sizes(plan(), &call_.sizes, &saved) != LSSAR_STATUS_OK) return false;
    if (lssar_plan_workspace_size(plan(), &call_.sizes, &call_.workspace_bytes) !=
        LSSAR_STATUS_OK) {
      return false;
    }
    call_.saved_o = static_cast<float*>(allocate(saved.o));
    call_.saved_stats = static_cast<float*>(allocate(saved.stats));
    call_.saved_x = allocate(saved.x);
    call_.workspace = allocate(call_.workspace_bytes);
    return true;
  }

  void* allocate(size_t bytes) {
    void* buffer = nullptr;
    if (lssar_buffer_alloc(context_.get(), bytes, &buffer) != LSSAR_STATUS_OK) return nullptr;
    buffers_.push_back(buffer);
    return buffer;
  }

  const Calls calls_;
  std::unique_ptr<lssar_context, Deleter> context_;
  std::unique_ptr<lssar_plan, Deleter> plan_;
  std::vector<void*> buffers_;
  lssar_call call_ = {};
};

using Execute = lssar_status (*)(const lssar_plan*, const lssar_call*);

// What the benchmarks of a target's calls share. Its kernels are compiled once.
struct Target {
  Target(const char* name, Calls calls) : recorded(calls), is_open(recorded.open(name, &detail)) {}
  std::string detail;
  RecordedPlan recorded;
  const bool is_open;
};

void execute(benchmark::State& state, Execute function, const char* target_name, Calls calls) {
  static std::map<std::pair<std::string, Calls>, Target> targets;
  const Target& target =
      targets.try_emplace({target_name, calls}, target_name, calls).first->second;
  if (!target.is_open) {
    state.SkipWithError(target.detail.c_str());
    return;
  }
  for (auto _ : state) {
    if (function(target.recorded.plan(), target.recorded.call()) != LSSAR_STATUS_OK) {
      state.SkipWithError(lssar_last_error_detail());
      return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const auto add = [target](const char* pass, Execute function, Calls calls = Calls::kTraining) {
      const std::string name = std::string("execute/") + pass + "/" + target;
      benchmark::RegisterBenchmark(name.c_str(), execute, function, target, calls);
    };
    add("forward", lssar_execute_forward);
    add("forward_train", lssar_execute_forward_train);
    add("backward", lssar_execute_backward);
    add("open_decode", lssar_execute_forward, Calls::kOpenDecode);
    add("decode", lssar_execute_forward, Calls::kDecode);
    add("decode_of_caches", lssar_execute_forward, Calls::kCaches);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
