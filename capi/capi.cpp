// The C API: each function checks its handles, translates, calls, and turns a Status into a code
// and a detail text. No exception leaves it: see guarded().
#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "autotune/model/schedule_chooser.h"
#include "base/log.h"
#include "base/status.h"
#include "capi/structs.h"
#include "capi/tune.h"
#include "capi/tuning.h"
#include "device/thread_value.h"
#include "lssar/lssar.h"
#include "runtime/engine.h"
#include "runtime/plan.h"

struct lssar_context {
  std::shared_ptr<lssar::Engine> engine;
  std::shared_ptr<lssar::capi::ContextState> state;
  // lssar_context_get_info returns pointers to these.
  std::string target, cache_directory, cache_problem;
};

// A plan with the schedules chosen at one time.
struct PlanVersion {
  std::unique_ptr<lssar::Plan> plan;
  lssar::capi::ScheduleTexts schedules;
};

struct lssar_plan {
  // The version at creation, and the one after tuning if the plan was tuned. Both are kept, because
  // callers may hold texts of the first. They are written under `mutex` and read through `current`,
  // which execute may read at any time.
  std::unique_ptr<const PlanVersion> created, tuned;
  std::atomic<const PlanVersion*> current{nullptr};

  // for LSSAR_TUNING_TUNE
  std::mutex mutex;
  std::shared_ptr<lssar::capi::ContextState> state;
  lssar::capi::PlanRequest request;
  std::optional<lssar::capi::TuneRequest> tune;

  const PlanVersion& now() const { return *current.load(std::memory_order_acquire); }
};

namespace lssar {
namespace {

#define LSSAR_SAME_CODE(c_name, cpp_name)                                                          \
  static_assert(static_cast<int>(LSSAR_STATUS_##c_name) == static_cast<int>(StatusCode::cpp_name), \
                "lssar_status and StatusCode are one enumeration")
LSSAR_SAME_CODE(OK, kOk);
LSSAR_SAME_CODE(INVALID_ARGUMENT, kInvalidArgument);
LSSAR_SAME_CODE(UNSUPPORTED, kUnsupported);
LSSAR_SAME_CODE(MISSING, kMissing);
LSSAR_SAME_CODE(COMPILE_ERROR, kCompileError);
LSSAR_SAME_CODE(DEVICE_ERROR, kDeviceError);
LSSAR_SAME_CODE(IO_ERROR, kIoError);
LSSAR_SAME_CODE(NOT_PREPARED, kNotPrepared);
LSSAR_SAME_CODE(OUT_OF_MEMORY, kOutOfMemory);
LSSAR_SAME_CODE(INTERNAL, kInternal);
#undef LSSAR_SAME_CODE

// No Status has this code: only the caller's callback causes it.
constexpr char kCancelledName[] = "cancelled";
constexpr char kCancelledDetail[] =
    "cancelled by the callback; what was measured is kept in the tuning table";

thread_local std::string last_error_detail;

lssar_status fail(StatusCode code, const char* detail) noexcept {
  try {
    last_error_detail = detail;
    if (code != StatusCode::kOk) log(LogLevel::kError, last_error_detail);
  } catch (...) {
    last_error_detail.clear();  // out of memory for the text; the code alone must do
  }
  return static_cast<lssar_status>(code);
}

// Runs a function that returns a Status. Exceptions become codes only here.
template <typename Function>
lssar_status guarded(const Function& function) noexcept {
  try {
    const Status status = function();
    if (status.ok()) return LSSAR_STATUS_OK;
    return fail(status.code(), status.message().c_str());
  } catch (const std::bad_alloc&) {
    return fail(StatusCode::kOutOfMemory, "host memory");
  } catch (const std::exception& error) {
    return fail(StatusCode::kInternal, error.what());
  } catch (...) {
    return fail(StatusCode::kInternal, "an exception of unknown type");
  }
}

Status require(const void* pointer, const char* name) {
  if (pointer != nullptr) return {};
  return invalid_argument(fmt::format("{} = NULL", name));
}

int32_t device_kind(const std::string& kind) {
  if (kind == "cuda") return LSSAR_DEVICE_CUDA;
  if (kind == "cpu") return LSSAR_DEVICE_CPU;
  return kind == "virtual" ? LSSAR_DEVICE_VIRTUAL : LSSAR_DEVICE_RECORD;
}

Status execute(Pass pass, const lssar_plan* plan, const lssar_call* call) {
  LSSAR_RETURN_IF_ERROR(require(plan, "plan"));
  LSSAR_ASSIGN_OR_RETURN(const lssar_call known,
                         capi::read_struct(call, "call", offsetof(lssar_call, range)));
  const Workspace workspace{reinterpret_cast<DevicePtr>(known.workspace), known.workspace_bytes};
  LSSAR_ASSIGN_OR_RETURN(const int num_threads, capi::num_threads_of_call(known));
  const ThreadLimit limit(num_threads);
  Sizes sizes = capi::sizes_of_call(known.sizes);
  const Sequences sequences = capi::sequences_of_call(known);
  if (has_lengths(sequences)) {
    return plan->now().plan->execute_sequences(pass, sizes, sequences,
                                               capi::tensors_of_call(known), workspace,
                                               known.stream);
  }
  if (sequences.seq_new != 0) {
    return invalid_argument(
        fmt::format("seq_new = {}: must be 0 in a call without cu_seqlens_q, cu_seqlens_k, "
                    "seqused_q and seqused_k",
                    sequences.seq_new));
  }
  if (known.key_norms != nullptr) {
    return invalid_argument(
        fmt::format("key_norms = {}: must be NULL in a call without cu_seqlens_q, cu_seqlens_k, "
                    "seqused_q and seqused_k",
                    static_cast<const void*>(known.key_norms)));
  }
  sizes.range = capi::range_of_call(known.range);
  return plan->now().plan->execute(pass, sizes, capi::tensors_of_call(known), workspace,
                                   known.stream);
}

Result<std::unique_ptr<const PlanVersion>> make_version(const capi::ContextState& state,
                                                        capi::PlanRequest request) {
  LSSAR_ASSIGN_OR_RETURN(request.options.choose,
                         capi::schedule_chooser(*state.engine(), state.table(), request));
  auto made = std::make_unique<PlanVersion>();
  LSSAR_ASSIGN_OR_RETURN(made->plan,
                         Plan::create(state.engine(), request.problem, request.options));
  made->schedules = capi::ScheduleTexts(*made->plan);
  return std::unique_ptr<const PlanVersion>(std::move(made));
}

// Searches, chooses again, and prepares that choice. Only then does execute see it. False:
// cancelled.
Result<bool> prepare_tuned(lssar_plan* plan) {
  const std::lock_guard lock(plan->mutex);
  if (plan->tuned == nullptr) {
    LSSAR_ASSIGN_OR_RETURN(const bool is_done,
                           capi::tune_problems(*plan->state, {plan->request}, *plan->tune));
    if (!is_done) return false;
    LSSAR_ASSIGN_OR_RETURN(plan->tuned, make_version(*plan->state, plan->request));
  }
  LSSAR_RETURN_IF_ERROR(plan->tuned->plan->prepare());
  plan->current.store(plan->tuned.get(), std::memory_order_release);
  return true;
}

lssar_status cancelled_unless(bool is_done, lssar_status status) noexcept {
  if (status != LSSAR_STATUS_OK || is_done) return status;
  fail(StatusCode::kOk, kCancelledDetail);
  return LSSAR_STATUS_CANCELLED;
}

}  // namespace
}  // namespace lssar

using lssar::DevicePtr;
using lssar::guarded;
using lssar::require;
using lssar::Status;

extern "C" {

int lssar_version(void) noexcept { return LSSAR_VERSION; }

int lssar_abi_version(void) noexcept { return LSSAR_ABI_VERSION; }

#define LSSAR_TEXT_INNER(x) #x
#define LSSAR_TEXT(x) LSSAR_TEXT_INNER(x)
#define LSSAR_VERSION_TEXT        \
  LSSAR_TEXT(LSSAR_VERSION_MAJOR) \
  "." LSSAR_TEXT(LSSAR_VERSION_MINOR) "." LSSAR_TEXT(LSSAR_VERSION_PATCH)

const char* lssar_version_string(void) noexcept { return LSSAR_VERSION_TEXT; }

const char* lssar_build_info(void) noexcept {
#ifdef NDEBUG
  return "lssar " LSSAR_VERSION_TEXT ", compiler " __VERSION__ ", release";
#else
  return "lssar " LSSAR_VERSION_TEXT ", compiler " __VERSION__ ", debug";
#endif
}

const char* lssar_status_string(lssar_status status) noexcept {
  if (status == LSSAR_STATUS_CANCELLED) return lssar::kCancelledName;
  return lssar::status_code_name(static_cast<lssar::StatusCode>(status));
}

const char* lssar_last_error_detail(void) noexcept { return lssar::last_error_detail.c_str(); }

lssar_status lssar_set_log_callback(lssar_log_callback callback, void* user, int level) noexcept {
  return guarded([&]() -> Status {
    if (level < LSSAR_LOG_ERROR || level > LSSAR_LOG_TRACE) {
      return lssar::invalid_argument(
          fmt::format("level = {}: allowed are 0 (error) to 4 (trace)", level));
    }
    lssar::LogCallback forward;
    if (callback != nullptr) {
      forward = [callback, user](lssar::LogLevel of_message, std::string_view message) {
        callback(static_cast<int>(of_message), std::string(message).c_str(), user);
      };
    }
    lssar::set_log_callback(std::move(forward), static_cast<lssar::LogLevel>(level));
    return {};
  });
}

lssar_status lssar_context_create(const lssar_context_options* options,
                                  lssar_context** context) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(context, "context"));
    *context = nullptr;
    LSSAR_ASSIGN_OR_RETURN(const lssar::capi::ContextRequest request,
                           lssar::capi::context_request(options));
    LSSAR_ASSIGN_OR_RETURN(std::unique_ptr<lssar::Engine> engine,
                           lssar::Engine::open(request.engine));
    auto made = std::make_unique<lssar_context>();
    made->target = engine->device().info().target.name();
    made->cache_directory = engine->store().directory();
    made->cache_problem = engine->store().problem();
    made->engine = std::move(engine);
    made->state = std::make_shared<lssar::capi::ContextState>(
        made->engine, request, lssar::load_user_table(request.tuning_table, made->cache_directory));
    *context = made.release();
    return {};
  });
}

void lssar_context_destroy(lssar_context* context) noexcept { delete context; }

lssar_status lssar_context_get_info(const lssar_context* context,
                                    lssar_context_info* info) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(context, "context"));
    LSSAR_RETURN_IF_ERROR(require(info, "info"));
    const size_t size = info->struct_size;
    if (size < sizeof(lssar_context_info)) {
      return lssar::invalid_argument(
          fmt::format("info.struct_size = {}: must be sizeof(lssar_context_info), here {}", size,
                      sizeof(lssar_context_info)));
    }
    const lssar::DeviceInfo& device = context->engine->device().info();
    const lssar::CacheStats stats = context->engine->store().stats();
    info->device = lssar::device_kind(device.kind);
    info->num_sms = device.num_sms;
    info->device_name = device.name.c_str();
    info->driver = device.driver.c_str();
    info->target = context->target.c_str();
    info->cache_directory = context->cache_directory.c_str();
    info->cache_problem = context->cache_problem.c_str();
    info->cache_memory_hits = stats.memory_hits;
    info->cache_disk_hits = stats.disk_hits;
    info->cache_misses = stats.misses;
    return {};
  });
}

lssar_status lssar_plan_create(lssar_context* context, const lssar_problem* problem,
                               const lssar_plan_options* options, lssar_plan** plan) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(plan, "plan"));
    *plan = nullptr;
    LSSAR_RETURN_IF_ERROR(require(context, "context"));
    auto made = std::make_unique<lssar_plan>();
    LSSAR_ASSIGN_OR_RETURN(made->request, lssar::capi::plan_request(problem, options));
    made->state = context->state;
    if (made->request.tuning == LSSAR_TUNING_TUNE) {
      LSSAR_ASSIGN_OR_RETURN(made->tune, lssar::capi::tune_request(made->request.tune));
      made->tune->determinism = made->request.determinism;
      LSSAR_RETURN_IF_ERROR(lssar::capi::check_lengths_of(*made->tune, made->request));
      // With the caller's own schedule there is nothing to search.
      if (made->request.schedule_json.empty())
        LSSAR_RETURN_IF_ERROR(lssar::capi::check_lengths_suit_plan(*made->tune, made->request));
      made->request.tune = nullptr;
    }
    LSSAR_ASSIGN_OR_RETURN(made->created, lssar::make_version(*made->state, made->request));
    made->current = made->created.get();
    *plan = made.release();
    return {};
  });
}

void lssar_plan_destroy(lssar_plan* plan) noexcept { delete plan; }

lssar_status lssar_plan_prepare(lssar_plan* plan) noexcept {
  bool is_done = true;
  const lssar_status status = guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(plan, "plan"));
    if (!plan->tune || !plan->request.schedule_json.empty()) {
      return plan->now().plan->prepare();
    }
    LSSAR_ASSIGN_OR_RETURN(is_done, lssar::prepare_tuned(plan));
    return {};
  });
  return lssar::cancelled_unless(is_done, status);
}

lssar_status lssar_tune(lssar_context* context, const lssar_problem* const* problems,
                        size_t num_problems, const lssar_tune_options* options) noexcept {
  bool is_done = true;
  const lssar_status status = guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(context, "context"));
    LSSAR_RETURN_IF_ERROR(require(problems, "problems"));
    if (num_problems == 0)
      return lssar::invalid_argument("num_problems = 0: allowed are 1 and more");
    LSSAR_ASSIGN_OR_RETURN(const lssar::capi::TuneRequest request,
                           lssar::capi::tune_request(options));
    std::vector<lssar::capi::PlanRequest> known;
    for (size_t i = 0; i < num_problems; ++i) {
      lssar::Result<lssar::capi::PlanRequest> one = lssar::capi::plan_request(problems[i], nullptr);
      Status valid = one.ok() ? validate(one->problem) : one.status();
      if (valid.ok()) valid = lssar::capi::check_lengths_of(request, *one);
      if (!valid.ok()) return valid.with_context(fmt::format("problems[{}]", i));
      known.push_back(std::move(*one));
    }
    LSSAR_ASSIGN_OR_RETURN(is_done, lssar::capi::tune_problems(*context->state, known, request));
    return {};
  });
  return lssar::cancelled_unless(is_done, status);
}

lssar_status lssar_plan_get_schedule(const lssar_plan* plan, int32_t pass,
                                     lssar_schedule_info* info) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(plan, "plan"));
    LSSAR_RETURN_IF_ERROR(require(info, "info"));
    LSSAR_ASSIGN_OR_RETURN(const lssar::Pass known, lssar::capi::one_pass(pass));
    if (info->struct_size < sizeof(lssar_schedule_info)) {
      return lssar::invalid_argument(
          fmt::format("info.struct_size = {}: must be sizeof(lssar_schedule_info), here {}",
                      info->struct_size, sizeof(lssar_schedule_info)));
    }
    return plan->now().schedules.describe(known, info);
  });
}

lssar_status lssar_plan_workspace_size(const lssar_plan* plan, const lssar_sizes* sizes,
                                       size_t* bytes) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(plan, "plan"));
    LSSAR_RETURN_IF_ERROR(require(sizes, "sizes"));
    LSSAR_RETURN_IF_ERROR(require(bytes, "bytes"));
    LSSAR_ASSIGN_OR_RETURN(*bytes,
                           plan->now().plan->workspace_bytes(lssar::capi::sizes_of_call(*sizes)));
    return {};
  });
}

lssar_status lssar_plan_saved_sizes(const lssar_plan* plan, const lssar_sizes* sizes,
                                    lssar_saved_sizes* saved) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(plan, "plan"));
    LSSAR_RETURN_IF_ERROR(require(sizes, "sizes"));
    LSSAR_RETURN_IF_ERROR(require(saved, "saved"));
    LSSAR_ASSIGN_OR_RETURN(const lssar::SavedBytes bytes,
                           plan->now().plan->saved(lssar::capi::sizes_of_call(*sizes)));
    *saved = {bytes.o, bytes.stats, bytes.x};
    return {};
  });
}

lssar_status lssar_plan_varlen_sizes(const lssar_plan* plan, const lssar_sizes* sizes,
                                     int64_t total_q, int64_t total_k, size_t* workspace_bytes,
                                     lssar_saved_sizes* saved) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(plan, "plan"));
    LSSAR_RETURN_IF_ERROR(require(sizes, "sizes"));
    const lssar::Plan& of = *plan->now().plan;
    const lssar::Sizes known = lssar::capi::sizes_of_call(*sizes);
    LSSAR_ASSIGN_OR_RETURN(const size_t bytes,
                           of.sequences_workspace_bytes(known, total_q, total_k));
    LSSAR_ASSIGN_OR_RETURN(const lssar::SavedBytes parts, of.sequences_saved(known, total_q));
    if (workspace_bytes != nullptr) *workspace_bytes = bytes;
    if (saved != nullptr) *saved = {parts.o, parts.stats, parts.x};
    return {};
  });
}

lssar_status lssar_execute_forward(const lssar_plan* plan, const lssar_call* call) noexcept {
  return guarded([&] { return lssar::execute(lssar::Pass::kForward, plan, call); });
}

lssar_status lssar_execute_forward_train(const lssar_plan* plan, const lssar_call* call) noexcept {
  return guarded([&] { return lssar::execute(lssar::Pass::kForwardTrain, plan, call); });
}

lssar_status lssar_execute_backward(const lssar_plan* plan, const lssar_call* call) noexcept {
  return guarded([&] { return lssar::execute(lssar::Pass::kBackward, plan, call); });
}

lssar_status lssar_execute_row_sums(const lssar_plan* plan, const lssar_call* call) noexcept {
  return guarded([&] { return lssar::execute(lssar::Pass::kRowSums, plan, call); });
}

lssar_status lssar_execute_weighted_sum(const lssar_plan* plan, const lssar_call* call) noexcept {
  return guarded([&] { return lssar::execute(lssar::Pass::kWeightedSum, plan, call); });
}

lssar_status lssar_buffer_alloc(lssar_context* context, size_t bytes, void** buffer) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(buffer, "buffer"));
    *buffer = nullptr;
    LSSAR_RETURN_IF_ERROR(require(context, "context"));
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr made, context->engine->device().allocate(bytes));
    *buffer = reinterpret_cast<void*>(made);
    return {};
  });
}

lssar_status lssar_buffer_free(lssar_context* context, void* buffer) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(context, "context"));
    return context->engine->device().free(reinterpret_cast<DevicePtr>(buffer));
  });
}

lssar_status lssar_buffer_write(lssar_context* context, void* buffer, const void* host,
                                size_t bytes) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(context, "context"));
    if (bytes == 0) return {};
    LSSAR_RETURN_IF_ERROR(require(buffer, "buffer"));
    LSSAR_RETURN_IF_ERROR(require(host, "host"));
    return context->engine->device().copy_to_device(reinterpret_cast<DevicePtr>(buffer), host,
                                                    bytes);
  });
}

lssar_status lssar_buffer_read(lssar_context* context, void* host, const void* buffer,
                               size_t bytes) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(context, "context"));
    if (bytes == 0) return {};
    LSSAR_RETURN_IF_ERROR(require(host, "host"));
    LSSAR_RETURN_IF_ERROR(require(buffer, "buffer"));
    return context->engine->device().copy_to_host(host, reinterpret_cast<DevicePtr>(buffer), bytes);
  });
}

lssar_status lssar_synchronize(lssar_context* context, void* stream) noexcept {
  return guarded([&]() -> Status {
    LSSAR_RETURN_IF_ERROR(require(context, "context"));
    return context->engine->device().synchronize(stream);
  });
}

}  // extern "C"
