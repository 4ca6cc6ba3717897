#include "codegen/problem.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/json_fields.h"

namespace lssar {

using nlohmann::json;

namespace {

constexpr int kMinHeadDim = 8;
constexpr int kMaxHeadDim = 256;
constexpr int kHeadDimStep = 8;
constexpr int kMaxPower = 64;
constexpr double kMaxOffset = 1e6;
constexpr int kMaxAlignment = 16;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
// Bytes of the largest tensor, counted at 8 per element: int64 offsets keep a factor of 2.
constexpr int64_t kMaxTensorBytes = int64_t{1} << 62;
constexpr int64_t kCountedElementBytes = 8;

constexpr EnumName<Pass> kPassNames[] = {{Pass::kForward, "forward"},
                                         {Pass::kForwardTrain, "forward-train"},
                                         {Pass::kBackward, "backward"},
                                         {Pass::kRowSums, "row-sums"},
                                         {Pass::kWeightedSum, "weighted-sum"}};
constexpr EnumName<DType> kDTypeNames[] = {
    {DType::kFp16, "fp16"}, {DType::kBf16, "bf16"}, {DType::kFp32, "fp32"}};
constexpr EnumName<ScoreScale> kScaleNames[] = {
    {ScoreScale::kLogDimLogLength, "log_dim_log_length"},
    {ScoreScale::kInvSqrtDim, "inv_sqrt_dim"}};
constexpr EnumName<ScoreBias> kBiasNames[] = {{ScoreBias::kNone, "none"},
                                              {ScoreBias::kNegLogLength, "neg_log_length"}};
constexpr EnumName<Activation> kActivationNames[] = {
    {Activation::kSoftplus, "softplus"}, {Activation::kExp, "exp"},
    {Activation::kRelu, "relu"},         {Activation::kReluSquared, "relu_squared"},
    {Activation::kRelu6, "relu6"},       {Activation::kGelu, "gelu"},
    {Activation::kSigmoid, "sigmoid"},   {Activation::kMish, "mish"}};
constexpr EnumName<Normalizer> kNormalizerNames[] = {{Normalizer::kSum, "sum"},
                                                     {Normalizer::kSumAbs, "sum_abs"},
                                                     {Normalizer::kNone, "none"},
                                                     {Normalizer::kLength, "length"},
                                                     {Normalizer::kSqrtLength, "sqrt_length"}};

// `allowed` completes "allowed are ...".
template <typename T>
Status out_of_range(const char* field, const T& value, const std::string& allowed) {
  return invalid_argument(fmt::format("{} = {}: allowed are {}", field, value, allowed));
}

// A cast integer may lie outside its enumeration.
template <typename E, size_t N>
Status check_enum(const EnumName<E> (&names)[N], const char* field, E value) {
  for (const auto& entry : names) {
    if (entry.value == value) return {};
  }
  return out_of_range(field, static_cast<int>(value), allowed_names(names));
}

Status check_enums(const Problem& problem) {
  LSSAR_RETURN_IF_ERROR(check_enum(kPassNames, "pass", problem.pass));
  LSSAR_RETURN_IF_ERROR(check_enum(kDTypeNames, "dtype", problem.dtype));
  const ScoreFunction& score = problem.score;
  LSSAR_RETURN_IF_ERROR(check_enum(kScaleNames, "score.scale", score.scale));
  LSSAR_RETURN_IF_ERROR(check_enum(kBiasNames, "score.bias", score.bias));
  LSSAR_RETURN_IF_ERROR(check_enum(kActivationNames, "score.activation", score.activation));
  return check_enum(kNormalizerNames, "score.normalizer", score.normalizer);
}

// The fields that are whole numbers. What else is asked of them hangs on other fields.
struct WholeField {
  const char* name;
  int64_t low, high;
  int64_t step = 1;
};
constexpr WholeField kWholeFields[] = {
    {"head_dim", kMinHeadDim, kMaxHeadDim, kHeadDimStep},
    {"head_dim_v", kMinHeadDim, kMaxHeadDim, kHeadDimStep},
    {"seq_q", 0, kMaxInt32},
    {"seq_k", 0, kMaxInt32},
    {"batch", 0, kMaxInt32},
    {"heads", 1, kMaxInt32},
    {"kv_heads", 1, kMaxInt32},
    {"p", 0, kMaxPower},
    {"alignment", 2, kMaxAlignment},
};

const WholeField& whole_field(const std::string& name) {
  return *std::find_if(std::begin(kWholeFields), std::end(kWholeFields),
                       [&](const WholeField& field) { return field.name == name; });
}

Status check_whole(const char* name, int64_t value) {
  const WholeField& field = whole_field(name);
  if (value < field.low || value > field.high || value % field.step != 0) {
    return out_of_range(name, value, allowed_whole_numbers(name));
  }
  return {};
}

// Offsets of every tensor fit in int64 with room to spare. Lengths given at run time are checked
// with the call's sizes.
Status check_tensor_bytes(const Problem& problem) {
  const int64_t rows = std::max<int64_t>({problem.seq_q, problem.seq_k, 1});
  const int64_t dim = std::max(problem.head_dim, problem.head_dim_v);
  int64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(problem.batch, problem.heads, &bytes) ||
                        __builtin_mul_overflow(bytes, rows, &bytes) ||
                        __builtin_mul_overflow(bytes, dim * kCountedElementBytes, &bytes);
  if (overflow || bytes > kMaxTensorBytes) {
    return invalid_argument(
        fmt::format("batch * heads * length * head dim = {} * {} * {} * {}: the largest tensor may "
                    "have 2^59 elements",
                    problem.batch, problem.heads, rows, dim));
  }
  return {};
}

Status check_sizes(const Problem& problem) {
  LSSAR_RETURN_IF_ERROR(check_whole("head_dim", problem.head_dim));
  LSSAR_RETURN_IF_ERROR(check_whole("head_dim_v", problem.head_dim_v));
  LSSAR_RETURN_IF_ERROR(check_whole("seq_q", problem.seq_q));
  LSSAR_RETURN_IF_ERROR(check_whole("seq_k", problem.seq_k));
  LSSAR_RETURN_IF_ERROR(check_whole("batch", problem.batch));
  LSSAR_RETURN_IF_ERROR(check_whole("heads", problem.heads));
  LSSAR_RETURN_IF_ERROR(check_whole("kv_heads", problem.kv_heads));
  if (problem.heads % problem.kv_heads != 0) {
    return out_of_range("kv_heads", problem.kv_heads,
                        fmt::format("divisors of heads = {}", problem.heads));
  }
  return check_tensor_bytes(problem);
}

Status check_reweighting(const Problem& problem) {
  LSSAR_RETURN_IF_ERROR(check_whole("p", problem.p));
  if (!(problem.offset >= 0 && problem.offset <= kMaxOffset)) {
    return out_of_range("offset", problem.offset, fmt::format("numbers from 0 to {}", kMaxOffset));
  }
  return {};
}

Status check_alignment(const Problem& problem) {
  const int least = dtype_bytes(problem.dtype);
  const int value = problem.alignment;
  const bool power_of_two = value > 0 && (value & (value - 1)) == 0;
  if (!power_of_two || value < least || value > kMaxAlignment) {
    return out_of_range("alignment", value,
                        fmt::format("powers of two from {} (an element of {}) to {}", least,
                                    dtype_name(problem.dtype), kMaxAlignment));
  }
  return {};
}

Status check_gain(const ScoreFunction& score) {
  const double gain = score.normalizer_gain;
  if (score.normalizer != Normalizer::kSqrtLength && gain != 1.0) {
    return out_of_range("score.normalizer_gain", gain,
                        "1, or any positive number with score.normalizer = sqrt_length");
  }
  if (!(gain > 0 && std::isfinite(gain))) {
    return out_of_range("score.normalizer_gain", gain, "positive finite numbers");
  }
  return {};
}

Status no_kernels(const char* field, const std::string& value, const char* has_kernels) {
  return unsupported(
      fmt::format("score.{} = {}: only {} has kernels so far", field, value, has_kernels));
}

Status check_score_has_kernels(const ScoreFunction& score) {
  const ScoreFunction built;
  if (score.scale != built.scale) {
    return no_kernels("scale", enum_name(kScaleNames, score.scale), "log_dim_log_length");
  }
  if (score.bias != built.bias) {
    return no_kernels("bias", enum_name(kBiasNames, score.bias), "none");
  }
  if (score.qk_norm != built.qk_norm) return no_kernels("qk_norm", "false", "true");
  if (score.activation != built.activation) {
    return no_kernels("activation", enum_name(kActivationNames, score.activation), "softplus");
  }
  if (score.normalizer != built.normalizer) {
    return no_kernels("normalizer", enum_name(kNormalizerNames, score.normalizer), "sum");
  }
  return {};
}

std::string length_text(int64_t length) { return length == 0 ? "any" : fmt::to_string(length); }

std::string score_text(const ScoreFunction& score) {
  return fmt::format(" score {}/{}/{}/{}/{}/{}", enum_name(kScaleNames, score.scale),
                     enum_name(kBiasNames, score.bias), score.qk_norm ? "qk_norm" : "no_qk_norm",
                     enum_name(kActivationNames, score.activation),
                     enum_name(kNormalizerNames, score.normalizer), score.normalizer_gain);
}

json score_to_json(const ScoreFunction& score) {
  return {{"scale", enum_name(kScaleNames, score.scale)},
          {"bias", enum_name(kBiasNames, score.bias)},
          {"qk_norm", score.qk_norm},
          {"activation", enum_name(kActivationNames, score.activation)},
          {"normalizer", enum_name(kNormalizerNames, score.normalizer)},
          {"normalizer_gain", score.normalizer_gain}};
}

Status read_score(const json& object, ScoreFunction& score) {
  JsonFields fields(object, "problem.score");
  fields.read_enum("scale", kScaleNames, score.scale);
  fields.read_enum("bias", kBiasNames, score.bias);
  fields.read("qk_norm", score.qk_norm);
  fields.read_enum("activation", kActivationNames, score.activation);
  fields.read_enum("normalizer", kNormalizerNames, score.normalizer);
  fields.read("normalizer_gain", score.normalizer_gain);
  return fields.finish();
}

}  // namespace

int dtype_bytes(DType dtype) { return dtype == DType::kFp32 ? 4 : 2; }

const char* pass_name(Pass pass) { return enum_name(kPassNames, pass); }
const char* dtype_name(DType dtype) { return enum_name(kDTypeNames, dtype); }
Result<Pass> parse_pass(const std::string& name) { return parse_enum(kPassNames, "pass", name); }
Result<DType> parse_dtype(const std::string& name) {
  return parse_enum(kDTypeNames, "dtype", name);
}

std::string allowed_whole_numbers(const std::string& name) {
  const WholeField& field = whole_field(name);
  if (name == "alignment") return fmt::format("powers of two from {} to {}", field.low, field.high);
  return field.step == 1
             ? fmt::format("whole numbers from {} to {}", field.low, field.high)
             : fmt::format("multiples of {} from {} to {}", field.step, field.low, field.high);
}

Status validate(const Problem& problem) {
  LSSAR_RETURN_IF_ERROR(check_enums(problem));
  LSSAR_RETURN_IF_ERROR(check_sizes(problem));
  LSSAR_RETURN_IF_ERROR(check_reweighting(problem));
  LSSAR_RETURN_IF_ERROR(check_alignment(problem));
  LSSAR_RETURN_IF_ERROR(check_gain(problem.score));
  return check_score_has_kernels(problem.score);
}

std::string to_string(const Problem& problem) {
  std::string text = fmt::format(
      "{} {} {} d {} dv {} p {} offset {} seq {}x{} batch {} heads {}/{}", pass_name(problem.pass),
      problem.causal ? "causal" : "full", dtype_name(problem.dtype), problem.head_dim,
      problem.head_dim_v, problem.p, problem.offset, length_text(problem.seq_q),
      length_text(problem.seq_k), problem.batch, problem.heads, problem.kv_heads);
  if (problem.alignment != kMaxAlignment) text += fmt::format(" alignment {}", problem.alignment);
  if (!(problem.score == ScoreFunction{})) text += score_text(problem.score);
  return text;
}

json to_json(const Problem& problem) {
  return {{"pass", pass_name(problem.pass)},
          {"dtype", dtype_name(problem.dtype)},
          {"head_dim", problem.head_dim},
          {"head_dim_v", problem.head_dim_v},
          {"seq_q", problem.seq_q},
          {"seq_k", problem.seq_k},
          {"batch", problem.batch},
          {"heads", problem.heads},
          {"kv_heads", problem.kv_heads},
          {"causal", problem.causal},
          {"p", problem.p},
          {"offset", problem.offset},
          {"alignment", problem.alignment},
          {"score", score_to_json(problem.score)}};
}

Result<Problem> problem_from_json(const json& object) {
  Problem problem;
  JsonFields fields(object, "problem");
  const auto read_whole = [&](const char* name, auto& value) {
    fields.read(name, value, allowed_whole_numbers(name));
  };
  fields.read_enum("pass", kPassNames, problem.pass);
  fields.read_enum("dtype", kDTypeNames, problem.dtype);
  read_whole("head_dim", problem.head_dim);
  problem.head_dim_v = problem.head_dim;
  read_whole("head_dim_v", problem.head_dim_v);
  read_whole("seq_q", problem.seq_q);
  problem.seq_k = problem.seq_q;
  read_whole("seq_k", problem.seq_k);
  read_whole("batch", problem.batch);
  read_whole("heads", problem.heads);
  problem.kv_heads = problem.heads;
  read_whole("kv_heads", problem.kv_heads);
  fields.read("causal", problem.causal);
  read_whole("p", problem.p);
  fields.read("offset", problem.offset);
  read_whole("alignment", problem.alignment);
  if (const json* score = fields.object("score")) {
    fields.fail(read_score(*score, problem.score));
  }
  LSSAR_RETURN_IF_ERROR(fields.finish());
  LSSAR_RETURN_IF_ERROR(validate(problem));
  return problem;
}

}  // namespace lssar
