// The engine on the cpu device: from a problem to results, through the binary cache.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "device/cpu/cpu_device.h"
#include "reference/numerics.h"
#include "runtime/engine.h"
#include "runtime/multiply_adds.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

class CpuEngine : public testing::Test {
 protected:
  void SetUp() override {
    LSSAR_NEEDS_CPU_KERNELS();
    folder_ = std::filesystem::path(testing::TempDir()) / "lssar_cpu_engine";
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<std::unique_ptr<Engine>> open() const {
    EngineOptions options;
    options.device = DeviceChoice::kCpu;
    options.cache.directory = folder_.string();
    return Engine::open(options);
  }

  std::filesystem::path folder_;
};

DevicePtr address(const void* memory) {
  return static_cast<DevicePtr>(reinterpret_cast<uintptr_t>(memory));
}

TEST_F(CpuEngine, ComputesAndKeepsTheObject) {
  const Problem problem = forward_problem(DType::kBf16, 64, 64, 15, true);
  const Sizes sizes = sizes_with(2, 4, 2, 70, 90);
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 3);
  const auto expected =
      reference_attention(problem, sizes, {widened(in.q), widened(in.k), widened(in.v), {}});
  ASSERT_TRUE(expected.ok());
  std::vector<float> first;
  for (const CacheSource source : {CacheSource::kComputed, CacheSource::kDisk}) {
    const auto engine = open();
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    EXPECT_EQ((*engine)->device().info().kind, "cpu");
    const auto kernel = (*engine)->prepare(problem);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    EXPECT_EQ((*kernel)->cache_source, source);
    EXPECT_EQ((*kernel)->loaded->image.kind, ImageKind::kObject);

    const auto q = pack(problem.dtype, in.q), k = pack(problem.dtype, in.k),
               v = pack(problem.dtype, in.v);
    std::vector<std::byte> o(expected->o.size() * 2);
    Tensors tensors;
    tensors.q = contiguous_tensor(address(q.data()), 4, 70, 64);
    tensors.k = contiguous_tensor(address(k.data()), 2, 90, 64);
    tensors.v = contiguous_tensor(address(v.data()), 2, 90, 64);
    tensors.o = contiguous_tensor(address(o.data()), 4, 70, 64);
    const auto layout = workspace_layout(problem, (*kernel)->schedule, sizes);
    ASSERT_TRUE(layout.ok());
    const auto memory = (*engine)->device().allocate(layout->total_bytes);
    ASSERT_TRUE(memory.ok());
    const Status status =
        (*engine)->execute(**kernel, sizes, tensors, {*memory, layout->total_bytes}, nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE((*engine)->device().free(*memory).ok());
    const std::vector<float> result = unpack(problem.dtype, o);
    const TensorError error =
        compare(expected->o, result, allowed_error(problem, OutputTensor::kO, *expected));
    EXPECT_TRUE(error.is_right()) << error.to_string();
    if (first.empty()) first = result;
    EXPECT_EQ(result, first);
  }
}

TEST(CpuOpen, AutoAndVirtualDoNotTakeItsTargets) {
  for (const DeviceChoice choice : {DeviceChoice::kVirtual, DeviceChoice::kRecord}) {
    const auto device = open_device(choice, "x86-64-v3");
    EXPECT_EQ(device.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(device.status().message().find("device cpu has this one"), std::string::npos);
  }
  EXPECT_EQ(*parse_device_choice("cpu"), DeviceChoice::kCpu);
}

// 64 queries and keys of 64 numbers are 64 * 64 * 128 multiply-adds, twice a thread's least share
// with vectors of 8 floats.
TEST(CpuWork, ThreadsHaveAtLeastTheirShare) {
  const Problem one = forward_problem(DType::kFp32, 64, 64, 15, false);
  const double work = multiply_adds(one, sizes_with(1, 1, 1, 64, 64));
  EXPECT_EQ(work, 64.0 * 64 * 128);
  EXPECT_EQ(worthwhile_threads(8, work, 8), 2);
  EXPECT_EQ(worthwhile_threads(8, work, 16), 1);
  EXPECT_EQ(worthwhile_threads(8, work / 1000, 8), 1);
  EXPECT_EQ(worthwhile_threads(8, work * 1e9, 8), 8);
  EXPECT_EQ(worthwhile_threads(8, 0, 8), 8) << "not known";
}

// By counting pairs of a query and a key that it sees.
TEST(CpuWork, CountsWhatTheMaskLeaves) {
  const Problem causal = forward_problem(DType::kFp32, 8, 16, 15, true);
  for (const int64_t queries : {0, 1, 5, 9})
    for (const int64_t keys : {0, 1, 5, 9}) {
      int64_t pairs = 0;
      for (int64_t i = 0; i < queries; ++i) pairs += std::max<int64_t>(keys - queries + i + 1, 0);
      EXPECT_EQ(multiply_adds(causal, sizes_with(2, 6, 3, queries, keys)),
                static_cast<double>(2 * 6 * pairs * 24))
          << queries << " queries, " << keys << " keys";
    }
  Problem backward = causal;
  backward.pass = Pass::kBackward;
  backward.causal = false;
  EXPECT_EQ(multiply_adds(backward, sizes_with(1, 1, 1, 2, 3)), 2.0 * 3 * (3 * 8 + 2 * 16));
}

}  // namespace
}  // namespace lssar
