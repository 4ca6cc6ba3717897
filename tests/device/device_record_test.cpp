// The recording device: memory works, launches are counted and remembered, nothing runs.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "device/record_device.h"
#include "device/tensor_map_codec.h"

namespace lssar {
namespace {

class RecordDeviceTest : public testing::Test {
 protected:
  std::unique_ptr<DeviceModule> load(const Image& image = {}) {
    return std::move(device_.load(image)).value();
  }
  RecordDevice device_{*target_from_name("sm_90")};
};

TEST_F(RecordDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device_.info().kind, "record");
  EXPECT_EQ(device_.info().target.name(), "sm_90");
  EXPECT_EQ(device_.info().driver, "");
  EXPECT_EQ(device_.preferred_image(), ImageKind::kPtx);
}

TEST_F(RecordDeviceTest, CountsLaunchesAndRemembersTheLast) {
  const auto module = load();
  EXPECT_EQ(device_.num_launches(), 0u);
  EXPECT_EQ(device_.last_launch().entry, "");
  const char params[24] = {};
  const Stream stream = reinterpret_cast<Stream>(uintptr_t{0x5000});
  ASSERT_TRUE(device_.launch(**module->function("first"), {}, params, 8, nullptr).ok());
  const LaunchConfig config{{7, 2, 3}, {128, 4, 1}, {1, 1, 1}, 1000};
  ASSERT_TRUE(
      device_.launch(**module->function("second"), config, params, sizeof(params), stream).ok());
  EXPECT_EQ(device_.num_launches(), 2u);
  const RecordedLaunch last = device_.last_launch();
  EXPECT_EQ(last.entry, "second");
  EXPECT_EQ(std::memcmp(&last.config, &config, sizeof(config)), 0);
  EXPECT_EQ(last.params_bytes, sizeof(params));
  EXPECT_EQ(last.stream, stream);
}

TEST_F(RecordDeviceTest, CountsTheLaunchesOfEveryThread) {
  const auto module = load();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i)
        (void)device_.launch(**module->function("k"), {}, nullptr, 0, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device_.num_launches(), 2000u);
}

TEST_F(RecordDeviceTest, MakesAndCountsTensorMapsThatAreLegal) {
  TensorMapRequest request;
  request.rank = 1;
  request.global_dims[0] = 100;
  request.box_dims[0] = 16;
  const Result<TensorMap> map = device_.encode_tensor_map(request);
  ASSERT_TRUE(map.ok()) << map.status().to_string();
  TensorMapRequest decoded;
  ASSERT_TRUE(vdev::decode_tensor_map(map->bytes, decoded));
  EXPECT_EQ(decoded.global_dims[0], 100u);
  request.rank = 0;
  EXPECT_EQ(device_.encode_tensor_map(request).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(device_.num_tensor_maps(), 1u);
}

TEST_F(RecordDeviceTest, FunctionsHaveTheImagesResources) {
  Image image;
  image.resources.resize(1);
  image.resources[0].entry = "known";
  image.resources[0].registers = 96;
  const auto module = load(image);
  EXPECT_EQ((*module->function("known"))->resources().registers, 96);
  EXPECT_EQ((*module->function("other"))->resources().registers, -1);
  EXPECT_EQ(*module->function("known"), *module->function("known"));
}

TEST_F(RecordDeviceTest, MemoryIsAlignedCopiedFilledAndFreed) {
  const DevicePtr memory = device_.allocate(1000).value();
  EXPECT_EQ(memory % 256, 0u);
  EXPECT_TRUE(device_.fill(memory, 'x', 1000).ok());
  EXPECT_TRUE(device_.copy_to_device(memory + 1, "ab", 2).ok());
  char back[5] = {};
  EXPECT_TRUE(device_.copy_to_host(back, memory, 4).ok());
  EXPECT_STREQ(back, "xabx");
  EXPECT_TRUE(device_.free(memory).ok());
}

TEST_F(RecordDeviceTest, NoBytesAreNull) {
  EXPECT_EQ(device_.allocate(0).value(), 0u);
  EXPECT_TRUE(device_.free(0).ok());
}

TEST_F(RecordDeviceTest, TooManyBytesAreOutOfMemory) {
  EXPECT_EQ(device_.allocate(SIZE_MAX).status().code(), StatusCode::kOutOfMemory);
}

TEST_F(RecordDeviceTest, TakesNoTime) {
  EXPECT_TRUE(device_.timer_begin(nullptr).ok());
  EXPECT_EQ(device_.timer_end_ms(nullptr).value(), 0.0);
  EXPECT_TRUE(device_.synchronize(nullptr).ok());
}

}  // namespace
}  // namespace lssar
