#include "capi/structs.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "score/score_text.h"

namespace lssar::capi {
namespace {

template <typename T>
Status out_of_range(const char* field, T value, const char* allowed) {
  return invalid_argument(fmt::format("{} = {}: allowed are {}", field, value, allowed));
}

Result<DeviceChoice> device_choice(int32_t value) {
  switch (value) {
    case LSSAR_DEVICE_AUTO:
      return DeviceChoice::kAuto;
    case LSSAR_DEVICE_CUDA:
      return DeviceChoice::kCuda;
    case LSSAR_DEVICE_VIRTUAL:
      return DeviceChoice::kVirtual;
    case LSSAR_DEVICE_RECORD:
      return DeviceChoice::kRecord;
    case LSSAR_DEVICE_CPU:
      return DeviceChoice::kCpu;
  }
  return out_of_range("device", value, "0 (auto), 1 (cuda), 2 (virtual), 3 (record), 4 (cpu)");
}

Result<CompilerChoice> compiler_choice(int32_t value) {
  switch (value) {
    case LSSAR_COMPILER_AUTO:
      return CompilerChoice::kAuto;
    case LSSAR_COMPILER_NVRTC:
      return CompilerChoice::kNvrtc;
    case LSSAR_COMPILER_LLVM:
      return CompilerChoice::kLlvm;
  }
  return out_of_range("compiler", value, "0 (auto), 1 (nvrtc), 2 (llvm)");
}

Result<DType> dtype(int32_t value) {
  switch (value) {
    case LSSAR_DTYPE_FP16:
      return DType::kFp16;
    case LSSAR_DTYPE_BF16:
      return DType::kBf16;
    case LSSAR_DTYPE_FP32:
      return DType::kFp32;
  }
  return out_of_range("dtype", value, "0 (fp16), 1 (bf16), 2 (fp32)");
}

constexpr std::pair<lssar_pass, Pass> kPasses[] = {{LSSAR_PASS_FORWARD, Pass::kForward},
                                                   {LSSAR_PASS_FORWARD_TRAIN, Pass::kForwardTrain},
                                                   {LSSAR_PASS_BACKWARD, Pass::kBackward},
                                                   {LSSAR_PASS_ROW_SUMS, Pass::kRowSums},
                                                   {LSSAR_PASS_WEIGHTED_SUM, Pass::kWeightedSum}};

Result<std::vector<Pass>> passes(uint32_t bits) {
  std::vector<Pass> list;
  uint32_t unknown = bits;
  for (const auto& [bit, pass] : kPasses) {
    if (bits & bit) list.push_back(pass);
    unknown &= ~static_cast<uint32_t>(bit);
  }
  if (list.empty() || unknown != 0) {
    return out_of_range("passes", bits,
                        "1 (forward), 2 (forward-train), 4 (backward), 8 (row-sums), 16 "
                        "(weighted-sum) and their sums");
  }
  return list;
}

Status check_tuning(int32_t value) {
  switch (value) {
    case LSSAR_TUNING_DEFAULT:
    case LSSAR_TUNING_BUILT_IN:
    case LSSAR_TUNING_TUNE:
      return {};
  }
  return out_of_range("tuning", value, "0 (default), 1 (built-in), 2 (tune)");
}

Result<Determinism> determinism(int32_t value) {
  switch (value) {
    case LSSAR_DETERMINISM_REPEATABLE:
      return Determinism::kRepeatable;
    case LSSAR_DETERMINISM_ANY:
      return Determinism::kAny;
  }
  return out_of_range("determinism", value, "0 (repeatable), 1 (any)");
}

Status check_reserved(const char* field, int32_t value) {
  return value == 0 ? Status() : out_of_range(field, value, "0");
}

Tensor tensor(const lssar_tensor& t) {
  return {reinterpret_cast<DevicePtr>(t.data), t.strides[0], t.strides[1], t.strides[2]};
}

Status read_plan_options(const lssar_plan_options& options, PlanRequest& request) {
  LSSAR_ASSIGN_OR_RETURN(
      const lssar_plan_options known,
      read_struct(&options, "plan_options", offsetof(lssar_plan_options, tuning)));
  if (known.schedule_json != nullptr) request.schedule_json = known.schedule_json;
  LSSAR_RETURN_IF_ERROR(check_tuning(known.tuning));
  request.tuning = known.tuning;
  request.tune = known.tune;
  LSSAR_ASSIGN_OR_RETURN(request.determinism, determinism(known.determinism));
  return {};
}

// The window fields. Without has_window, 0 must not mean a limit of no keys, because older callers
// have 0 there.
Status read_window(const lssar_problem& known, Problem& p) {
  if (known.has_window != 0 && known.has_window != 1)
    return out_of_range("has_window", known.has_window, "0 and 1");
  LSSAR_RETURN_IF_ERROR(check_reserved("problem.reserved3", known.reserved3));
  for (const auto& [name, given, field] :
       {std::tuple("window_left", known.window_left, &Problem::window_left),
        std::tuple("window_right", known.window_right, &Problem::window_right)}) {
    if (known.has_window == 0 && given != 0)
      return out_of_range(name, given, "0 where has_window is 0");
    if (known.has_window == 1) p.*field = given;
  }
  p.window_sinks = known.window_sinks;
  p.prefix = known.prefix;
  p.chunk = known.chunk;
  return {};
}

}  // namespace

Result<ContextRequest> context_request(const lssar_context_options* options) {
  ContextRequest request;
  if (options == nullptr) return request;
  LSSAR_ASSIGN_OR_RETURN(
      const lssar_context_options known,
      read_struct(options, "context_options", offsetof(lssar_context_options, tuning_table)));
  EngineOptions& result = request.engine;
  LSSAR_ASSIGN_OR_RETURN(result.device, device_choice(known.device));
  LSSAR_ASSIGN_OR_RETURN(result.compiler, compiler_choice(known.compiler));
  LSSAR_RETURN_IF_ERROR(check_reserved("context_options.reserved", known.reserved));
  if (known.device_ordinal < 0) {
    return out_of_range("device_ordinal", known.device_ordinal, "0 and more");
  }
  result.ordinal = known.device_ordinal;
  if (known.target != nullptr) result.target = known.target;
  if (known.cache_directory != nullptr) result.cache.directory = known.cache_directory;
  if (known.cache_max_bytes != 0) result.cache.max_bytes = known.cache_max_bytes;
  if (known.tuning_table != nullptr) request.tuning_table = known.tuning_table;
  result.parallel_for = {known.parallel_for, known.parallel_for_user};
  return request;
}

Result<PlanRequest> plan_request(const lssar_problem* problem, const lssar_plan_options* options) {
  LSSAR_ASSIGN_OR_RETURN(const lssar_problem known,
                         read_struct(problem, "problem", offsetof(lssar_problem, score)));
  PlanRequest request;
  LSSAR_ASSIGN_OR_RETURN(request.options.passes, passes(known.passes));
  Problem& p = request.problem;
  p.pass = request.options.passes.front();
  LSSAR_ASSIGN_OR_RETURN(p.dtype, dtype(known.dtype));
  p.head_dim = known.head_dim;
  p.head_dim_v = known.head_dim_v == 0 ? known.head_dim : known.head_dim_v;
  p.seq_q = known.seq_q;
  p.seq_k = known.seq_k;
  p.batch = known.batch == 0 ? 1 : known.batch;
  p.heads = known.heads == 0 ? 1 : known.heads;
  p.kv_heads = known.kv_heads == 0 ? p.heads : known.kv_heads;
  if (known.causal != 0 && known.causal != 1) {
    return out_of_range("causal", known.causal, "0 and 1");
  }
  p.causal = known.causal == 1;
  p.p = known.p;
  p.offset = known.offset;
  request.options.any_alignment = known.alignment == 0;
  p.alignment = known.alignment == 0 ? 16 : known.alignment;
  LSSAR_RETURN_IF_ERROR(check_reserved("problem.reserved", known.reserved));
  if (known.varlen != 0 && known.varlen != 1) {
    return out_of_range("varlen", known.varlen, "0 and 1");
  }
  p.varlen = known.varlen == 1;
  LSSAR_RETURN_IF_ERROR(check_reserved("problem.reserved2", known.reserved2));
  LSSAR_RETURN_IF_ERROR(read_window(known, p));
  if (known.invariant != 0 && known.invariant != 1) {
    return out_of_range("invariant", known.invariant, "0 and 1");
  }
  p.invariant = known.invariant == 1;
  LSSAR_RETURN_IF_ERROR(check_reserved("problem.reserved4", known.reserved4));
  p.rotary_dim = known.rotary_dim;
  if (known.rotary_interleaved != 0 && known.rotary_interleaved != 1) {
    return out_of_range("rotary_interleaved", known.rotary_interleaved, "0 and 1");
  }
  p.rotary_interleaved = known.rotary_interleaved == 1;
  if (known.score != nullptr && *known.score != '\0') {
    LSSAR_ASSIGN_OR_RETURN(p.score, parse_score(known.score));
  }
  LSSAR_RETURN_IF_ERROR(validate(p));
  request.sizes = {.batch = known.batch,
                   .heads = known.heads,
                   .kv_heads = known.heads == 0 ? 0 : p.kv_heads,
                   .seq_q = known.seq_q,
                   .seq_k = known.seq_k};
  if (options != nullptr) LSSAR_RETURN_IF_ERROR(read_plan_options(*options, request));
  return request;
}

Result<Pass> one_pass(int32_t pass) {
  for (const auto& [bit, known] : kPasses) {
    if (pass == bit) return known;
  }
  return out_of_range("pass", pass,
                      "1 (forward), 2 (forward-train), 4 (backward), 8 (row-sums), 16 "
                      "(weighted-sum)");
}

KeyRange range_of_call(const lssar_range& range) {
  return {range.first_key, range.num_keys, range.first_query, range.num_queries};
}

Sizes sizes_of_call(const lssar_sizes& sizes) {
  return {sizes.batch, sizes.heads, sizes.kv_heads, sizes.seq_q, sizes.seq_k};
}

Result<int> num_threads_of_call(const lssar_call& call) {
  constexpr int kMost = std::numeric_limits<int>::max();
  if (call.num_threads < 0) return out_of_range("num_threads", call.num_threads, "0 and more");
  return static_cast<int>(std::min<int64_t>(call.num_threads, kMost));
}

Sequences sequences_of_call(const lssar_call& call) {
  return {call.cu_seqlens_q, call.cu_seqlens_k,   call.seqused_q, call.seqused_k, call.total_q,
          call.total_k,      call.cu_seqlens_new, call.seq_new,   call.total_new};
}

Tensors tensors_of_call(const lssar_call& call) {
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
  tensors.sink = reinterpret_cast<DevicePtr>(call.sink);
  tensors.grad_sink = reinterpret_cast<DevicePtr>(call.grad_sink);
  tensors.rotary_cos = reinterpret_cast<DevicePtr>(call.rotary_cos);
  tensors.rotary_sin = reinterpret_cast<DevicePtr>(call.rotary_sin);
  tensors.rotary_positions = call.rotary_positions;
  tensors.alibi_slopes = reinterpret_cast<DevicePtr>(call.alibi_slopes);
  tensors.k_new = tensor(call.k_new);
  tensors.v_new = tensor(call.v_new);
  tensors.key_norms = reinterpret_cast<DevicePtr>(call.key_norms);
  return tensors;
}

}  // namespace lssar::capi
