// Nothing is compiled: plans of the C API are created and asked, never prepared. Calls go to plans
// that were prepared with a fake compiler on the recording device, which runs nothing.
//
// Properties: a status has a text, and the header names it; a plan's schedule, given back, is the
// plan's schedule again; a refused call has launched nothing.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "lssar/lssar.h"
#include "tests/fuzz/complain.h"
#include "tests/fuzz/made_up.h"
#include "tests/fuzz/plan_input.h"
#include "tests/fuzz/readers.h"

namespace lssar::test {
namespace {

constexpr size_t kMaxStruct = 1 << 16;  // larger ones are refused without being read

// A caller's struct, in a block of exactly the size that it states, so that reading one byte too
// many is found. If it states more than kMaxStruct, the block has the size field alone, because
// nothing else may be read.
template <typename T>
class Struct {
 public:
  Struct(const uint8_t* slot, size_t slot_bytes, bool past_the_end) {
    size_t size = 0;
    std::memcpy(&size, slot, sizeof size);
    size_t bytes = size <= kMaxStruct ? std::max(size, sizeof size) : sizeof size;
    block_.reset(static_cast<uint8_t*>(::operator new(bytes)));
    std::memset(block_.get(), 0, bytes);
    std::memcpy(block_.get(), slot, std::min(bytes, slot_bytes));
    if (past_the_end) block_.get()[bytes - 1] |= bytes > slot_bytes ? 1 : 0;
    bytes_ = bytes;
  }
  // Sets a field if it lies in the block. The harness sets all pointers with it.
  template <typename Field>
  void set(Field T::*field, const Field& value) {
    const T any = {};
    const size_t offset = static_cast<size_t>(reinterpret_cast<const char*>(&(any.*field)) -
                                              reinterpret_cast<const char*>(&any));
    if (offset + sizeof value <= bytes_) std::memcpy(block_.get() + offset, &value, sizeof value);
  }
  T* get() const { return reinterpret_cast<T*>(block_.get()); }

 private:
  struct Delete {
    void operator()(uint8_t* block) const { ::operator delete(block); }
  };
  std::unique_ptr<uint8_t, Delete> block_;
  size_t bytes_ = 0;
};

void check_status(lssar_status status) {
  if (status == LSSAR_STATUS_OK) return;
  const std::string detail = lssar_last_error_detail();
  check_that(!detail.empty(), "an error that says nothing", lssar_status_string(status));
  check_that(status == LSSAR_STATUS_INVALID_ARGUMENT || status == LSSAR_STATUS_UNSUPPORTED ||
                 status == LSSAR_STATUS_NOT_PREPARED,
             lssar_status_string(status), detail);
}

lssar_context_options usual_options(const char* target) {
  lssar_context_options options = {};
  options.struct_size = sizeof(options);
  options.device = LSSAR_DEVICE_RECORD;
  options.target = target;
  options.cache_directory = "none";
  options.tuning_table = "none";
  return options;
}

lssar_context* make_context(const lssar_context_options* options) {
  lssar_context* context = nullptr;
  const lssar_status status = lssar_context_create(options, &context);
  check_status(status);
  check_that((status == LSSAR_STATUS_OK) == (context != nullptr), "a context and a failure");
  return context;
}

struct Contexts {
  lssar_context* all[2];
  Contexts() {
    for (int i = 0; i < 2; ++i) {
      const lssar_context_options options = usual_options(i == 0 ? "sm_80" : "sm_90a");
      all[i] = make_context(&options);
    }
  }
  ~Contexts() {
    for (lssar_context* context : all) lssar_context_destroy(context);
  }
};

// A context of the input's own, never with a GPU or a cache on disk.
void try_context(const PlanInput& input, const std::string& text) {
  Struct<lssar_context_options> options(input.context_options, sizeof input.context_options,
                                        input.gives & kGivesPastTheEnd);
  options.set<int32_t>(&lssar_context_options::device, LSSAR_DEVICE_RECORD);
  options.set<const char*>(&lssar_context_options::target,
                           input.gives & kGivesText ? text.c_str() : nullptr);
  options.set<const char*>(&lssar_context_options::cache_directory, "none");
  options.set<const char*>(&lssar_context_options::tuning_table, "none");
  lssar_context_destroy(make_context(options.get()));
}

std::string schedule_of(const lssar_plan* plan, int32_t pass) {
  lssar_schedule_info info = {};
  info.struct_size = sizeof(info);
  const lssar_status status = lssar_plan_get_schedule(plan, pass, &info);
  check_status(status);
  return status == LSSAR_STATUS_OK ? info.schedule_json : "";
}

// The schedule that the plan states makes the same plan.
void check_given_back(lssar_context* context, const lssar_problem& problem,
                      const lssar_plan* plan) {
  for (const int32_t pass : {LSSAR_PASS_FORWARD, LSSAR_PASS_FORWARD_TRAIN, LSSAR_PASS_BACKWARD}) {
    if ((problem.passes & static_cast<uint32_t>(pass)) == 0) continue;
    const std::string schedule = schedule_of(plan, pass);
    lssar_problem one = problem;
    one.passes = static_cast<uint32_t>(pass);
    if (one.alignment == 0) one.alignment = 16;  // the text is that kernel's
    lssar_plan_options options = {};
    options.struct_size = sizeof(options);
    options.schedule_json = schedule.c_str();
    lssar_plan* again = nullptr;
    const lssar_status status = lssar_plan_create(context, &one, &options, &again);
    check_that(status == LSSAR_STATUS_OK, "a plan's own schedule", lssar_last_error_detail());
    check_that(schedule_of(again, pass) == schedule, "another schedule", schedule);
    lssar_plan_destroy(again);
  }
}

void ask(const lssar_plan* plan, const PlanInput& input) {
  lssar_sizes sizes;
  std::memcpy(&sizes, input.sizes, sizeof sizes);
  size_t bytes = 0;
  check_status(lssar_plan_workspace_size(plan, &sizes, &bytes));
  lssar_saved_sizes saved = {};
  check_status(lssar_plan_saved_sizes(plan, &sizes, &saved));
  check_status(lssar_execute_forward(plan, nullptr));
  Struct<lssar_call> call(input.call, sizeof input.call, input.gives & kGivesPastTheEnd);
  check_status(lssar_execute_forward(plan, call.get()));
  check_status(lssar_execute_forward_train(plan, call.get()));
  check_status(lssar_execute_backward(plan, call.get()));
  schedule_of(plan, input.pass);
}

void try_plan(lssar_context* context, const PlanInput& input, const std::string& text) {
  const bool past_the_end = input.gives & kGivesPastTheEnd;
  Struct<lssar_problem> problem(input.problem, sizeof input.problem, past_the_end);
  problem.set<const char*>(&lssar_problem::score, input.gives_score ? text.c_str() : nullptr);
  Struct<lssar_tune_options> tune(input.tune, sizeof input.tune, past_the_end);
  tune.set<lssar_tune_callback>(&lssar_tune_options::callback, nullptr);
  tune.set<const char*>(&lssar_tune_options::worker,
                        input.gives & kGivesWorker ? text.c_str() : nullptr);
  tune.set<const int64_t*>(&lssar_tune_options::lengths_q, nullptr);
  tune.set<const int64_t*>(&lssar_tune_options::lengths_k, nullptr);
  Struct<lssar_plan_options> options(input.options, sizeof input.options, past_the_end);
  options.set<const char*>(&lssar_plan_options::schedule_json,
                           input.gives & kGivesText ? text.c_str() : nullptr);
  options.set<const lssar_tune_options*>(&lssar_plan_options::tune,
                                         input.gives & kGivesTune ? tune.get() : nullptr);
  lssar_plan* plan = nullptr;
  const lssar_status status = lssar_plan_create(
      context, problem.get(), input.gives & kGivesOptions ? options.get() : nullptr, &plan);
  check_status(status);
  check_that((status == LSSAR_STATUS_OK) == (plan != nullptr), "a plan and a failure");
  if (plan == nullptr) return;
  lssar_problem known = {};
  std::memcpy(&known, problem.get(), std::min(problem.get()->struct_size, sizeof known));
  known.struct_size = sizeof(known);
  check_given_back(context, known, plan);
  ask(plan, input);
  lssar_plan_destroy(plan);
}

Tensor tensor(const lssar_tensor& t) {
  return {reinterpret_cast<DevicePtr>(t.data), t.strides[0], t.strides[1], t.strides[2]};
}

// The bytes may say anything: nothing may be read or written through a pointer.
void try_call(const PlanInput& input) {
  const PreparedPlan& made = prepared_plan(input.plan);
  lssar_call call;
  static_assert(sizeof(call) <= sizeof(input.call));
  std::memcpy(&call, input.call, sizeof call);
  Sizes sizes = {call.sizes.batch, call.sizes.heads, call.sizes.kv_heads, call.sizes.seq_q,
                 call.sizes.seq_k};
  sizes.range = {call.range.first_key, call.range.num_keys, call.range.first_query,
                 call.range.num_queries};
  Tensors tensors;
  tensors.q = tensor(call.q);
  tensors.k = tensor(call.k);
  tensors.v = tensor(call.v);
  tensors.o = tensor(call.o);
  tensors.grad_o = tensor(call.grad_o);
  tensors.grad_q = tensor(call.grad_q);
  tensors.grad_k = tensor(call.grad_k);
  tensors.grad_v = tensor(call.grad_v);
  tensors.saved_o = reinterpret_cast<DevicePtr>(call.saved_o);
  tensors.saved_stats = reinterpret_cast<DevicePtr>(call.saved_stats);
  tensors.saved_x = reinterpret_cast<DevicePtr>(call.saved_x);
  tensors.row_stats = reinterpret_cast<DevicePtr>(call.row_stats);
  tensors.partial_o = reinterpret_cast<DevicePtr>(call.partial_o);
  Workspace workspace{reinterpret_cast<DevicePtr>(call.workspace), call.workspace_bytes};
  const Result<size_t> needed = made.plan->workspace_bytes(sizes);
  if (needed.ok() && (input.gives & kGivesWorkspace)) workspace.bytes = *needed;

  const uint64_t before = made.device->num_launches();
  const auto pass = kAllPasses[input.pass % std::size(kAllPasses)];
  const Status status = made.plan->execute(pass, sizes, tensors, workspace, nullptr);
  if (status.ok()) return check_that(needed.ok(), "a call that needs no workspace");
  check_error(status);
  check_that(made.device->num_launches() == before, "half a call was launched", status.message());
}

}  // namespace

void run_plan_input(std::string_view bytes) {
  constexpr size_t kMaxInput = 16 << 10;
  if (bytes.size() > kMaxInput) return;
  PlanInput input;
  std::memcpy(&input, bytes.data(), std::min(bytes.size(), sizeof input));
  bytes.remove_prefix(std::min(bytes.size(), sizeof input));
  const std::string text(bytes);
  static const Contexts contexts;
  if (input.gives & kGivesContext) return try_context(input, text);
  if (input.gives & kGivesCall) return try_call(input);
  try_plan(contexts.all[input.context % 2], input, text);
}

}  // namespace lssar::test
