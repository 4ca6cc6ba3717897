// Kernels that issue asynchronous operations and never wait: the memory of the process must not
// grow with them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

constexpr uint32_t kUnwritten = 0xffffffff;  // a word of kPoisonByte
constexpr uint32_t kIterations = 5000;

// As late as allowed: nothing arrives unless it must.
std::shared_ptr<Device> open_latest() {
  VirtualOptions options;
  options.target.major = 9;
  options.target.suffix = "a";
  options.target.shared_bytes_per_block = 64 << 10;
  options.target.shared_bytes_per_sm = 128 << 10;
  options.num_threads = 1;
  options.async_timing = AsyncTiming::kLatest;
  return make_virtual_device(options);
}

// `body`, repeated: p0 is in %p, the address of shared memory in %s.
std::string loop(uint32_t iterations, const std::string& before, const std::string& body,
                 const std::string& after) {
  return kernel_text(
      ".param .u64 p0",
      fmt::format(".reg .b64 %p, %d; .reg .b32 %s, %i, %v, %t, %r<4>; .reg .pred %g;\n"
                  ".shared .align 1024 .b8 sm[8192];\n"
                  "ld.param.u64 %p, [p0]; mov.u32 %s, sm; mov.u32 %i, 0; mov.u32 %t, %tid.x;\n"
                  "{}\nLOOP: {}\nadd.u32 %i, %i, 1; setp.lt.u32 %g, %i, {}; @%g bra LOOP;\n"
                  "{}\nret;",
                  before, body, iterations, after),
      "", "sm_90a");
}

// What shared memory has after a copy to sm and others to sm + 4.
std::vector<uint32_t> copy(uint32_t iterations) {
  const auto device = open_latest();
  Buffer<uint32_t> memory(*device, std::vector<uint32_t>(4, 7));
  const std::string body =
      "cp.async.ca.shared.global [%s], [%p], 4; cp.async.commit_group; mov.u32 %s, sm; "
      "add.u32 %s, %s, 4;";
  const std::string after =
      "mov.u32 %s, sm; ld.shared.u32 %v, [%s]; st.global.u32 [%p+4], %v;\n"
      "ld.shared.u32 %v, [%s+4]; st.global.u32 [%p+8], %v;";
  const Status status = run(*device, loop(iterations, "", body, after), {1, 1}, {memory.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  return memory.values();
}

TEST(InFlightTest, OfManyCopiesTheOldestArrive) {
  EXPECT_EQ(copy(2)[1], kUnwritten);
  const auto values = copy(kIterations);
  EXPECT_EQ(values[1], 7u);
}

// What is in global memory after bulk stores: a first one to p0 + 16, others to p0 + 32.
std::vector<uint32_t> store(uint32_t iterations) {
  const auto device = open_latest();
  Buffer<uint32_t> memory(*device, std::vector<uint32_t>(16, 0));
  const std::string before =
      "mov.u32 %v, 9; st.shared.u32 [%s], %v; fence.proxy.async; add.u64 %d, %p, 16;";
  const std::string body =
      "cp.async.bulk.global.shared::cta.bulk_group [%d], [%s], 16; cp.async.bulk.commit_group;\n"
      "add.u64 %d, %p, 32;";
  const std::string after = "ld.global.u32 %v, [%p+16]; st.global.u32 [%p], %v;";
  const Status status =
      run(*device, loop(iterations, before, body, after), {1, 1}, {memory.address()});
  EXPECT_TRUE(status.ok()) << status.to_string();
  return memory.values();
}

TEST(InFlightTest, OfManyBulkOperationsTheOldestComplete) {
  const auto few = store(2);
  EXPECT_EQ(few[0], 0u);
  EXPECT_EQ(few[8], 9u);  // at the end at the latest
  const auto many = store(kIterations);
  EXPECT_EQ(many[0], 9u);
  EXPECT_EQ(many[8], 9u);
}

const char* const kDescriptor = "mov.b64 %d, 0x4000004000010000;";
const char* const kProduct =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r0, %r1, %r2, %r3}, %d, %d, 1, 1, 1, 0, "
    "0;";

std::string wgmma_error(const std::string& body) {
  const auto device = open_latest();
  Buffer<uint32_t> memory(*device, {0});
  return run(*device, loop(kIterations, kDescriptor, body, ""), {1, 128}, {memory.address()})
      .message();
}

TEST(InFlightTest, TooManyProductsAreAnError) {
  const std::string message = wgmma_error(kProduct);
  EXPECT_NE(message.find("4096 operations of wgmma are in flight"), std::string::npos) << message;
}

TEST(InFlightTest, TooManyGroupsOfProductsAreAnError) {
  const std::string message = wgmma_error("wgmma.commit_group.sync.aligned;");
  EXPECT_NE(message.find("4096 groups of wgmma are in flight"), std::string::npos) << message;
}

TEST(InFlightTest, ProductsThatAreWaitedForMayBeMany) {
  EXPECT_EQ(wgmma_error(std::string(kProduct) + "wgmma.commit_group.sync.aligned;\n"
                                                "wgmma.wait_group.sync.aligned 1;"),
            "");
}

}  // namespace
}  // namespace lssar::test
