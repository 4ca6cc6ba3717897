// Generic addresses: cvta both ways and isspacep, for every space that has a window.
#include <gtest/gtest.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

// Runs `body`, which leaves a 64-bit number in %d and a predicate in %g.
struct Result {
  uint64_t value;
  bool holds;
};
Result execute(SimdLevel level, const std::string& body) {
  const auto device = open_device(level);
  Buffer<uint64_t> out(*device, {99, 99});
  const Status status =
      run(*device,
          kernel_text(".param .u64 p0, .param .u32 other",
                      ".local .align 8 .b8 mine[16];\n.reg .b64 %p, %a, %b, %d; .reg .b32 %n;\n"
                      ".reg .pred %g; ld.param.u64 %p, [p0]; mov.b64 %d, 0;\n"
                      "setp.ne.u32 %g, 0, 0;\n" +
                          body +
                          "\nselp.b32 %n, 1, 0, %g; cvt.u64.u32 %b, %n;\n"
                          "st.global.b64 [%p], %d; st.global.b64 [%p+8], %b; ret;",
                      ".shared .align 16 .b8 pad[48];\n.shared .align 16 .b8 tile[64];\n"),
          {1, 1}, {out.address(), 0});
  EXPECT_TRUE(status.ok()) << body << status.to_string();
  return {out[0], out[1] == 1};
}

struct Space {
  const char* name;     // in cvta
  const char* address;  // of something in it, from %p the address of global memory
};
const Space kSpaces[] = {
    {"global", "mov.b64 %a, %p;"},          {"shared", "mov.u64 %a, tile;"},
    {"shared::cta", "mov.u64 %a, tile;"},   {"shared::cluster", "mov.u64 %a, tile;"},
    {"local", "mov.u64 %a, mine;"},         {"param", "mov.b64 %a, other;"},
    {"param::entry", "mov.b64 %a, other;"},
};

TEST(GenericAddressTest, CvtaThereAndBackGivesTheSameAddress) {
  for (const SimdLevel level : levels()) {
    for (const Space& s : kSpaces) {
      const std::string name = s.name;
      const Result result =
          execute(level, std::string(s.address) + " cvta." + name + ".u64 %b, %a; cvta.to." + name +
                             ".u64 %d, %b; sub.u64 %d, %d, %a; setp.eq.u64 %g, %a, %b;");
      EXPECT_EQ(result.value, 0u) << name;
      EXPECT_EQ(result.holds, name == "global") << name;  // only those are generic as they are
    }
  }
}

TEST(GenericAddressTest, IsspacepTellsTheSpacesApart) {
  for (const SimdLevel level : levels()) {
    for (const Space& s : kSpaces) {
      const std::string of = std::string(s.name).substr(0, std::string(s.name).find("::"));
      const std::string there =
          std::string(s.address) + " cvta." + s.name + ".u64 %b, %a; isspacep.";
      for (const std::string asked : {"global", "shared", "shared::cta", "shared::cluster", "local",
                                      "param", "param::entry"}) {
        EXPECT_EQ(execute(level, there + asked + " %g, %b;").holds,
                  asked.substr(0, asked.find("::")) == of)
            << s.name << " asked for " << asked;
      }
    }
  }
}

// The shared memory of another block of the cluster has its rank in the bits from 24 on.
TEST(GenericAddressTest, OtherBlocksSharedMemoryIsOfTheClusterOnly) {
  for (const SimdLevel level : levels()) {
    const std::string there =
        "mov.u64 %a, tile; add.u64 %a, %a, 0x02000000; cvta.shared::cluster.u64 %b, %a; isspacep.";
    EXPECT_TRUE(execute(level, there + "shared::cluster %g, %b;").holds);
    EXPECT_FALSE(execute(level, there + "shared::cta %g, %b;").holds);
    EXPECT_FALSE(execute(level, there + "shared %g, %b;").holds);
  }
}

}  // namespace
}  // namespace lssar::test
