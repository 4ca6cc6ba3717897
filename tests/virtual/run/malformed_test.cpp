// PTX that cannot be run: every text gives a clear error and none a crash.
#include <gtest/gtest.h>

#include <random>

#include "tests/virtual/ptx_fixture.h"
#include "virtual/run/module.h"

namespace lssar::test {
namespace {

// Why the text does not load, or why a launch of its kernel k would be refused.
Status load(const std::string& text) {
  const auto device = open_device(SimdLevel::kAuto);
  Image image;
  image.bytes = text;
  const auto module = device->load(image);
  if (!module.ok()) return module.status();
  const auto function = (*module)->function("k");
  if (!function.ok()) return {};
  return dynamic_cast<const vdev::Function&>(**function).program().refusal;
}

const char* const kRegisters =
    ".reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %l<4>; .reg .b16 %h<4>; .reg .pred %p<4>;\n";

struct BadBody {
  const char* body;  // PTX line 7
  const char* reason;
};
void PrintTo(const BadBody& b, std::ostream* out) { *out << b.body; }

class MalformedBodyTest : public testing::TestWithParam<BadBody> {};
TEST_P(MalformedBodyTest, IsAnErrorThatNamesLineAndReason) {
  const auto [body, reason] = GetParam();
  const Status status = load(
      kernel_text(".param .u64 p0, .param .align 8 .b8 s[16]", kRegisters + std::string(body)));
  ASSERT_TRUE(status.code() == StatusCode::kDeviceError ||
              status.code() == StatusCode::kUnsupported)
      << body;
  EXPECT_NE(status.message().find("line 7"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
}
const BadBody kBadBodies[] = {
    {"frobnicate.u32 %r0, %r1;", "unknown instruction: 'frobnicate.u32 %r0, %r1;'"},
    {"add.u33 %r0, %r1, %r2;", "unknown instruction"},
    {"add.s32.ftz %r0, %r1, %r2;", "unknown instruction"},
    {"add.rna.f32 %f0, %f1, %f2;", "unknown instruction"},
    {"ld.const::bank.u32 %r0, [%r1];", "unknown instruction"},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.s32 {%r0}, {%r1}, {%r2}, {%r3};",
     "unknown instruction"},
    {"tcgen05.wait::ld.sync.aligned;", "unknown instruction"},
    {"call foo, (%r0);", "functions besides kernels"},
    {"add.s32 %r0, %r1;", "operands"},
    {"add.s32 %r0, %r1, %r2, %r3;", "operands"},
    {"add.s32 %r0, %r1, %l2;", "operands"},
    {"add.s32 5, %r1, %r2;", "operands"},
    {"add.f32 %f0, %f1, 7;", "the integer 7"},
    {"add.s32 %r0, %r1, 5000000000;", "does not fit 32 bits"},
    {"add.s16 %h0, %h1, 70000;", "does not fit 16 bits"},
    {"add.s32 %r0, %r1, 99999999999999999999999;", "not a number"},
    {"add.s32 %r0, %r1, 0x;", "not a number"},
    {"add.s32 %r0, %r1, 12abc;", "not a number"},
    {"mov.f32 %f0, 0f12;", "not a number"},
    {"mov.b32 %r0, {%h0, %h1, %h2};", "operands"},
    {"mov.b32 %r0, nothing;", "unknown name 'nothing'"},
    {"mov.u32 %r0, %nosuch;", "operands"},
    {"add.s32 %r0, %r9, %r1;", "operands"},
    {"bra NOWHERE;", "unknown name 'NOWHERE'"},
    {"bra %r0;", "operands"},
    {"@%r0 add.s32 %r0, %r1, %r2;", "not a predicate"},
    {"@%p9 add.s32 %r0, %r1, %r2;", "not a predicate"},
    {"ld.global.u32 %r0, [%r1];", "64 bits"},
    {"ld.global.u32 %r0, [%p1];", "32 or 64 bits"},
    {"ld.global.u32 %r0, %l1;", "operands"},
    {"ld.global.v3.u32 {%r0, %r1, %r2}, [%l1];", "unknown instruction"},
    {"ld.global.v4.u32 {%r0, %r1}, [%l1];", "operands"},
    {"ld.param.u64 %l0, [s+12];", "8 bytes at offset 12 of parameter s"},
    {"ld.param.u64 %l0, [s+-8];", "at offset -8"},
    {"cp.async.cg.shared.global [%r0], [%l0], 8;", "a copy of 8 bytes"},
    {"cp.async.ca.shared.global [%r0], [%l0], 3;", "a copy of 3 bytes"},
    {"cp.async.wait_group -1;", "negative"},
    {"cvt.f32.s32 %f0, %r0;", "integer to float needs"},
    {"cvt.s32.f32 %r0, %f0;", "float to integer needs"},
    {"cvt.rn.s32.f32 %r0, %f0;", "float to integer needs"},
    {"bar.arrive 1;", "thread count"},
    {"membar.gl %r0;", "operands"},
    {"fence.acq_rel.gpu 1;", "operands"},
    {"trap %r0;", "operands"},
    {"brkpt 1;", "operands"},
    {"nanosleep.u32;", "operands"},
    {"nanosleep.u32 %l0;", "operands"},
    {"prefetch.global.L2 %l0;", "operands"},
    {"prefetchu.L1 %r0;", "operands"},
    {"prefetch.tensormap %l0;", "operands"},
    {"cp.async.commit_group 1;", "operands"},
    {"cp.async.wait_all 0;", "operands"},
    {"cp.async.bulk.commit_group 0;", "operands"},
    {"wgmma.fence.sync.aligned 0;", "operands"},
    {"griddepcontrol.wait 1;", "operands"},
    {"fence.proxy.async 1;", "operands"},
    {"fence.proxy.tensormap::generic.acquire.gpu;", "operands"},
    {"fence.proxy.tensormap::generic.acquire.gpu [%l0], 64;", "operands"},
    {"fence.proxy.tensormap::generic.release.gpu [%l0], 128;", "operands"},
    {"brx.idx %r0, NOTABLE;", "unknown name"},
    {"add.s32 %r0, %r1, %r2", "';' expected after 'add.s32'"},
    {"add.s32 %r0 %r1, %r2;", "';' expected after 'add.s32'"},
    {"add.s32 %r0, [%r1, %r2;", "expected after an address"},
    {"mov.b64 %l0, {%r0, %r1;", "expected after a vector"},
    {"mov.b64 %l0, {{%r0}, %r1};", "an operand is expected"},
    {"add.s32 ,;", "an operand is expected"},
    {"L: L: ret;", "defined twice"},
    {".reg .b32 %r<4>;", "declared twice"},
    {".reg .b32 %z<99999999>;", "at most"},
    {".reg .b128 %z;", "not a supported register type"},
    {".reg .b32 5;", "name is expected"},
    {".branchtargets L;", "must follow a label"},
    {".param .b8 x;", "4 and 8 bytes"},
    {".shared .align 3 .b8 x[4];", "power of two"},
    {".shared .b8 x[99999999999];", "more than"},
    {".shared .b8 x[70000][70000];", "more than"},
    {".local .b8 x[];", "0 bytes"},
    {".shared .u32 x = 5;", "may have a value"},
    {"\"unterminated", "a statement is expected"},
    {"\x01;", "a statement is expected"},
    {"5;", "a statement is expected"},
};
INSTANTIATE_TEST_SUITE_P(Bodies, MalformedBodyTest, testing::ValuesIn(kBadBodies));

TEST(MalformedModuleTest, HeadersAndSignatures) {
  const std::string head = ".version 8.5\n.target sm_80\n.address_size 64\n";
  const std::pair<std::string, const char*> cases[] = {
      {"", "no .target"},
      {".version 8.5\n.address_size 64\n", "no .target"},
      {"\0\0\0", "no .target"},
      {".version 8.5\n.target sm_80\n.address_size 32\n", "only 64"},
      {".version 8.5\n.target sm_90a\n.address_size 64\n", "PTX for sm_90a"},
      {".version 8.5\n.target sm_100\n.address_size 64\n", "PTX for sm_100"},
      {".version 8.5\n.target toaster\n.address_size 64\n", "not an architecture"},
      {head + ".func f() { ret; ", "the .func does not end"},
      {head + ".func () ()", "a function's name"},
      {head + "garbage", "a kernel, a variable or a directive"},
      {head + ".entry", "a kernel's name"},
      {head + ".entry k(", "a .param is expected"},
      {head + ".entry k(.param .u64 a, .param .u64 a) { ret; }", "declared twice"},
      {head + ".entry k(.param .b8 a[5000]) { ret; }", "parameter a"},
      {head + ".entry k(.param .b8 a[4000], .param .b8 b[4000]) { ret; }", "exceed 4096"},
      {head + ".entry k() { ret; ", "does not end"},
      {head + ".entry k() { { ret; }", "does not end"},
      {head + ".entry k() { ret; } .entry k() { ret; }", "declared twice"},
      {head + ".entry k() .reqntid 100000 { ret; }", "too large"},
      {head + ".entry k() .frob { ret; }", "not supported"},
      {head + ".entry k() } ", "'{' expected"},
      {head + "/* no end", "a kernel, a variable"},
      {head + ".section .debug {", "does not end"},
      {head + ".global .u32 x[2] = {1, 2, 3};", "12 bytes of values for 8"},
      {head + ".global .u32 x = nothing;", "8-byte element"},
      {head + ".global .u64 x = nothing;", "'nothing' is no variable"},
      {head + ".extern .global .u32 x;", "extern"},
      {head + ".global .b8 x[1073741824]; .global .b8 y[1073741824]; .global .b8 z[1073741824];",
       "exceed"},
  };
  for (const auto& [text, reason] : cases) {
    const Status status = load(text);
    ASSERT_EQ(status.code(), StatusCode::kDeviceError) << text;
    EXPECT_NE(status.message().find(reason), std::string::npos) << text << "\n" << status.message();
  }
}

// CUTLASS puts a kernel for every architecture and type into one module.
TEST(RefusedKernelTest, OnlyALaunchOfItIsAnErrorWhichListsEveryUnknownInstruction) {
  const auto device = open_device(SimdLevel::kAuto);
  Image image;
  image.bytes =
      ".version 8.5\n.target sm_80\n.address_size 64\n"
      ".visible .entry good(.param .u64 p0)\n{\n.reg .b64 %p; ld.param.u64 %p, [p0];\n"
      "st.global.u32 [%p], 7; ret;\n}\n"
      ".visible .entry bad(.param .u64 p0)\n{\n.reg .b32 %r<4>;\n"
      "frobnicate.u32 %r0, %r1;\nadd.s32 %r0, %r1;\ntcgen05.fence;\n"
      "frobnicate.u32 %r2, %r1;\nmov.u32 %r0, 5;\ntcgen05.fence;\nret;\n}\n";
  const auto module = device->load(image);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  Buffer<uint32_t> out(*device, {0});
  const uint64_t address = out.address();
  const auto launch = [&](const char* name) {
    const auto function = (*module)->function(name);
    EXPECT_TRUE(function.ok()) << function.status().to_string();
    LaunchConfig config;
    return device->launch(**function, config, &address, sizeof address, nullptr);
  };
  EXPECT_TRUE(launch("good").ok());
  EXPECT_EQ(out[0], 7u);
  const Status status = launch("bad");
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(),
            "kernel bad, PTX line 12: unknown instruction: 'frobnicate.u32 %r0, %r1;', and at PTX "
            "line 15\n"
            "kernel bad, PTX line 13: operands of the wrong number, kind or width: 'add.s32 %r0, "
            "%r1;'\n"
            "kernel bad, PTX line 14: unknown instruction: 'tcgen05.fence;', and at PTX line 17");
}

// What nvcc makes of functions that are not inlined, of indirect calls and of 128-bit registers.
TEST(RefusedKernelTest, FunctionsRefuseOnlyTheKernelsThatCallThem) {
  const auto device = open_device(SimdLevel::kAuto);
  Image image;
  image.bytes =
      ".version 8.5\n.target sm_80\n.address_size 64\n"
      ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
      ".weak .func declared(.param .b64 a);\n"
      ".func (.param .align 16 .b8 r[32]) square(.param .b32 a)\n{\n.reg .b32 %r<4>;\n"
      "{ frobnicate.u32 %r0, {%r1, %r2}; }\nret;\n}\n"
      ".visible .entry good(.param .u64 p0)\n{\n.reg .b64 %p; ld.param.u64 %p, [p0];\n"
      "st.global.u32 [%p], 7; ret;\n}\n"
      ".visible .entry bad(.param .u64 p0)\n{\n.reg .b32 %r<4>;\n.reg .b64 %l;\n.reg .b128 %q;\n"
      "{\n.param .b32 a;\nst.param.b32 [a], %r0;\n.param .align 16 .b8 r[32];\n"
      "call.uni (r), square, (a);\nld.param.v4.b32 {%r0, %r1, %r2, %r3}, [r];\n}\n"
      "mov.b128 %q, {%l, %l};\nmov.u64 %l, square;\n"
      "{ .param .b64 n; call declared, (n); }\n"
      "PROTOTYPE: .callprototype _ (.param .b64 _);\n"
      "frobnicate.u32 %r0;\nbra END;\nEND: ret;\n}\n"
      ".visible .entry too(.param .u64 p0)\n{\n.reg .b64 %p; ld.param.u64 %p, [p0];\n"
      "st.global.u32 [%p], 8; ret;\n}\n";
  const auto module = device->load(image);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  Buffer<uint32_t> out(*device, {0});
  const uint64_t address = out.address();
  const auto launch = [&](const char* name) {
    const auto function = (*module)->function(name);
    EXPECT_TRUE(function.ok()) << function.status().to_string();
    LaunchConfig config;
    return device->launch(**function, config, &address, sizeof address, nullptr);
  };
  EXPECT_TRUE(launch("good").ok());
  EXPECT_EQ(out[0], 7u);
  EXPECT_TRUE(launch("too").ok());
  EXPECT_EQ(out[0], 8u);
  const Status status = launch("bad");
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  for (const char* what :
       {"PTX line 21: .reg .b128: not a supported register type: '.reg .b128 %q;'",
        "PTX line 25: .param .b8 r: only numbers of 4 and 8 bytes are passed to functions",
        "PTX line 26: functions besides kernels are not supported; inline them: 'call.uni (r), "
        "square, (a);'",
        "PTX line 30: functions besides kernels are not supported; inline them: 'square'",
        "PTX line 31: call of declared: functions besides kernels", "'.callprototype'",
        "PTX line 33: unknown instruction: 'frobnicate.u32 %r0;'"}) {
    EXPECT_NE(status.message().find(what), std::string::npos) << what << "\n" << status.message();
  }
}

TEST(MalformedModuleTest, DeepNestingIsRefused) {
  EXPECT_NE(load(kernel_text("", std::string(100000, '{'))).message().find("nested too deeply"),
            std::string::npos);
}

TEST(MalformedModuleTest, TooMuchSharedMemoryIsRefused) {
  const Status status =
      load(kernel_text("", ".reg .b32 %r; .shared .b8 x[2000000]; mov.u32 %r, x; ret;"));
  EXPECT_NE(status.message().find("bytes of shared"), std::string::npos) << status.message();
}

// The beginnings of a valid text, and the text with bytes changed: whatever comes out, it returns.
TEST(MalformedModuleTest, TruncatedAndDamagedTextsReturn) {
  const std::string text = kernel_text(
      ".param .u64 p0, .param .align 8 .b8 s[16]",
      kRegisters + std::string("ld.param.v2.u64 {%l0, %l1}, [s];\n@!%p0 bra $L_1;\n{ .reg .b32 t; "
                               "mov.b32 t, 0f3F800000; }\n"
                               "TABLE: .branchtargets $L_1, $L_2;\nbrx.idx %r0, TABLE;\n$L_1: "
                               "setp.lt.and.f32 %p1|%p2, %f0, -1.5e3, %p3;\n"
                               "$L_2: shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, "
                               "-1;\nst.shared.v2.b32 [x+8], {%r0, _};\nret;"),
      ".shared .align 16 .b8 x[64];\n.global .u32 v[3] = {1, -2, 0x3};\n");
  for (size_t length = 0; length < text.size(); ++length) {
    const Status status = load(text.substr(0, length));
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }
  std::mt19937 random(5);
  const std::string alphabet = "{}[]();,.:@!|%+-0x9fprd_$ \n\"";
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = text;
    for (int k = 0; k < 3; ++k) {
      const size_t at = random() % damaged.size();
      if (random() % 3 == 0) {
        damaged.erase(at, random() % 8);
      } else {
        damaged[at] = alphabet[random() % alphabet.size()];
      }
    }
    const Status status = load(damaged);
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }
}

}  // namespace
}  // namespace lssar::test
