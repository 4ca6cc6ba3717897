// What a launch reports when a kernel goes wrong: place and reason.
#include <gtest/gtest.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

class FaultTest : public testing::TestWithParam<SimdLevel> {
 protected:
  std::shared_ptr<Device> device_ = open_device(GetParam());
  Buffer<uint32_t> buffer_{*device_, std::vector<uint32_t>(64)};

  // The message of a launch that must fail. The body begins on PTX line 7.
  std::string message(const std::string& body, const Launch& launch = {},
                      const std::string& variables = "") {
    const Status status = run(*device_,
                              kernel_text(".param .u64 p0",
                                          ".reg .b64 %p, %o; .reg .b32 %t, %x<4>; .reg .pred %g; "
                                          "ld.param.u64 %p, [p0]; mov.u32 %t, %tid.x;\n" +
                                              body + "\nret;",
                                          variables),
                              launch, {buffer_.address()});
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.code(), StatusCode::kDeviceError);
    return status.message();
  }
  static void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Levels, FaultTest, testing::ValuesIn(levels()),
                         [](const auto& p) { return simd_level_name(p.param); });

TEST_P(FaultTest, GlobalReadBehindTheEnd) {
  expect_parts(
      message("mul.wide.u32 %o, %t, 4; add.s64 %p, %p, %o;\nld.global.u32 %x0, [%p+156];", {3, 64}),
      {"kernel k", "block (0, 0, 0)", "warp 0", "lane 25", "PTX line 8",
       "'ld.global.u32 %x0, [%p+156];'", "global read of 4 bytes", "out of bounds"});
}

TEST_P(FaultTest, GlobalWriteThroughANullPointer) {
  expect_parts(message("mov.u64 %p, 0; st.global.u32 [%p+8], %t;"),
               {"lane 0", "write of 4 bytes at address 0x8", "out of bounds"});
}

TEST_P(FaultTest, OnlyActiveLanesAreChecked) {
  expect_parts(message("setp.ge.u32 %g, %t, 5; @!%g bra END; mul.wide.u32 %o, %t, 4096;\n"
                       "add.s64 %p, %p, %o; ld.u32 %x0, [%p];\nEND:"),
               {"lane 5", "PTX line 8"});
}

TEST_P(FaultTest, MisalignedAccess) {
  expect_parts(message("ld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%p+4];"),
               {"not aligned to 16 bytes"});
}

TEST_P(FaultTest, SharedMemoryBehindTheBlocksOwn) {
  expect_parts(message("mov.u32 %x0, s; mad.lo.u32 %x0, %t, 4, %x0; st.shared.u32 [%x0+100], %t;",
                       {1, 32, 64}, ".shared .align 4 .b8 s[64];\n"),
               {"lane 7", "shared write of 4 bytes at address 0x80", "the block has 128 bytes"});
}

TEST_P(FaultTest, LocalMemoryBehindTheDepot) {
  expect_parts(
      message(".local .align 8 .b8 depot[16]; mov.u64 %o, depot; st.local.u64 [%o+16], %p;"),
      {"local write of 8 bytes", "a thread has 16 bytes"});
}

TEST_P(FaultTest, ParametersCannotBeWritten) {
  expect_parts(message("mov.b64 %o, p0; cvta.param.u64 %o, %o; st.u32 [%o], %t;"),
               {"parameters are read-only"});
}

TEST_P(FaultTest, AtomicBehindTheEnd) {
  expect_parts(message("atom.global.add.u32 %x0, [%p+256], 1;"), {"global write", "out of bounds"});
}

TEST_P(FaultTest, AsyncCopyFromNowhere) {
  expect_parts(message("cp.async.cg.shared.global [s], [%p+1024], 16;", {},
                       ".shared .align 16 .b8 s[64];\n"),
               {"cp.async", "global read of 16 bytes", "out of bounds"});
}

TEST_P(FaultTest, AsyncCopyOfMoreThanItsSize) {
  expect_parts(
      message("cp.async.cg.shared.global [s], [%p], 16, 17;", {}, ".shared .align 16 .b8 s[64];\n"),
      {"source size"});
}

TEST_P(FaultTest, LdmatrixRowOutsideAndMisaligned) {
  const std::string variables = ".shared .align 16 .b8 s[512];\n";
  expect_parts(
      message("mov.u32 %x1, s; mul.lo.u32 %x0, %t, 32;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 "
              "{%x0, %x1, %x2, %x3}, [%x0];",
              {}, variables),
      {"lane 16", "shared read of 16 bytes at address 0x200"});
  expect_parts(
      message("mov.u32 %x1, s; mul.lo.u32 %x0, %t, 8;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 "
              "{%x1}, [%x0];",
              {}, variables),
      {"lane 1", "not aligned to 16 bytes"});
}

TEST_P(FaultTest, Trap) { expect_parts(message("trap;"), {"trap", "PTX line 7"}); }
TEST_P(FaultTest, Breakpoint) { expect_parts(message("brkpt;"), {"breakpoint", "PTX line 7"}); }

TEST_P(FaultTest, WholeWarpInstructionAfterAnExit) {
  expect_parts(message("setp.eq.u32 %g, %t, 3; @%g exit;\n"
                       "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%x1}, [s];",
                       {}, ".shared .align 16 .b8 s[64];\n"),
               {"not all of its 32 lanes"});
}

TEST_P(FaultTest, LaneOutsideItsMemberMask) {
  expect_parts(message("shfl.sync.bfly.b32 %x0, %t, 1, 31, 0xff;"), {"not in the member mask"});
}

TEST_P(FaultTest, BarrierThatNotEveryWarpReachesIsADeadlock) {
  expect_parts(message("setp.ge.u32 %g, %t, 64;\n@%g bar.sync 1, 96;\nbar.sync 0;", {1, 128}),
               {"deadlock", "warp 2, lanes 0xffffffff wait at PTX line 8 '@%g bar.sync 1, 96;'",
                "barrier 1 of 96 threads", "warp 0", "PTX line 9", "barrier 0 of 128 threads"});
}

TEST_P(FaultTest, CollectiveThatALaneNeverReachesIsADeadlock) {
  expect_parts(message("setp.eq.u32 %g, %t, 9; @%g bra END;\n"
                       "shfl.sync.bfly.b32 %x0, %t, 1, 31, -1;\nEND: bar.sync 0;"),
               {"deadlock", "PTX line 8", "lanes 0x00000200 of its warp", "PTX line 9"});
}

TEST_P(FaultTest, BarrierCountsThatDiffer) {
  expect_parts(message("setp.lt.u32 %g, %t, 32; @%g bra A;\nbar.sync 1, 128; bra.uni END;\n"
                       "A: bar.arrive 1, 64;\nEND:",
                       {1, 128}),
               {"barrier 1", "64", "128"});
}

TEST_P(FaultTest, BarrierNumberAndCountOutOfRange) {
  expect_parts(message("mov.u32 %x0, 16; bar.sync %x0;"), {"0 to 15"});
  expect_parts(message("bar.sync 1, 33;"), {"multiple of 32"});
}

TEST_P(FaultTest, AnEndlessLoopIsStopped) {
  expect_parts(message("L: add.u32 %x0, %x0, 1;\nbra.uni L;"),
               {"executed more than", "PTX line 7"});
}

TEST_P(FaultTest, TheFirstBlockInTheGridIsReported) {
  const auto device = open_device(GetParam(), 4);
  const Status status = run(*device,
                            kernel_text("",
                                        ".reg .b32 %x0; .reg .pred %g; mov.u32 %x0, %ctaid.x;\n"
                                        "setp.ge.u32 %g, %x0, 37; @%g trap; ret;"),
                            {1000, 32}, {});
  EXPECT_NE(status.message().find("block (37, 0, 0)"), std::string::npos) << status.message();
}

TEST_P(FaultTest, TheDeviceWorksOnAfterAFault) {
  message("trap;");
  const Status status = run(*device_,
                            kernel_text(".param .u64 p0",
                                        ".reg .b64 %p; ld.param.u64 %p, [p0];\n"
                                        "st.global.u32 [%p], 12; ret;"),
                            {}, {buffer_.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(buffer_[0], 12u);
}

}  // namespace
}  // namespace lssar::test
