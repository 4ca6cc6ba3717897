#include "codegen/problem.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/field_json.h"
#include "codegen/problem_fields.h"
#include "score/known.h"

namespace lssar {

using nlohmann::json;

namespace {

// Bytes of the largest tensor, counted at 8 per element, so that int64 offsets keep a factor of 2.
constexpr int64_t kMaxTensorBytes = int64_t{1} << 62;
constexpr int64_t kCountedElementBytes = 8;

// `allowed` completes "allowed are ...".
template <typename T>
Status out_of_range(const std::string& field, const T& value, const std::string& allowed) {
  return invalid_argument(fmt::format("{} = {}: allowed are {}", field, value, allowed));
}

// Checks enumerators, which may be any integer after a cast, and ranges. `prefix` comes before
// their names.
template <typename S>
Status check_fields(const S& from, const std::string& prefix) {
  Status status;
  for_each_field<S>([&]<typename T>(const Field<S, T>& field) {
    if (!status.ok()) return;
    const T& value = from.*field.member;
    if constexpr (has_fields<T>) {
      status = check_fields(value, prefix + field.name + ".");
    } else if constexpr (std::is_enum_v<T>) {
      if (enum_name(value) == std::string("?"))
        status = out_of_range(prefix + field.name, static_cast<int>(value), field.allowed());
    } else if constexpr (std::is_integral_v<T>) {
      if (!field.range.has(value))
        status = out_of_range(prefix + field.name, value, field.allowed());
    }
  });
  return status;
}

// Offsets of every tensor fit in int64 with room to spare. Lengths given at run time are checked
// with the sizes of the call.
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
  if (problem.heads % problem.kv_heads != 0) {
    return out_of_range("kv_heads", problem.kv_heads,
                        fmt::format("divisors of heads = {}", problem.heads));
  }
  return check_tensor_bytes(problem);
}

Status check_varlen(const Problem& problem) {
  if (!problem.varlen || !is_of_range(problem.pass)) return {};
  return unsupported(
      fmt::format("pass = {}: not with varlen; allowed are forward, forward-train and backward",
                  pass_name(problem.pass)));
}

// Ranges of keys are merged by the caller, so their order is the caller's.
Status check_invariant(const Problem& problem) {
  if (!problem.invariant || !is_of_range(problem.pass)) return {};
  return unsupported(
      fmt::format("pass = {}: not with invariant; allowed are forward, forward-train and backward",
                  pass_name(problem.pass)));
}

Status check_rotary(const Problem& problem) {
  if (problem.rotary_dim == 0) {
    if (!problem.rotary_interleaved) return {};
    return invalid_argument(
        "rotary_interleaved = true with rotary_dim = 0: allowed is false, or a rotary_dim from 2");
  }
  if (problem.rotary_dim > problem.head_dim) {
    return out_of_range("rotary_dim", problem.rotary_dim,
                        fmt::format("even numbers from 0 to head_dim = {}", problem.head_dim));
  }
  if (!is_of_range(problem.pass)) return {};
  return unsupported(
      fmt::format("pass = {}: not with rotary_dim; allowed are forward, forward-train and backward",
                  pass_name(problem.pass)));
}

Status check_offset(const Problem& problem) {
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

template <typename Name>
Status check_number(const char* field, const NameOrNumber<Name>& value) {
  if (std::isfinite(value.number)) return {};
  return out_of_range(field, value.number, FieldForm<NameOrNumber<Name>>::allowed() + ", finite");
}

Status check_soft_cap(const ScoreFunction& score) {
  const double cap = score.soft_cap;
  if (cap == 0 || (cap >= kLeastSoftCap && cap <= kMostSoftCap)) return {};
  return out_of_range("score.soft_cap", cap, "0, and numbers from 1e-06 to 1e+06");
}

Status check_sink(const ScoreFunction& score) {
  if (score.sink == Sink::kNone) return {};
  if (score.phi != Activation(*named_activation("exp"))) {
    return invalid_argument(
        fmt::format("score.sink = {} with score.phi = {}: allowed is none, or score.phi = exp",
                    enum_name(score.sink), value_text(score.phi)));
  }
  if (score.normalizer != Normalizer::kSum) {
    return invalid_argument(fmt::format(
        "score.sink = {} with score.normalizer = {}: allowed is none, or score.normalizer = sum",
        enum_name(score.sink), enum_name(score.normalizer)));
  }
  return {};
}

// Expressions have the variables that they may have; and there is one second stage at most.
Status check_stages(const Problem& problem) {
  const ScoreFunction& score = problem.score;
  LSSAR_RETURN_IF_ERROR(check_number("score.scale", score.scale));
  LSSAR_RETURN_IF_ERROR(check_number("score.bias", score.bias));
  LSSAR_RETURN_IF_ERROR(check_soft_cap(score));
  for (const Variable variable : {Variable::kOffset, Variable::kLength}) {
    if (score.phi.expression.depends_on(variable))
      return out_of_range("score.phi", value_text(score.phi), "expressions in x");
  }
  if (score.psi.expression && problem.p != 0) {
    return invalid_argument(
        fmt::format("score.psi = {} with p = {}: allowed is one of them, psi needs p = 0",
                    to_string(*score.psi.expression), problem.p));
  }
  if (!score.psi.expression && score.psi_normalizer != PsiNormalizer::kNone) {
    return invalid_argument(
        fmt::format("score.psi_normalizer = {} without score.psi: allowed is "
                    "none",
                    enum_name(score.psi_normalizer)));
  }
  return check_sink(score);
}

}  // namespace

int dtype_bytes(DType dtype) { return dtype == DType::kFp32 ? 4 : 2; }

const char* pass_name(Pass pass) { return enum_name(pass); }
const char* dtype_name(DType dtype) { return enum_name(dtype); }
Result<Pass> parse_pass(const std::string& name) {
  return parse_enum(enum_names<Pass>, "pass", name);
}
Result<DType> parse_dtype(const std::string& name) {
  return parse_enum(enum_names<DType>, "dtype", name);
}

std::string allowed_values(std::string_view name) {
  std::string allowed;
  for_each_field<Problem>([&](const auto& field) {
    if (field.name == name) allowed = field.allowed();
  });
  return allowed;
}

Status validate(const Problem& problem) {
  LSSAR_RETURN_IF_ERROR(check_fields(problem, ""));
  LSSAR_RETURN_IF_ERROR(check_sizes(problem));
  LSSAR_RETURN_IF_ERROR(check_varlen(problem));
  LSSAR_RETURN_IF_ERROR(check_invariant(problem));
  LSSAR_RETURN_IF_ERROR(check_rotary(problem));
  LSSAR_RETURN_IF_ERROR(check_offset(problem));
  LSSAR_RETURN_IF_ERROR(check_alignment(problem));
  LSSAR_RETURN_IF_ERROR(check_gain(problem.score));
  return check_stages(problem);
}

std::string to_string(const Problem& problem) { return fields_text(problem); }

json to_json(const Problem& problem) { return fields_to_json(problem); }

Result<Problem> problem_from_json(const json& object) {
  Problem problem;
  LSSAR_RETURN_IF_ERROR(read_fields(object, "problem", problem));
  if (problem.varlen && !object.contains("seq_k")) problem.seq_k = 0;  // caches are long
  LSSAR_RETURN_IF_ERROR(validate(problem));
  return problem;
}

}  // namespace lssar
