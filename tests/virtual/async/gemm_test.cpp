// A whole kernel, as two compilers emit it (data/gemm.cu): right results, the same on every SIMD
// level and number of threads, and faults where one of its waits is taken away.
#include <gtest/gtest.h>

#include <random>

#include "gemm_ptx.h"
#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

struct Shape {
  int m, n, k;
};
struct GemmParams {  // as in gemm.cu
  uint64_t a, b, c;
  int32_t m, n, k, unused;
};

std::vector<uint16_t> random_bf16(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint16_t> values(count);
  // Quarters up to 8: sums of a few hundred products are exact in float.
  for (uint16_t& v : values) v = bfloat_bits((static_cast<int>(random() % 65) - 32) / 4.0);
  return values;
}

struct Gemm {
  Shape shape;
  std::vector<uint16_t> a, b;
  explicit Gemm(Shape s)
      : shape(s),
        a(random_bf16(static_cast<size_t>(s.m) * s.k, 1)),
        b(random_bf16(static_cast<size_t>(s.n) * s.k, 2)) {}

  std::vector<float> expected() const {
    std::vector<float> c(static_cast<size_t>(shape.m) * shape.n);
    for (int i = 0; i < shape.m; ++i) {
      for (int j = 0; j < shape.n; ++j) {
        double sum = 0;
        for (int k = 0; k < shape.k; ++k) {
          sum += bfloat_value(a[static_cast<size_t>(i) * shape.k + k]) *
                 bfloat_value(b[static_cast<size_t>(j) * shape.k + k]);
        }
        c[static_cast<size_t>(i) * shape.n + j] = static_cast<float>(sum);
      }
    }
    return c;
  }

  Status run_on(Device& device, const std::string& text, std::vector<float>& c) const {
    Image image;
    image.bytes = text;
    LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module, device.load(image));
    LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* function, module->function("gemm"));
    const Buffer<uint16_t> device_a(device, a), device_b(device, b);
    const Buffer<float> device_c(device,
                                 std::vector<float>(static_cast<size_t>(shape.m) * shape.n, -1));
    const GemmParams params = {
        device_a.address(), device_b.address(), device_c.address(), shape.m, shape.n, shape.k, 0};
    LaunchConfig config;
    config.grid[0] = static_cast<uint32_t>(shape.n + 63) / 64;
    config.grid[1] = static_cast<uint32_t>(shape.m + 63) / 64;
    config.block[0] = 128;
    config.shared_bytes = 16384;
    LSSAR_RETURN_IF_ERROR(device.launch(*function, config, &params, sizeof params, nullptr));
    c = device_c.values();
    return {};
  }
};

class GemmTest : public testing::TestWithParam<std::tuple<SimdLevel, bool>> {
 protected:
  std::string text_ = std::get<1>(GetParam()) ? kGemmClang : kGemmNvcc;
  SimdLevel level_ = std::get<0>(GetParam());

  std::string without(const std::string& instruction) const {
    std::string text = text_;
    for (size_t at = text.find(instruction); at != std::string::npos; at = text.find(instruction)) {
      text.erase(at, instruction.size());
    }
    return text;
  }
};

TEST_P(GemmTest, IsExactForTilesAndRests) {
  for (const Shape shape :
       {Shape{64, 64, 32}, {64, 128, 256}, {1, 1, 8}, {65, 63, 40}, {130, 71, 96}}) {
    const Gemm gemm(shape);
    const auto device = open_device(level_, 2);
    std::vector<float> c;
    const Status status = gemm.run_on(*device, text_, c);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(c, gemm.expected()) << shape.m << " " << shape.n << " " << shape.k;
  }
}

TEST_P(GemmTest, TakingAwayTheWaitGivesWrongNumbers) {
  const Gemm gemm({64, 64, 128});
  const auto device = open_device(level_);
  std::vector<float> c;
  const Status status = gemm.run_on(*device, without("cp.async.wait_group 1;"), c);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_NE(c, gemm.expected());
}

TEST_P(GemmTest, TooLittleSharedMemoryIsAFault) {
  const Gemm gemm({64, 64, 128});
  const auto device = open_device(level_);
  std::vector<float> c;
  std::string text = text_;
  const std::string name = "stages[]";
  text.replace(text.find(".extern .shared"),
               text.find(name) + name.size() - text.find(".extern .shared"),
               ".shared .align 16 .b8 stages[16384]");
  // With 16 KiB of its own the kernel is right; with one row less it faults.
  EXPECT_TRUE(gemm.run_on(*device, text, c).ok());
  text.replace(text.find("stages[16384]"), 13, "stages[16320]");
  Image image;
  image.bytes = text;
  const Buffer<uint16_t> a(*device, gemm.a), b(*device, gemm.b);
  const Buffer<float> out(*device, std::vector<float>(64 * 64));
  const GemmParams params = {a.address(), b.address(), out.address(), 64, 64, 128, 0};
  LaunchConfig config;
  config.block[0] = 128;
  auto module = device->load(image);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const Status status =
      device->launch(**(*module)->function("gemm"), config, &params, sizeof params, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_NE(status.message().find("the block has 16320 bytes"), std::string::npos)
      << status.message();
}

TEST_P(GemmTest, EveryLaunchCountsTheSame) {
  const Gemm gemm({130, 71, 96});
  uint64_t first = 0;
  for (const int threads : {1, 3}) {
    const auto device = open_device(level_, threads);
    std::vector<float> c;
    ASSERT_TRUE(gemm.run_on(*device, text_, c).ok());
    const uint64_t count = device->counters().warp_instructions;
    if (first == 0) first = count;
    EXPECT_EQ(count, first);
    EXPECT_GT(count, 6u * 4 * 3 * 16) << "at least its mma instructions";
  }
}

INSTANTIATE_TEST_SUITE_P(LevelsAndCompilers, GemmTest,
                         testing::Combine(testing::ValuesIn(levels()), testing::Bool()),
                         [](const auto& p) {
                           return std::string(simd_level_name(std::get<0>(p.param))) +
                                  (std::get<1>(p.param) ? "_clang" : "_nvcc");
                         });

}  // namespace
}  // namespace lssar::test
