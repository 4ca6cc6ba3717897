// The cuda device on a fake driver: what it calls and what it returns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "device/graph_streams.h"
#include "tests/device/cuda_device_fixture.h"

namespace lssar::test {
namespace {

// --- What it is ---

TEST_F(CudaDeviceTest, HasTheLimitsOfTheGpu) {
  driver_.gpus[0].attributes[kCuAttributeSharedPerBlockOptIn] = 200000;
  driver_.gpus[0].attributes[kCuAttributeThreadsPerSm] = 1024;
  open();
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.kind, "cuda");
  EXPECT_EQ(info.name, "NVIDIA H200");
  EXPECT_EQ(info.driver, "CUDA 12.8");
  EXPECT_EQ(info.num_sms, 132);
  EXPECT_EQ(info.target.name(), "sm_90a");
  EXPECT_EQ(info.id, "0000:3b:00");
  EXPECT_EQ(info.target.shared_bytes_per_block, 200000);
  EXPECT_EQ(info.target.shared_bytes_per_sm, 233472);
  EXPECT_EQ(info.target.threads_per_sm, 1024);
  EXPECT_EQ(info.target.registers_per_sm, 65536);
  EXPECT_EQ(device_->preferred_image(), ImageKind::kCubin);
}

TEST_F(CudaDeviceTest, TellsAStreamThatIsCapturedIntoAGraph) {
  open();
  auto* const streams = dynamic_cast<GraphStreams*>(device_.get());
  ASSERT_NE(streams, nullptr);
  const Result<bool> runs = streams->is_capturing(nullptr);
  ASSERT_TRUE(runs.ok()) << runs.status().to_string();
  EXPECT_FALSE(*runs);
  driver_.capture_status = 1;
  EXPECT_TRUE(streams->is_capturing(nullptr).value());
  driver_.fail("cuStreamIsCapturing", 906);
  expect_status(streams->is_capturing(nullptr).status(), StatusCode::kDeviceError,
                "cuStreamIsCapturing");
}

TEST_F(CudaDeviceTest, TakesPtxForAnOlderTarget) {
  open("sm_80");
  EXPECT_EQ(device_->info().target.name(), "sm_80");
  EXPECT_EQ(device_->info().target.shared_bytes_per_block, 232448);
  EXPECT_EQ(device_->preferred_image(), ImageKind::kPtx);
}

TEST_F(CudaDeviceTest, RefusesATargetTheGpuCannotRun) {
  expect_status(make_cuda_device(driver_.table(), 0, "sm_100").status(),
                StatusCode::kInvalidArgument,
                "target = sm_100: NVIDIA H200 has compute capability 9.0 and runs targets up to");
  expect_status(make_cuda_device(driver_.table(), 0, "sm_77").status(),
                StatusCode::kInvalidArgument, "target = \"sm_77\": allowed are sm_80, ");
}

TEST_F(CudaDeviceTest, RefusesAGpuThatIsTooOld) {
  driver_.gpus = {fake_gpu("Tesla T4", 7, 5)};
  expect_status(make_cuda_device(driver_.table(), 0, "").status(), StatusCode::kUnsupported,
                "Tesla T4: compute capability = 7.5: allowed are 8.0 and later");
}

TEST_F(CudaDeviceTest, RefusesAnOrdinalThereIsNot) {
  driver_.gpus.push_back(fake_gpu("NVIDIA L4", 8, 9));
  for (const int ordinal : {-1, 2}) {
    expect_status(make_cuda_device(driver_.table(), ordinal, "").status(),
                  StatusCode::kInvalidArgument,
                  "GPU ordinal = " + std::to_string(ordinal) + ": allowed are 0 to 1");
  }
  EXPECT_EQ(make_cuda_device(driver_.table(), 1, "").value()->info().name, "NVIDIA L4");
}

TEST_F(CudaDeviceTest, RefusesADriverWithoutGpus) {
  driver_.gpus.clear();
  expect_status(make_cuda_device(driver_.table(), 0, "").status(), StatusCode::kMissing,
                "the CUDA driver reports no GPU");
}

// A list has the targets that plans compile for, which decide what doctor says of a GPU's kernels
// and which records of a tuning table are this GPU's.
TEST_F(CudaDeviceTest, ListsEveryGpuOldOnesToo) {
  driver_.gpus = {fake_h200(), fake_gpu("Tesla T4", 7, 5), fake_gpu("NVIDIA L4", 8, 9)};
  const auto gpus = list_cuda_devices(*driver_.table());
  ASSERT_TRUE(gpus.ok()) << gpus.status().to_string();
  ASSERT_EQ(gpus->size(), 3u);
  EXPECT_EQ((*gpus)[0].name, "NVIDIA H200");
  EXPECT_EQ((*gpus)[0].target, make_cuda_device(driver_.table(), 0, "").value()->info().target);
  EXPECT_EQ((*gpus)[0].target.name(), "sm_90a");
  EXPECT_EQ((*gpus)[2].target.name(), "sm_89");
  EXPECT_EQ((*gpus)[1].name, "Tesla T4");
  EXPECT_EQ((*gpus)[1].target.name(), "sm_75");
  EXPECT_EQ((*gpus)[1].num_sms, 132);
}

TEST(TargetFitTest, FollowsTheDriversRules) {
  const auto fit = [](const char* name, int major, int minor) {
    return target_fit(*target_from_name(name), major, minor);
  };
  EXPECT_EQ(fit("sm_90a", 9, 0), TargetFit::kNative);
  EXPECT_EQ(fit("sm_80", 8, 6), TargetFit::kNative);
  EXPECT_EQ(fit("sm_86", 8, 0), TargetFit::kNone);
  EXPECT_EQ(fit("sm_89", 9, 0), TargetFit::kPtx);
  EXPECT_EQ(fit("sm_90a", 10, 0), TargetFit::kNone);
  EXPECT_EQ(fit("sm_100", 9, 0), TargetFit::kNone);
}

// --- Memory ---

TEST_F(CudaDeviceTest, CopiesFillsAndFrees) {
  open();
  const Result<DevicePtr> memory = device_->allocate(8);
  ASSERT_TRUE(memory.ok()) << memory.status().to_string();
  EXPECT_EQ(*memory % 256, 0u);
  EXPECT_TRUE(device_->fill(*memory, 9, 8).ok());
  EXPECT_TRUE(device_->copy_to_device(*memory + 1, "ab", 2).ok());
  char back[5] = {};
  EXPECT_TRUE(device_->copy_to_host(back, *memory, 4).ok());
  EXPECT_STREQ(back,
               "\x09"
               "ab\x09");
  EXPECT_TRUE(device_->free(*memory).ok());
  EXPECT_EQ(driver_.open().allocations, 0);
}

// A launch on a stream that the default stream does not order may follow a copy or fill.
TEST_F(CudaDeviceTest, CopiesAndFillsAreDoneWhenTheyReturn) {
  open();
  const DevicePtr memory = *device_->allocate(8);
  ASSERT_TRUE(device_->fill(memory, 9, 8).ok());
  EXPECT_EQ(driver_.synchronized_streams.size(), 1u);
  ASSERT_TRUE(device_->copy_to_device(memory, "ab", 2).ok());
  EXPECT_EQ(driver_.synchronized_streams, (std::vector<CuStream>{nullptr, nullptr}));
  EXPECT_TRUE(device_->free(memory).ok());
}

TEST_F(CudaDeviceTest, NothingIsAskedOfTheDriverForNoBytes) {
  open();
  EXPECT_EQ(*device_->allocate(0), 0u);
  EXPECT_TRUE(device_->free(0).ok());
  EXPECT_TRUE(device_->fill(0, 1, 0).ok());
  EXPECT_TRUE(device_->copy_to_device(0, nullptr, 0).ok());
  EXPECT_TRUE(device_->copy_to_host(nullptr, 0, 0).ok());
  for (const char* call : {"cuMemAlloc", "cuMemFree", "cuMemsetD8", "cuMemcpyHtoD", "cuMemcpyDtoH"})
    EXPECT_EQ(driver_.num_calls(call), 0) << call;
}

TEST_F(CudaDeviceTest, OutOfMemorySaysHowMuchWasAskedFor) {
  open();
  const Status status = device_->allocate(size_t{1} << 40).status();
  expect_status(status, StatusCode::kOutOfMemory,
                "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; 1099511627776 bytes on "
                "NVIDIA H200");
}

// --- Modules and functions ---

TEST_F(CudaDeviceTest, LoadsTextThatEndsInNul) {
  load();
  EXPECT_EQ(driver_.loaded_image, image().bytes);
}

TEST_F(CudaDeviceTest, FunctionsHaveTheDriversResources) {
  load();
  const KernelResources resources = function_->resources();
  EXPECT_EQ(resources.entry, "kernel");
  EXPECT_EQ(resources.registers, 168);
  EXPECT_EQ(resources.shared_bytes, 1024);
  EXPECT_EQ(resources.local_bytes, 16);
  EXPECT_EQ(resources.spill_store_bytes, -1);
}

TEST_F(CudaDeviceTest, FunctionsAreLookedUpAndLoadedOnce) {
  load();
  EXPECT_EQ(*module_->function("kernel"), function_);
  EXPECT_EQ(driver_.num_calls("cuModuleGetFunction"), 1);
  EXPECT_EQ(driver_.num_calls("cuFuncLoad"), 1);
}

// They load a function at its first launch, and do not know how large its parameter is.
TEST_F(CudaDeviceTest, DriversBeforeCuda124LoadAndLaunch) {
  auto old = std::make_shared<CudaDriver>(*driver_.table());
  old->function_load = nullptr;
  old->function_parameter = nullptr;
  const auto device = make_cuda_device(old, 0, "");
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  const auto module = (*device)->load(image());
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto function = (*module)->function("kernel");
  ASSERT_TRUE(function.ok()) << function.status().to_string();
  const int params = 77;
  EXPECT_TRUE((*device)->launch(**function, {}, &params, sizeof(params), nullptr).ok());
  EXPECT_EQ(driver_.last_launch.params[0], std::byte{77});
}

TEST_F(CudaDeviceTest, AMissingEntryNamesThoseThereAre) {
  load();
  expect_status(module_->function("kernal").status(), StatusCode::kDeviceError,
                "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500): named symbol not found; entry "
                "kernal; the image has kernel, other");
}

TEST_F(CudaDeviceTest, ABadImageCarriesTheDriversLog) {
  open();
  driver_.fail("cuModuleLoadDataEx", kCuInvalidImage);
  driver_.jit_error_log = "line 3: unknown opcode";
  driver_.jit_info_log = "compiling for sm_90";
  const Status status = device_->load(image()).status();
  expect_status(status, StatusCode::kDeviceError,
                "cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE (200): device kernel image is "
                "invalid; ptx of 48 bytes for sm_90a");
  expect_status(status, StatusCode::kDeviceError, "error log:\nline 3: unknown opcode\n");
  expect_status(status, StatusCode::kDeviceError, "info log:\ncompiling for sm_90");
  EXPECT_EQ(driver_.open().modules, 0);
}

TEST_F(CudaDeviceTest, ALogThatFillsItsBufferIsCut) {
  open();
  driver_.fail("cuModuleLoadDataEx", kCuInvalidImage);
  driver_.jit_error_log = std::string(1 << 20, '#');
  const std::string message = device_->load(image()).status().message();
  EXPECT_EQ(std::count(message.begin(), message.end(), '#'), 16 * 1024);
  EXPECT_NE(message.find("#\ninfo log:\n"), std::string::npos);
}

// --- Dynamic shared memory ---

TEST_F(CudaDeviceTest, SharedMemoryWithinTheLimitIsNotAskedFor) {
  load();
  EXPECT_TRUE(device_->prepare(*function_, 0).ok());
  EXPECT_TRUE(device_->prepare(*function_, 49152).ok());
  EXPECT_TRUE(driver_.attributes_set.empty());
}

TEST_F(CudaDeviceTest, SharedMemoryAboveTheLimitIsAskedForOnceAndNeverLowered) {
  load();
  ASSERT_TRUE(device_->prepare(*function_, 49153).ok());
  ASSERT_TRUE(device_->prepare(*function_, 100000).ok());
  ASSERT_TRUE(device_->prepare(*function_, 60000).ok());
  const std::vector<std::pair<int, int>> expected = {{kCuFunctionMaxDynamicShared, 49153},
                                                     {kCuFunctionMaxDynamicShared, 100000}};
  EXPECT_EQ(driver_.attributes_set, expected);
}

TEST_F(CudaDeviceTest, TooMuchSharedMemoryNamesTheLimit) {
  load();
  driver_.fail("cuFuncSetAttribute", kCuInvalidValue);
  expect_status(device_->prepare(*function_, 300000), StatusCode::kDeviceError,
                "cuFuncSetAttribute: CUDA_ERROR_INVALID_VALUE (1): invalid argument; entry kernel: "
                "dynamic shared 300000 bytes; static 1024 and dynamic together may be 232448 on "
                "NVIDIA H200");
}

// --- Launches ---

TEST_F(CudaDeviceTest, LaunchPassesEverythingOn) {
  struct Params {
    uint64_t pointer = 0x123456789abcdef0;
    float scale = 1.5f;
    int32_t rows[40] = {1, 2, 3};
  } const params;
  driver_.params_bytes = sizeof(params);
  load();
  const Stream stream = reinterpret_cast<Stream>(uintptr_t{0x5000});
  const LaunchConfig config{{7, 2, 3}, {128, 4, 1}, {1, 1, 1}, 98304};
  ASSERT_TRUE(device_->launch(*function_, config, &params, sizeof(params), stream).ok());
  const FakeLaunch& launched = driver_.last_launch;
  EXPECT_EQ(launched.grid, (std::array<unsigned, 3>{7, 2, 3}));
  EXPECT_EQ(launched.block, (std::array<unsigned, 3>{128, 4, 1}));
  EXPECT_EQ(launched.shared_bytes, 98304u);
  EXPECT_EQ(launched.stream, stream);
  ASSERT_EQ(launched.params_bytes, sizeof(params));
  EXPECT_EQ(std::memcmp(launched.params.data(), &params, sizeof(params)), 0);
}

// The driver copies as many bytes as the kernel takes, and would read past a smaller block.
TEST_F(CudaDeviceTest, ParametersOfAnotherSizeAreNotPassed) {
  driver_.params_bytes = 416;
  load();
  const int params = 77;
  expect_status(device_->launch(*function_, {}, &params, sizeof(params), nullptr),
                StatusCode::kInternal,
                "kernel grid (1, 1, 1) block (1, 1, 1) dynamic shared 0 bytes: 4 bytes of "
                "parameters; the kernel takes 416");
  EXPECT_EQ(driver_.num_calls("cuLaunchKernel"), 0);
}

TEST_F(CudaDeviceTest, ALaunchOfClustersPassesThemOn) {
  load();
  const int params = 77;
  const Stream stream = reinterpret_cast<Stream>(uintptr_t{0x5000});
  const LaunchConfig config{{8, 6, 4}, {128, 2, 1}, {4, 2, 1}, 4096};
  ASSERT_TRUE(device_->launch(*function_, config, &params, sizeof(params), stream).ok());
  const FakeLaunch& launched = driver_.last_launch;
  EXPECT_EQ(launched.cluster, (std::array<unsigned, 3>{4, 2, 1}));
  EXPECT_EQ(launched.grid, (std::array<unsigned, 3>{8, 6, 4}));
  EXPECT_EQ(launched.block, (std::array<unsigned, 3>{128, 2, 1}));
  EXPECT_EQ(launched.shared_bytes, 4096u);
  EXPECT_EQ(launched.stream, stream);
  ASSERT_EQ(launched.params_bytes, sizeof(params));
  EXPECT_EQ(std::memcmp(launched.params.data(), &params, sizeof(params)), 0);
  EXPECT_EQ(driver_.num_calls("cuLaunchKernel"), 0);
}

TEST_F(CudaDeviceTest, AFailedLaunchOfClustersNamesThem) {
  load();
  driver_.fail("cuLaunchKernelEx", kCuInvalidValue);
  const int params = 77;
  const LaunchConfig config{{8, 6, 4}, {128, 2, 1}, {4, 2, 1}, 4096};
  expect_status(device_->launch(*function_, config, &params, sizeof(params), nullptr),
                StatusCode::kDeviceError,
                "cuLaunchKernelEx: CUDA_ERROR_INVALID_VALUE (1): invalid argument; kernel grid (8, "
                "6, 4) block (128, 2, 1) dynamic shared 4096 bytes cluster (4, 2, 1)");
}

TEST_F(CudaDeviceTest, OldDriversLaunchNoClusters) {
  driver_.has_launch_extended = false;
  load();
  const int params = 77;
  const LaunchConfig config{{2, 1, 1}, {32, 1, 1}, {2, 1, 1}, 0};
  expect_status(device_->launch(*function_, config, &params, sizeof(params), nullptr),
                StatusCode::kUnsupported, "needs CUDA 11.8 or later");
}

TEST_F(CudaDeviceTest, ResidentClustersAreTheDrivers) {
  driver_.max_active_clusters = 60;
  load();
  const LaunchConfig config{{2, 1, 1}, {384, 1, 1}, {2, 1, 1}, 200 << 10};
  EXPECT_EQ(device_->resident_clusters(*function_, config).value(), 60);
  EXPECT_EQ(driver_.last_occupancy.cluster, (std::array<unsigned, 3>{2, 1, 1}));
  EXPECT_EQ(driver_.last_occupancy.block, (std::array<unsigned, 3>{384, 1, 1}));
  EXPECT_EQ(driver_.last_occupancy.shared_bytes, 200u << 10);
  driver_.max_active_clusters = 0;
  expect_status(device_->resident_clusters(*function_, config).status(), StatusCode::kDeviceError,
                "shared 204800 bytes cluster (2, 1, 1): NVIDIA H200 has no room for one");
  driver_.fail("cuOccupancyMaxActiveClusters", kCuInvalidValue);
  expect_status(device_->resident_clusters(*function_, config).status(), StatusCode::kDeviceError,
                "cuOccupancyMaxActiveClusters: CUDA_ERROR_INVALID_VALUE");
}

TEST_F(CudaDeviceTest, ResidentClustersAreUnknownToOldDrivers) {
  driver_.has_max_active_clusters = false;
  load();
  EXPECT_EQ(device_->resident_clusters(*function_, {}).value(), 0);
}

TEST_F(CudaDeviceTest, AFailedLaunchNamesItsConfiguration) {
  load();
  driver_.fail("cuLaunchKernel", kCuInvalidValue);
  expect_status(
      launch(), StatusCode::kDeviceError,
      "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (1): invalid argument; kernel grid (7, 2, "
      "3) block (128, 4, 1) dynamic shared 1000 bytes, 4 bytes of parameters, on NVIDIA "
      "H200");
}

TEST_F(CudaDeviceTest, AKernelsErrorNamesTheLastLaunch) {
  load();
  ASSERT_TRUE(launch().ok());
  driver_.fail("cuStreamSynchronize", kCuIllegalAddress);
  expect_status(device_->synchronize(nullptr), StatusCode::kDeviceError,
                "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access "
                "was encountered; last launch: kernel grid (7, 2, 3) block (128, 4, 1)");
}

TEST_F(CudaDeviceTest, SynchronizeWaitsForItsStream) {
  open();
  const Stream stream = reinterpret_cast<Stream>(uintptr_t{0x5000});
  ASSERT_TRUE(device_->synchronize(stream).ok());
  EXPECT_EQ(driver_.synchronized_streams, std::vector<CuStream>{stream});
}

// --- Timer ---

TEST_F(CudaDeviceTest, TimerTakesTheTimeBetweenTwoEventsOfTheStream) {
  open();
  const Stream stream = reinterpret_cast<Stream>(uintptr_t{0x5000});
  driver_.elapsed_ms = 2.5f;
  ASSERT_TRUE(device_->timer_begin(stream).ok());
  const Result<double> ms = device_->timer_end_ms(stream);
  ASSERT_TRUE(ms.ok()) << ms.status().to_string();
  EXPECT_EQ(*ms, 2.5);
  EXPECT_EQ(driver_.recorded_streams, (std::vector<CuStream>{stream, stream}));
}

TEST_F(CudaDeviceTest, TimersReuseTheirEvents) {
  open();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(device_->timer_begin(nullptr).ok());
    ASSERT_TRUE(device_->timer_end_ms(nullptr).ok());
  }
  EXPECT_EQ(driver_.open().events, 2);
}

TEST_F(CudaDeviceTest, TimerEndNeedsABegin) {
  open();
  expect_status(device_->timer_end_ms(nullptr).status(), StatusCode::kDeviceError,
                "timer_end_ms: no timer_begin on this stream");
  ASSERT_TRUE(device_->timer_begin(nullptr).ok());
  ASSERT_TRUE(device_->timer_end_ms(nullptr).ok());
  EXPECT_FALSE(device_->timer_end_ms(nullptr).ok());
}

TEST_F(CudaDeviceTest, ATimerWorksAgainAfterAnError) {
  open();
  driver_.fail("cuEventRecord", kCuIllegalAddress);
  EXPECT_FALSE(device_->timer_begin(nullptr).ok());
  EXPECT_FALSE(device_->timer_end_ms(nullptr).ok());
  driver_.fail("cuEventRecord", kCuSuccess);
  ASSERT_TRUE(device_->timer_begin(nullptr).ok());
  EXPECT_TRUE(device_->timer_end_ms(nullptr).ok());
}

// --- Contexts ---

TEST_F(CudaDeviceTest, EveryCallLeavesTheThreadsContextAlone) {
  load();
  EXPECT_EQ(FakeDriver::context_depth(), 0);
  const auto foreign = reinterpret_cast<CuContext>(uintptr_t{0x77});
  ASSERT_EQ(driver_.table()->context_push(foreign), kCuSuccess);
  EXPECT_TRUE(launch().ok());
  EXPECT_TRUE(device_->synchronize(nullptr).ok());
  EXPECT_EQ(FakeDriver::context_depth(), 1);
  EXPECT_EQ(FakeDriver::current_context(), foreign);
}

TEST_F(CudaDeviceTest, AContextThatIsCurrentIsNotPushed) {
  load();
  CuContext primary = nullptr;
  ASSERT_EQ(driver_.table()->primary_context_retain(&primary, 0), kCuSuccess);
  ASSERT_EQ(driver_.table()->context_push(primary), kCuSuccess);
  const int before = driver_.num_calls("cuCtxPushCurrent");
  EXPECT_TRUE(launch().ok());
  EXPECT_EQ(driver_.num_calls("cuCtxPushCurrent"), before);
  EXPECT_EQ(FakeDriver::current_context(), primary);
}

TEST_F(CudaDeviceTest, AContextThatCannotBePushedIsNotPopped) {
  load();
  const auto foreign = reinterpret_cast<CuContext>(uintptr_t{0x77});
  ASSERT_EQ(driver_.table()->context_push(foreign), kCuSuccess);
  driver_.fail("cuCtxPushCurrent", kCuOutOfMemory);
  EXPECT_FALSE(launch().ok());
  EXPECT_EQ(driver_.num_calls("cuLaunchKernel"), 0);
  EXPECT_EQ(FakeDriver::current_context(), foreign);
  driver_.fail("cuCtxPushCurrent", kCuSuccess);  // for what is given back
}

TEST_F(CudaDeviceTest, WorksOnThreadsThatHaveNoContext) {
  load();
  std::vector<std::thread> threads;
  std::array<int, 4> failures{};
  for (int& failed : failures) {
    threads.emplace_back([&, this] {
      for (int i = 0; i < 200; ++i) {
        const Result<DevicePtr> memory = device_->allocate(256);
        failed += !memory.ok() || !launch(&failed).ok() || !device_->timer_begin(&failed).ok() ||
                  !device_->timer_end_ms(&failed).ok() || !device_->synchronize(&failed).ok() ||
                  !device_->free(*memory).ok() || FakeDriver::context_depth() != 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, (std::array<int, 4>{}));
  EXPECT_EQ(driver_.num_calls("cuLaunchKernel"), 800);
  EXPECT_EQ(driver_.open().allocations, 0);
}

TEST_F(CudaDeviceTest, EverythingIsGivenBack) {
  load();
  ASSERT_TRUE(device_->timer_begin(nullptr).ok());
  EXPECT_EQ(driver_.open(), (FakeDriver::Open{1, 0, 1, 2}));
  module_ = nullptr;
  EXPECT_EQ(driver_.open().modules, 0);
  device_ = nullptr;
  EXPECT_EQ(driver_.open(), FakeDriver::Open{});
  EXPECT_EQ(FakeDriver::context_depth(), 0);
}

TEST_F(CudaDeviceTest, AModuleMayOutliveItsDevice) {
  load();
  device_ = nullptr;
  EXPECT_EQ(driver_.open().contexts, 1);
  module_ = nullptr;
  EXPECT_EQ(driver_.open(), FakeDriver::Open{});
}

}  // namespace
}  // namespace lssar::test
