// The cuda device on a real GPU: memory, images of both compilers, shared memory, time, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "compile/compiler.h"
#include "device/device.h"
#include "runtime/open_device.h"

namespace lssar {
namespace {

// In the kernel's layout.
struct Params {
  DevicePtr in = 0, out = 0;
  float factor = 0;
  int num_elems = 0;
};

// Aligned as tensor maps are. On sm_90 it does not begin where the block of parameters does.
struct alignas(64) AlignedParams {
  unsigned char map[128] = {};
  Params rest;
};

// Special registers by inline assembly, which both compilers accept without CUDA's headers.
constexpr const char* kSource = R"(
struct Params {
  const float* in;
  float* out;
  float factor;
  int num_elems;
};

static __device__ __forceinline__ int thread() {
  int value;
  asm("mov.u32 %0, %%tid.x;" : "=r"(value));
  return value;
}

static __device__ __forceinline__ int num_threads() {
  int value;
  asm("mov.u32 %0, %%ntid.x;" : "=r"(value));
  return value;
}

static __device__ __forceinline__ int block() {
  int value;
  asm("mov.u32 %0, %%ctaid.x;" : "=r"(value));
  return value;
}

extern "C" __global__ void scale(Params p) {
  const int i = block() * num_threads() + thread();
  if (i < p.num_elems) p.out[i] = p.factor * p.in[i];
}

struct alignas(64) AlignedParams {
  unsigned char map[128];
  Params rest;
};

extern "C" __global__ void scale_aligned(AlignedParams p) {
  const int i = block() * num_threads() + thread();
  if (i < p.rest.num_elems) p.rest.out[i] = p.map[0] * p.rest.factor * p.rest.in[i];
}

extern __shared__ float rows[];

// One block: everything goes through shared memory.
extern "C" __global__ void reverse(Params p) {
  for (int i = thread(); i < p.num_elems; i += num_threads()) rows[i] = p.in[i];
  asm volatile("bar.sync 0;" : : : "memory");
  for (int i = thread(); i < p.num_elems; i += num_threads())
    p.out[i] = rows[p.num_elems - 1 - i];
}

// num_elems multiplications, each of which needs the previous one.
extern "C" __global__ void spin(Params p) {
  float x = p.factor;
  for (int i = 0; i < p.num_elems; ++i) x = x * p.factor + 1.0f;
  p.out[0] = x;
}
)";

struct Compiled {
  const char* name;
  CompilerChoice compiler;
  ImageKind kind;
};

constexpr Compiled kNvrtcCubin{"nvrtc_cubin", CompilerChoice::kNvrtc, ImageKind::kCubin};
constexpr Compiled kNvrtcPtx{"nvrtc_ptx", CompilerChoice::kNvrtc, ImageKind::kPtx};
constexpr Compiled kLlvmPtx{"llvm_ptx", CompilerChoice::kLlvm, ImageKind::kPtx};

class GpuDevice : public testing::Test {
 protected:
  void SetUp() override {
    const Result<std::shared_ptr<Device>> device = open_device(DeviceChoice::kCuda);
    const StatusCode code = device.status().code();
    if (code == StatusCode::kMissing || code == StatusCode::kUnsupported)
      GTEST_SKIP() << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    device_ = device.value();
  }

  // Skips the test if the compiler is missing.
  void load(const Compiled& compiled) {
    const auto compiler = open_compiler(compiled.compiler);
    if (compiler.status().code() == StatusCode::kMissing)
      GTEST_SKIP() << compiler.status().message();
    ASSERT_TRUE(compiler.ok()) << compiler.status().to_string();
    const Result<Image> image = (*compiler)->compile(
        {"gpu_device_test", kSource, device_->info().target, compiled.kind, {}});
    ASSERT_TRUE(image.ok()) << image.status().to_string();
    Result<std::unique_ptr<DeviceModule>> module = device_->load(*image);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    module_ = std::move(*module);
  }
  // With any compiler that was found.
  void load() { load(open_compiler(CompilerChoice::kNvrtc).ok() ? kNvrtcPtx : kLlvmPtx); }

  Status launch(const std::string& entry, const LaunchConfig& config, const Params& params) {
    LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* function, module_->function(entry));
    if (entry != "scale_aligned")
      return device_->launch(*function, config, &params, sizeof(params), nullptr);
    AlignedParams aligned;
    aligned.map[0] = 1;
    aligned.rest = params;
    return device_->launch(*function, config, &aligned, sizeof(aligned), nullptr);
  }

  // 0, 1, 2, ... through a kernel with one block per 128 elements, or `config`.
  Result<std::vector<float>> run(const char* entry, int num_elems, LaunchConfig config) {
    std::vector<float> values(num_elems);
    std::iota(values.begin(), values.end(), 0.0f);
    const size_t bytes = values.size() * sizeof(float);
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr in, device_->allocate(bytes));
    LSSAR_ASSIGN_OR_RETURN(const DevicePtr out, device_->allocate(bytes));
    LSSAR_RETURN_IF_ERROR(device_->copy_to_device(in, values.data(), bytes));
    LSSAR_RETURN_IF_ERROR(device_->fill(out, 0xFF, bytes));  // NaN
    LSSAR_RETURN_IF_ERROR(launch(entry, config, {in, out, 2.5f, num_elems}));
    LSSAR_RETURN_IF_ERROR(device_->synchronize(nullptr));
    LSSAR_RETURN_IF_ERROR(device_->copy_to_host(values.data(), out, bytes));
    LSSAR_RETURN_IF_ERROR(device_->free(in));
    LSSAR_RETURN_IF_ERROR(device_->free(out));
    return values;
  }

  // 1000 elements.
  void expect_scaled(const char* entry = "scale") {
    const auto scaled = run(entry, 1000, {{8, 1, 1}, {128, 1, 1}});
    ASSERT_TRUE(scaled.ok()) << scaled.status().to_string();
    for (int i = 0; i < 1000; ++i) ASSERT_EQ((*scaled)[i], 2.5f * static_cast<float>(i)) << i;
  }

  // `reverse` over what fills 64 KiB of shared memory.
  static constexpr int kManyRows = 16 * 1024;
  static constexpr uint32_t kManyBytes = kManyRows * sizeof(float);
  static LaunchConfig one_block() { return {{1, 1, 1}, {256, 1, 1}, {1, 1, 1}, kManyBytes}; }

  std::shared_ptr<Device> device_;
  std::unique_ptr<DeviceModule> module_;
};

void expect_contains(const Status& status, const std::string& part) {
  EXPECT_NE(status.message().find(part), std::string::npos) << status.to_string();
}

TEST_F(GpuDevice, SaysWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.kind, "cuda");
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.driver.find("CUDA "), 0u) << info.driver;
  EXPECT_GT(info.num_sms, 0);
  EXPECT_GE(info.target.shared_bytes_per_block, 48 * 1024);
  EXPECT_GE(info.target.threads_per_sm, 1024);
  const auto gpus = list_gpus();
  ASSERT_TRUE(gpus.ok()) << gpus.status().to_string();
  EXPECT_EQ(gpus->at(0).name, info.name);
}

// The limits known for its capability, for which kernels are made on machines without a GPU.
TEST_F(GpuDevice, HasTheLimitsItsTargetIsKnownFor) {
  const Target& target = device_->info().target;
  const Result<Target> known = target_from_name(target.name());
  ASSERT_TRUE(known.ok()) << known.status().to_string();
  EXPECT_EQ(target.shared_bytes_per_block, known->shared_bytes_per_block);
  EXPECT_EQ(target.shared_bytes_per_sm, known->shared_bytes_per_sm);
  EXPECT_EQ(target.registers_per_sm, known->registers_per_sm);
  EXPECT_EQ(target.threads_per_sm, known->threads_per_sm);
}

TEST_F(GpuDevice, CopiesAndFills) {
  const Result<DevicePtr> memory = device_->allocate(1000);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_EQ(*memory % 256, 0u);
  EXPECT_TRUE(device_->fill(*memory, 'x', 1000).ok());
  EXPECT_TRUE(device_->copy_to_device(*memory + 1, "ab", 2).ok());
  char back[5] = {};
  EXPECT_TRUE(device_->copy_to_host(back, *memory, 4).ok());
  EXPECT_STREQ(back, "xabx");
  EXPECT_TRUE(device_->free(*memory).ok());
}

TEST_F(GpuDevice, MoreMemoryThanThereIsIsOutOfMemory) {
  const Status status = device_->allocate(size_t{1} << 50).status();
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  expect_contains(status, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)");
}

class GpuImages : public GpuDevice, public testing::WithParamInterface<Compiled> {};

TEST_P(GpuImages, Run) {
  load(GetParam());
  if (module_ == nullptr) return;  // skipped or failed, with its reason
  expect_scaled();
}

TEST_P(GpuImages, TakeParametersThatAreAligned) {
  load(GetParam());
  if (module_ == nullptr) return;
  expect_scaled("scale_aligned");
}

TEST_P(GpuImages, HaveResources) {
  load(GetParam());
  if (module_ == nullptr) return;
  const auto function = module_->function("scale");
  ASSERT_TRUE(function.ok()) << function.status().to_string();
  const KernelResources resources = (*function)->resources();
  EXPECT_GT(resources.registers, 0);
  EXPECT_LE(resources.registers, 255);
  EXPECT_EQ(resources.local_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(All, GpuImages, testing::Values(kNvrtcCubin, kNvrtcPtx, kLlvmPtx),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST_F(GpuDevice, ABadImageCarriesTheDriversLog) {
  Image image;
  image.target = device_->info().target.name();
  image.bytes = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { frob; }\n";
  const Status status = device_->load(image).status();
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  expect_contains(status, "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX");
  expect_contains(status, "frob");
}

TEST_F(GpuDevice, AMissingEntryNamesThoseThereAre) {
  load();
  if (module_ == nullptr) return;
  const Status status = module_->function("scales").status();
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  expect_contains(status, "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND");
  expect_contains(status, "reverse");
}

TEST_F(GpuDevice, RunsWith64KiBOfSharedMemory) {
  load();
  if (module_ == nullptr) return;
  ASSERT_TRUE(device_->prepare(**module_->function("reverse"), kManyBytes).ok());
  const auto reversed = run("reverse", kManyRows, one_block());
  ASSERT_TRUE(reversed.ok()) << reversed.status().to_string();
  for (int i = 0; i < kManyRows; ++i)
    ASSERT_EQ((*reversed)[i], static_cast<float>(kManyRows - 1 - i)) << i;
}

TEST_F(GpuDevice, ALaunchThatWasNotPreparedNamesItsConfiguration) {
  load();
  if (module_ == nullptr) return;
  const Status status = launch("reverse", one_block(), {});
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  expect_contains(status, "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE");
  expect_contains(status, "reverse grid (1, 1, 1) block (256, 1, 1) dynamic shared 65536 bytes");
  expect_scaled();  // the device still works
}

TEST_F(GpuDevice, MoreSharedMemoryThanThereIsNamesTheLimit) {
  load();
  if (module_ == nullptr) return;
  const int limit = device_->info().target.shared_bytes_per_block;
  const DeviceFunction& function = **module_->function("reverse");
  EXPECT_TRUE(device_->prepare(function, limit).ok());
  const Status status = device_->prepare(function, limit + 1);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  expect_contains(status, "together may be " + std::to_string(limit));
}

// The layouts that runtime/call_maps.cpp asks for, and plain ones. The driver checks more than it
// documents.
TEST_F(GpuDevice, TensorMapsTakeEveryLayoutOfACall) {
  if (device_->info().target.major < 9) GTEST_SKIP() << "no tensor maps below 9.0";
  struct Layout {
    const char* name;
    uint64_t dims[4];
    uint64_t strides[3];
  };
  const Layout layouts[] = {
      {"contiguous", {128, 300, 4, 2}, {256, 76800, 307200}},
      {"heads within rows", {128, 300, 4, 2}, {1024, 256, 307200}},
      {"one head for all", {128, 300, 4, 2}, {256, 0, 76800}},
      {"one row for all", {128, 300, 4, 2}, {0, 256, 1024}},
      {"sizes of one", {128, 1, 1, 1}, {16, 16, 16}},
      {"no elements", {1, 1, 1, 1}, {16, 16, 16}},
      {"smaller than a box", {24, 3, 1, 1}, {48, 16, 16}},
      {"the longest stride", {128, 300, 4, 2}, {256, 76800, (uint64_t{1} << 40) - 16}},
  };
  const Result<DevicePtr> memory = device_->allocate(1 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  for (const Layout& layout : layouts) {
    TensorMapRequest request;
    request.type = TensorDataType::kBfloat16;
    request.rank = 4;
    request.global_address = *memory;
    std::copy_n(layout.dims, 4, request.global_dims);
    std::copy_n(layout.strides, 3, request.global_strides);
    std::fill_n(request.box_dims, 4, 1);
    request.box_dims[0] = 64;
    request.box_dims[1] = 176;
    request.swizzle = TensorSwizzle::k128Bytes;
    request.l2_promotion = TensorL2Promotion::k128Bytes;
    const Status status = device_->encode_tensor_map(request).status();
    EXPECT_TRUE(status.ok()) << layout.name << ": " << status.to_string();
  }
  EXPECT_TRUE(device_->free(*memory).ok());
}

TEST_F(GpuDevice, TimesWhatRan) {
  load();
  if (module_ == nullptr) return;
  const Result<DevicePtr> out = device_->allocate(sizeof(float));
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  const auto time = [&](int num_steps) {
    EXPECT_TRUE(device_->timer_begin(nullptr).ok());
    EXPECT_TRUE(launch("spin", {}, {0, *out, 0.5f, num_steps}).ok());
    const Result<double> ms = device_->timer_end_ms(nullptr);
    EXPECT_TRUE(ms.ok()) << ms.status().to_string();
    return ms.ok() ? *ms : -1.0;
  };
  time(1);
  // A step takes about 4 cycles of 0.3 to 1 ns.
  const double few = time(1 << 18), many = time(1 << 22);
  EXPECT_GT(few, 0.1);
  EXPECT_GT(many, 4.0 * few);
  EXPECT_LT(many, 1000.0);
  EXPECT_TRUE(device_->free(*out).ok());
}

TEST_F(GpuDevice, RunsFromSeveralThreads) {
  load();
  if (module_ == nullptr) return;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([this] { expect_scaled(); });
  for (std::thread& thread : threads) thread.join();
}

// A kernel's error ends all use of the GPU by its process, so another process makes it.
TEST_F(GpuDevice, AnIllegalAccessNamesTheLaunch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  load();
  if (module_ == nullptr) return;
  const auto write_to_no_memory = [this] {
    const Status launched = launch("spin", {}, {0, 256, 0.5f, 1});
    const Status status = launched.ok() ? device_->synchronize(nullptr) : launched;
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    std::_Exit(status.code() == StatusCode::kDeviceError ? 0 : 1);
  };
  EXPECT_EXIT(write_to_no_memory(), testing::ExitedWithCode(0),
              "CUDA_ERROR_ILLEGAL_ADDRESS.*last launch: spin grid \\(1, 1, 1\\)");
}

}  // namespace
}  // namespace lssar
