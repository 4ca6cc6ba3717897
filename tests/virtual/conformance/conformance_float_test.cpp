// Every row of floating-point arithmetic, minima and signs, against exact arithmetic on integers
// (conformance_number.h): all formats, roundings and modifiers, single and packed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "tests/virtual/conformance/conformance_forms.h"
#include "tests/virtual/conformance/conformance_number.h"
#include "tests/virtual/conformance/conformance_rows.h"

namespace lssar::test {
namespace {

struct Operation {
  std::string name;
  Format format;
  Round round = Round::kNearest;
  bool ftz = false, sat = false, relu = false, nan = false, xorsign = false;
  size_t sources = 2;
};

bool negative(uint64_t bits, const Format& f) { return (bits & sign_bit(f)) != 0; }

// The lesser or the greater; -0 is less than +0; a number wins against NaN.
uint64_t extreme(const Operation& op, bool least, uint64_t a, uint64_t b) {
  const Format& f = op.format;
  if (is_nan(a, f) || is_nan(b, f)) {
    if (op.nan || (is_nan(a, f) && is_nan(b, f))) return nan_bits(f);
    return is_nan(a, f) ? b : a;
  }
  int order = compare(decode(a, f), decode(b, f));
  if (order == 0) order = static_cast<int>(negative(b, f)) - static_cast<int>(negative(a, f));
  return (order < 0) == least ? a : b;
}

uint64_t extreme_of(const Operation& op, const uint64_t* in) {
  const Format& f = op.format;
  const bool least = op.name == "min";
  uint64_t v[3];
  bool sign = false;
  for (size_t i = 0; i < op.sources; ++i) {
    v[i] = op.ftz ? flush(in[i], f) : in[i];
    sign ^= negative(v[i], f);
    if (op.xorsign) v[i] &= ~sign_bit(f);
  }
  uint64_t result = extreme(op, least, v[0], v[1]);
  if (op.sources == 3) result = extreme(op, least, result, v[2]);
  return op.xorsign && !is_nan(result, f) && sign ? result | sign_bit(f) : result;
}

Real exact(const Operation& op, const Real* v) {
  const Round r = op.round;
  if (op.name == "add") return sum(v[0], v[1], r);
  if (op.name == "sub") return sum(v[0], negated(v[1]), r);
  if (op.name == "mul") return product(v[0], v[1]);
  if (op.name == "div") return quotient(v[0], v[1]);
  if (op.name == "rcp") return quotient(from_integer(1), v[0]);
  if (op.name == "sqrt") return square_root(v[0]);
  return sum(product(v[0], v[1]), v[2], r);  // fma, mad
}

uint64_t arithmetic(const Operation& op, const uint64_t* in) {
  const Format& f = op.format;
  Real v[3];
  for (size_t i = 0; i < op.sources; ++i) v[i] = decode(op.ftz ? flush(in[i], f) : in[i], f);
  uint64_t result = encode(exact(op, v), f, op.round);
  if (op.ftz) result = flush(result, f);
  if (op.sat) {
    const uint64_t one = encode(from_integer(1), f, Round::kNearest);
    if (is_nan(result, f) || negative(result, f)) return 0;
    return std::min(result, one);
  }
  return op.relu && negative(result, f) && !is_nan(result, f) ? 0 : result;
}

uint64_t one_result(const Operation& op, const uint64_t* in) {
  const Format& f = op.format;
  const uint64_t a = op.ftz ? flush(in[0], f) : in[0];
  if (op.name == "neg") return a ^ sign_bit(f);
  if (op.name == "abs") return a & ~sign_bit(f);
  if (op.name == "copysign") return (in[0] & sign_bit(f)) | (in[1] & ~sign_bit(f));
  return op.name == "min" || op.name == "max" ? extreme_of(op, in) : arithmetic(op, in);
}

const std::map<std::string, Format> kFormats = {{"f16", kF16}, {"bf16", kBf16}, {"f32", kF32},
                                                {"f64", kF64}, {"f16x2", kF16}, {"bf16x2", kBf16}};
const std::set<std::string> kNames = {"add",  "sub", "mul", "fma", "mad", "div",     "rcp",
                                      "sqrt", "min", "max", "neg", "abs", "copysign"};

Form form_of(const std::string& opcode, const std::string& letters) {
  const auto words = words_of(opcode);
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  Operation op;
  op.name = words[0];
  op.format = kFormats.at(words.back());
  op.round = has("rz")   ? Round::kZero
             : has("rm") ? Round::kDown
             : has("rp") ? Round::kUp
                         : Round::kNearest;
  op.ftz = has("ftz"), op.sat = has("sat"), op.relu = has("relu");
  op.nan = has("NaN"), op.xorsign = has("xorsign");
  op.sources = letters.size() - 1;
  Form form = {fmt::format("{} {};", opcode, operand_list(letters.size())), letters,
               number_of(words.back()), number_of(words.back()), nullptr};
  const bool packed = words.back().ends_with("x2");
  form.expect = [op, packed](const uint64_t* in) {
    if (!packed) return one_result(op, in);
    uint64_t low[3] = {}, high[3] = {};
    for (size_t i = 0; i < op.sources; ++i) low[i] = in[i] & 0xffff, high[i] = in[i] >> 16;
    return one_result(op, high) << 16 | one_result(op, low);
  };
  return form;
}

struct Entry {
  std::string opcode;
  std::string letters;
};
// By name and type, such as "add_f32": the opcodes of one test.
std::map<std::string, std::vector<Entry>> opcodes_by_family() {
  std::map<std::string, std::vector<Entry>> families;
  for (const vdev::Row* row : table_rows(SimdLevel::kPlain)) {
    const std::string_view pattern = row->opcode;
    const std::string name(pattern.substr(0, pattern.find_first_of(".[(")));
    if (row->bind != vdev::Bind::kAlu || kNames.count(name) == 0) continue;
    if (pattern.find(".approx") != pattern.npos || pattern.find(".full") != pattern.npos) continue;
    for (const std::string& opcode : opcodes_of(pattern)) {
      const std::string type = opcode.substr(opcode.rfind('.') + 1);
      if (kFormats.count(type) != 0) {
        families[name + "_" + type].push_back({opcode, row->operands});
      }
    }
  }
  return families;
}

class ConformanceFloatTest : public testing::TestWithParam<std::string> {};
TEST_P(ConformanceFloatTest, EqualsExactArithmetic) {
  std::vector<Form> forms;
  const auto families = opcodes_by_family();
  for (const Entry& entry : families.at(GetParam())) {
    forms.push_back(form_of(entry.opcode, entry.letters));
  }
  check_forms(forms);
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const auto& [name, entries] : opcodes_by_family()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Families, ConformanceFloatTest, testing::ValuesIn(family_names()),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace lssar::test
