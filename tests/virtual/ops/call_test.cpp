// printf and assert from device code: the PTX that both compilers make of them.
#include <gtest/gtest.h>

#include <mutex>

#include <fmt/format.h>

#include "base/log.h"
#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// Messages at info level, while it lives.
class InfoLog {
 public:
  InfoLog() {
    set_log_callback(
        [this](LogLevel level, std::string_view message) {
          const std::lock_guard lock(mutex_);
          if (level == LogLevel::kInfo) lines_.emplace_back(message);
        },
        LogLevel::kInfo);
  }
  ~InfoLog() { set_log_callback({}, LogLevel::kInfo); }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::string byte_array(const std::string& name, const std::string& text) {
  std::string out = fmt::format(".global .align 1 .b8 {}[{}] = {{", name, text.size() + 1);
  for (const char c : text) out += fmt::format("{}, ", static_cast<int>(c));
  return out + "0};\n";
}

const char* const kDeclarations =
    ".extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);\n"
    ".extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d,\n"
    ".param .b64 e) .noreturn;\n";

const char* const kPrologue =
    ".local .align 8 .b8 depot[64]; .reg .b64 %p, %a, %f, %s; .reg .b32 %t, %n, %r;\n"
    ".reg .pred %g; ld.param.u64 %p, [p0]; mov.u32 %t, %tid.x; mov.u64 %a, depot;\n"
    "cvta.local.u64 %a, %a; mov.u64 %f, text; mov.b32 %r, -7;\n";
const char* const kCallPrintf =
    "{ .param .b64 param0; st.param.b64 [param0+0], %f; .param .b64 param1;\n"
    "st.param.b64 [param1+0], %a; .param .b32 retval0;\n"
    "call.uni (retval0), \nvprintf, \n( param0, \nparam1 );\n"
    "ld.param.b32 %r, [retval0+0]; }\n";

// What printf of `format` with the stored arguments logs, and what it returns.
struct Printed {
  std::vector<std::string> lines;
  std::vector<uint32_t> results;
};
Printed print(SimdLevel level, const std::string& format, const std::string& stores,
              uint32_t threads = 1) {
  InfoLog log;
  const auto device = open_device(level);
  Buffer<uint32_t> out(*device, std::vector<uint32_t>(threads, 99));
  const std::string body = kPrologue + stores + kCallPrintf +
                           "mul.wide.u32 %s, %t, 4; add.s64 %p, %p, %s;\n"
                           "st.global.b32 [%p], %r; ret;";
  const Status status =
      run(*device,
          kernel_text(".param .u64 p0", body,
                      kDeclarations + byte_array("text", format) + byte_array("word", "word")),
          {1, threads}, {out.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  Printed printed;
  for (const std::string& line : log.lines()) {
    if (line.find("opened") == std::string::npos) printed.lines.push_back(line);
  }
  printed.results = out.values();
  return printed;
}

TEST(PrintfTest, EveryConversionWithItsArguments) {
  const std::string stores =
      "st.local.b32 [depot], -5; st.local.b32 [depot+4], 200; st.local.b64 [depot+8], -3;\n"
      "st.local.f64 [depot+16], 0d3FF8000000000000; mov.u64 %s, word; st.local.b64 [depot+24], "
      "%s;\n"
      "st.local.b32 [depot+32], 120; st.local.b64 [depot+40], 0x1234abcd;\n";
  for (const SimdLevel level : levels()) {
    const Printed p = print(level, "%d|%u|%lld|%.3f|%s|%c|%p|100%%\n", stores);
    ASSERT_EQ(p.lines.size(), 1u);
    EXPECT_EQ(p.lines[0], "-5|200|-3|1.500|word|x|0x1234abcd|100%");
    EXPECT_EQ(p.results[0], 7u);
  }
}

TEST(PrintfTest, FlagsWidthsAndLengths) {
  const std::string stores =
      "st.local.b32 [depot], 6; st.local.b32 [depot+4], 42; st.local.b32 [depot+8], 511;\n"
      "st.local.b64 [depot+16], -1; st.local.b32 [depot+24], 2;\n"
      "st.local.f64 [depot+32], 0d400921FB54442D18;\n";
  const Printed p = print(SimdLevel::kPlain, "[%*d][%-5hhx][%lx][%.*e]", stores);
  ASSERT_EQ(p.lines.size(), 1u);
  EXPECT_EQ(p.lines[0], "[    42][ff   ][ffffffffffffffff][3.14e+00]");
}

TEST(PrintfTest, EveryActiveLanePrintsItsOwn) {
  const std::string guarded = "st.local.b32 [depot], %t; setp.lt.u32 %g, %t, 30; @%g bra SKIP;\n";
  for (const SimdLevel level : levels()) {
    InfoLog log;
    const auto device = open_device(level);
    Buffer<uint32_t> out(*device, {0});
    const Status status =
        run(*device,
            kernel_text(".param .u64 p0", kPrologue + guarded + kCallPrintf + "SKIP: ret;",
                        kDeclarations + byte_array("text", "lane %d")),
            {1, 32}, {out.address()});
    ASSERT_TRUE(status.ok()) << status.to_string();
    std::vector<std::string> lines;
    for (const std::string& line : log.lines()) {
      if (line.starts_with("lane")) lines.push_back(line);
    }
    EXPECT_EQ(lines, (std::vector<std::string>{"lane 30", "lane 31"}));
  }
}

TEST(PrintfTest, ArgumentsThatAreNotThereAreAFault) {
  const auto device = open_device(SimdLevel::kPlain);
  Buffer<uint32_t> out(*device, {0});
  const Status status =
      run(*device,
          kernel_text(".param .u64 p0",
                      std::string(kPrologue) + "add.u64 %a, %a, 64;\n" + kCallPrintf + "ret;",
                      kDeclarations + byte_array("text", "%d")),
          {1, 1}, {out.address()});
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_NE(status.message().find("vprintf"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("local read of 4 bytes"), std::string::npos) << status.message();
}

TEST(AssertTest, AFailedAssertionNamesWhatAndWhere) {
  const std::string body =
      std::string(kPrologue) +
      "mov.u64 %s, file; mov.u64 %p, function; setp.ne.u32 %g, %t, 5; @%g bra DONE;\n"
      "{ .param .b64 param0; st.param.b64 [param0+0], %f;\n"
      ".param .b64 param1; st.param.b64 [param1+0], %s;\n"
      ".param .b32 param2; st.param.b32 [param2+0], 17;\n"
      ".param .b64 param3; st.param.b64 [param3+0], %p;\n"
      ".param .b64 param4; st.param.b64 [param4+0], 1;\n"
      "call.uni __assertfail, (param0, param1, param2, param3, param4); }\nDONE: ret;";
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    Buffer<uint32_t> out(*device, {0});
    const Status status =
        run(*device,
            kernel_text(".param .u64 p0", body,
                        kDeclarations + byte_array("text", "x > 0") +
                            byte_array("file", "kernel.cu") + byte_array("function", "void k()")),
            {1, 32}, {out.address()});
    EXPECT_EQ(status.code(), StatusCode::kDeviceError);
    EXPECT_NE(status.message().find("lane 5: kernel.cu:17: void k(): assertion `x > 0' failed"),
              std::string::npos)
        << status.message();
  }
}

struct BadCall {
  const char* body;
  const char* reason;
  StatusCode code = StatusCode::kDeviceError;
};
TEST(CallTest, WhatIsNotSupportedIsAnErrorByName) {
  const BadCall kBad[] = {
      {"call.uni other, ();", "call of other: functions besides kernels",
       StatusCode::kUnsupported},
      {"{ .param .b64 a; call vprintf, (a); }", "vprintf has 2 parameters, not 1"},
      {"call vprintf, (%p, %a);", "'%p' is no .param declared for the call"},
      {"{ .param .align 8 .b8 a[16]; }", "only numbers of 4 and 8 bytes",
       StatusCode::kUnsupported},
      {"{ .param .b64 a; st.param.b32 [a+4], 1; }", "all 8 bytes of a are expected"},
      {"{ .param .b64 a; .param .b64 a; }", "declared twice"},
      {"{ .param .b64 a; call vprintf, (a, a; }", "expected after a call's parameters"},
  };
  for (const BadCall& bad : kBad) {
    const auto device = open_device(SimdLevel::kPlain);
    const Status status =
        run(*device,
            kernel_text(".param .u64 p0", std::string(kPrologue) + bad.body + " ret;",
                        kDeclarations + byte_array("text", "")),
            {1, 1}, {0});
    EXPECT_EQ(status.code(), bad.code) << bad.body;
    EXPECT_NE(status.message().find(bad.reason), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace lssar::test
