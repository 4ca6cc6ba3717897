// lssar sim without errors: every kind of argument, option and output.
#include <cmath>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include "tests/command/sim_fixture.h"

namespace lssar {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Encoding {
  const char* type;
  std::vector<float> values;
  std::vector<float> bytes;
};
void PrintTo(const Encoding& e, std::ostream* out) { *out << e.type; }

class SimEncodings : public SimTest, public ::testing::WithParamInterface<Encoding> {};

// Computed by hand from the formats' definitions; ties go to even.
TEST_P(SimEncodings, FilesBecomeTheBytesOfTheType) {
  const Encoding& e = GetParam();
  EXPECT_EQ(bytes_of(e.values, e.type, e.bytes.size() / e.values.size()), e.bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Types, SimEncodings,
    ::testing::Values(
        Encoding{"f64", {1.0f}, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
        Encoding{"f32", {-2.5f}, {0, 0, 0x20, 0xc0}},
        Encoding{"f16", {1.0f, 65536.0f}, {0x00, 0x3c, 0x00, 0x7c}},
        // 1 + 2^-8 lies halfway between 1 and 1 + 2^-7.
        Encoding{"bf16", {1.00390625f, -3.0f}, {0x80, 0x3f, 0x40, 0xc0}},
        // 1.0625 lies halfway between 1 and 1.125; 2^-10 halfway between 0 and the least number.
        Encoding{"e4m3",
                 {0.0f, 1.0f, -1.5f, 448.0f, 1000.0f, kInfinity, 1.0625f, 0.001953125f,
                  0.0009765625f, 0.0146484375f},
                 {0x00, 0x38, 0xbc, 0x7e, 0x7e, 0x7e, 0x38, 0x01, 0x00, 0x08}},
        Encoding{"e5m2",
                 {0.0f, 1.0f, -1.75f, 57344.0f, -kInfinity, 1.125f, 1.52587890625e-05f},
                 {0x00, 0x3c, 0xbf, 0x7b, 0xfb, 0x3c, 0x01}},
        Encoding{"i8", {-128.0f, 127.0f, -1.0f}, {0x80, 0x7f, 0xff}},
        Encoding{"u8", {0.0f, 255.0f}, {0x00, 0xff}}, Encoding{"i16", {-2.0f}, {0xfe, 0xff}},
        Encoding{"u16", {65535.0f}, {0xff, 0xff}},
        Encoding{"i32", {-2147483648.0f}, {0, 0, 0, 0x80}},
        Encoding{"u32", {2147483648.0f}, {0, 0, 0, 0x80}},
        Encoding{"i64", {-1.0f}, {255, 255, 255, 255, 255, 255, 255, 255}},
        Encoding{"u64", {4294967296.0f}, {0, 0, 0, 0, 1, 0, 0, 0}}));

class SimRoundTrips : public SimTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SimRoundTrips, EveryByteOfAnEightBitTypeComesBack) {
  std::vector<float> bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<float>(i));
  write("all.npy", {256}, bytes);
  // One pass for the values, one for their bytes.
  const std::vector<std::string> options = {"--block", "128", "--grid", "2"};
  const std::string type = GetParam();
  ASSERT_EQ(sim(copy_bytes_kernel(),
                {"in:" + file("all.npy") + ":u8", "out:" + file("values.npy") + ":" + type + ":256",
                 "u32:256"},
                options)
                .exit_code,
            0);
  ASSERT_EQ(sim(copy_bytes_kernel(),
                {"in:" + file("values.npy") + ":" + type, "out:" + file("back.npy") + ":u8:256",
                 "u32:256"},
                options)
                .exit_code,
            0);
  const std::vector<float> values = read("values.npy").values, back = read("back.npy").values;
  ASSERT_EQ(back.size(), 256u);
  int compared = 0;
  for (size_t i = 0; i < 256; ++i) {
    // NaNs have many bits, and not every format has infinities.
    if (std::isnan(values[i]) || std::isinf(values[i])) continue;
    EXPECT_EQ(back[i], bytes[i]) << "value " << values[i];
    ++compared;
  }
  EXPECT_GE(compared, 248);
}
INSTANTIATE_TEST_SUITE_P(Types, SimRoundTrips, ::testing::Values("e4m3", "e5m2", "i8", "u8"));

TEST_F(SimTest, BytesBecomeValues) {
  EXPECT_EQ(values_of({0x00, 0x3c, 0x01, 0x80}, "f16", 2),
            (std::vector<float>{1.0f, -std::ldexp(1.0f, -24)}));
  EXPECT_EQ(values_of({0x40, 0xc0}, "bf16", 2), std::vector<float>{-3.0f});
  EXPECT_EQ(values_of({0, 0, 0, 0, 0, 0, 0xf0, 0xbf}, "f64", 8), std::vector<float>{-1.0f});
  EXPECT_EQ(values_of({0xfe, 0xff, 0xff, 0xff}, "i32", 4), std::vector<float>{-2.0f});
  EXPECT_EQ(values_of({0, 0, 0, 0, 1, 0, 0, 0}, "u64", 8), std::vector<float>{4294967296.0f});
  EXPECT_EQ(values_of({0x7c, 0xfc}, "e5m2", 1), (std::vector<float>{kInfinity, -kInfinity}));
  EXPECT_TRUE(std::isnan(values_of({0x7f}, "e4m3", 1).at(0)));
}

TEST_F(SimTest, ScalarsAreLaidOutAsTheKernelDeclaresThem) {
  const std::string ptx = sim_kernel(
      ".param .u64 out, .param .u32 a, .param .u64 b, .param .f32 c, .param .u16 d, .param .u32 e",
      "ld.param.u64 %l0, [out]; ld.param.u32 %r0, [a]; ld.param.u64 %l1, [b];\n"
      "ld.param.u32 %r1, [c]; ld.param.u16 %h0, [d]; ld.param.u32 %r2, [e];\n"
      "cvt.u32.u16 %r3, %h0; cvt.u32.u64 %r4, %l1; shr.u64 %l2, %l1, 32; cvt.u32.u64 %r5, %l2;\n"
      "st.global.u32 [%l0], %r0; st.global.u32 [%l0+4], %r4; st.global.u32 [%l0+8], %r5;\n"
      "st.global.u32 [%l0+12], %r1; st.global.u32 [%l0+16], %r3; st.global.u32 [%l0+20], %r2;");
  const CommandResult result = sim(ptx,
                                   {"out:" + file("o.npy") + ":i32:6", "i32:-7", "i64:-4294967294",
                                    "f32:1.5", "f16:-2", "u32:0x10"},
                                   {"--block", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("o.npy").values,
            (std::vector<float>{-7.0f, 2.0f, -1.0f, static_cast<float>(0x3fc00000),
                                static_cast<float>(0xc000), 16.0f}));
}

TEST_F(SimTest, BracesMakeAStruct) {
  // struct { int a; int64_t b; T* out; float c; }: 4 bytes of padding after a, 4 at the end.
  const std::string ptx = sim_kernel(
      ".param .align 8 .b8 s[32], .param .u32 last",
      "ld.param.u32 %r0, [s]; ld.param.u64 %l1, [s+8]; ld.param.u64 %l0, [s+16];\n"
      "ld.param.f32 %f0, [s+24]; ld.param.u32 %r2, [last];\n"
      "cvt.rn.f32.s32 %f1, %r0; cvt.u32.u64 %r1, %l1; cvt.rn.f32.s32 %f2, %r1;\n"
      "cvt.rn.f32.s32 %f3, %r2;\n"
      "st.global.f32 [%l0], %f1; st.global.f32 [%l0+4], %f2; st.global.f32 [%l0+8], %f0;\n"
      "st.global.f32 [%l0+12], %f3;");
  const CommandResult result = sim(
      ptx, {"{", "i32:3", "i64:4", "out:" + file("o.npy") + ":f32:2x2", "f32:0.25", "}", "i32:9"},
      {"--block", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("o.npy").values, (std::vector<float>{3.0f, 4.0f, 0.25f, 9.0f}));
  EXPECT_EQ(read("o.npy").shape, (std::vector<int64_t>{2, 2}));
}

TEST_F(SimTest, WhatIsNotWrittenIsPoison) {
  write("in.npy", {4}, {1, 2, 3, 4});
  const CommandResult result =
      sim(copy_bytes_kernel(),
          {"in:" + file("in.npy") + ":f32", "out:" + file("o.npy") + ":f32:4", "u32:8"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::vector<float> values = read("o.npy").values;
  EXPECT_EQ(values.at(0), 1.0f);
  EXPECT_EQ(values.at(1), 2.0f);
  EXPECT_TRUE(std::isnan(values.at(2)) && std::isnan(values.at(3)));
}

// Adds 1 to each of 4 floats in place.
const char* const kIncrement =
    "ld.param.u64 %l0, [x]; mov.u32 %r0, %tid.x; mul.wide.u32 %l1, %r0, 4; add.s64 %l2, %l0, %l1;\n"
    "ld.global.f32 %f0, [%l2]; add.f32 %f1, %f0, 0f3F800000; st.global.f32 [%l2], %f1;";

TEST_F(SimTest, InoutReplacesItsFile) {
  write("x.npy", {2, 2}, {1, 2, 3, 4});
  const CommandResult result = sim(sim_kernel(".param .u64 x", kIncrement),
                                   {"inout:" + file("x.npy") + ":f32"}, {"--block", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("x.npy").values, (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(read("x.npy").shape, (std::vector<int64_t>{2, 2}));
}

TEST_F(SimTest, InoutWithASecondFileKeepsTheFirst) {
  write("x.npy", {4}, {1, 2, 3, 4});
  const CommandResult result =
      sim(sim_kernel(".param .u64 x", kIncrement),
          {"inout:" + file("x.npy") + ":f32:" + file("y.npy")}, {"--block", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("x.npy").values, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(read("y.npy").values, (std::vector<float>{2, 3, 4, 5}));
}

TEST_F(SimTest, ColonsInAFileNameAreFine) {
  write("a:b.npy", {4}, {1, 2, 3, 4});
  const CommandResult result =
      sim(sim_kernel(".param .u64 x", kIncrement),
          {"inout:" + file("a:b.npy") + ":f32:" + file("y.npy")}, {"--block", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("y.npy").values, (std::vector<float>{2, 3, 4, 5}));
}

TEST_F(SimTest, AnEmptyArrayIsANullPointer) {
  write("x.npy", {0, 4}, {});
  const CommandResult result =
      sim(copy_bytes_kernel(),
          {"in:" + file("x.npy") + ":f32", "out:" + file("o.npy") + ":f32:0x4", "u32:0"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("o.npy").shape, (std::vector<int64_t>{0, 4}));
}

TEST_F(SimTest, GridAndBlockHaveThreeDimensions) {
  const std::string ptx = sim_kernel(
      ".param .u64 o",
      "ld.param.u64 %l0, [o]; mov.u32 %r0, %nctaid.x; mov.u32 %r1, %nctaid.y; mov.u32 %r2, "
      "%nctaid.z;\nmov.u32 %r3, %ntid.x; mov.u32 %r4, %ntid.y; mov.u32 %r5, %ntid.z;\n"
      "st.global.u32 [%l0], %r0; st.global.u32 [%l0+4], %r1; st.global.u32 [%l0+8], %r2;\n"
      "st.global.u32 [%l0+12], %r3; st.global.u32 [%l0+16], %r4; st.global.u32 [%l0+20], %r5;");
  // Every thread writes the same values, which only the fast mode accepts silently.
  const CommandResult result =
      sim(ptx, {"out:" + file("o.npy") + ":u32:6"},
          {"--grid", "2,3,4", "--block", "5,6,2", "--fast", "--threads", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("o.npy").values, (std::vector<float>{2, 3, 4, 5, 6, 2}));
}

TEST_F(SimTest, DynamicSharedMemoryBeyondTheDefaultIsAllowed) {
  const std::string ptx = sim_kernel(
      ".param .u64 o",
      "ld.param.u64 %l0, [o]; mov.u32 %r0, %dynamic_smem_size; st.global.u32 [%l0], %r0;");
  const CommandResult result =
      sim(ptx, {"out:" + file("o.npy") + ":u32:1"}, {"--block", "1", "--shared", "100000"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("o.npy").values, std::vector<float>{100000.0f});
}

TEST_F(SimTest, TheTargetIsThatOfThePtxUnlessGiven) {
  const CommandResult own = sim(sim_kernel("", "", "sm_90a"), {});
  ASSERT_EQ(own.exit_code, 0) << own.out << own.err;
  EXPECT_NE(own.out.find("sm_90a"), std::string::npos) << own.out;
  const CommandResult given = sim(sim_kernel("", ""), {}, {"--block", "32", "--target", "sm_90"});
  ASSERT_EQ(given.exit_code, 0) << given.out << given.err;
  EXPECT_NE(given.out.find("sm_90,"), std::string::npos) << given.out;
}

TEST_F(SimTest, ApproximationsHaveTheirModes) {
  const std::string ptx = sim_kernel(".param .u64 o",
                                     "ld.param.u64 %l0, [o]; mov.f32 %f0, 0f3F19999A;\n"
                                     "ex2.approx.ftz.f32 %f1, %f0; st.global.f32 [%l0], %f1;");
  std::vector<float> results;
  for (const char* mode : {"lowest", "nearest", "highest"}) {
    const CommandResult result =
        sim(ptx, {"out:" + file("o.npy") + ":f32:1"}, {"--block", "1", "--approx", mode});
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    results.push_back(read("o.npy").values.at(0));
  }
  EXPECT_LT(results[0], results[1]);
  EXPECT_LT(results[1], results[2]);
}

TEST_F(SimTest, JsonIsOneObject) {
  write("in.npy", {4}, {1, 2, 3, 4});
  const CommandResult result =
      sim(copy_bytes_kernel(),
          {"in:" + file("in.npy") + ":f32", "out:" + file("o.npy") + ":bf16:2x4", "u32:16"},
          {"--block", "32", "--json", "--seeds", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["kernel"], "k");
  EXPECT_EQ(json["block"], nlohmann::json({32, 1, 1}));
  EXPECT_EQ(json["reports"].size(), 0u);
  EXPECT_EQ(json["runs"].size(), 3u);
  EXPECT_EQ(json["runs"][2]["seed"], 2);
  EXPECT_EQ(json["counters"]["warp_instructions"],
            json["runs"][0]["counters"]["warp_instructions"]);
  EXPECT_GT(json["counters"]["warp_instructions"], 5);
  ASSERT_EQ(json["outputs"].size(), 1u);
  EXPECT_EQ(json["outputs"][0]["file"], file("o.npy"));
  EXPECT_EQ(json["outputs"][0]["shape"], nlohmann::json({2, 4}));
  EXPECT_EQ(json["outputs"][0]["written"], true);
  EXPECT_TRUE(std::filesystem::exists(file("o.npy")));
}

TEST_F(SimTest, TextNamesTheLaunchTheSeedsAndTheFiles) {
  const CommandResult result =
      sim(sim_kernel(".param .u64 o", ""), {"out:" + file("o.npy") + ":f32:2x3"},
          {"--block", "64", "--grid", "2", "--seeds", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const char* part : {"k: grid 2 x 1 x 1, block 64 x 1 x 1", "strict", "seed 0: ", "seed 1: ",
                           "no report", "2 seeds, 0 with reports", "o.npy: f32 (2, 3)"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST_F(SimTest, AcceptsEverySeedOf64Bits) {
  const CommandResult result =
      sim(sim_kernel("", ""), {}, {"--block", "1", "--schedule-seed", "18446744073709551615"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("seed 18446744073709551615: "), std::string::npos) << result.out;
}

TEST_F(SimTest, OutputsThatDifferBetweenSeedsAreNamed) {
  // The clock differs between two runs.
  const std::string ptx =
      sim_kernel(".param .u64 o",
                 "ld.param.u64 %l0, [o]; mov.u64 %l1, %globaltimer; st.global.u64 [%l0+8], %l1;");
  const CommandResult result =
      sim(ptx, {"out:" + file("o.npy") + ":u32:4"}, {"--block", "1", "--seeds", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("o.npy differs between seeds 0 and 1"), std::string::npos)
      << result.out;
}

// Thread 0 of each block copies a 8 x 64 box of two-byte elements by TMA, rows from 8 * %ctaid.x.
std::string copy_box_kernel() {
  return sim_kernel(
      ".param .align 64 .b8 from[128], .param .align 64 .b8 to[128]",
      ".shared .align 1024 .b8 box[1024]; .shared .align 8 .b8 bar[8];\n"
      "mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra END;\n"
      "mov.b64 %l0, from; mov.b64 %l1, to; cvta.param.u64 %l2, %l0; cvta.param.u64 %l3, %l1;\n"
      "mov.u32 %r1, box; mov.u32 %r2, bar; mov.u32 %r3, %ctaid.x; shl.b32 %r4, %r3, 3;\n"
      "mov.u32 %r5, 0;\n"
      "mbarrier.init.shared::cta.b64 [%r2], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%l2, "
      "{%r5, %r4}], [%r2];\n"
      "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n@!%p1 bra WAIT;\n"
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%l3, {%r5, %r4}], [%r1];\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nEND:",
      "sm_90a");
}

std::vector<float> counted(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 256);
  return values;
}

TEST_F(SimTest, TensorMapsSpanAllRowsOfTheFile) {
  const std::vector<float> values = counted(2 * 3 * 4 * 64);
  write("x.npy", {2, 3, 4, 64}, values);
  const CommandResult result =
      sim(copy_box_kernel(),
          {"map:" + file("x.npy") + ":bf16:box=8x64:swizzle=128B",
           "mapout:" + file("y.npy") + ":bf16:2x3x4x64:box=8x64:swizzle=128B"},
          {"--block", "32", "--grid", "3", "--seeds", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("y.npy").values, values);
  EXPECT_EQ(read("y.npy").shape, (std::vector<int64_t>{2, 3, 4, 64}));
}

// Swizzled on the way in but not on the way out, so 16-byte chunks change places within their row.
TEST_F(SimTest, TensorMapsSwizzle) {
  const std::vector<float> values = counted(8 * 64);
  write("x.npy", {8, 64}, values);
  struct Mode {
    const char* name;
    size_t rows, mask;  // chunk ^= row / rows & mask
  };
  for (const Mode& mode : {Mode{"none", 1, 0}, Mode{"128B", 1, 7}}) {
    const CommandResult result =
        sim(copy_box_kernel(), {"map:" + file("x.npy") + ":f16:box=8x64:swizzle=" + mode.name,
                                "mapout:" + file("y.npy") + ":f16:8x64:box=8x64:swizzle=none"});
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    std::vector<float> expected(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i / 64, chunk = i % 64 / 8;
      expected[row * 64 + (chunk ^ (row / mode.rows & mode.mask)) * 8 + i % 8] = values[i];
    }
    EXPECT_EQ(read("y.npy").values, expected) << mode.name;
  }
}

TEST_F(SimTest, AMapoutWithoutShapeTakesThatOfItsFile) {
  write("x.npy", {8, 64}, counted(8 * 64));
  write("y.npy", {16, 64}, std::vector<float>(16 * 64, 5.0f));
  const CommandResult result =
      sim(copy_box_kernel(),
          {"map:" + file("x.npy") + ":f16:box=8x64", "mapout:" + file("y.npy") + ":f16:box=8x64"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const NpyArray<float> y = read("y.npy");
  EXPECT_EQ(y.shape, (std::vector<int64_t>{16, 64}));
  EXPECT_EQ(y.values.at(70), 70.0f);
  EXPECT_TRUE(std::isnan(y.values.at(8 * 64)));
}

TEST_F(SimTest, AMapinoutKeepsWhatIsNotWritten) {
  write("x.npy", {8, 64}, counted(8 * 64));
  write("y.npy", {16, 64}, std::vector<float>(16 * 64, 5.0f));
  const CommandResult result =
      sim(copy_box_kernel(),
          {"map:" + file("x.npy") + ":f16:box=8x64",
           "mapinout:" + file("y.npy") + ":f16:" + file("z.npy") + ":box=8x64:swizzle=none"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const NpyArray<float> z = read("z.npy");
  EXPECT_EQ(z.values.at(70), 70.0f);
  EXPECT_EQ(z.values.at(8 * 64), 5.0f);
}

TEST_F(SimTest, ClustersHaveTheirShape) {
  const std::string ptx = sim_kernel(
      ".param .u64 o",
      "ld.param.u64 %l0, [o]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %cluster_ctarank;\n"
      "mov.u32 %r2, %cluster_nctarank; mul.wide.u32 %l1, %r0, 8; add.s64 %l2, %l0, %l1;\n"
      "st.global.u32 [%l2], %r1; st.global.u32 [%l2+4], %r2;",
      "sm_90a");
  const CommandResult result = sim(ptx, {"out:" + file("o.npy") + ":u32:4x2"},
                                   {"--block", "1", "--grid", "4", "--cluster", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(read("o.npy").values, (std::vector<float>{0, 2, 1, 2, 0, 2, 1, 2}));
}

TEST_F(SimTest, CountersAreATableOrJson) {
  write("in.npy", {32}, counted(32));
  const std::vector<std::string> arguments = {"in:" + file("in.npy") + ":f32",
                                              "out:" + file("o.npy") + ":f32:32", "u32:128"};
  const CommandResult table = sim(copy_bytes_kernel(), arguments, {"--block", "128", "--counters"});
  ASSERT_EQ(table.exit_code, 0) << table.out << table.err;
  EXPECT_NE(table.out.find("sectors"), std::string::npos) << table.out;
  const CommandResult result =
      sim(copy_bytes_kernel(), arguments, {"--block", "128", "--counters", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_GT(json["counters"].size(), 3u) << json["counters"];
}

}  // namespace
}  // namespace lssar
