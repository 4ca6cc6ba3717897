// The virtual device as a Device: memory, launch limits, options, loading.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/virtual/ptx_fixture.h"
#include "virtual/program/handler_sets.h"
#include "virtual/program/machine_simd.h"

namespace lssar::test {
namespace {

std::unique_ptr<DeviceModule> load(Device& device, const std::string& text) {
  Image image;
  image.bytes = text;
  auto module = device.load(image);
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return module.ok() ? std::move(*module) : nullptr;
}

const std::string kEmpty = kernel_text("", "ret;");

Status launch(Device& device, const DeviceModule& module, LaunchConfig config,
              size_t params_bytes = 0) {
  const std::vector<uint8_t> params(params_bytes + 1);
  return device.launch(**module.function("k"), config, params.data(), params_bytes, nullptr);
}

void expect_refused(const Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(DeviceTest, SaysWhatItIs) {
  const auto device = open_device(SimdLevel::kPlain, 3);
  EXPECT_EQ(device->info().kind, "virtual");
  EXPECT_EQ(device->info().name, "virtual device (plain)");
  EXPECT_EQ(device->info().num_sms, 3);
  EXPECT_EQ(device->preferred_image(), ImageKind::kPtx);
  const auto by_default = make_virtual_device();
  EXPECT_EQ(by_default->info().target.major, 8);
  EXPECT_EQ(by_default->info().target.shared_bytes_per_block, 163 << 10);
}

TEST(DeviceTest, MemoryIsAlignedCopiedFilledAndFreed) {
  const auto device = open_device(SimdLevel::kPlain);
  const auto memory = device->allocate(1000);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(*memory % 256, 0u);
  EXPECT_TRUE(device->fill(*memory, 7, 1000).ok());
  const uint32_t value = 0x01020304;
  EXPECT_TRUE(device->copy_to_device(*memory + 4, &value, 4).ok());
  uint8_t back[12] = {};
  EXPECT_TRUE(device->copy_to_host(back, *memory, 12).ok());
  const uint8_t want[12] = {7, 7, 7, 7, 4, 3, 2, 1, 7, 7, 7, 7};
  EXPECT_EQ(std::memcmp(back, want, 12), 0);
  EXPECT_TRUE(device->free(*memory).ok());
}

TEST(DeviceTest, ZeroBytesAndNullAreFine) {
  const auto device = open_device(SimdLevel::kPlain);
  EXPECT_EQ(*device->allocate(0), 0u);
  EXPECT_TRUE(device->free(0).ok());
  EXPECT_TRUE(device->copy_to_device(0, nullptr, 0).ok());
  EXPECT_TRUE(device->import_range(0, 0).ok());
}

TEST(DeviceTest, CopiesBeyondAnAllocationAreRefused) {
  const auto device = open_device(SimdLevel::kPlain);
  const DevicePtr memory = *device->allocate(100);
  std::vector<uint8_t> host(200);
  expect_refused(device->copy_to_device(memory, host.data(), 101), "copy_to_device");
  expect_refused(device->copy_to_host(host.data(), memory + 50, 51), "copy_to_host");
  expect_refused(device->fill(memory + 100, 0, 1), "fill");
  expect_refused(device->free(memory + 1), "not an address");
  EXPECT_TRUE(device->free(memory).ok());
  expect_refused(device->free(memory), "not an address");
}

TEST(DeviceTest, AnAllocationThatCannotBeMadeIsOutOfMemory) {
  const auto device = open_device(SimdLevel::kPlain);
  EXPECT_EQ(device->allocate(SIZE_MAX).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(device->allocate(size_t{1} << 62).status().code(), StatusCode::kOutOfMemory);
}

TEST(DeviceTest, AnImportedRangeCountsItsUses) {
  const auto device = open_device(SimdLevel::kPlain);
  std::vector<uint32_t> memory(4);
  const auto address = reinterpret_cast<uint64_t>(memory.data());
  const std::string text = kernel_text(
      ".param .u64 p0", ".reg .b64 %p; ld.param.u64 %p, [p0]; st.global.u32 [%p], 1; ret;");
  EXPECT_TRUE(device->import_range(address, 16).ok());
  EXPECT_TRUE(device->import_range(address, 16).ok());
  device->release_range(address, 16);
  EXPECT_TRUE(run(*device, text, {}, {address}).ok());
  device->release_range(address, 16);
  EXPECT_EQ(run(*device, text, {}, {address}).code(), StatusCode::kDeviceError);
}

TEST(DeviceTest, FreedMemoryIsOutOfBounds) {
  const auto device = open_device(SimdLevel::kPlain);
  const DevicePtr memory = *device->allocate(64);
  EXPECT_TRUE(device->free(memory).ok());
  const std::string text = kernel_text(
      ".param .u64 p0", ".reg .b64 %p; ld.param.u64 %p, [p0]; st.global.u32 [%p], 1; ret;");
  EXPECT_EQ(run(*device, text, {}, {memory}).code(), StatusCode::kDeviceError);
}

TEST(DeviceTest, LaunchShapesOutOfRangeAreRefused) {
  const auto device = open_device(SimdLevel::kPlain);
  const auto module = load(*device, kEmpty);
  LaunchConfig config;
  config.grid[1] = 0;
  expect_refused(launch(*device, *module, config), "grid 1 x 0 x 1");
  config.grid[1] = 65536;
  expect_refused(launch(*device, *module, config), "grid 1 x 65536 x 1");
  config = {};
  config.block[0] = 1025;
  expect_refused(launch(*device, *module, config), "block 1025 x 1 x 1");
  config.block[0] = 64;
  config.block[1] = 32;
  expect_refused(launch(*device, *module, config), "1 to 1024 threads");
  config = {};
  config.block[0] = 0;
  expect_refused(launch(*device, *module, config), "block 0 x 1 x 1");
}

TEST(DeviceTest, TheKernelsOwnBlockLimitsHold) {
  const auto device = open_device(SimdLevel::kPlain);
  std::string text = kEmpty;
  text.replace(text.find(")\n{"), 3, ")\n.maxntid 128, 1, 1\n.minnctapersm 2\n{");
  LaunchConfig config;
  config.block[0] = 129;
  expect_refused(launch(*device, *load(*device, text), config), "at most 128");
  text.replace(text.find(".maxntid"), 8, ".reqntid");
  expect_refused(launch(*device, *load(*device, text), config), "compiled for 128 x 1 x 1");
  config.block[0] = 128;
  EXPECT_TRUE(launch(*device, *load(*device, text), config).ok());
}

TEST(DeviceTest, SharedMemoryAboveTheDefaultNeedsPrepare) {
  const auto device = open_device(SimdLevel::kPlain);
  const auto module = load(*device, kEmpty);
  LaunchConfig config;
  config.shared_bytes = 48 << 10;
  EXPECT_TRUE(launch(*device, *module, config).ok());
  config.shared_bytes += 1;
  expect_refused(launch(*device, *module, config), "prepare() allowed 49152");
  EXPECT_TRUE(device->prepare(**module->function("k"), 100 << 10).ok());
  EXPECT_TRUE(launch(*device, *module, config).ok());
}

TEST(DeviceTest, SharedMemoryAboveTheTargetsIsRefused) {
  const auto device = open_device(SimdLevel::kPlain);
  const auto module = load(*device, kEmpty);
  expect_refused(device->prepare(**module->function("k"), (227 << 10) + 1),
                 "the target allows 232448");
  LaunchConfig config;
  config.shared_bytes = 1 << 30;
  expect_refused(launch(*device, *module, config), "the target allows 232448");
}

TEST(DeviceTest, ParametersOfTheWrongSizeAreRefused) {
  const auto device = open_device(SimdLevel::kPlain);
  const auto module = load(*device, kernel_text(".param .u64 a, .param .u32 b", "ret;"));
  expect_refused(launch(*device, *module, {}, 8), "8 bytes of parameters, it takes 12");
  expect_refused(launch(*device, *module, {}, 17), "17 bytes of parameters, it takes 12");
  EXPECT_TRUE(launch(*device, *module, {}, 12).ok());
  EXPECT_TRUE(launch(*device, *module, {}, 16).ok()) << "a struct's padding";
}

TEST(DeviceTest, AnUnknownEntryNamesThoseThereAre) {
  const auto device = open_device(SimdLevel::kPlain);
  const auto module = load(*device, kEmpty);
  const auto function = module->function("other");
  EXPECT_EQ(function.status().code(), StatusCode::kDeviceError);
  EXPECT_NE(function.status().message().find("there are: k"), std::string::npos);
}

TEST(DeviceTest, CubinsAreUnsupported) {
  const auto device = open_device(SimdLevel::kPlain);
  Image image;
  image.kind = ImageKind::kCubin;
  EXPECT_EQ(device->load(image).status().code(), StatusCode::kUnsupported);
}

TEST(DeviceTest, ResourcesComeFromTheText) {
  const auto device = open_device(SimdLevel::kPlain);
  const auto module =
      load(*device, kernel_text("",
                                ".reg .b32 %r; .reg .b64 %l; .local .align 4 .b8 d[20];\n"
                                ".shared .align 4 .b8 s[100]; .shared .b8 unused[50];\n"
                                "mov.u32 %r, s; mov.u64 %l, d; ret;"));
  const KernelResources r = (*module->function("k"))->resources();
  EXPECT_EQ(r.entry, "k");
  EXPECT_EQ(r.shared_bytes, 100);
  EXPECT_EQ(r.local_bytes, 32);
  EXPECT_EQ(r.registers, -1);
}

TEST(DeviceTest, TimersMeasureAndAskForABeginning) {
  const auto device = open_device(SimdLevel::kPlain);
  EXPECT_FALSE(device->timer_end_ms(nullptr).ok());
  EXPECT_TRUE(device->timer_begin(nullptr).ok());
  const auto ms = device->timer_end_ms(nullptr);
  ASSERT_TRUE(ms.ok());
  EXPECT_GE(*ms, 0.0);
}

TEST(DeviceTest, ManyThreadsMayLaunchAtOnce) {
  const auto device = open_device(SimdLevel::kAuto, 2);
  const std::string text =
      kernel_text(".param .u64 p0",
                  ".reg .b64 %p, %o; .reg .b32 %x; ld.param.u64 %p, [p0]; mov.u32 %x, %ctaid.x;\n"
                  "mul.wide.u32 %o, %x, 4; add.s64 %p, %p, %o; st.global.u32 [%p], %x; ret;");
  const auto module = load(*device, text);
  std::vector<std::thread> threads;
  std::vector<bool> right(8, false);
  std::array<std::vector<uint32_t>, 8> memory;
  for (size_t t = 0; t < 8; ++t) {
    memory[t].resize(100);
    threads.emplace_back([&, t] {
      const auto address = reinterpret_cast<uint64_t>(memory[t].data());
      if (!device->import_range(address, 400).ok()) return;
      LaunchConfig config;
      config.grid[0] = 100;
      for (int i = 0; i < 20; ++i) {
        if (!device->launch(**module->function("k"), config, &address, 8, nullptr).ok()) return;
      }
      device->release_range(address, 400);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& m : memory) {
    for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(m[i], i);
  }
}

TEST(SimdLevelTest, NamesParse) {
  EXPECT_EQ(*parse_simd_level("avx2"), SimdLevel::kAvx2);
  EXPECT_EQ(*parse_simd_level("auto"), SimdLevel::kAuto);
  const auto bad = parse_simd_level("sse9");
  EXPECT_EQ(bad.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(bad.status().message().find("'sse9': allowed are auto, plain, avx2, avx512"),
            std::string::npos);
}

TEST(SimdLevelTest, ABuildForOneMachineHasOneLevel) {
  const std::vector<SimdLevel> one = {SimdLevel::kAvx512};
  EXPECT_EQ(*vdev::choose_simd_level(SimdLevel::kAuto, one), SimdLevel::kAvx512);
  expect_refused(vdev::choose_simd_level(SimdLevel::kPlain, one).status(),
                 "SIMD level plain: this machine and build have only: avx512");
  expect_refused(vdev::choose_simd_level(SimdLevel::kAuto, {}).status(),
                 "build with -DLSSAR_NATIVE_SIMD=OFF");
}

TEST(SimdLevelTest, EveryLevelOfTheMachineIsBuilt) {
  EXPECT_EQ(available_simd_levels().front(), SimdLevel::kPlain);
  EXPECT_EQ(available_simd_levels().back(), *parse_simd_level(machine_simd()));
  EXPECT_EQ(vdev::handler_set(SimdLevel::kAuto), nullptr);
}

class SimdEnvironmentTest : public testing::Test {
 protected:
  void TearDown() override { unsetenv("LSSAR_VIRTUAL_SIMD"); }
};

TEST_F(SimdEnvironmentTest, ChoosesTheLevelOfAuto) {
  setenv("LSSAR_VIRTUAL_SIMD", "plain", 1);
  EXPECT_EQ(make_virtual_device()->info().name, "virtual device (plain)");
  EXPECT_EQ(*resolve_simd_level(available_simd_levels().back()), available_simd_levels().back())
      << "an explicit level goes before the environment";
}

TEST_F(SimdEnvironmentTest, ABadNameIsAnErrorOfLoad) {
  setenv("LSSAR_VIRTUAL_SIMD", "fast", 1);
  Image image;
  image.bytes = kEmpty;
  const auto module = make_virtual_device()->load(image);
  expect_refused(module.status(), "LSSAR_VIRTUAL_SIMD: SIMD level 'fast'");
}

}  // namespace
}  // namespace lssar::test
