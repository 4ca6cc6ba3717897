#include "tests/virtual/conformance/conformance_forms.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/virtual/conformance/conformance_number.h"
#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

constexpr size_t kThreads = 256;
constexpr size_t kFormsPerKernel = 48;
constexpr int kVariants = 3;  // plain, guarded, in a branch: the last two in odd threads only
constexpr uint64_t kUntouched = 0x5a5a5a5a5a5a5a5au;

uint64_t cut(char letter, uint64_t bits) {
  return letter == 'p'   ? bits & 1
         : letter == 'h' ? bits & 0xffff
         : letter == 'w' ? bits & 0xffffffffu
                         : bits;
}

std::vector<uint64_t> special_bits(Number number, char letter) {
  const std::vector<uint64_t> halves = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00,
                                        0x7e00, 0x0001, 0x83ff, 0x7bff, 0x0400, 0x3555};
  const std::vector<uint64_t> bfloats = {0x0000, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80,
                                         0x7fc0, 0x0001, 0x807f, 0x7f7f, 0x0080, 0x3eab};
  const auto paired = [](const std::vector<uint64_t>& singles) {
    std::vector<uint64_t> pairs;
    for (size_t i = 0; i < singles.size(); ++i) {
      pairs.push_back(singles[i] << 16 | singles[(5 * i + 3) % singles.size()]);
    }
    return pairs;
  };
  switch (number) {
    case Number::kF32:
      return {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
              0x7fc00000, 0xff800001, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff,
              0xff7fffff, 0x3f000000, 0x4b000001, 0x3eaaaaab};
    case Number::kF64:
      return {0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
              0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x0000000000000001,
              0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0xffefffffffffffff,
              0x3fd5555555555555, 0x4340000000000001, 0x380fffffe0000000, 0x47effffff0000000};
    case Number::kF16:
      return halves;
    case Number::kBf16:
      return bfloats;
    case Number::kF16x2:
      return paired(halves);
    case Number::kBf16x2:
      return paired(bfloats);
    case Number::kBits:
      break;
  }
  const uint64_t top = letter == 'h' ? 0x8000u : letter == 'w' ? 0x80000000u : uint64_t{1} << 63;
  return {0,  1,   2,   5,       31,  32,      33,           63,
          64, 255, 256, top - 1, top, top + 1, ~uint64_t{0}, 0x00ff80007fff8001};
}

// Random bits of a float are mostly huge or tiny: every other one is brought near 1.
uint64_t random_bits(Number number, std::mt19937_64& random) {
  const uint64_t bits = random();
  const bool near = random() % 2 == 0;
  const auto with_exponent = [&](const Format& f, uint64_t x) {
    if (!near) return x & (sign_bit(f) * 2 - 1);
    const uint64_t least = (uint64_t{1} << (f.exponent_bits - 1)) - 5;
    const uint64_t fraction = x & ((uint64_t{1} << f.fraction) - 1);
    return fraction | (least + (x >> 56) % 9) << f.fraction | ((x >> 55) & 1) << (f.bits - 1);
  };
  switch (number) {
    case Number::kF32:
      return with_exponent(kF32, bits);
    case Number::kF64:
      return near ? with_exponent(kF64, bits) : bits;
    case Number::kF16:
      return with_exponent(kF16, bits);
    case Number::kBf16:
      return with_exponent(kBf16, bits);
    case Number::kF16x2:
      return with_exponent(kF16, bits) << 16 | with_exponent(kF16, random());
    case Number::kBf16x2:
      return with_exponent(kBf16, bits) << 16 | with_exponent(kBf16, random());
    case Number::kBits:
      break;
  }
  return near ? bits : bits >> (random() % 64);
}

// Inputs by operand: all combinations of special values of the first two operands, then a mixture.
using Inputs = std::vector<std::vector<uint64_t>>;
Inputs make_inputs(const std::string& letters, Number number) {
  std::mt19937_64 random(7);
  Inputs inputs(letters.size(), std::vector<uint64_t>(kThreads));
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t i = 0; i < letters.size(); ++i) {
      const auto special = special_bits(number, letters[i]);
      const bool pick = t % 8 != 7 && (i < 2 || t % 3 != 0);
      const size_t which = i == 0   ? t % special.size()
                           : i == 1 ? t / special.size() % special.size()
                                    : random() % special.size();
      inputs[i][t] = cut(letters[i], pick ? special[which] : random_bits(number, random));
    }
  }
  return inputs;
}

const char* type_of(char letter) {
  return letter == 'p' ? ".pred" : letter == 'h' ? ".b16" : letter == 'w' ? ".b32" : ".b64";
}

std::string with_registers(const std::string& text, char result) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out += text[i];
    } else if (text[++i] == '0') {
      out += fmt::format("%d{}", result);
    } else {
      out += fmt::format("%v{}", text[i]);
    }
  }
  return out;
}

// Each of the statements with the guard.
std::string guarded(const std::string& text) {
  std::string out = "@%g ";
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == ';' && i + 1 < text.size()) out += " @%g ";
  }
  return out;
}

constexpr size_t kBlobBytes = 256;
constexpr size_t kSlotBytes = 64;

const char* const kMemory =
    ".reg .b64 %gs, %ss, %ls, %cs;\n"
    ".local .align 16 .b8 own[64];\n"
    "ld.param.u64 %gs, [slots]; mul.wide.u32 %base, %t, 64; add.s64 %gs, %gs, %base;\n"
    "mov.u64 %ss, shared_slots; add.s64 %ss, %ss, %base;\n"
    "mov.u64 %ls, own; mov.u64 %cs, constants;\n";

std::string module_variables() {
  std::string text = ".const .align 32 .b8 constants[256] = {";
  for (size_t i = 0; i < kBlobBytes; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", memory_byte(i));
  }
  return text + "};\n.shared .align 32 .b8 shared_slots[16384];\n";
}

std::string kernel_body(const std::vector<Form>& forms, const std::string& letters) {
  std::string body =
      ".reg .b16 %xh<8>; .reg .b32 %xw<8>; .reg .b64 %xl<8>; .reg .pred %xp<4>;\n"
      ".reg .b64 %base, %offset; .reg .b32 %t, %n, %odd; .reg .pred %g;\n"
      ".reg .pred %dp; .reg .b16 %dh; .reg .b32 %dw; .reg .b64 %dl;\n"
      "mov.u32 %t, %tid.x; mul.wide.u32 %offset, %t, 8; and.b32 %odd, %t, 1;\n"
      "setp.eq.s32 %g, %odd, 1;\n";
  if (forms[0].memory) body += kMemory;
  for (size_t i = 0; i < letters.size(); ++i) {
    body += fmt::format(
        ".reg {0} %v{1}; ld.param.u64 %base, [p{1}]; add.s64 %base, %base, "
        "%offset;\n",
        type_of(letters[i]), i + 1);
    body += letters[i] == 'p'
                ? fmt::format("ld.global.u32 %n, [%base]; setp.ne.s32 %v{}, %n, 0;\n", i + 1)
                : fmt::format("ld.global{} %v{}, [%base];\n", type_of(letters[i]), i + 1);
  }
  body += "ld.param.u64 %base, [p0]; add.s64 %base, %base, %offset;\n";
  for (size_t f = 0; f < forms.size(); ++f) {
    const char out = forms[f].letters[0];
    const std::string text = with_registers(forms[f].text, out);
    for (int variant = 0; variant < kVariants; ++variant) {
      body += out == 'p'
                  ? std::string("setp.ne.s32 %dp, 0, 0;\n")
                  : fmt::format("mov{} %d{}, {};\n", type_of(out), out, cut(out, kUntouched));
      if (variant == 0) body += text + "\n";
      if (variant == 1) body += guarded(text) + "\n";
      if (variant == 2) body += fmt::format("@!%g bra SKIP{0};\n{1}\nSKIP{0}:\n", f, text);
      if (out == 'p') body += "selp.b32 %dw, 1, 0, %dp;\n";
      body += fmt::format("st.global{} [%base+{}], %d{};\n", type_of(out == 'p' ? 'w' : out),
                          (f * kVariants + static_cast<size_t>(variant)) * kThreads * 8,
                          out == 'p' ? 'w' : out);
    }
  }
  return body + "ret;\n";
}

// Compares one number of a form's result.
bool near(const Form& form, const Format& f, uint64_t have, uint64_t want) {
  if (have == want || (is_nan(have, f) && is_nan(want, f))) return true;
  if ((form.relative == 0 && form.absolute == 0) || is_nan(have, f) || is_nan(want, f))
    return false;
  const double x = to_double(have, f), y = to_double(want, f);
  return std::fabs(x - y) <= form.relative * std::fabs(y) + form.absolute;
}

bool same(const Form& form, uint64_t have, uint64_t want) {
  const auto pair = [&](const Format& f) {
    return near(form, f, have & 0xffff, want & 0xffff) && near(form, f, have >> 16, want >> 16);
  };
  switch (form.out) {
    case Number::kBits:
      return have == want;
    case Number::kF16:
      return near(form, kF16, have, want);
    case Number::kBf16:
      return near(form, kBf16, have, want);
    case Number::kF32:
      return near(form, kF32, have, want);
    case Number::kF64:
      return near(form, kF64, have, want);
    case Number::kF16x2:
      return pair(kF16);
    case Number::kBf16x2:
      return pair(kBf16);
  }
  return false;
}

void compare(const std::vector<Form>& forms, const Inputs& inputs,
             const std::vector<std::vector<uint64_t>>& wanted, const uint64_t* have,
             SimdLevel level) {
  for (size_t f = 0; f < forms.size(); ++f) {
    const char letter = forms[f].letters[0];
    const uint64_t untouched = letter == 'p' ? 0 : cut(letter, kUntouched);
    for (int variant = 0; variant < kVariants; ++variant) {
      const uint64_t* results = have + (f * kVariants + static_cast<size_t>(variant)) * kThreads;
      for (size_t t = 0; t < kThreads; ++t) {
        const bool executed = variant == 0 || t % 2 == 1;
        const uint64_t want = executed ? wanted[f][t] : untouched;
        if (executed ? same(forms[f], results[t], want) : results[t] == want) continue;
        std::string values;
        for (const auto& input : inputs) values += fmt::format(" {:#x}", input[t]);
        FAIL() << fmt::format("{} on {}, variant {}, thread {}: {:#x}, expected {:#x} from{}",
                              forms[f].text, simd_level_name(level), variant, t, results[t], want,
                              values);
      }
    }
  }
}

// The slots, then the blob where its alignment puts it.
void add_memory_arguments(uint64_t slots, std::vector<uint64_t>& args) {
  args.push_back(slots);
  while (args.size() % 4 != 0) args.push_back(0);
  for (size_t i = 0; i < kBlobBytes; i += 8) {
    uint64_t word = 0;
    for (size_t k = 0; k < 8; ++k) word |= uint64_t{memory_byte(i + k)} << (8 * k);
    args.push_back(word);
  }
}

// Forms of the same operands, at most kFormsPerKernel.
void check_kernel(const std::vector<Form>& forms) {
  const std::string letters = forms[0].letters.substr(1);
  const Inputs inputs = make_inputs(letters, forms[0].in);
  std::vector<std::vector<uint64_t>> wanted(forms.size(), std::vector<uint64_t>(kThreads));
  for (size_t f = 0; f < forms.size(); ++f) {
    for (size_t t = 0; t < kThreads; ++t) {
      uint64_t values[4] = {};
      for (size_t i = 0; i < inputs.size(); ++i) values[i] = inputs[i][t];
      wanted[f][t] = cut(forms[f].letters[0], forms[f].expect(values));
    }
  }
  std::string params = ".param .u64 p0";
  for (size_t i = 0; i < letters.size(); ++i) params += fmt::format(", .param .u64 p{}", i + 1);
  const bool memory = forms[0].memory;
  if (memory) params += ", .param .u64 slots, .param .align 32 .b8 blob[256]";
  const std::string text =
      kernel_text(params, kernel_body(forms, letters), memory ? module_variables() : std::string());
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    Buffer<uint64_t> out(*device, std::vector<uint64_t>(forms.size() * kVariants * kThreads));
    std::vector<std::unique_ptr<Buffer<uint64_t>>> in;
    std::vector<uint64_t> args = {out.address()};
    for (const auto& values : inputs) {
      in.push_back(std::make_unique<Buffer<uint64_t>>(*device, values));
      args.push_back(in.back()->address());
    }
    Buffer<uint8_t> slots(*device, std::vector<uint8_t>((kThreads + 1) * kSlotBytes));
    if (memory)
      add_memory_arguments((slots.address() + kSlotBytes - 1) / kSlotBytes * kSlotBytes, args);
    const Status status = run(*device, text, {1, kThreads}, args);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_NO_FATAL_FAILURE(compare(forms, inputs, wanted, out.values().data(), level));
  }
}

struct Group {
  bool optional;
  std::vector<std::string> choices;
};

}  // namespace

uint8_t memory_byte(uint64_t index) { return static_cast<uint8_t>(index * 37 + 11 + index / 7); }

Number number_of(std::string_view type) {
  static const std::map<std::string_view, Number> numbers = {
      {"f16", Number::kF16}, {"bf16", Number::kBf16},   {"f32", Number::kF32},
      {"f64", Number::kF64}, {"f16x2", Number::kF16x2}, {"bf16x2", Number::kBf16x2},
  };
  const auto found = numbers.find(type);
  return found == numbers.end() ? Number::kBits : found->second;
}

void check_forms(const std::vector<Form>& forms) {
  ASSERT_FALSE(forms.empty());
  std::map<std::tuple<std::string, Number, bool>, std::vector<Form>> kernels;
  for (const Form& form : forms) {
    std::vector<Form>& kernel = kernels[{form.letters.substr(1), form.in, form.memory}];
    kernel.push_back(form);
    if (kernel.size() < kFormsPerKernel) continue;
    ASSERT_NO_FATAL_FAILURE(check_kernel(kernel));
    kernel.clear();
  }
  for (const auto& [operands, kernel] : kernels) {
    if (kernel.empty()) continue;
    ASSERT_NO_FATAL_FAILURE(check_kernel(kernel));
  }
}

std::vector<std::string> opcodes_of(std::string_view pattern) {
  std::vector<std::string> literals = {""};  // before, between and after the groups
  std::vector<Group> groups;
  size_t longest = 1;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '[' && pattern[at] != '(') {
      literals.back() += pattern[at];
      continue;
    }
    Group group = {pattern[at] == '[', {}};
    const size_t end = pattern.find(group.optional ? ']' : ')', at);
    if (group.optional) group.choices.push_back("");
    for (size_t begin = at + 1; begin <= end;) {
      const size_t stop = std::min(pattern.find('|', begin), end);
      group.choices.emplace_back(pattern.substr(begin, stop - begin));
      begin = stop + 1;
    }
    longest = std::max(longest, group.choices.size());
    groups.push_back(group);
    literals.emplace_back();
    at = end;
  }
  std::vector<std::string> opcodes;
  for (size_t n = 0; n < longest; ++n) {
    std::string opcode = literals[0];
    for (size_t g = 0; g < groups.size(); ++g) {
      opcode += groups[g].choices[n % groups[g].choices.size()] + literals[g + 1];
    }
    opcodes.push_back(opcode);
  }
  return opcodes;
}

std::vector<std::string> words_of(std::string_view opcode) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= opcode.size();) {
    const size_t end = std::min(opcode.find('.', begin), opcode.size());
    words.emplace_back(opcode.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string operand_list(size_t count) {
  std::string list;
  for (size_t i = 0; i < count; ++i) list += fmt::format("{}${}", i == 0 ? "" : ", ", i);
  return list;
}

}  // namespace lssar::test
