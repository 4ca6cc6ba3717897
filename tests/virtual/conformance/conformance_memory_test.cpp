// Every row of ld, st, atom and red: all types, widths of registers, vectors, spaces, orders and
// cache hints, compared with bytes computed by hand. Each thread has its own memory;
// memory_test.cpp tests several threads on one place.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "tests/virtual/conformance/conformance_forms.h"
#include "tests/virtual/conformance/conformance_number.h"
#include "tests/virtual/conformance/conformance_rows.h"
#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

using vdev::Bind;

// A slot's bytes, as the kernels fill it: a, b, not a, not b.
using Slot = std::array<uint8_t, 32>;
Slot slot_of(const uint64_t* in) {
  const uint64_t words[4] = {in[0], in[1], ~in[0], ~in[1]};
  Slot slot;
  for (size_t i = 0; i < slot.size(); ++i) {
    slot[i] = static_cast<uint8_t>(words[i / 8] >> (8 * (i % 8)));
  }
  return slot;
}
std::string fill_slot(const std::string& space, const std::string& base) {
  return fmt::format(
      "not.b64 %xl5, $1; not.b64 %xl6, $2; st.{0}.b64 [{1}], $1; st.{0}.b64 [{1}+8], $2; "
      "st.{0}.b64 [{1}+16], %xl5; st.{0}.b64 [{1}+24], %xl6; ",
      space, base);
}

struct Type {
  std::string name;
  size_t bytes;
  bool is_signed;
};
Type type_of(const std::string& name) {
  const size_t digit = name.find_first_of("0123456789");
  return {name, static_cast<size_t>(std::stoi(name.substr(digit))) / 8, name[0] == 's'};
}

// The value in the row's register: extended by the type's sign.
uint64_t extended(const Type& type, const uint8_t* bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < type.bytes; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  const bool negative = type.is_signed && type.bytes < 8 && value >> (8 * type.bytes - 1) != 0;
  return negative ? value | ~uint64_t{0} << (8 * type.bytes) : value;
}

// Where an access goes: its qualifiers, the space they mean, the register with the address.
struct Place {
  std::string qualifiers;
  std::string space = "global";
  std::string base = "%gs";
};
Place in_global(const std::string& qualifiers) { return {qualifiers}; }
Place in_shared(const std::string& qualifiers) { return {qualifiers, "shared", "%ss"}; }

std::vector<Place> places(bool load) {
  std::vector<Place> all = {in_global(""),
                            in_global(".weak"),
                            in_global(".weak.global"),
                            in_global(".volatile"),
                            in_global(".volatile.global"),
                            in_shared(".volatile.shared"),
                            in_shared(".shared"),
                            in_shared(".shared::cta"),
                            in_shared(".weak.shared::cluster"),
                            {".local", "local", "%ls"}};
  for (const char* scope : {"cta", "cluster", "gpu", "sys"}) {
    const char* const strong = load ? "acquire" : "release";
    all.push_back(in_global(fmt::format(".relaxed.{}.global", scope)));
    all.push_back(in_shared(fmt::format(".relaxed.{}.shared", scope)));
    all.push_back(in_global(fmt::format(".{}.{}.global", strong, scope)));
    all.push_back(in_shared(fmt::format(".{}.{}.shared::cta", strong, scope)));
    all.push_back(in_global(fmt::format(".{}.{}", strong, scope)));
  }
  const std::vector<const char*> loads = {".ca",
                                          ".cg",
                                          ".cs",
                                          ".lu",
                                          ".cv",
                                          ".nc",
                                          ".ca.nc",
                                          ".L2::64B",
                                          ".L2::128B",
                                          ".L2::256B",
                                          ".nc.L1::no_allocate.L2::128B"};
  const std::vector<const char*> stores = {".wb", ".cg", ".cs", ".wt"};
  const std::vector<const char*> both = {
      ".L1::evict_normal", ".L1::evict_unchanged", ".L1::evict_first",
      ".L1::evict_last",   ".L1::no_allocate",     ".L2::evict_normal",
      ".L2::evict_first",  ".L2::evict_last",      ".L2::cache_hint"};
  for (const char* hint : load ? loads : stores)
    all.push_back(in_global(fmt::format(".global{}", hint)));
  for (const char* hint : both) all.push_back(in_global(fmt::format(".global{}", hint)));
  return all;
}

std::vector<Place> places_space_first(bool load) {
  std::vector<Place> all;
  for (const char* order : {"relaxed", load ? "acquire" : "release"}) {
    for (const char* scope : {"cta", "cluster", "gpu", "sys"}) {
      all.push_back(in_global(fmt::format(".global.{}.{}", order, scope)));
    }
  }
  return all;
}

struct Access {
  Type type;
  size_t count;  // elements
  char letter;
};
std::string vector_word(size_t count) { return count == 1 ? "" : fmt::format(".v{}", count); }
std::string policy(const Place& place) {
  return place.qualifiers.ends_with("cache_hint") ? ", %xl7" : "";
}

// {%xw0, $0, ...}: element `wanted` is the result.
std::string destination(const Access& a, size_t wanted) {
  if (a.count == 1) return "$0";
  std::string list;
  for (size_t k = 0; k < a.count; ++k) {
    list += k == 0 ? "{" : ", ";
    list += k == wanted ? "$0" : fmt::format("%x{}{}", a.letter, k);
  }
  return list + "}";
}

Form load_form(const Access& a, const Place& place, size_t wanted) {
  Form form = {fill_slot(place.space, place.base) + "mov.u64 %xl7, 0; " +
                   fmt::format("ld{}{}.{} {}, [{}]{};", place.qualifiers, vector_word(a.count),
                               a.type.name, destination(a, wanted), place.base, policy(place)),
               {a.letter, 'l', 'l'},
               Number::kBits,
               Number::kBits,
               nullptr,
               true};
  form.expect = [a, wanted](const uint64_t* in) {
    return extended(a.type, slot_of(in).data() + wanted * a.type.bytes);
  };
  return form;
}

// Reads parameters or constants. The place depends on the thread unless it is fixed.
Form read_only_form(const Access& a, const std::string& opcode, bool by_name, size_t wanted) {
  const bool param = opcode.starts_with("ld.param");
  std::string text = "and.b64 %xl1, $1, 0xe0; ";
  text += param ? "mov.b64 %xl0, blob; add.s64 %xl0, %xl0, %xl1; "
                : "add.s64 %xl0, %cs, %xl1; mov.u64 %xl7, 0; ";
  text += fmt::format("{}{}.{} {}, [{}]{};", opcode, vector_word(a.count), a.type.name,
                      destination(a, wanted), by_name ? "blob+32" : "%xl0",
                      opcode.ends_with("cache_hint") ? ", %xl7" : "");
  Form form = {text, {a.letter, 'l', 'l'}, Number::kBits, Number::kBits, nullptr, true};
  form.expect = [a, by_name, wanted](const uint64_t* in) {
    uint8_t bytes[8];
    const uint64_t begin = (by_name ? 32 : in[0] & 0xe0) + wanted * a.type.bytes;
    for (uint64_t i = 0; i < 8; ++i) bytes[i] = memory_byte(begin + i);
    return extended(a.type, bytes);
  };
  return form;
}

// Fills the slot, stores elements over its beginning, and reads one of its words.
Form store_form(const Access& a, const Place& place, size_t word) {
  std::string text = fill_slot(place.space, place.base) + "mov.u64 %xl7, 0; ";
  std::string list;
  text +=
      "mov.b64 {%xh0, %xh1, %xh2, %xh3}, $2; mov.b64 {%xw0, %xw1}, $2; "
      "mov.b64 {%xw2, %xw3}, $1; mov.b64 %xl0, $2; mov.b64 %xl1, $1; not.b64 %xl2, $2; "
      "not.b64 %xl3, $1; ";
  for (size_t k = 0; k < a.count; ++k) {
    list += fmt::format("{}%x{}{}", k == 0 ? "" : ", ", a.letter, k);
  }
  if (a.count > 1) list = "{" + list + "}";
  text += fmt::format("st{}{}.{} [{}], {}{}; ld.{}.b64 $0, [{}+{}];", place.qualifiers,
                      vector_word(a.count), a.type.name, place.base, list, policy(place),
                      place.space, place.base, 8 * word);
  Form form = {text, "lll", Number::kBits, Number::kBits, nullptr, true};
  form.expect = [a, word](const uint64_t* in) {
    Slot slot = slot_of(in);
    const auto element = [&](size_t k) -> uint64_t {
      if (a.letter == 'h') return in[1] >> (16 * k) & 0xffff;
      if (a.letter == 'w') return (k < 2 ? in[1] : in[0]) >> (32 * (k % 2)) & 0xffffffffu;
      return k == 0 ? in[1] : k == 1 ? in[0] : k == 2 ? ~in[1] : ~in[0];
    };
    for (size_t k = 0; k < a.count; ++k) {
      for (size_t i = 0; i < a.type.bytes; ++i) {
        slot[k * a.type.bytes + i] = static_cast<uint8_t>(element(k) >> (8 * i));
      }
    }
    return extended({"u64", 8, false}, slot.data() + 8 * word);
  };
  return form;
}

std::vector<std::string> types_of(const vdev::Row& row) {
  const std::string_view pattern = row.opcode;
  const size_t dot = pattern.rfind('.');
  std::vector<std::string> types;
  for (const std::string& type : opcodes_of(pattern.substr(dot + 1))) types.push_back(type);
  return types;
}

// Rows with one kind of register, of the loads or the stores.
struct Family {
  const char* begin;
  char letter;
};
class ConformanceAccessTest : public testing::TestWithParam<Family> {
 protected:
  // Calls f(access, n) for every row and n, so that every type meets every number of elements.
  template <class F>
  void for_rows(size_t forms_per_row, F f) {
    for (const vdev::Row* row : table_rows(SimdLevel::kPlain)) {
      const bool access =
          row->bind == Bind::kLoad || row->bind == Bind::kStore || row->bind == Bind::kLoadParam;
      if (!access || !std::string_view(row->opcode).starts_with(GetParam().begin)) continue;
      if (row->operands[0] != GetParam().letter) continue;
      const auto types = types_of(*row);
      for (size_t n = 0; n < std::max(forms_per_row, 3 * types.size()); ++n) {
        const size_t counts[] = {1, 2, 4};
        const Type type = type_of(types[n % types.size()]);
        f(*row, Access{type, counts[n / types.size() % 3], row->operands[0]}, n);
      }
    }
  }
};

TEST_P(ConformanceAccessTest, EqualsTheBytes) {
  const std::string begin = GetParam().begin;
  const bool load = begin.starts_with("ld");
  const auto everywhere = begin.ends_with("[") ? places(load) : places_space_first(load);
  std::vector<Form> forms;
  for_rows(everywhere.size(), [&](const vdev::Row& row, Access a, size_t n) {
    const Place& place = everywhere[n % everywhere.size()];
    if (begin == "ld.param") {
      forms.push_back(read_only_form(a, "ld.param", row.bind == Bind::kLoadParam, n % a.count));
    } else if (begin == "ld.const") {
      const char* const hints[] = {"", ".ca", ".cg", ".L1::evict_last", ".L2::cache_hint"};
      forms.push_back(
          read_only_form(a, fmt::format("ld.const{}", hints[n % 5]), false, n % a.count));
    } else if (!begin.ends_with("[")) {
      a.count = 1;
      forms.push_back(load ? load_form(a, place, 0) : store_form(a, place, 0));
    } else {
      const size_t words = std::max<size_t>(1, a.count * a.type.bytes / 8);
      forms.push_back(load ? load_form(a, place, n % a.count) : store_form(a, place, n % words));
    }
  });
  check_forms(forms);
}
const Family kFamilies[] = {
    {"ld[", 'h'},        {"ld[", 'w'},        {"ld[", 'l'},      {"ld.global.", 'h'},
    {"ld.global.", 'w'}, {"ld.global.", 'l'}, {"ld.param", 'h'}, {"ld.param", 'w'},
    {"ld.param", 'l'},   {"ld.const", 'h'},   {"ld.const", 'w'}, {"ld.const", 'l'},
    {"st[", 'h'},        {"st[", 'w'},        {"st[", 'l'},      {"st.global.", 'h'},
    {"st.global.", 'w'}, {"st.global.", 'l'},
};
INSTANTIATE_TEST_SUITE_P(Rows, ConformanceAccessTest, testing::ValuesIn(kFamilies),
                         [](const auto& p) {
                           std::string name = fmt::format("{}_{}", p.param.begin, p.param.letter);
                           std::replace(name.begin(), name.end(), '.', '_');
                           name.erase(std::remove(name.begin(), name.end(), '['), name.end());
                           return name;
                         });

// Atomics. The first input is the value in memory, the second the operand, the third cas's new
// value.
__int128 number(const std::string& type, uint64_t bits) {
  if (type == "s32") return static_cast<int32_t>(bits);
  return type == "s64" ? static_cast<__int128>(static_cast<int64_t>(bits)) : bits;
}

uint64_t add_floats(const Format& f, uint64_t a, uint64_t b, bool ftz) {
  if (ftz) a = flush(a, f), b = flush(b, f);
  const uint64_t s = encode(sum(decode(a, f), decode(b, f), Round::kNearest), f, Round::kNearest);
  return ftz ? flush(s, f) : s;
}

// f32 in global memory: subnormal operands and results are flushed. Shared memory keeps them.
uint64_t added(const std::string& type, bool global, uint64_t a, uint64_t b) {
  if (type == "f32") return add_floats(kF32, a, b, global);
  if (type == "f64") return add_floats(kF64, a, b, false);
  if (type == "f16") return add_floats(kF16, a, b, false);
  if (type == "bf16") return add_floats(kBf16, a, b, false);
  if (type != "f16x2" && type != "bf16x2") return a + b;
  const Format& f = type == "f16x2" ? kF16 : kBf16;
  return add_floats(f, a >> 16, b >> 16, false) << 16 |
         add_floats(f, a & 0xffff, b & 0xffff, false);
}

uint64_t updated(const std::string& op, const std::string& type, bool global, const uint64_t* in) {
  const uint64_t a = in[0], b = in[1];
  if (op == "add") return added(type, global, a, b);
  if (op == "min") return number(type, a) < number(type, b) ? a : b;
  if (op == "max") return number(type, a) < number(type, b) ? b : a;
  if (op == "and") return a & b;
  if (op == "or") return a | b;
  if (op == "xor") return a ^ b;
  if (op == "exch") return b;
  if (op == "inc") return a >= b ? 0 : a + 1;
  if (op == "dec") return a == 0 || a > b ? b : a - 1;
  return a == b ? in[2] : a;  // cas
}

std::vector<Place> atomic_places() {
  return {in_global(""),
          in_global(".relaxed.gpu.global"),
          in_shared(".acquire.cta.shared"),
          in_shared(".release.cluster.shared::cta"),
          in_global(".acq_rel.sys.global"),
          in_shared(".relaxed.cluster.shared::cluster"),
          in_global(".global"),
          in_shared(".shared")};
}

bool is_vector(const vdev::Row& row) {
  return std::string_view(row.opcode).find("(v2|v4") != std::string_view::npos;
}

// The part after the qualifiers in an atomic row's pattern: ".add[.L2::cache_hint].f32".
std::string_view operation_of(const vdev::Row& row) {
  const std::string_view pattern = row.opcode;
  return pattern.substr(pattern.find("shared::cluster]") + 16);
}

void add_atomics(const vdev::Row& row, const Place& place, const std::string& rest,
                 std::vector<Form>& forms) {
  const auto words = words_of(rest);  // "", add, ..., f32
  const std::string type = words.back();
  const char letter = row.operands[0];
  const bool reduces = row.bind == Bind::kReduce;
  const bool cas = words[1] == "cas";
  const bool global = place.space == "global";
  const std::string bits = letter == 'h' ? "b16" : letter == 'w' ? "b32" : "b64";
  const std::string operands = std::string(cas ? "$2, $3" : "$2") +
                               (rest.find("cache_hint") != std::string::npos ? ", %xl7" : "");
  for (const bool old : {false, true}) {
    if (reduces && old) continue;
    Form form = {fmt::format("mov.u64 %xl7, 0; st.{}.{} [{}], $1; ", place.space, bits, place.base),
                 std::string(cas ? 4 : 3, letter),
                 number_of(type),
                 old ? Number::kBits : number_of(type),
                 nullptr,
                 true};
    const std::string result = old ? "$0, " : reduces ? "" : fmt::format("%x{}0, ", letter);
    form.text += fmt::format("{}{}{} {}[{}], {};", reduces ? "red" : "atom", place.qualifiers, rest,
                             result, place.base, operands);
    if (!old) form.text += fmt::format(" ld.{}.{} $0, [{}];", place.space, bits, place.base);
    form.expect = [=](const uint64_t* in) {
      return old ? in[0] : updated(words[1], type, global, in);
    };
    forms.push_back(form);
  }
}

class ConformanceAtomicTest : public testing::TestWithParam<std::string> {};
TEST_P(ConformanceAtomicTest, EqualsScalar) {
  std::vector<Form> forms;
  const auto everywhere = atomic_places();
  for (const vdev::Row* row : table_rows(SimdLevel::kPlain)) {
    if (row->bind != Bind::kAtomic && row->bind != Bind::kReduce) continue;
    if (is_vector(*row)) continue;
    const std::string_view operation = operation_of(*row);
    if (!operation.starts_with("." + GetParam())) continue;
    const auto rests = opcodes_of(operation);
    for (size_t n = 0; n < std::max(rests.size(), everywhere.size()); ++n) {
      add_atomics(*row, everywhere[n % everywhere.size()], rests[n % rests.size()], forms);
    }
  }
  check_forms(forms);
}
INSTANTIATE_TEST_SUITE_P(Operations, ConformanceAtomicTest,
                         testing::Values("add", "min", "max", "and", "or", "xor", "inc", "dec",
                                         "exch", "cas"),
                         [](const auto& p) { return p.param; });

// A number wins over NaN; -0 is less than +0.
uint64_t extreme_half(const std::string& type, bool smaller, uint64_t a, uint64_t b) {
  const auto value = [&](uint64_t bits) {
    const auto half = static_cast<uint16_t>(bits);
    return type.starts_with("bf16") ? bfloat_value(half) : half_value(half);
  };
  const double x = value(a), y = value(b);
  if (std::isnan(x)) return b;
  if (std::isnan(y)) return a;
  const bool b_smaller = y < x || (x == y && std::signbit(y));
  return b_smaller == smaller ? b : a;
}

uint64_t updated_element(const std::string& op, const std::string& type, uint64_t a, uint64_t b) {
  if (op == "add") return added(type, true, a, b);
  const bool smaller = op == "min";
  if (!type.ends_with("x2")) return extreme_half(type, smaller, a, b);
  return extreme_half(type, smaller, a >> 16, b >> 16) << 16 |
         extreme_half(type, smaller, a & 0xffff, b & 0xffff);
}

// Fills the slot, takes a vector of operands from both inputs, and returns element k as it is
// afterwards, or as the instruction returns it.
Form atomic_vector_form(const std::string& opcode, size_t k, bool old) {
  const auto words = words_of(opcode);
  const Type type = type_of(words.back().ends_with("x2") ? "b32" : words.back());
  const auto count = static_cast<size_t>(words[words.size() - 2][1] - '0');
  const char letter = type.bytes == 2 ? 'h' : 'w';
  std::string op;
  for (const std::string& word : words) {
    if (word == "add" || word == "min" || word == "max") op = word;
  }
  std::string operands = "{", results = "{";
  for (size_t i = 0; i < count; ++i) {
    operands += fmt::format("{}%x{}{}", i == 0 ? "" : ", ", letter, i);
    results += fmt::format("{}{}", i == 0 ? "" : ", ", i == k && old ? "$0" : "_");
  }
  Form form = {fill_slot("global", "%gs") +
                   "mov.u64 %xl7, 0; mov.b64 {%xh0, %xh1, %xh2, %xh3}, $2; "
                   "mov.b64 {%xh4, %xh5, %xh6, %xh7}, $1; mov.b64 {%xw0, %xw1}, $2; "
                   "mov.b64 {%xw2, %xw3}, $1; ",
               {letter, 'l', 'l'},
               Number::kBits,
               old ? Number::kBits : number_of(words.back()),
               nullptr,
               true};
  form.text += opcode + (opcode.starts_with("atom") ? " " + results + "}," : "") +
               fmt::format(" [%gs], {}}}{};", operands,
                           opcode.find("cache_hint") != opcode.npos ? ", %xl7" : "");
  if (!old)
    form.text += fmt::format(" ld.global.b{} $0, [%gs+{}];", 8 * type.bytes, k * type.bytes);
  form.expect = [=, name = words.back()](const uint64_t* in) {
    const uint64_t held = extended(type, slot_of(in).data() + k * type.bytes);
    if (old) return held;
    const size_t each = 8 / type.bytes;  // of an input
    const uint64_t operand = in[k < each ? 1 : 0] >> (8 * type.bytes * (k % each));
    return updated_element(op, name, held,
                           type.bytes == 2 ? operand & 0xffff : operand & 0xffffffff);
  };
  return form;
}

TEST(ConformanceAtomicVectorTest, EachElementIsUpdated) {
  std::vector<Form> forms;
  for (const vdev::Row* row : table_rows(SimdLevel::kPlain)) {
    if (row->bind != Bind::kAtomic && row->bind != Bind::kReduce) continue;
    if (!is_vector(*row)) continue;
    const std::string_view pattern = row->opcode;
    const bool reduces = row->bind == Bind::kReduce;
    const size_t qualifiers = pattern.find("[.global]") + 9;
    size_t place = 0;
    const char* const places[] = {".global", ".relaxed.gpu.global", "", ".acq_rel.cluster"};
    for (const std::string& rest : opcodes_of(pattern.substr(qualifiers))) {
      const std::string opcode =
          (reduces ? "red" : "atom") + std::string(places[place++ % 4]) + rest;
      const auto words = words_of(opcode);
      for (size_t k = 0; k < static_cast<size_t>(words[words.size() - 2][1] - '0'); ++k) {
        forms.push_back(atomic_vector_form(opcode, k, false));
        if (!reduces) forms.push_back(atomic_vector_form(opcode, k, true));
      }
    }
  }
  ASSERT_GT(forms.size(), 100u);
  check_forms(forms);
}

}  // namespace
}  // namespace lssar::test
