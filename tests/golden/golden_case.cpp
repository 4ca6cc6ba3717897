#include "tests/golden/golden_case.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/field_json.h"
#include "base/json_fields.h"
#include "base/npy.h"
#include "reference/error_rule.h"
#include "score/score_function_fields.h"

namespace lssar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

Result<json> read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) return io_error(path + ": cannot be opened");
  json parsed = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return io_error(path + ": is not JSON");
  return parsed;
}

Status read_spec(const json& spec, GoldenCase& golden) {
  JsonFields fields(spec, "spec");
  for (const char* name : {"batch", "heads", "kv_heads", "seq_q", "seq_k", "head_dim", "head_dim_v",
                           "p", "causal", "dtype", "offset", "data", "floor_dq", "floor_dk"}) {
    fields.require(name);
  }
  Problem& problem = golden.problem;
  std::string dtype;
  fields.read("batch", problem.batch);
  fields.read("heads", problem.heads);
  fields.read("kv_heads", problem.kv_heads);
  fields.read("seq_q", problem.seq_q);
  fields.read("seq_k", problem.seq_k);
  fields.read("head_dim", problem.head_dim);
  fields.read("head_dim_v", problem.head_dim_v);
  fields.read("p", problem.p);
  fields.read("causal", problem.causal);
  fields.read("dtype", dtype);
  fields.read("offset", problem.offset);
  fields.read("data", golden.data);
  fields.read("floor_dq", golden.floor_dq);
  fields.read("floor_dk", golden.floor_dk);
  for (const char* name : {"name", "float32_eager_error"}) fields.read_absent(name);
  if (const json* score = fields.object("score"))
    LSSAR_RETURN_IF_ERROR(read_fields(*score, "spec.score", problem.score));
  LSSAR_RETURN_IF_ERROR(fields.finish());
  LSSAR_ASSIGN_OR_RETURN(problem.dtype, parse_dtype(dtype));
  golden.sizes = {problem.batch, problem.heads, problem.kv_heads, problem.seq_q, problem.seq_k};
  return validate(problem);
}

Status check_shape(const std::string& path, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& expected) {
  if (shape == expected) return {};
  return io_error(fmt::format("{}: shape {}: spec.json says {}", path, npy_shape_string(shape),
                              npy_shape_string(expected)));
}

Status read_input(const std::string& path, const std::vector<int64_t>& shape,
                  std::vector<float>& values) {
  LSSAR_ASSIGN_OR_RETURN(NpyArray<float> array, read_npy_float32(path));
  LSSAR_RETURN_IF_ERROR(check_shape(path, array.shape, shape));
  values = std::move(array.values);
  return {};
}

Status read_expected(const std::string& path, const std::vector<int64_t>& shape,
                     std::vector<double>& values) {
  if (const auto array = read_npy_float32(path); array.ok()) {
    LSSAR_RETURN_IF_ERROR(check_shape(path, array->shape, shape));
    values.assign(array->values.begin(), array->values.end());
    return {};
  }
  LSSAR_ASSIGN_OR_RETURN(NpyArray<double> array, read_npy_float64(path));
  LSSAR_RETURN_IF_ERROR(check_shape(path, array.shape, shape));
  values = std::move(array.values);
  return {};
}

Status read_tensors(const std::string& folder, GoldenCase& golden) {
  const Sizes& s = golden.sizes;
  const int64_t d = golden.problem.head_dim, dv = golden.problem.head_dim_v;
  const std::vector<int64_t> queries{s.batch, s.heads, s.seq_q, d};
  const std::vector<int64_t> keys{s.batch, s.kv_heads, s.seq_k, d};
  const std::vector<int64_t> values{s.batch, s.kv_heads, s.seq_k, dv};
  const std::vector<int64_t> outputs{s.batch, s.heads, s.seq_q, dv};
  LSSAR_RETURN_IF_ERROR(read_input(folder + "/q.npy", queries, golden.q));
  LSSAR_RETURN_IF_ERROR(read_input(folder + "/k.npy", keys, golden.k));
  LSSAR_RETURN_IF_ERROR(read_input(folder + "/v.npy", values, golden.v));
  LSSAR_RETURN_IF_ERROR(read_input(folder + "/do.npy", outputs, golden.grad_o));
  LSSAR_RETURN_IF_ERROR(read_expected(folder + "/o.npy", outputs, golden.o));
  LSSAR_RETURN_IF_ERROR(read_expected(folder + "/dq.npy", queries, golden.dq));
  LSSAR_RETURN_IF_ERROR(read_expected(folder + "/dk.npy", keys, golden.dk));
  return read_expected(folder + "/dv.npy", values, golden.dv);
}

}  // namespace

std::string golden_data_folder() {
  const char* folder = std::getenv("LSSAR_TEST_DATA");
  return folder != nullptr && *folder != '\0' ? folder : LSSAR_GOLDEN_DATA_FOLDER;
}

std::string golden_family_folder() { return LSSAR_GOLDEN_FAMILY_FOLDER; }

Result<std::vector<std::string>> golden_case_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (fs::exists(entry.path() / "spec.json", error)) names.push_back(entry.path().filename());
  }
  if (names.empty()) {
    return io_error(folder + ": no golden cases (folders with a spec.json) here");
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<GoldenCase> load_golden_case(const std::string& name, const std::string& all_cases) {
  const std::string folder = all_cases + "/" + name;
  GoldenCase golden;
  golden.name = name;
  LSSAR_ASSIGN_OR_RETURN(const json spec, read_json(folder + "/spec.json"));
  if (Status status = read_spec(spec, golden); !status.ok()) {
    return status.with_context(folder + "/spec.json");
  }
  LSSAR_RETURN_IF_ERROR(read_tensors(folder, golden));
  return golden;
}

Result<ReferenceOutputs> golden_reference(const GoldenCase& golden) {
  const auto widen = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  LSSAR_ASSIGN_OR_RETURN(ReferenceOutputs outputs,
                         reference_attention(golden.problem, golden.sizes,
                                             {widen(golden.q), widen(golden.k), widen(golden.v),
                                              widen(golden.grad_o)}));
  outputs.o = golden.o;
  outputs.dq = golden.dq;
  outputs.dk = golden.dk;
  outputs.dv = golden.dv;
  outputs.floor_norm_dq = golden.floor_dq / error_floor(1);
  outputs.floor_norm_dk = golden.floor_dk / error_floor(1);
  return outputs;
}

}  // namespace lssar
