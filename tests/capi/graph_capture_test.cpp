// LSSAR_CAPTURE_INPUTS while a stream is captured into a graph: the plan must not wait or copy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "device/graph_streams.h"
#include "runtime/plan.h"
#include "tests/cache/temporary_folder.h"
#include "tests/capi/fakes.h"

namespace lssar {
namespace {

class GraphDevice : public FakeDevice, public GraphStreams {
 public:
  Result<bool> is_capturing(Stream) override { return capturing_; }
  Status synchronize(Stream) override {
    ++num_waits_;
    return {};
  }
  Status copy_to_host(void*, DevicePtr, size_t) override {
    ++num_copies_;
    return {};
  }
  bool capturing_ = true;
  int num_waits_ = 0, num_copies_ = 0;
};

TEST(GraphCapture, IsNotDisturbedAndSaidToBeLeftOut) {
  TemporaryFolder folder;
  setenv("LSSAR_CAPTURE_DIR", folder.path().c_str(), 1);
  setenv("LSSAR_CAPTURE_INPUTS", "1", 1);
  std::string said;
  set_log_callback([&](LogLevel, std::string_view text) { said += text; }, LogLevel::kWarning);
  auto device = std::make_shared<GraphDevice>();
  EngineOptions options;
  options.cache.directory = "none";
  const std::shared_ptr<Engine> engine =
      Engine::create(options, device, std::make_shared<FakeCompiler>());
  PlanOptions plan_options;
  plan_options.passes = {Pass::kForward};
  const auto plan = Plan::create(engine, Problem(), plan_options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  ASSERT_TRUE((*plan)->prepare().ok());
  const Sizes sizes{1, 1, 1, 40, 40};
  Tensors tensors;
  DevicePtr next = 0;
  for (Tensor* t : {&tensors.q, &tensors.k, &tensors.v, &tensors.o})
    *t = contiguous_tensor(next += 1 << 20, 1, 40, 64);
  const Workspace workspace{next += 1 << 20, 1 << 20};
  const auto execute = [&] {
    return (*plan)->execute(Pass::kForward, sizes, tensors, workspace, nullptr);
  };

  ASSERT_TRUE(execute().ok());
  EXPECT_EQ(device->num_waits_ + device->num_copies_, 0);
  const size_t launches = device->launches_.size();
  EXPECT_GT(launches, 0u);
  EXPECT_TRUE(names_in(folder.path()).empty());
  EXPECT_THAT(said, testing::HasSubstr("its stream is being captured into a graph"));

  device->capturing_ = false;
  ASSERT_TRUE(execute().ok());
  EXPECT_EQ(device->launches_.size(), 2 * launches);
  EXPECT_EQ(device->num_copies_, 4);
  EXPECT_EQ(names_in(folder.path()).size(), 1u);

  ASSERT_TRUE(execute().ok());  // once per kernel
  EXPECT_EQ(device->num_copies_, 4);
  set_log_callback({}, LogLevel::kError);
  unsetenv("LSSAR_CAPTURE_DIR");
  unsetenv("LSSAR_CAPTURE_INPUTS");
}

}  // namespace
}  // namespace lssar
