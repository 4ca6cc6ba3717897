// The part of this example that is about lssar: a plan for all lengths, buffers that are kept, and
// one call per pass and layer for all windows and heads.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "attention.h"
#include "lssar/lssar.h"

namespace gpt {
namespace {

#define CHECK(call) check((call), #call)

void check(lssar_status status, const char* what) {
  if (status == LSSAR_STATUS_OK) return;
  throw std::runtime_error(std::string(what) + "\n  " + lssar_status_string(status) + ": " +
                           lssar_last_error_detail());
}

template <typename T>
T zeroed() {  // every struct of the API begins its life like this
  T value = {};
  value.struct_size = sizeof(value);
  return value;
}

lssar_device device_of(const std::string& name) {
  if (name == "auto") return LSSAR_DEVICE_AUTO;
  if (name == "cuda") return LSSAR_DEVICE_CUDA;
  if (name == "cpu") return LSSAR_DEVICE_CPU;
  if (name == "virtual") return LSSAR_DEVICE_VIRTUAL;
  throw std::runtime_error("device = " + name + ": allowed are auto, cuda, cpu and virtual");
}

class Context {
 public:
  explicit Context(const std::string& device) {
    auto options = zeroed<lssar_context_options>();
    options.device = device_of(device);
    CHECK(lssar_context_create(&options, &context_));
  }
  ~Context() { lssar_context_destroy(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  lssar_context* get() const { return context_; }

  std::string device_name() const {
    auto info = zeroed<lssar_context_info>();
    CHECK(lssar_context_get_info(context_, &info));
    return std::string(info.device_name) + " for " + info.target;
  }

 private:
  lssar_context* context_ = nullptr;
};

struct PlanDeleter {
  void operator()(lssar_plan* plan) const { lssar_plan_destroy(plan); }
};

// Device memory that grows where a call needs more.
class Buffer {
 public:
  explicit Buffer(const Context& context) : context_(context) {}
  ~Buffer() { lssar_buffer_free(context_.get(), data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* at_least(size_t bytes) {
    if (bytes > bytes_) {
      CHECK(lssar_buffer_free(context_.get(), data_));
      data_ = nullptr;
      bytes_ = 0;
      CHECK(lssar_buffer_alloc(context_.get(), bytes, &data_));
      bytes_ = bytes;
    }
    return data_;
  }
  void write(const float* host, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    CHECK(lssar_buffer_write(context_.get(), at_least(bytes), host, bytes));
  }
  void read(float* host, int64_t count) const {
    CHECK(
        lssar_buffer_read(context_.get(), host, data_, static_cast<size_t>(count) * sizeof(float)));
  }

 private:
  const Context& context_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// What a layer's forward leaves for its backward.
struct Saved {
  explicit Saved(const Context& context) : qkv(context), o(context), stats(context), x(context) {}
  AttentionShape shape{};
  Buffer qkv, o, stats, x;  // and no saved_o, because o is float32
};

lssar_problem problem_of(const LssarOptions& options) {
  auto problem = zeroed<lssar_problem>();
  problem.passes = LSSAR_PASS_FORWARD | LSSAR_PASS_FORWARD_TRAIN | LSSAR_PASS_BACKWARD;
  problem.dtype = LSSAR_DTYPE_FP32;
  problem.head_dim = static_cast<int32_t>(options.head_dim);
  problem.causal = 1;
  problem.p = options.p;
  problem.offset = 1;
  problem.alignment = 16;  // rows of heads * head_dim floats, a multiple of 8
  return problem;          // lengths are 0: one plan for all of them
}

class LssarAttention : public Attention<float> {
 public:
  explicit LssarAttention(const LssarOptions& options)
      : context_(options.device), workspace_(context_), grad_o_(context_), grad_qkv_(context_) {
    const lssar_problem problem = problem_of(options);
    lssar_plan* plan = nullptr;
    CHECK(lssar_plan_create(context_.get(), &problem, nullptr, &plan));
    plan_.reset(plan);
    CHECK(lssar_plan_prepare(plan));
    for (int i = 0; i < options.num_layers; ++i) {
      layers_.push_back(std::make_unique<Saved>(context_));
    }
    inference_ = std::make_unique<Saved>(context_);
    p_ = options.p;
  }

  std::string description() const override {
    return (p_ == 0 ? "LSSA" : "LSSAR, p = " + std::to_string(p_)) + " on " +
           context_.device_name();
  }

  void forward(const AttentionShape& shape, const float* qkv, float* o) override {
    const lssar_call call = begin(inference_.get(), shape, qkv);
    CHECK(lssar_execute_forward(plan_.get(), &call));
    read_o(*inference_, o);
  }

  void forward_train(int layer, const AttentionShape& shape, const float* qkv, float* o) override {
    Saved& saved = *layers_[static_cast<size_t>(layer)];
    const lssar_call call = begin(&saved, shape, qkv);
    CHECK(lssar_execute_forward_train(plan_.get(), &call));
    read_o(saved, o);
  }

  void backward(int layer, const float* grad_o, float* grad_qkv) override {
    Saved& saved = *layers_[static_cast<size_t>(layer)];
    const AttentionShape& shape = saved.shape;
    const int64_t part = shape.heads * shape.head_dim;
    grad_o_.write(grad_o, shape.rows() * part);
    const size_t bytes = static_cast<size_t>(shape.rows() * 3 * part) * sizeof(float);

    lssar_call call = describe(&saved);
    call.grad_o = tensor(grad_o_.at_least(0), 0, part, shape);
    call.grad_q = tensor(grad_qkv_.at_least(bytes), 0, 3 * part, shape);
    call.grad_k = tensor(grad_qkv_.at_least(bytes), part, 3 * part, shape);
    call.grad_v = tensor(grad_qkv_.at_least(bytes), 2 * part, 3 * part, shape);
    CHECK(lssar_execute_backward(plan_.get(), &call));
    CHECK(lssar_synchronize(context_.get(), nullptr));
    grad_qkv_.read(grad_qkv, shape.rows() * 3 * part);
  }

 private:
  // [windows, heads, length, head_dim] of rows that are `pitch` elements apart: q, k and v lie
  // beside one another in the rows of qkv and need no copies.
  static lssar_tensor tensor(void* data, int64_t offset, int64_t pitch,
                             const AttentionShape& shape) {
    return {static_cast<float*>(data) + offset, {shape.length * pitch, shape.head_dim, pitch}};
  }

  // All of a call but the gradients. Where the layer has no room yet for o and for what is saved,
  // that is made.
  lssar_call describe(Saved* saved) {
    const AttentionShape& shape = saved->shape;
    const int64_t part = shape.heads * shape.head_dim;
    auto call = zeroed<lssar_call>();
    call.sizes = {shape.windows, shape.heads, shape.heads, shape.length, shape.length};
    call.q = tensor(saved->qkv.at_least(0), 0, 3 * part, shape);
    call.k = tensor(saved->qkv.at_least(0), part, 3 * part, shape);
    call.v = tensor(saved->qkv.at_least(0), 2 * part, 3 * part, shape);
    const size_t bytes_of_o = static_cast<size_t>(shape.rows() * part) * sizeof(float);
    call.o = tensor(saved->o.at_least(bytes_of_o), 0, part, shape);

    lssar_saved_sizes bytes;
    CHECK(lssar_plan_saved_sizes(plan_.get(), &call.sizes, &bytes));
    call.saved_stats = static_cast<float*>(saved->stats.at_least(bytes.stats));
    call.saved_x = saved->x.at_least(bytes.x);
    CHECK(lssar_plan_workspace_size(plan_.get(), &call.sizes, &call.workspace_bytes));
    call.workspace = workspace_.at_least(call.workspace_bytes);
    return call;
  }

  lssar_call begin(Saved* saved, const AttentionShape& shape, const float* qkv) {
    const int64_t part = shape.heads * shape.head_dim;
    saved->shape = shape;
    saved->qkv.write(qkv, shape.rows() * 3 * part);
    return describe(saved);
  }

  void read_o(const Saved& saved, float* o) {
    const AttentionShape& shape = saved.shape;
    CHECK(lssar_synchronize(context_.get(), nullptr));
    saved.o.read(o, shape.rows() * shape.heads * shape.head_dim);
  }

  Context context_;
  std::unique_ptr<lssar_plan, PlanDeleter> plan_;
  int p_ = 0;
  Buffer workspace_, grad_o_, grad_qkv_;
  std::vector<std::unique_ptr<Saved>> layers_;
  std::unique_ptr<Saved> inference_;
};

}  // namespace

std::unique_ptr<Attention<float>> make_lssar_attention(const LssarOptions& options) {
  return std::make_unique<LssarAttention>(options);
}

}  // namespace gpt
