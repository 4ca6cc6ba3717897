#include "tools/lssar/call/input_files.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/npy.h"

namespace lssar::command {
namespace {

struct InputFile {
  Shape shape = {};
  std::vector<float> values;
};

// As the file has it: packed files are [rows, heads, dim].
std::string shape_text(const Shape& shape, bool is_packed) {
  if (!is_packed) return npy_shape_string(shape);
  const std::array<int64_t, 3> packed = {shape[2], shape[1], shape[3]};
  return npy_shape_string(packed);
}

Result<InputFile> read_tensor(const char* option, const std::string& path, bool is_packed) {
  LSSAR_ASSIGN_OR_RETURN(NpyArray<float> array, read_npy_float32(path));
  if (array.shape.size() != (is_packed ? 3 : 4)) {
    return invalid_argument(fmt::format(
        "{} {}: shape {} has {} dimensions; allowed is {}", option, path,
        npy_shape_string(array.shape), array.shape.size(),
        is_packed ? "[rows, heads, dim] with --cu-seqlens" : "[batch, heads, length, dim]"));
  }
  if (!is_packed) {
    InputFile file;
    std::copy(array.shape.begin(), array.shape.end(), file.shape.begin());
    file.values = std::move(array.values);
    return file;
  }
  const int64_t rows = array.shape[0], heads = array.shape[1], dim = array.shape[2];
  return InputFile{{1, heads, rows, dim}, swap_outer_dims(array.values, rows, heads, dim)};
}

Status check_shape(const char* option, const Shape& shape, const Shape& wanted, bool is_packed) {
  if (shape == wanted) return {};
  return invalid_argument(fmt::format("{}: shape {} does not fit the other files; it must be {}",
                                      option, shape_text(shape, is_packed),
                                      shape_text(wanted, is_packed)));
}

// Rejects head dims that an int cannot hold. The problem's own rules check the rest.
Result<int> to_head_dim(const char* option, int64_t dim) {
  if (dim >= 1 && dim <= 1 << 20) return static_cast<int>(dim);
  return invalid_argument(
      fmt::format("{}: dim = {}: allowed are multiples of 8 from 8 to 256", option, dim));
}

}  // namespace

CLI::Option* InputFiles::add_to(CLI::App& app) {
  const auto add = [&](const char* name, std::string& path, const char* help) {
    return app.add_option(name, path, help)->type_name("FILE")->group("Files");
  };
  CLI::Option* const q = add("--q", q_, "[batch, heads, length, dim], float32 .npy");
  CLI::Option* const k = add("--k", k_, "[batch, kv heads, keys, dim]");
  CLI::Option* const v = add("--v", v_, "[batch, kv heads, keys, dv]");
  CLI::Option* const grad_o =
      add("--do", grad_o_, "gradient of o: [batch, heads, length, dv]; backward only");
  q->needs(k)->needs(v);  // all of them or none
  k->needs(q);
  v->needs(q);
  grad_o->needs(q);
  return q;
}

std::vector<float> swap_outer_dims(const std::vector<float>& values, int64_t first, int64_t second,
                                   int64_t dim) {
  std::vector<float> swapped(values.size());
  for (int64_t i = 0; i < first; ++i)
    for (int64_t j = 0; j < second; ++j)
      std::copy_n(values.begin() + (i * second + j) * dim, dim,
                  swapped.begin() + (j * first + i) * dim);
  return swapped;
}

Result<InputFiles::Content> InputFiles::read(bool is_packed) const {
  LSSAR_ASSIGN_OR_RETURN(InputFile q, read_tensor("--q", q_, is_packed));
  LSSAR_ASSIGN_OR_RETURN(InputFile k, read_tensor("--k", k_, is_packed));
  LSSAR_ASSIGN_OR_RETURN(InputFile v, read_tensor("--v", v_, is_packed));
  const auto [batch, heads, seq_q, dim] = q.shape;
  const int64_t kv_heads = k.shape[1], seq_k = k.shape[2], dim_v = v.shape[3];
  LSSAR_RETURN_IF_ERROR(check_shape("--k", k.shape, {batch, kv_heads, seq_k, dim}, is_packed));
  LSSAR_RETURN_IF_ERROR(check_shape("--v", v.shape, {batch, kv_heads, seq_k, dim_v}, is_packed));

  Content inputs;
  inputs.sizes = {batch, heads, kv_heads, seq_q, seq_k};
  LSSAR_ASSIGN_OR_RETURN(inputs.head_dim, to_head_dim("--q", dim));
  LSSAR_ASSIGN_OR_RETURN(inputs.head_dim_v, to_head_dim("--v", dim_v));
  inputs.tensors.q = std::move(q.values);
  inputs.tensors.k = std::move(k.values);
  inputs.tensors.v = std::move(v.values);
  if (!grad_o_.empty()) {
    LSSAR_ASSIGN_OR_RETURN(InputFile grad_o, read_tensor("--do", grad_o_, is_packed));
    LSSAR_RETURN_IF_ERROR(
        check_shape("--do", grad_o.shape, {batch, heads, seq_q, dim_v}, is_packed));
    inputs.tensors.grad_o = std::move(grad_o.values);
  }
  return inputs;
}

}  // namespace lssar::command
