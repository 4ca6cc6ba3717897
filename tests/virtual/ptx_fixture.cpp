#include "tests/virtual/ptx_fixture.h"

#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lssar::test {
namespace {

constexpr size_t kLanesTotal = 1024;
constexpr uint64_t kUntouched = 0x5a5a5a5a5a5a5a5au;

// The nearest value of a format with `fraction` bits and least exponent `least`, ties to even.
long double round_to_format(long double value, int fraction, int least) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int last = std::max(exponent - 1, least) - fraction;
  return std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
}

uint64_t mask_bits(char letter, uint64_t bits) {
  return letter == 'p'   ? bits & 1
         : letter == 'h' ? bits & 0xffff
         : letter == 'w' ? bits & 0xffffffffu
                         : bits;
}

std::vector<uint64_t> special_values(Kind kind, char letter) {
  switch (kind) {
    case Kind::kFloat: {
      std::vector<uint64_t> bits = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
                                    0xff800000, 0x7fc00000, 0xffc00001, 0x00000001, 0x807fffff,
                                    0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f000000, 0x4b000001};
      return bits;
    }
    case Kind::kDouble:
      return {0,
              bits_of(-0.0),
              bits_of(1.0),
              bits_of(-2.5),
              bits_of(double{INFINITY}),
              bits_of(double{-INFINITY}),
              bits_of(std::nan("")),
              bits_of(1e300),
              bits_of(1e-310),
              bits_of(0.1)};
    case Kind::kHalf:
      return {0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00,
              0x7e00, 0x0001, 0x83ff, 0x7bff, 0x0400};
    case Kind::kBfloat:
      return {0x0000, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80,
              0x7fc0, 0x0001, 0x807f, 0x7f7f, 0x0080};
    case Kind::kInteger:
      break;
  }
  const uint64_t top = letter == 'h' ? 0x8000u : letter == 'w' ? 0x80000000u : uint64_t{1} << 63;
  return {0, 1, 2, 5, 31, 32, 33, 63, 64, 255, 256, top - 1, top, top + 1, ~uint64_t{0}};
}

// Every combination of special values first, then random bits.
std::vector<std::vector<uint64_t>> make_inputs(const LaneCase& test) {
  const size_t count = test.letters.size() - 1;
  std::vector<std::vector<uint64_t>> inputs(count, std::vector<uint64_t>(kLanesTotal));
  std::mt19937_64 random(1);
  for (size_t lane = 0; lane < kLanesTotal; ++lane) {
    size_t pick = lane;
    for (size_t i = 0; i < count; ++i) {
      const char letter = test.letters[i + 1];
      const auto special = special_values(test.in, letter);
      const bool use_special = count < 3 ? lane < special.size() * special.size() : lane % 2 == 0;
      uint64_t bits =
          count < 3 ? special[pick % special.size()] : special[random() % special.size()];
      pick /= special.size();
      if (!use_special) {
        bits = random();
        // Random bits of a float are mostly huge or tiny: half of them near 1.
        if (test.in == Kind::kFloat && lane % 4 == 1) {
          bits = bits_of(std::ldexp(static_cast<float>(bits >> 40), -20) - 8.0f);
        }
        if (test.in == Kind::kHalf && lane % 4 == 1)
          bits = half_bits(static_cast<double>(bits >> 52) / 97);
        if (test.in == Kind::kBfloat && lane % 4 == 1)
          bits = bfloat_bits(static_cast<double>(bits >> 52) / 97);
        if (letter == 'w' && test.in == Kind::kInteger && lane % 3 == 1) bits %= 70;
      }
      inputs[i][lane] = mask_bits(letter, bits);
    }
  }
  return inputs;
}

std::string substitute(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$') {
      out += fmt::format("%v{}", text[++i]);
    } else {
      out += text[i];
    }
  }
  return out;
}

const char* type_of(char letter) {
  return letter == 'p' ? ".pred" : letter == 'h' ? ".b16" : letter == 'w' ? ".b32" : ".b64";
}

// Each of the statements with the guard.
std::string guarded(const std::string& instructions) {
  std::string out = "@%g ";
  for (size_t i = 0; i < instructions.size(); ++i) {
    out += instructions[i];
    if (instructions[i] == ';' && i + 1 < instructions.size()) out += " @%g ";
  }
  return out;
}

enum class Variant { kPlain, kGuarded, kDivergent };

std::string case_body(const LaneCase& test, Variant variant) {
  std::string body = ".reg .b64 %base, %offset, %x; .reg .b32 %t, %n, %c, %odd; .reg .pred %g;\n";
  for (size_t i = 0; i < test.letters.size(); ++i) {
    body += fmt::format(".reg {} %v{};\n", type_of(test.letters[i]), i);
  }
  body +=
      "mov.u32 %t, %tid.x;\n mov.u32 %c, %ctaid.x;\n mov.u32 %n, %ntid.x;\n"
      "mad.lo.s32 %t, %c, %n, %t;\n mul.wide.u32 %offset, %t, 8;\n and.b32 %odd, %t, 1;\n"
      "setp.eq.s32 %g, %odd, 1;\n";
  for (size_t i = 1; i < test.letters.size(); ++i) {
    body += fmt::format("ld.param.u64 %base, [p{}];\n add.s64 %base, %base, %offset;\n", i);
    if (test.letters[i] == 'p') {
      body += fmt::format("ld.global.u32 %n, [%base];\n setp.ne.s32 %v{}, %n, 0;\n", i);
    } else {
      body += fmt::format("ld.global{} %v{}, [%base];\n", type_of(test.letters[i]), i);
    }
  }
  const char out = test.letters[0];
  if (out == 'p') {
    body += "setp.ne.s32 %v0, 0, 0;\n";
  } else {
    body += fmt::format("mov{} %v0, {};\n", type_of(out), mask_bits(out, kUntouched));
  }
  const std::string instruction = substitute(test.instruction);
  if (variant == Variant::kPlain) body += instruction + "\n";
  if (variant == Variant::kGuarded) body += guarded(instruction) + "\n";
  if (variant == Variant::kDivergent) body += "@!%g bra SKIP;\n" + instruction + "\nSKIP:\n";
  body += "ld.param.u64 %base, [p0];\n add.s64 %base, %base, %offset;\n";
  if (out == 'p') {
    body += "selp.b32 %n, 1, 0, %v0;\n st.global.u32 [%base], %n;\n";
  } else {
    body += fmt::format("st.global{} [%base], %v0;\n", type_of(out));
  }
  return body + "ret;\n";
}

bool same(const LaneCase& test, uint64_t have, uint64_t want) {
  if (have == want) return true;
  double x = 0, y = 0;
  switch (test.out) {
    case Kind::kInteger:
      return false;
    case Kind::kFloat:
      x = as_float(have), y = as_float(want);
      break;
    case Kind::kDouble:
      x = as_double(have), y = as_double(want);
      break;
    case Kind::kHalf:
      x = half_value(static_cast<uint16_t>(have)), y = half_value(static_cast<uint16_t>(want));
      break;
    case Kind::kBfloat:
      x = bfloat_value(static_cast<uint16_t>(have)), y = bfloat_value(static_cast<uint16_t>(want));
      break;
  }
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return test.tolerance > 0 && std::fabs(x - y) <= test.tolerance * std::fabs(y);
}

void check_variant(const LaneCase& test, SimdLevel level, Variant variant,
                   const std::vector<std::vector<uint64_t>>& inputs) {
  const auto device = open_device(level);
  Buffer<uint64_t> out(*device, std::vector<uint64_t>(kLanesTotal, 0));
  std::vector<std::unique_ptr<Buffer<uint64_t>>> in;
  std::vector<uint64_t> args = {out.address()};
  std::string params = ".param .u64 p0";
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(std::make_unique<Buffer<uint64_t>>(*device, inputs[i]));
    args.push_back(in.back()->address());
    params += fmt::format(", .param .u64 p{}", i + 1);
  }
  const Status status =
      run(*device, kernel_text(params, case_body(test, variant)), {kLanesTotal / 128, 128}, args);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (size_t lane = 0; lane < kLanesTotal; ++lane) {
    uint64_t values[4] = {};
    for (size_t i = 0; i < inputs.size(); ++i) values[i] = inputs[i][lane];
    const char letter = test.letters[0];
    const bool executed = variant == Variant::kPlain || lane % 2 == 1;
    const uint64_t untouched = letter == 'p' ? 0 : mask_bits(letter, kUntouched);
    const uint64_t want = executed ? mask_bits(letter, test.expect(values)) : untouched;
    ASSERT_TRUE(executed ? same(test, out[lane], want) : out[lane] == want)
        << test.instruction << " on " << simd_level_name(level) << ", variant "
        << static_cast<int>(variant) << ", lane " << lane << ": " << std::hex << out[lane]
        << ", expected " << want << " from " << values[0] << " " << values[1] << " " << values[2]
        << " " << values[3];
  }
}

}  // namespace

std::vector<SimdLevel> levels() { return available_simd_levels(); }

std::shared_ptr<Device> open_device(SimdLevel level, int num_threads) {
  VirtualOptions options;
  options.simd = level;
  options.num_threads = num_threads;
  options.target.major = 9;
  options.target.shared_bytes_per_block = 227 << 10;
  options.max_block_instructions = 1'000'000;
  return make_virtual_device(options);
}

std::string kernel_text(const std::string& params, const std::string& body,
                        const std::string& module_variables, const std::string& target) {
  return ".version 8.5\n.target " + target + "\n.address_size 64\n" + module_variables +
         ".visible .entry k(" + params + ")\n{\n" + body + "\n}\n";
}

Status run(Device& device, const std::string& text, const Launch& launch,
           const std::vector<uint64_t>& args) {
  Image image;
  image.bytes = text;
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module, device.load(image));
  LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* function, module->function("k"));
  LSSAR_RETURN_IF_ERROR(device.prepare(*function, launch.shared_bytes));
  LaunchConfig config;
  config.grid[0] = launch.grid;
  config.block[0] = launch.block;
  config.shared_bytes = launch.shared_bytes;
  LSSAR_RETURN_IF_ERROR(device.launch(*function, config, args.data(), args.size() * 8, nullptr));
  return device.synchronize(nullptr);
}

void check_lanes(const LaneCase& test) {
  const auto inputs = make_inputs(test);
  for (const SimdLevel level : levels()) {
    for (const Variant variant : {Variant::kPlain, Variant::kGuarded, Variant::kDivergent}) {
      check_variant(test, level, variant, inputs);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

float as_float(uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, 4);
  return value;
}
double as_double(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, 8);
  return value;
}
uint64_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  return bits;
}

double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 0x3ff;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? std::copysign(NAN, sign) : sign * INFINITY;
  return sign * std::ldexp(exponent ? fraction + 1024 : fraction, (exponent ? exponent : 1) - 25);
}
double bfloat_value(uint16_t bits) { return as_float(static_cast<uint64_t>(bits) << 16); }

uint16_t half_bits(long double value) {
  if (std::isnan(value)) return 0x7fff;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const long double magnitude = std::fabs(round_to_format(value, 10, -14));
  if (magnitude > 65504) return sign | 0x7c00;
  if (magnitude < 0x1p-14L) return sign | static_cast<uint16_t>(std::ldexp(magnitude, 24));
  int exponent = 0;
  const long double fraction = std::frexp(magnitude, &exponent);  // 0.5 to 1
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) |
                               (static_cast<int>(std::ldexp(fraction, 11)) - 1024));
}
uint16_t bfloat_bits(long double value) {
  if (std::isnan(value)) return 0x7fff;
  const long double rounded = round_to_format(value, 7, -126);
  const long double largest = 0x1.fep127L;
  const float f = std::fabs(rounded) > largest ? std::copysign(INFINITY, static_cast<float>(value))
                                               : static_cast<float>(rounded);
  return static_cast<uint16_t>(bits_of(f) >> 16);
}

}  // namespace lssar::test
