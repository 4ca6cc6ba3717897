// Wavefronts of shared memory and sectors of global memory, one access at a time.
#include <gtest/gtest.h>

#include "tests/virtual/count/counting_device.h"

namespace lssar::test {
namespace {

constexpr AccessKind kRead = AccessKind::kRead;
constexpr AccessKind kWrite = AccessKind::kWrite;
constexpr AccessKind kAtomic = AccessKind::kAtomic;

// One access by one warp, lane i at i * stride.
struct BankCase {
  const char* instruction;  // $ is the address
  uint32_t stride;
  AccessKind kind;
  uint64_t bytes, wavefronts, ideal;
};
class BankTest : public testing::TestWithParam<BankCase> {};

TEST_P(BankTest, Wavefronts) {
  const BankCase& test = GetParam();
  std::string instruction = test.instruction;
  instruction.replace(instruction.find('$'), 1, "[%r1]");
  const auto device = counting_device();
  const std::string body = std::string(kRegisters) +
                           "mov.u32 %t, %tid.x; mov.u32 %r0, tile; mov.f32 %f0, 0f00000000;\n"
                           "mul.lo.u32 %r1, %t, " +
                           std::to_string(test.stride) +
                           "; add.u32 %r1, %r1, %r0; setp.lt.u32 %g, %t, 8; mov.u32 %r2, 1;\n"
                           "mov.u64 %x0, 0; mov.u64 %x1, 0;\n" +
                           instruction + "\nret;";
  expect_ok(run(*device, kernel_text("", body, ".shared .align 128 .b8 tile[8192];"), {}, {}));
  const SharedTraffic& traffic = device->counters().shared_of(test.kind);
  EXPECT_EQ(traffic.requests, 1u);
  EXPECT_EQ(traffic.bytes, test.bytes);
  EXPECT_EQ(traffic.wavefronts, test.wavefronts);
  EXPECT_EQ(traffic.ideal, test.ideal);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BankTest,
    testing::Values(
        // 4 bytes and fewer: all lanes at once.
        BankCase{"ld.shared.f32 %f1, $;", 4, kRead, 128, 1, 1},
        BankCase{"ld.shared.f32 %f1, $;", 8, kRead, 128, 2, 1},
        BankCase{"ld.shared.f32 %f1, $;", 12, kRead, 128, 1, 1},  // 3 is odd
        BankCase{"ld.shared.f32 %f1, $;", 128, kRead, 128, 32, 1},
        BankCase{"ld.shared.f32 %f1, $;", 132, kRead, 128, 1, 1},  // padded by a word
        BankCase{"ld.shared.f32 %f1, $;", 0, kRead, 128, 1, 1},    // the same word
        BankCase{"st.shared.f32 $, %f0;", 64, kWrite, 128, 16, 1},
        BankCase{"@%g ld.shared.f32 %f1, $;", 128, kRead, 32, 8, 1},  // 8 lanes
        BankCase{"ld.shared.u8 %r3, $;", 1, kRead, 32, 1, 1},         // 4 lanes a word
        BankCase{"ld.shared.u16 %r3, $;", 2, kRead, 64, 1, 1},
        BankCase{"ld.shared.u16 %r3, $;", 128, kRead, 64, 32, 1},
        // 8 bytes: by half warps.
        BankCase{"ld.shared.b64 %x2, $;", 8, kRead, 256, 2, 2},
        BankCase{"ld.shared.b64 %x2, $;", 16, kRead, 256, 4, 2},
        BankCase{"ld.shared.b64 %x2, $;", 0, kRead, 256, 2, 2},
        BankCase{"ld.shared.b64 %x2, $;", 128, kRead, 256, 32, 2},
        BankCase{"@%g st.shared.v2.f32 $, {%f0, %f0};", 8, kWrite, 64, 1, 1},  // one half
        // 16 bytes: by quarter warps.
        BankCase{"ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, $;", 16, kRead, 512, 4, 4},
        BankCase{"ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, $;", 32, kRead, 512, 8, 4},
        BankCase{"ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, $;", 128, kRead, 512, 32, 4},
        BankCase{"ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, $;", 144, kRead, 512, 4, 4},
        BankCase{"st.shared.v2.b64 $, {%x0, %x1};", 0, kWrite, 512, 4, 4},
        // Matrices: 8 rows of 16 bytes each.
        BankCase{"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3, %r4, %r5, %r6}, $;", 16, kRead,
                 512, 4, 4},
        BankCase{"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r3, %r4, %r5, %r6}, $;", 128,
                 kRead, 512, 32, 4},
        BankCase{"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r3, %r4}, $;", 64, kRead, 256, 8, 2},
        BankCase{"stmatrix.sync.aligned.m8n8.x1.shared.b16 $, {%r2};", 128, kWrite, 128, 8, 1},
        // Atomics at one word take turns.
        BankCase{"red.shared.add.u32 $, %r2;", 0, kAtomic, 128, 32, 1},
        BankCase{"red.shared.add.u32 $, %r2;", 4, kAtomic, 128, 1, 1}));

// One access by one warp, lane i at i * stride + offset.
struct SectorCase {
  const char* instruction;
  uint32_t stride, offset;
  AccessKind kind;
  uint64_t bytes, sectors;
};
class SectorTest : public testing::TestWithParam<SectorCase> {};

TEST_P(SectorTest, Sectors) {
  const SectorCase& test = GetParam();
  std::string instruction = test.instruction;
  instruction.replace(instruction.find('$'), 1, "[%p]");
  const auto device = counting_device();
  const Memory memory(device, 8192);
  const std::string body = std::string(kRegisters) +
                           "ld.param.u64 %p, [p0]; mov.u32 %t, %tid.x; mov.f32 %f0, 0f00000000;\n"
                           "mul.wide.u32 %o, %t, " +
                           std::to_string(test.stride) + "; add.u64 %p, %p, %o; add.u64 %p, %p, " +
                           std::to_string(test.offset) +
                           "; setp.lt.u32 %g, %t, 8; mov.u32 %r2, 1;\n" + instruction + "\nret;";
  expect_ok(run(*device, kernel_text(".param .u64 p0", body), {}, {memory.address()}));
  const GlobalTraffic& traffic = device->counters().global_of(test.kind);
  EXPECT_EQ(traffic.requests, 1u);
  EXPECT_EQ(traffic.bytes, test.bytes);
  EXPECT_EQ(traffic.sectors, test.sectors);
}
INSTANTIATE_TEST_SUITE_P(
    Cases, SectorTest,
    testing::Values(SectorCase{"ld.global.f32 %f1, $;", 4, 0, kRead, 128, 4},
                    SectorCase{"ld.global.f32 %f1, $;", 4, 4, kRead, 128, 5},  // shifted
                    SectorCase{"ld.global.f32 %f1, $;", 0, 0, kRead, 128, 1},
                    SectorCase{"ld.global.f32 %f1, $;", 8, 0, kRead, 128, 8},
                    SectorCase{"ld.global.f32 %f1, $;", 128, 0, kRead, 128, 32},
                    SectorCase{"ld.global.u8 %r3, $;", 1, 0, kRead, 32, 1},
                    SectorCase{"@%g ld.global.f32 %f1, $;", 32, 0, kRead, 32, 8},
                    SectorCase{"st.global.v4.f32 $, {%f0, %f0, %f0, %f0};", 16, 0, kWrite, 512, 16},
                    SectorCase{"st.f32 $, %f0;", 4, 0, kWrite, 128, 4},  // generic
                    SectorCase{"red.global.add.u32 $, %r2;", 0, 0, kAtomic, 128, 1},
                    SectorCase{"atom.global.add.f32 %f1, $, %f0;", 64, 0, kAtomic, 128, 32}));

// The low 16 lanes access shared memory and the others global memory, through one generic store.
TEST(CountersTest, GenericAddressesAreCountedWhereTheyPoint) {
  const auto device = counting_device();
  const Memory memory(device, 128);
  const std::string body = std::string(kRegisters) +
                           "ld.param.u64 %p, [p0]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4;\n"
                           "mov.u64 %x0, tile; cvta.shared.u64 %x0, %x0; setp.lt.u32 %g, %t, 16;\n"
                           "selp.b64 %p, %x0, %p, %g; add.u64 %p, %p, %o; st.u32 [%p], %t; ret;";
  expect_ok(run(*device, kernel_text(".param .u64 p0", body, ".shared .align 128 .b8 tile[128];"),
                {}, {memory.address()}));
  const LaunchCounters c = device->counters();
  EXPECT_EQ(c.shared_of(kWrite).requests, 1u);
  EXPECT_EQ(c.shared_of(kWrite).bytes, 64u);
  EXPECT_EQ(c.shared_of(kWrite).wavefronts, 1u);
  EXPECT_EQ(c.global_of(kWrite).requests, 1u);
  EXPECT_EQ(c.global_of(kWrite).bytes, 64u);
  EXPECT_EQ(c.global_of(kWrite).sectors, 2u);
}

}  // namespace
}  // namespace lssar::test
