// lssar sim when something is wrong: what it says, its exit code, and which files it leaves.
#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "tests/command/sim_fixture.h"

namespace lssar {
namespace {

// One line, from the command itself, with `text` in it.
void expect_failure(const CommandResult& result, int exit_code, const std::string& text) {
  EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
  EXPECT_EQ(result.err.rfind("lssar: ", 0), 0u) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "");
}

class SimErrors : public SimTest {};

struct BadArgument {
  const char* argument;  // FOLDER stands for the test's
  int exit_code;
  const char* text;
};
void PrintTo(const BadArgument& b, std::ostream* out) { *out << b.argument; }

class SimBadArguments : public SimTest, public ::testing::WithParamInterface<BadArgument> {};

TEST_P(SimBadArguments, AreNamedWithWhatIsAllowed) {
  write("x.npy", {2, 4}, {1, 2, 3, 4.5f, 300, -1, 0, 0});
  std::string argument = GetParam().argument;
  if (const size_t at = argument.find("FOLDER"); at != std::string::npos) {
    argument.replace(at, 6, command_.path("."));
  }
  expect_failure(sim(sim_kernel(".param .u64 p", ""), {argument}), GetParam().exit_code,
                 GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, SimBadArguments,
    ::testing::Values(
        BadArgument{"", 2, "no kind of argument"}, BadArgument{"in", 2, "no kind of argument"},
        BadArgument{"foo:x.npy:f32", 2, "allowed are in, out, inout, map"},
        BadArgument{"i32:", 2, "'' is not a whole number within the range of i32"},
        BadArgument{"i32:1.5", 2, "not a whole number"},
        BadArgument{"i32:2147483648", 2, "range of i32"},
        BadArgument{"i32:-2147483649", 2, "range of i32"}, BadArgument{"u32:-1", 2, "range of u32"},
        BadArgument{"u8:256", 2, "range of u8"},
        BadArgument{"i64:9223372036854775808", 2, "range of i64"},
        BadArgument{"f32:abc", 2, "'abc' is not a number"},
        BadArgument{"f32:1.0x", 2, "'1.0x' is not a number"},
        BadArgument{"in:FOLDER/x.npy", 2, "is not a DTYPE: allowed are f64, f32"},
        BadArgument{"in:FOLDER/x.npy:f33", 2, "'f33' is not a DTYPE"},
        BadArgument{"in::f32", 2, "name of a file is missing"},
        BadArgument{"in:FOLDER/none.npy:f32", 5, "none.npy"},
        BadArgument{"in:FOLDER/kernel.ptx:f32", 2, "not a .npy file"},
        BadArgument{"in:FOLDER/x.npy:i32", 2, "element 3 = 4.5: allowed are the whole numbers"},
        BadArgument{"out:FOLDER/o.npy:f32", 2, "out:FILE.npy:DTYPE:SHAPE"},
        BadArgument{"out:FOLDER/o.npy:f32:2x", 2, "out:FILE.npy:DTYPE:SHAPE"},
        BadArgument{"out:FOLDER/o.npy:f32:-2", 2, "out:FILE.npy:DTYPE:SHAPE"},
        BadArgument{"out:FOLDER/o.npy:f32:1099511627776x1099511627776", 2, "fits in memory"},
        BadArgument{"map:FOLDER/x.npy:f32", 2, "box=ROWSxCOLS is missing"},
        BadArgument{"map:FOLDER/x.npy:f32:box=4", 2, "allowed is ROWSxCOLS"},
        BadArgument{"map:FOLDER/x.npy:f32:box=0x4", 2, "each 1 to 256"},
        BadArgument{"map:FOLDER/x.npy:f32:box=257x4", 2, "each 1 to 256"},
        BadArgument{"map:FOLDER/x.npy:f32:box=2x4:swizzle=16B", 2, "allowed are none, 32B, 64B"},
        BadArgument{"mapout:FOLDER/none.npy:f32:box=2x4", 5, "none.npy"},
        BadArgument{"{", 2, "no } after"}, BadArgument{"}", 2, "no { before"}),
    [](const auto& test) { return "Case" + std::to_string(test.index); });

TEST_F(SimErrors, TheKernelFile) {
  expect_failure(command_.run({"sim", file("none.ptx"), "--entry", "k", "--block", "1"}), 5,
                 "none.ptx");
  expect_failure(sim("hello", {}), 2, "is not PTX: it has no .target line");
  expect_failure(sim(".version 8.0\n.target sm_7\n", {}), 2, "target = \"sm_7\"");
  expect_failure(sim(sim_kernel("", "frobnicate.u32 %r0;"), {}), 2,
                 "unknown instruction: 'frobnicate.u32 %r0;'");
}

TEST_F(SimErrors, OptionsOfTheCommandLine) {
  const std::string ptx = sim_kernel("", "");
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{}, "--block"},
      {{"--block", "0"}, "--block 0: allowed are X, X,Y or X,Y,Z"},
      {{"--block", "1,2,3,4"}, "--block 1,2,3,4"},
      {{"--block", "1,,3"}, "--block 1,,3"},
      {{"--block", "1", "--grid", "4294967296"}, "more than 32 bits"},
      {{"--block", "1", "--cluster", "two"}, "--cluster two"},
      {{"--block", "1", "--shared", "-1"}, "--shared"},
      {{"--block", "1", "--target", "sm_33"}, "sm_33"},
      {{"--block", "1", "--approx", "best"}, "allowed are nearest, highest, lowest, random"},
      {{"--block", "1", "--async", "soon"}, "allowed are by-seed, latest, earliest, random"},
      {{"--block", "1", "--elect", "first"}, "--elect first: allowed are lowest, drawn"},
      {{"--block", "1", "--seeds", "0"}, "--seeds"},
      {{"--block", "1", "--seeds", "2", "--schedule-seed", "1"}, "--seeds"},
      {{"--block", "1", "--all-seeds"}, "--seeds"},
      {{"--block", "1", "--frob"}, "--frob"},
  };
  for (const auto& [options, text] : cases) expect_failure(sim(ptx, {}, options), 2, text);
}

TEST_F(SimErrors, WhatTheDeviceRefuses) {
  const std::string ptx = sim_kernel("", "");
  expect_failure(sim(ptx, {}, {"--block", "2000"}), 2, "allowed are 1 to 1024 threads");
  expect_failure(sim(ptx, {}, {"--block", "32", "--shared", "1000000"}), 2, "shared memory");
  expect_failure(sim(ptx, {}, {"--block", "32", "--target", "sm_80", "--grid", "1,70000"}), 2,
                 "grid");
  expect_failure(sim(sim_kernel("", "", "sm_90"), {}, {"--block", "32", "--target", "sm_80"}), 2,
                 "PTX for sm_90");
}

TEST_F(SimErrors, TensorMapsThatTheDriverWouldRefuse) {
  write("x.npy", {4, 6}, std::vector<float>(24, 1.0f));
  const std::string ptx = sim_kernel(".param .align 64 .b8 m[128]", "", "sm_90a");
  const std::string map = "map:" + file("x.npy");
  // Rows of 12 bytes; a box wider than the swizzle.
  expect_failure(sim(ptx, {map + ":bf16:box=4x6"}), 2, "--arg " + map);
  expect_failure(sim(ptx, {map + ":f64:box=4x6:swizzle=32B"}), 2, "swizzle");
}

TEST_F(SimErrors, AnUnknownKernelListsThoseThereAre) {
  command_.write("kernel.ptx", sim_kernel("", ""));
  expect_failure(command_.run({"sim", file("kernel.ptx"), "--entry", "j", "--block", "1"}), 2,
                 "no kernel 'j' in the image; there are: k");
}

TEST_F(SimErrors, ArgumentsThatAreNotTheKernelsListItsParameters) {
  const std::string ptx = sim_kernel(".param .u64 p, .param .align 8 .b8 s[24]", "");
  const char* const list = "kernel k takes p (8 bytes), s (24 bytes)";
  expect_failure(sim(ptx, {}), 2, list);
  expect_failure(sim(ptx, {"i64:1", "i64:2", "i64:3"}), 2, "3 --arg for 2 parameters");
  expect_failure(sim(ptx, {"i64:1", "i64:2"}), 2, list);
  expect_failure(sim(ptx, {"i32:1", "i64:2"}), 2, "--arg i32:1: 4 bytes for p (8 bytes)");
  expect_failure(sim(ptx, {"i64:1", "{", "i64:2", "i64:3", "}"}), 2, "16 bytes for s (24 bytes)");
  EXPECT_EQ(sim(ptx, {"i64:1", "{", "i64:2", "i64:3", "i32:3", "}"}).exit_code, 0);
  expect_failure(sim(sim_kernel("", ""), {"i64:1"}), 2, "kernel k takes none");
}

TEST_F(SimErrors, TwoArgumentsForOneFile) {
  expect_failure(sim(sim_kernel(".param .u64 p, .param .u64 q", ""),
                     {"out:" + file("o.npy") + ":f32:4", "out:" + file("o.npy") + ":f32:4"}),
                 2, "another argument writes");
}

// A run may take minutes. This one ends at once, with a report and exit code 1.
TEST_F(SimErrors, AnOutputThatCannotBeWrittenIsSaidBeforeTheRun) {
  const std::string ptx = sim_kernel(".param .u64 p", "ld.global.u32 %r0, [16];");
  EXPECT_EQ(sim(ptx, {"out:" + file("o.npy") + ":f32:4"}).exit_code, 1);
  expect_failure(sim(ptx, {"out:" + file("none/o.npy") + ":f32:4"}), 5, "none/o.npy");
  expect_failure(sim(ptx, {"out:" + command_.path(".") + ":f32:4"}), 5, "is a folder");
}

TEST_F(SimErrors, AFolderThatIsNotThereLeavesNoOutput) {
  const CommandResult result =
      sim(sim_kernel(".param .u64 p, .param .u64 q", ""),
          {"out:" + file("first.npy") + ":f32:4", "out:" + file("none/second.npy") + ":f32:4"});
  expect_failure(result, 5, "second.npy");
  for (const auto& entry : std::filesystem::directory_iterator(command_.path("."))) {
    EXPECT_EQ(entry.path().filename().string().rfind("first", 0), std::string::npos)
        << entry.path();
  }
}

class SimReports : public SimTest {
 protected:
  // Reads 4 bytes behind its argument.
  std::string beyond(int bytes) const {
    return sim_kernel(".param .u64 p", "ld.param.u64 %l0, [p]; ld.global.u32 %r0, [%l0+" +
                                           std::to_string(bytes) + "];\nst.global.u32 [%l0], %r0;");
  }
};

TEST_F(SimReports, OutOfBoundsIsReportedAndNothingWritten) {
  write("x.npy", {4}, {1, 2, 3, 4});
  const CommandResult result =
      sim(beyond(16), {"inout:" + file("x.npy") + ":f32"}, {"--block", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("out of bounds"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("PTX line 7 'ld.global.u32"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("not written"), std::string::npos) << result.out;
  EXPECT_EQ(read("x.npy").values, (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(SimReports, OutOfBoundsIsSeenAcrossTheGapToTheNextBuffer) {
  write("x.npy", {64}, std::vector<float>(64, 1.0f));
  const std::string ptx =
      sim_kernel(".param .u64 p, .param .u64 q",
                 "ld.param.u64 %l0, [p]; ld.global.u32 %r0, [%l0+256];\nst.global.u32 [%l0], %r0;");
  const std::string argument = "in:" + file("x.npy") + ":f32";
  EXPECT_EQ(sim(ptx, {argument, argument}, {"--block", "1"}).exit_code, 1);
}

TEST_F(SimReports, MisalignmentAndEndlessLoops) {
  write("x.npy", {4}, {1, 2, 3, 4});
  const CommandResult misaligned =
      sim(beyond(2), {"inout:" + file("x.npy") + ":f32"}, {"--block", "1"});
  EXPECT_EQ(misaligned.exit_code, 1);
  EXPECT_NE(misaligned.out.find("not aligned"), std::string::npos) << misaligned.out;
  const CommandResult endless =
      sim(sim_kernel("", "L: bra L;"), {}, {"--block", "32", "--max-instructions", "1000"});
  EXPECT_EQ(endless.exit_code, 1);
  EXPECT_NE(endless.out.find("more than 1000 warp instructions"), std::string::npos) << endless.out;
}

// Every thread stores its number at the same place.
const char* const kRace = "ld.param.u64 %l0, [p]; mov.u32 %r0, %tid.x; st.global.u32 [%l0], %r0;";

TEST_F(SimReports, RacesAreReportedUnlessFast) {
  const std::string ptx = sim_kernel(".param .u64 p", kRace);
  const std::string argument = "out:" + file("o.npy") + ":u32:1";
  const CommandResult strict = sim(ptx, {argument}, {"--block", "64"});
  EXPECT_EQ(strict.exit_code, 1) << strict.out;
  EXPECT_NE(strict.out.find("race"), std::string::npos) << strict.out;
  EXPECT_FALSE(std::filesystem::exists(file("o.npy")));
  EXPECT_EQ(sim(ptx, {argument}, {"--block", "64", "--fast"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(file("o.npy")));
}

TEST_F(SimReports, AnOutputIsUninitialisedBeforeItIsWritten) {
  const std::string ptx =
      sim_kernel(".param .u64 p",
                 "ld.param.u64 %l0, [p]; ld.global.u32 %r0, [%l0];\nst.global.u32 [%l0+4], %r0;");
  const std::string name = file("o.npy") + ":f32";
  const CommandResult result = sim(ptx, {"out:" + name + ":2"}, {"--block", "1"});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  write("o.npy", {2}, {1, 2});
  EXPECT_EQ(sim(ptx, {"inout:" + name}, {"--block", "1"}).exit_code, 0);
}

TEST_F(SimReports, EachIsOneOfItsOwn) {
  const std::string ptx =
      sim_kernel(".param .u64 p",
                 "ld.param.u64 %l0, [p]; mov.u32 %r0, %tid.x; st.global.u32 [%l0], %r0;\n"
                 "st.global.u32 [%l0+4], %r0;");
  const CommandResult result =
      sim(ptx, {"out:" + file("o.npy") + ":u32:2"}, {"--block", "64", "--json"});
  EXPECT_EQ(result.exit_code, 1) << result.out;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["reports"].size(), 2u) << json["reports"];
  EXPECT_NE(json["reports"][0]["text"].get<std::string>().find("PTX line 7"), std::string::npos);
  EXPECT_NE(json["reports"][1]["text"].get<std::string>().find("PTX line 8"), std::string::npos);
  EXPECT_EQ(json["runs"][0]["reports"].size(), 2u);
}

TEST_F(SimReports, SeedsStopAtTheFirstReportUnlessAllAreAskedFor) {
  const CommandResult first = sim(sim_kernel("", "L: bra L;"), {},
                                  {"--block", "32", "--max-instructions", "1000", "--seeds", "3"});
  EXPECT_EQ(first.exit_code, 1);
  EXPECT_EQ(first.out.find("seed 1"), std::string::npos) << first.out;
  const CommandResult all =
      sim(sim_kernel("", "L: bra L;"), {},
          {"--block", "32", "--max-instructions", "1000", "--seeds", "3", "--all-seeds"});
  EXPECT_EQ(all.exit_code, 1);
  EXPECT_NE(all.out.find("3 seeds, 3 with reports"), std::string::npos) << all.out;
}

TEST_F(SimReports, JsonHasThemToo) {
  write("x.npy", {4}, {1, 2, 3, 4});
  const CommandResult result =
      sim(beyond(16), {"inout:" + file("x.npy") + ":f32"}, {"--block", "1", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  ASSERT_EQ(json["reports"].size(), 1u);
  EXPECT_EQ(json["reports"][0]["seed"], 0);
  EXPECT_NE(json["reports"][0]["text"].get<std::string>().find("out of bounds"), std::string::npos);
  EXPECT_EQ(json["outputs"][0]["written"], false);
}

}  // namespace
}  // namespace lssar
