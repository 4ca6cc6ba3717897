#include "autotune/measure/check_call.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "codegen/pass_needs.h"
#include "reference/numerics.h"
#include "reference/packed_rows.h"
#include "runtime/sequences.h"

namespace lssar {
namespace {

size_t elements(int64_t batch, int64_t heads, int64_t length, int64_t dim) {
  return static_cast<size_t>(batch * heads * length * dim);
}

std::vector<std::byte> bytes_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<int32_t> sums_of(const std::vector<int64_t>& lengths) {
  std::vector<int32_t> sums = {0};
  for (const int64_t length : lengths) sums.push_back(static_cast<int32_t>(sums.back() + length));
  return sums;
}

Result<CheckCall> CheckCall::create(Engine& engine, std::shared_ptr<const PreparedKernel> kernel,
                                    const Sizes& sizes, const SequenceLengths& lengths) {
  const Problem& problem = kernel->problem;
  CheckCall call(engine, std::move(kernel), sizes,
                 lengths.empty() ? even_lengths(problem, sizes) : lengths);
  LSSAR_RETURN_IF_ERROR(call.add_tensors());
  return call;
}

Status CheckCall::add(const std::string& name, size_t bytes, Item::Role role, DType dtype) {
  const int alignment = kernel_->problem.alignment;
  // Kernels for alignments below 16 bytes get the caller's tensors with that alignment and no more.
  const bool is_callers = role != Item::Role::kScratch && !name.starts_with("saved") &&
                          !name.ends_with("sink") && !name.starts_with("rotary") &&
                          !name.starts_with("alibi") && !name.starts_with("cu_seqlens");
  const size_t offset = alignment < 16 && is_callers ? static_cast<size_t>(alignment) : 0;
  Item item;
  LSSAR_ASSIGN_OR_RETURN(item.buffer,
                         GuardedBuffer::allocate(engine_->shared_device(), name, bytes, offset));
  item.role = role;
  item.dtype = dtype;
  items_.push_back(std::move(item));
  return {};
}

Status CheckCall::add_tensors() {
  const Problem& problem = kernel_->problem;
  const Sizes& s = sizes_;
  const size_t unit = static_cast<size_t>(dtype_bytes(problem.dtype));
  const size_t q_bytes = unit * elements(s.batch, s.heads, s.seq_q, problem.head_dim);
  const size_t o_bytes = unit * elements(s.batch, s.heads, s.seq_q, problem.head_dim_v);
  const size_t k_bytes = unit * elements(s.batch, s.kv_heads, s.seq_k, problem.head_dim);
  const size_t v_bytes = unit * elements(s.batch, s.kv_heads, s.seq_k, problem.head_dim_v);
  using Role = Item::Role;
  const DType dtype = problem.dtype;
  LSSAR_RETURN_IF_ERROR(add("q", q_bytes, Role::kInput, dtype));
  LSSAR_RETURN_IF_ERROR(add("k", k_bytes, Role::kInput, dtype));
  LSSAR_RETURN_IF_ERROR(add("v", v_bytes, Role::kInput, dtype));

  const bool is_backward = problem.pass == Pass::kBackward;
  LSSAR_RETURN_IF_ERROR(add("o", o_bytes, is_backward ? Role::kInput : Role::kOutput, dtype));
  if (is_backward) {
    LSSAR_RETURN_IF_ERROR(add("grad_o", o_bytes, Role::kInput, dtype));
    LSSAR_RETURN_IF_ERROR(add("grad_q", q_bytes, Role::kOutput, dtype));
    LSSAR_RETURN_IF_ERROR(add("grad_k", k_bytes, Role::kOutput, dtype));
    LSSAR_RETURN_IF_ERROR(add("grad_v", v_bytes, Role::kOutput, dtype));
  }
  if (problem.pass != Pass::kForward) {
    LSSAR_ASSIGN_OR_RETURN(const SavedBytes saved, saved_tensors());
    const Role role = is_backward ? Role::kInput : Role::kOutput;
    const DType x_type = dtype == DType::kFp32 ? DType::kFp32 : DType::kBf16;
    LSSAR_RETURN_IF_ERROR(add("saved_o", saved.o, role, DType::kBf16));
    LSSAR_RETURN_IF_ERROR(add("saved_stats", saved.stats, role, DType::kFp32));
    LSSAR_RETURN_IF_ERROR(add("saved_x", saved.x, role, x_type));
  }
  if (reads_sink(problem)) {
    const size_t sink_bytes = static_cast<size_t>(s.heads) * sizeof(float);
    LSSAR_RETURN_IF_ERROR(add("sink", sink_bytes, Role::kInput, DType::kFp32));
    if (is_backward)
      LSSAR_RETURN_IF_ERROR(add("grad_sink", sink_bytes, Role::kOutput, DType::kFp32));
  }
  if (reads_alibi(problem))
    LSSAR_RETURN_IF_ERROR(add("alibi_slopes", static_cast<size_t>(s.heads) * sizeof(float),
                              Role::kInput, DType::kFp32));
  if (problem.rotary_dim != 0) {
    const size_t table_bytes = elements(1, 1, s.seq_k, problem.rotary_dim / 2) * sizeof(float);
    LSSAR_RETURN_IF_ERROR(add("rotary_cos", table_bytes, Role::kInput, DType::kFp32));
    LSSAR_RETURN_IF_ERROR(add("rotary_sin", table_bytes, Role::kInput, DType::kFp32));
  }
  LSSAR_RETURN_IF_ERROR(add_lengths());
  LSSAR_ASSIGN_OR_RETURN(const size_t bytes, workspace_bytes());
  return add("workspace", bytes, Role::kScratch, DType::kFp32);
}

Status CheckCall::add_lengths() {
  if (lengths_.empty()) return {};
  const size_t bytes = (lengths_.q.size() + 1) * sizeof(int32_t);
  LSSAR_RETURN_IF_ERROR(add("cu_seqlens_q", bytes, Item::Role::kInput, DType::kFp32));
  return add("cu_seqlens_k", bytes, Item::Role::kInput, DType::kFp32);
}

Result<SavedBytes> CheckCall::saved_tensors() const {
  if (lengths_.empty()) return saved_bytes(kernel_->problem, kernel_->schedule, sizes_);
  return sequences_saved_bytes(kernel_->problem, kernel_->schedule, call_sizes_,
                               lengths_.total_q());
}

Result<size_t> CheckCall::workspace_bytes() const {
  const Problem& problem = kernel_->problem;
  if (!lengths_.empty()) {
    return sequences_workspace_bytes(problem, kernel_->schedule, call_sizes_, lengths_.total_q(),
                                     lengths_.total_k());
  }
  LSSAR_ASSIGN_OR_RETURN(const WorkspaceLayout layout,
                         workspace_layout(problem, kernel_->schedule, sizes_));
  return layout.total_bytes;
}

Status CheckCall::execute() {
  const Item* workspace = find("workspace");
  const Workspace scratch = {workspace->buffer.ptr(), workspace->buffer.bytes()};
  if (lengths_.empty()) return engine_->execute(*kernel_, sizes_, tensors(), scratch, nullptr);
  Sequences sequences;
  sequences.cu_seqlens_q = reinterpret_cast<const int32_t*>(at("cu_seqlens_q"));
  sequences.cu_seqlens_k = reinterpret_cast<const int32_t*>(at("cu_seqlens_k"));
  sequences.total_q = lengths_.total_q();
  sequences.total_k = lengths_.total_k();
  return engine_->execute_sequences(*kernel_, call_sizes_, sequences, tensors(), scratch, nullptr);
}

Status CheckCall::fill(const RandomInputs& inputs, const SavedTensors& saved) {
  const DType dtype = kernel_->problem.dtype;
  const bool is_backward = kernel_->problem.pass == Pass::kBackward;
  const std::vector<int32_t> sums_q = sums_of(lengths_.q), sums_k = sums_of(lengths_.k);
  for (Item& item : items_) {
    const std::string& name = item.buffer.name();
    if (item.role != Item::Role::kInput) {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset());
    } else if (name == "q") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(pack(dtype, inputs.q)));
    } else if (name == "k") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(pack(dtype, inputs.k)));
    } else if (name == "v") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(pack(dtype, inputs.v)));
    } else if (name == "grad_o") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(pack(dtype, inputs.grad_o)));
    } else if (name == "sink") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(pack(DType::kFp32, inputs.sink)));
    } else if (name == "alibi_slopes") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(pack(DType::kFp32, inputs.alibi_slopes)));
    } else if (name == "rotary_cos") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(pack(DType::kFp32, inputs.rotary_cos)));
    } else if (name == "rotary_sin") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(pack(DType::kFp32, inputs.rotary_sin)));
    } else if (name == "cu_seqlens_q") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(std::as_bytes(std::span(sums_q))));
    } else if (name == "cu_seqlens_k") {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(std::as_bytes(std::span(sums_k))));
    } else if (is_backward && item.buffer.bytes() == 0) {
      LSSAR_RETURN_IF_ERROR(item.buffer.reset());  // X may be saved although nothing reads it
    } else if (is_backward) {
      const std::vector<std::byte>& bytes = name == "o"             ? saved.o
                                            : name == "saved_o"     ? saved.rounding
                                            : name == "saved_stats" ? saved.stats
                                                                    : saved.x;
      LSSAR_RETURN_IF_ERROR(item.buffer.reset(bytes));
    }
  }
  return {};
}

Status CheckCall::run(const RandomInputs& inputs, const SavedTensors& saved) {
  LSSAR_RETURN_IF_ERROR(fill(inputs, saved));
  LSSAR_RETURN_IF_ERROR(execute());
  LSSAR_RETURN_IF_ERROR(engine_->device().synchronize(nullptr));
  for (Item& item : items_) LSSAR_RETURN_IF_ERROR(item.buffer.read());
  return {};
}

Damage CheckCall::damage() const {
  for (const Item& item : items_) {
    if (std::string what = item.buffer.guard_damage(); !what.empty()) return {true, what};
    if (item.role != Item::Role::kInput) continue;
    if (std::string what = item.buffer.data_damage(); !what.empty()) return {true, what};
  }
  for (const Item& item : items_) {
    if (item.role != Item::Role::kOutput) continue;
    const size_t unit = static_cast<size_t>(dtype_bytes(item.dtype));
    if (const auto at = item.buffer.first_unwritten(unit)) {
      return {true, fmt::format("{}: unwritten, the first at element {} of {}", item.buffer.name(),
                                *at, item.buffer.bytes() / unit)};
    }
  }
  return {};
}

std::string CheckCall::difference(const CheckCall& other) const {
  for (size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].role != Item::Role::kOutput) continue;
    const std::span<const std::byte> a = items_[i].buffer.data();
    const std::span<const std::byte> b = other.items_[i].buffer.data();
    const auto found = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (found.first == a.end()) continue;
    const size_t unit = static_cast<size_t>(dtype_bytes(items_[i].dtype));
    return fmt::format("{}: other bits in a second run, the first at element {} of {}",
                       items_[i].buffer.name(), static_cast<size_t>(found.first - a.begin()) / unit,
                       a.size() / unit);
  }
  return "";
}

std::vector<float> CheckCall::values(const std::string& name) const {
  const Item* item = find(name);
  return unpack(item->dtype, item->buffer.data());
}

std::vector<float> CheckCall::saved_o_values() const {
  const std::vector<float> saved = values("saved_o");
  if (lengths_.empty()) return saved;
  const int64_t dim = kernel_->problem.head_dim_v;
  std::vector<float> all(saved.size());
  int64_t first = 0;
  for (const int64_t length : lengths_.q) {
    const auto begin = saved.begin() + first * sizes_.heads * dim;
    const std::vector<float> part(begin, begin + length * sizes_.heads * dim);
    put_rows_of_heads(part, sizes_.heads, sizes_.seq_q, dim, first, first + length, &all);
    first += length;
  }
  return all;
}

std::map<std::string, std::vector<std::byte>> CheckCall::output_bytes() const {
  std::map<std::string, std::vector<std::byte>> all;
  for (const Item& item : items_) {
    if (item.role == Item::Role::kOutput && item.buffer.bytes() > 0)
      all[item.buffer.name()] = bytes_of(item.buffer.data());
  }
  return all;
}

SavedTensors CheckCall::saved() const {
  const auto bytes = [&](const char* name) { return bytes_of(find(name)->buffer.data()); };
  return {bytes("o"), bytes("saved_o"), bytes("saved_stats"), bytes("saved_x")};
}

const CheckCall::Item* CheckCall::find(const std::string& name) const {
  for (const Item& item : items_) {
    if (item.buffer.name() == name) return &item;
  }
  return nullptr;
}

DevicePtr CheckCall::at(const std::string& name) const {
  const Item* item = find(name);
  return item == nullptr ? 0 : item->buffer.ptr();
}

Tensors CheckCall::tensors() const {
  const Problem& problem = kernel_->problem;
  const auto query_side = [&](const char* name, int dim) {
    return contiguous_tensor(at(name), sizes_.heads, sizes_.seq_q, dim);
  };
  const auto key_side = [&](const char* name, int dim) {
    return contiguous_tensor(at(name), sizes_.kv_heads, sizes_.seq_k, dim);
  };
  Tensors tensors;
  tensors.q = query_side("q", problem.head_dim);
  tensors.k = key_side("k", problem.head_dim);
  tensors.v = key_side("v", problem.head_dim_v);
  tensors.o = query_side("o", problem.head_dim_v);
  tensors.grad_o = query_side("grad_o", problem.head_dim_v);
  tensors.grad_q = query_side("grad_q", problem.head_dim);
  tensors.grad_k = key_side("grad_k", problem.head_dim);
  tensors.grad_v = key_side("grad_v", problem.head_dim_v);
  tensors.saved_o = at("saved_o");
  tensors.saved_stats = at("saved_stats");
  tensors.saved_x = at("saved_x");
  tensors.sink = at("sink");
  tensors.grad_sink = at("grad_sink");
  tensors.rotary_cos = at("rotary_cos");
  tensors.rotary_sin = at("rotary_sin");
  tensors.rotary_positions = sizes_.seq_k;
  tensors.alibi_slopes = at("alibi_slopes");
  return tensors;
}

}  // namespace lssar
