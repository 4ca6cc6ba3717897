// Every row of setp and set: all comparisons, types, combined booleans, and both predicates that
// setp may write.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "tests/virtual/conformance/conformance_forms.h"
#include "tests/virtual/conformance/conformance_number.h"
#include "tests/virtual/conformance/conformance_rows.h"

namespace lssar::test {
namespace {

// From PTX's table: the result for the order (-1, 0, 1) of two numbers, and for NaN.
struct Comparison {
  bool less, equal, greater, unordered;
};
const std::map<std::string, Comparison> kComparisons = {
    {"eq", {false, true, false, false}}, {"ne", {true, false, true, false}},
    {"lt", {true, false, false, false}}, {"le", {true, true, false, false}},
    {"gt", {false, false, true, false}}, {"ge", {false, true, true, false}},
    {"lo", {true, false, false, false}}, {"ls", {true, true, false, false}},
    {"hi", {false, false, true, false}}, {"hs", {false, true, true, false}},
    {"equ", {false, true, false, true}}, {"neu", {true, false, true, true}},
    {"ltu", {true, false, false, true}}, {"leu", {true, true, false, true}},
    {"gtu", {false, false, true, true}}, {"geu", {false, true, true, true}},
    {"num", {true, true, true, false}},  {"nan", {false, false, false, true}},
};
const std::map<std::string, Format> kFormats = {{"f16", kF16}, {"bf16", kBf16}, {"f32", kF32},
                                                {"f64", kF64}, {"f16x2", kF16}, {"bf16x2", kBf16}};

struct Parsed {
  Comparison comparison;
  std::string combine;  // "", and, or, xor
  std::string result;   // of set
  std::string type;
  bool ftz = false;
  bool is_set = false;
};

Parsed parse(const std::string& opcode) {
  const auto words = words_of(opcode);
  Parsed p;
  p.is_set = words[0] == "set";
  p.comparison = kComparisons.at(words[1]);
  p.type = words.back();
  for (size_t i = 2; i + 1 < words.size(); ++i) {
    if (words[i] == "and" || words[i] == "or" || words[i] == "xor") {
      p.combine = words[i];
    } else if (words[i] == "ftz") {
      p.ftz = true;
    } else {
      p.result = words[i];
    }
  }
  return p;
}

int order_of(__int128 a, __int128 b) { return a < b ? -1 : a == b ? 0 : 1; }
__int128 integer(const std::string& type, uint64_t bits) {
  if (type == "s16") return static_cast<int16_t>(bits);
  if (type == "s32") return static_cast<int32_t>(bits);
  return type == "s64" ? static_cast<__int128>(static_cast<int64_t>(bits)) : bits;
}

bool holds(const Parsed& p, uint64_t a, uint64_t b) {
  const Comparison& c = p.comparison;
  int order = 0;
  const auto format = kFormats.find(p.type);
  if (format == kFormats.end()) {
    order = order_of(integer(p.type, a), integer(p.type, b));
  } else {
    const Format& f = format->second;
    if (is_nan(a, f) || is_nan(b, f)) return c.unordered;
    if (p.ftz) a = flush(a, f), b = flush(b, f);
    order = compare(decode(a, f), decode(b, f));
  }
  return order < 0 ? c.less : order == 0 ? c.equal : c.greater;
}

bool combined(const Parsed& p, bool result, bool with) {
  return p.combine == "and"   ? result && with
         : p.combine == "or"  ? result || with
         : p.combine == "xor" ? result != with
                              : result;
}

// What set gives if the comparison holds; for a pair, half of it.
uint64_t truth(const std::string& type) {
  if (type == "f32") return 0x3f800000;
  if (type == "f16" || type == "f16x2") return 0x3c00;
  if (type == "bf16" || type == "bf16x2") return 0x3f80;
  return type == "u16" || type == "s16" ? 0xffff : 0xffffffff;
}

std::string sources(const Parsed& p, bool negate) {
  return p.combine.empty() ? "$1, $2" : negate ? "$1, $2, !$3" : "$1, $2, $3";
}

Form form_of(const std::string& opcode, std::string letters, const Parsed& p, bool negate,
             const std::string& destination) {
  if (!p.combine.empty()) letters += 'p';
  // Predicates have no special values, so the bits that are combined come from the same random
  // numbers.
  return {fmt::format("{} {}, {};", opcode, destination, sources(p, negate)), letters,
          number_of(p.type), Number::kBits, nullptr};
}

void add_set(const std::string& opcode, const std::string& letters, bool negate,
             std::vector<Form>& forms) {
  const Parsed p = parse(opcode);
  Form form = form_of(opcode, letters, p, negate, "$0");
  const uint64_t one = truth(p.result);
  const bool pair = p.type.ends_with("x2");
  form.expect = [p, negate, one, pair](const uint64_t* in) -> uint64_t {
    const bool with = (in[2] & 1) != (negate ? 1u : 0u);
    if (!pair) return combined(p, holds(p, in[0], in[1]), with) ? one : 0;
    const uint64_t half = one & 0xffff;
    return (combined(p, holds(p, in[0] & 0xffff, in[1] & 0xffff), with) ? half : 0) |
           (combined(p, holds(p, in[0] >> 16, in[1] >> 16), with) ? half << 16 : 0);
  };
  forms.push_back(form);
}

// The second predicate is the complement for a single comparison, and the upper half's result for a
// pair.
void add_setp(const std::string& opcode, const std::string& letters, bool negate,
              std::vector<Form>& forms) {
  const Parsed p = parse(opcode);
  const bool pair = p.type.ends_with("x2");
  for (const bool second : {false, true}) {
    Form form = form_of(opcode, letters, p, negate, second ? "_|$0" : pair ? "$0|_" : "$0");
    form.expect = [p, negate, pair, second](const uint64_t* in) -> uint64_t {
      const bool with = (in[2] & 1) != (negate ? 1u : 0u);
      if (!pair) return combined(p, holds(p, in[0], in[1]) != second, with);
      const int shift = second ? 16 : 0;
      return combined(p, holds(p, in[0] >> shift & 0xffff, in[1] >> shift & 0xffff), with);
    };
    forms.push_back(form);
  }
}

// All forms of one instruction, comparison and type.
std::vector<Form> forms_of(const std::string& begin, const std::string& type) {
  std::vector<Form> forms;
  for (const vdev::Row* row : table_rows(SimdLevel::kPlain)) {
    if (row->bind != vdev::Bind::kSetp || !std::string_view(row->opcode).starts_with(begin)) {
      continue;
    }
    bool negate = false;
    for (const std::string& opcode : opcodes_of(row->opcode)) {
      if (!opcode.starts_with(begin + ".") || !opcode.ends_with("." + type)) continue;
      if (begin.starts_with("setp")) {
        add_setp(opcode, row->operands, negate, forms);
      } else {
        add_set(opcode, row->operands, negate, forms);
      }
      negate = !negate;
    }
  }
  return forms;
}

struct Family {
  std::string begin;  // "setp.lt"
  std::string type;
};
void PrintTo(const Family& f, std::ostream* out) { *out << f.begin << " " << f.type; }

class ConformanceCompareTest : public testing::TestWithParam<Family> {};
TEST_P(ConformanceCompareTest, EqualsExactComparison) {
  check_forms(forms_of(GetParam().begin, GetParam().type));
}

std::vector<Family> families() {
  std::vector<Family> found;
  const auto add = [&](const std::string& comparison, const std::vector<std::string>& types) {
    for (const std::string& type : types) {
      found.push_back({"setp." + comparison, type});
      found.push_back({"set." + comparison, type});
    }
  };
  for (const auto& [name, comparison] : kComparisons) {
    const bool of_bits = name == "eq" || name == "ne";
    const bool of_unsigned = name == "lo" || name == "ls" || name == "hi" || name == "hs";
    const bool of_numbers = name.size() == 3;
    if (!of_unsigned) add(name, {"f16", "bf16", "f32", "f64", "f16x2", "bf16x2"});
    if (of_bits) add(name, {"b16", "b32", "b64"});
    if (!of_numbers) add(name, {"u16", "u32", "u64"});
    if (!of_numbers && !of_unsigned) add(name, {"s16", "s32", "s64"});
  }
  return found;
}
INSTANTIATE_TEST_SUITE_P(Families, ConformanceCompareTest, testing::ValuesIn(families()),
                         [](const auto& p) {
                           std::string name = p.param.begin + "_" + p.param.type;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace lssar::test
