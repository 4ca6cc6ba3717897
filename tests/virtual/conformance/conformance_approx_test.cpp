// Every row of the .approx functions on every level, against the C library in double, within the
// error bounds of the PTX ISA. approx_test.cpp has the bounds' edges and special values.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include <fmt/format.h>

#include "tests/virtual/conformance/conformance_forms.h"
#include "tests/virtual/conformance/conformance_number.h"
#include "tests/virtual/conformance/conformance_rows.h"

namespace lssar::test {
namespace {

struct Bound {
  double relative, absolute;
};
// By name and type of the packed or single number. sin and cos are bounded in [-pi, pi] only.
Bound bound_of(const std::string& name, const std::string& type) {
  if (name == "tanh") {
    return type == "f32" ? Bound{0x1p-11, 0} : Bound{0, type.starts_with("f16") ? 0x1p-10 : 0x1p-8};
  }
  if (type.starts_with("f16")) return {0x1p-9, 0x1p-24};
  if (type.starts_with("bf16")) return {0x1p-7, 0x1p-126};
  if (name == "sin" || name == "cos") return {0, 0x1p-20};
  if (name == "lg2") return {0x1p-22, 0x1p-22};
  if (type == "f64") return {0x1p-20, 0x1p-1022};
  return {0x1p-21, 0x1p-126};
}

double exact(const std::string& name, double a, double b) {
  if (name == "ex2") return std::exp2(a);
  if (name == "lg2") return std::log2(a);
  if (name == "rcp") return 1 / a;
  if (name == "sqrt") return std::sqrt(a);
  if (name == "rsqrt") return 1 / std::sqrt(a);
  if (name == "sin") return std::sin(a);
  if (name == "cos") return std::cos(a);
  return name == "tanh" ? std::tanh(a) : a / b;
}

Form form_of(const std::string& opcode, const std::string& letters) {
  const auto words = words_of(opcode);
  const std::string& type = words.back();
  const bool pair = type.ends_with("x2");
  const bool ftz = opcode.find(".ftz") != std::string::npos;
  const Format f = type.starts_with("bf16")  ? kBf16
                   : type.starts_with("f16") ? kF16
                   : type == "f64"           ? kF64
                                             : kF32;
  const Bound bound = bound_of(words[0], type);
  // sin, cos and quotients: near 1 only, where they are bounded. Halves come in that range anyway.
  const bool narrow = words[0] == "sin" || words[0] == "cos" || words[0] == "div";
  std::string text = opcode + " " + operand_list(letters.size()) + ";";
  if (narrow) {
    text = fmt::format(
        "and.b32 %xw0, $1, 0x80ffffff; or.b32 %xw0, %xw0, 0x3f000000; "
        "{} $0, %xw0{};",
        opcode, letters.size() == 3 ? ", %xw1" : "");
    if (letters.size() == 3) {
      text = "and.b32 %xw1, $2, 0x80ffffff; or.b32 %xw1, %xw1, 0x3f000000; " + text;
    }
  }
  Form form = {text, letters, number_of(type), number_of(type), nullptr};
  form.relative = bound.relative, form.absolute = bound.absolute;
  form.expect = [=](const uint64_t* in) -> uint64_t {
    const auto one = [&](uint64_t a, uint64_t b) {
      if (narrow) a = (a & 0x80ffffff) | 0x3f000000, b = (b & 0x80ffffff) | 0x3f000000;
      if (ftz) a = flush(a, f), b = flush(b, f);
      const uint64_t result = from_double(exact(words[0], to_double(a, f), to_double(b, f)), f);
      return ftz ? flush(result, f) : result;
    };
    if (!pair) return one(in[0], in[1]);
    return one(in[0] >> 16, 0) << 16 | one(in[0] & 0xffff, 0);
  };
  return form;
}

TEST(ConformanceApproxTest, EveryRowIsWithinItsBound) {
  std::vector<Form> forms;
  for (const vdev::Row* row : table_rows(SimdLevel::kPlain)) {
    for (const std::string& opcode : opcodes_of(row->opcode)) {
      if (row->bind != vdev::Bind::kAlu) continue;
      const bool approx = opcode.find(".approx.") != std::string::npos;
      if (approx || opcode.starts_with("div.full")) forms.push_back(form_of(opcode, row->operands));
    }
  }
  check_forms(forms);
}

}  // namespace
}  // namespace lssar::test
