#include "tests/capi/run_capi.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/field_json.h"
#include "reference/numerics.h"
#include "score/score_function_fields.h"
#include "tests/capi/device_tensor.h"

namespace lssar {
namespace {

TensorShape of_queries(const Sizes& s, int64_t dim) { return {s.batch, s.heads, s.seq_q, dim}; }
TensorShape of_keys(const Sizes& s, int64_t dim) { return {s.batch, s.kv_heads, s.seq_k, dim}; }

Result<std::vector<float>> read_floats(const Buffer& buffer) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, buffer.read());
  return unpack(DType::kFp32, bytes);
}

// Every tensor, saved tensor and the workspace of one problem, and the call that names them.
class CallMemory {
 public:
  CallMemory(lssar_context* context, const Problem& p, const Sizes& s, Layout layout)
      : context_(context),
        sizes_(s),
        q(context, "q", p.dtype, of_queries(s, p.head_dim), layout),
        k(context, "k", p.dtype, of_keys(s, p.head_dim), layout),
        v(context, "v", p.dtype, of_keys(s, p.head_dim_v), layout),
        o(context, "o", p.dtype, of_queries(s, p.head_dim_v), layout),
        grad_o(context, "grad_o", p.dtype, of_queries(s, p.head_dim_v), layout),
        grad_q(context, "grad_q", p.dtype, of_queries(s, p.head_dim), layout),
        grad_k(context, "grad_k", p.dtype, of_keys(s, p.head_dim), layout),
        grad_v(context, "grad_v", p.dtype, of_keys(s, p.head_dim_v), layout),
        saved_o(context),
        saved_stats(context),
        saved_x(context),
        row_stats(context),
        sink(context),
        grad_sink(context),
        rotary_cos(context),
        rotary_sin(context),
        alibi_slopes(context),
        workspace(context) {}

  // The backward may have the same plan.
  Status set_up(const lssar_plan* plan, const lssar_plan* backward, const CapiInputs& inputs) {
    for (DeviceTensor* tensor : {&q, &k, &v, &o, &grad_o, &grad_q, &grad_k, &grad_v}) {
      LSSAR_RETURN_IF_ERROR(tensor->allocate());
    }
    LSSAR_RETURN_IF_ERROR(q.upload(inputs.q));
    LSSAR_RETURN_IF_ERROR(k.upload(inputs.k));
    LSSAR_RETURN_IF_ERROR(v.upload(inputs.v));
    if (!inputs.grad_o.empty()) LSSAR_RETURN_IF_ERROR(grad_o.upload(inputs.grad_o));

    const lssar_sizes sizes = to_c(sizes_);
    size_t workspace_bytes = 0, backward_bytes = 0;
    lssar_saved_sizes saved = {};
    LSSAR_RETURN_IF_ERROR(to_status(lssar_plan_workspace_size(plan, &sizes, &workspace_bytes)));
    LSSAR_RETURN_IF_ERROR(to_status(lssar_plan_workspace_size(backward, &sizes, &backward_bytes)));
    LSSAR_RETURN_IF_ERROR(to_status(lssar_plan_saved_sizes(plan, &sizes, &saved)));
    LSSAR_RETURN_IF_ERROR(workspace.allocate(std::max(workspace_bytes, backward_bytes)));
    LSSAR_RETURN_IF_ERROR(saved_o.allocate(saved.o));
    LSSAR_RETURN_IF_ERROR(saved_stats.allocate(saved.stats));
    LSSAR_RETURN_IF_ERROR(row_stats.allocate(saved.stats));
    if (!inputs.sink.empty()) {
      LSSAR_RETURN_IF_ERROR(sink.allocate(inputs.sink.size() * sizeof(float)));
      LSSAR_RETURN_IF_ERROR(sink.write(pack(DType::kFp32, inputs.sink)));
      LSSAR_RETURN_IF_ERROR(grad_sink.allocate(sink.bytes()));
    }
    LSSAR_RETURN_IF_ERROR(upload_table(inputs.rotary_cos, rotary_cos));
    LSSAR_RETURN_IF_ERROR(upload_table(inputs.rotary_sin, rotary_sin));
    LSSAR_RETURN_IF_ERROR(upload_table(inputs.alibi_slopes, alibi_slopes));
    return saved_x.allocate(saved.x);
  }

  lssar_call call() const {
    lssar_call c = {};
    c.struct_size = sizeof(c);
    c.sizes = to_c(sizes_);
    c.q = q.ref();
    c.k = k.ref();
    c.v = v.ref();
    c.o = o.ref();
    c.grad_o = grad_o.ref();
    c.grad_q = grad_q.ref();
    c.grad_k = grad_k.ref();
    c.grad_v = grad_v.ref();
    c.saved_o = saved_o.data();
    c.saved_stats = static_cast<float*>(saved_stats.data());
    c.saved_x = saved_x.data();
    c.sink = static_cast<const float*>(sink.data());
    c.grad_sink = static_cast<float*>(grad_sink.data());
    c.rotary_cos = static_cast<const float*>(rotary_cos.data());
    c.rotary_sin = static_cast<const float*>(rotary_sin.data());
    c.alibi_slopes = static_cast<const float*>(alibi_slopes.data());
    c.rotary_positions = rotary_cos.bytes() == 0 ? 0 : sizes_.seq_k;
    c.workspace = workspace.data();
    c.workspace_bytes = workspace.bytes();
    return c;
  }

  Status synchronize() const { return to_status(lssar_synchronize(context_, nullptr)); }

 private:
  static Status upload_table(const std::vector<float>& values, Buffer& table) {
    if (values.empty()) return {};
    LSSAR_RETURN_IF_ERROR(table.allocate(values.size() * sizeof(float)));
    return table.write(pack(DType::kFp32, values));
  }

  lssar_context* const context_;
  const Sizes sizes_;

 public:
  DeviceTensor q, k, v, o, grad_o, grad_q, grad_k, grad_v;
  Buffer saved_o, saved_stats, saved_x, row_stats, sink, grad_sink, rotary_cos, rotary_sin,
      alibi_slopes, workspace;
};

Status run_passes(const lssar_plan* plan, const lssar_plan* backward, const CapiOptions& options,
                  const CallMemory& memory, CapiOutputs* out) {
  const uint32_t passes = options.passes;
  lssar_call call = memory.call();
  if (passes & LSSAR_PASS_FORWARD) {
    if (options.wants_row_stats) call.row_stats = static_cast<float*>(memory.row_stats.data());
    LSSAR_RETURN_IF_ERROR(to_status(lssar_execute_forward(plan, &call)));
    LSSAR_RETURN_IF_ERROR(memory.synchronize());
    LSSAR_ASSIGN_OR_RETURN(out->o, memory.o.download());
    LSSAR_ASSIGN_OR_RETURN(out->row_stats, read_floats(memory.row_stats));
  }
  if (passes & LSSAR_PASS_FORWARD_TRAIN) {
    LSSAR_RETURN_IF_ERROR(to_status(lssar_execute_forward_train(plan, &call)));
    LSSAR_RETURN_IF_ERROR(memory.synchronize());
    LSSAR_ASSIGN_OR_RETURN(out->o_train, memory.o.download());
    if (!(passes & LSSAR_PASS_FORWARD)) out->o = out->o_train;
    LSSAR_ASSIGN_OR_RETURN(out->saved_stats, read_floats(memory.saved_stats));
  }
  if (passes & LSSAR_PASS_BACKWARD) {
    LSSAR_RETURN_IF_ERROR(to_status(lssar_execute_backward(backward, &call)));
    LSSAR_RETURN_IF_ERROR(memory.synchronize());
    LSSAR_ASSIGN_OR_RETURN(out->grad_q, memory.grad_q.download());
    LSSAR_ASSIGN_OR_RETURN(out->grad_k, memory.grad_k.download());
    LSSAR_ASSIGN_OR_RETURN(out->grad_v, memory.grad_v.download());
    LSSAR_ASSIGN_OR_RETURN(out->grad_sink, read_floats(memory.grad_sink));
  }
  return {};
}

}  // namespace

Status to_status(lssar_status status) {
  if (status == LSSAR_STATUS_OK) return {};
  return {static_cast<StatusCode>(status), lssar_last_error_detail()};
}

Result<ContextPtr> open_context(lssar_device device, lssar_compiler compiler,
                                const std::string& target, const std::string& cache_directory) {
  lssar_context_options options = {};
  options.struct_size = sizeof(options);
  options.device = device;
  options.compiler = compiler;
  if (!target.empty()) options.target = target.c_str();
  if (!cache_directory.empty()) options.cache_directory = cache_directory.c_str();
  lssar_context* context = nullptr;
  LSSAR_RETURN_IF_ERROR(to_status(lssar_context_create(&options, &context)));
  return ContextPtr(context);
}

lssar_problem to_c(const Problem& problem, uint32_t passes, int32_t alignment) {
  // Text that the struct points to, of every score function that this process has asked for.
  static auto& scores = *new std::set<std::string>;
  lssar_problem c = {};
  if (problem.score != ScoreFunction())
    c.score = scores.insert(fields_to_json(problem.score).dump()).first->c_str();
  c.struct_size = sizeof(c);
  c.passes = passes;
  c.dtype = problem.dtype == DType::kFp16   ? LSSAR_DTYPE_FP16
            : problem.dtype == DType::kBf16 ? LSSAR_DTYPE_BF16
                                            : LSSAR_DTYPE_FP32;
  c.head_dim = problem.head_dim;
  c.head_dim_v = problem.head_dim_v;
  c.seq_q = problem.seq_q;
  c.seq_k = problem.seq_k;
  c.batch = problem.batch;
  c.heads = problem.heads;
  c.kv_heads = problem.kv_heads;
  c.causal = problem.causal ? 1 : 0;
  c.p = problem.p;
  c.offset = problem.offset;
  c.alignment = alignment;
  c.has_window = problem.window_left != -1 || problem.window_right != -1 ? 1 : 0;
  if (c.has_window == 1) {
    c.window_left = problem.window_left;
    c.window_right = problem.window_right;
  }
  c.window_sinks = problem.window_sinks;
  c.prefix = problem.prefix;
  c.chunk = problem.chunk;
  c.invariant = problem.invariant ? 1 : 0;
  c.rotary_dim = problem.rotary_dim;
  c.rotary_interleaved = problem.rotary_interleaved ? 1 : 0;
  return c;
}

lssar_sizes to_c(const Sizes& sizes) {
  return {sizes.batch, sizes.heads, sizes.kv_heads, sizes.seq_q, sizes.seq_k};
}

Result<CapiOutputs> run_capi(lssar_context* context, const Problem& problem, const Sizes& sizes,
                             const CapiInputs& inputs, const CapiOptions& options) {
  const auto prepare = [&](uint32_t passes, const std::string& schedule) -> Result<PlanPtr> {
    lssar_problem c_problem = to_c(problem, passes, options.alignment);
    c_problem.seq_q = options.fixes_lengths || options.fixes_queries ? sizes.seq_q : 0;
    c_problem.seq_k = options.fixes_lengths ? sizes.seq_k : 0;
    lssar_plan_options plan_options = {};
    plan_options.struct_size = sizeof(plan_options);
    plan_options.schedule_json = schedule.c_str();
    lssar_plan* raw_plan = nullptr;
    LSSAR_RETURN_IF_ERROR(
        to_status(lssar_plan_create(context, &c_problem, &plan_options, &raw_plan)));
    PlanPtr plan(raw_plan);
    LSSAR_RETURN_IF_ERROR(to_status(lssar_plan_prepare(raw_plan)));
    return plan;
  };
  const bool is_split = !options.backward_schedule_json.empty();
  const uint32_t backward_pass = options.passes & LSSAR_PASS_BACKWARD;
  LSSAR_ASSIGN_OR_RETURN(
      const PlanPtr plan,
      prepare(is_split ? options.passes - backward_pass : options.passes, options.schedule_json));
  PlanPtr own_backward;
  if (is_split) {
    LSSAR_ASSIGN_OR_RETURN(own_backward, prepare(backward_pass, options.backward_schedule_json));
  }
  const lssar_plan* backward = is_split ? own_backward.get() : plan.get();

  CallMemory memory(context, problem, sizes, options.layout);
  LSSAR_RETURN_IF_ERROR(memory.set_up(plan.get(), backward, inputs));
  CapiOutputs outputs;
  LSSAR_RETURN_IF_ERROR(run_passes(plan.get(), backward, options, memory, &outputs));
  return outputs;
}

}  // namespace lssar
