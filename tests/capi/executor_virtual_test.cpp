// A kernel that moves tensors by the maps it was launched with, on the virtual device: what the
// executor passes is what the instructions need.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/executor.h"
#include "virtual/run/virtual_device.h"

namespace lssar {
namespace {

// o = q, by boxes of 64 rows and 64 columns: tile %ctaid.x of the only head. Blocks loop over the
// tiles with the grid's stride.
constexpr char kCopy[] = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .align 64 .b8 params[PARAMS_BYTES])
{
  .reg .pred %p<4>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<8>;
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b64 bar;
  mov.b64 %rd1, params;
  cvta.param.u64 %rd1, %rd1;
  add.u64 %rd2, %rd1, 128;
  ld.param.u32 %r1, [params+SEQ_Q_OFFSET];
  mov.u32 %r2, tile;
  mov.u32 %r3, bar;
  mov.u32 %r4, 0;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
  mov.u32 %r5, %ctaid.x;
  mov.u32 %r7, %nctaid.x;
  mov.u32 %r8, 0;
NEXT:
  shl.b32 %r6, %r5, 6;
  setp.ge.u32 %p1, %r6, %r1;
  @%p1 bra DONE;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 8192;
  cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%r2], [%rd1, {%r4, %r6, %r4, %r4}], [%r3];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r8;
  @!%p2 bra WAIT;
  cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group
    [%rd2, {%r4, %r6, %r4, %r4}], [%r2];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  xor.b32 %r8, %r8, 1;
  add.u32 %r5, %r5, %r7;
  bra NEXT;
DONE:
  ret;
}
)";

std::string replaced(std::string text, const std::string& from, size_t number) {
  return text.replace(text.find(from), from.size(), std::to_string(number));
}

class ExecutorVirtual : public testing::Test {
 protected:
  void SetUp() override {
    VirtualOptions options;
    options.target = *target_from_name("sm_90a");
    options.num_threads = 2;
    options.strict = true;
    device_ = make_virtual_device(options);
    Image image;
    image.target = "sm_90a";
    image.bytes =
        replaced(replaced(kCopy, "PARAMS_BYTES", sizeof(lssar_device::TmaParams)), "SEQ_Q_OFFSET",
                 offsetof(lssar_device::TmaParams, attention) +
                     offsetof(lssar_device::AttentionParams, seq_q));
    auto module = device_->load(image);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    module_ = std::move(*module);
    step_.entry = "copy";
    step_.rows_per_block = 64;
    step_.threads = 1;
    step_.maps = {{MapTensor::kQ, 64, 64}, {MapTensor::kO, 64, 64}};
  }

  // Copies `rows` rows of 64 elements and checks all of o and what follows it.
  void copy(int64_t rows) {
    const size_t bytes = static_cast<size_t>(rows) * 128;
    std::vector<uint16_t> q(static_cast<size_t>(rows) * 64);
    for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<uint16_t>(i * 40503 + 1);
    Problem problem;
    const Sizes sizes{1, 1, 1, rows, 0};
    Tensors tensors;
    tensors.q = contiguous_tensor(*device_->allocate(bytes), 1, rows, 64);
    tensors.o = contiguous_tensor(*device_->allocate(bytes), 1, rows, 64);
    ASSERT_TRUE(device_->copy_to_device(tensors.q.data, q.data(), bytes).ok());
    const WorkspaceLayout layout;
    Status status = launch_steps(*device_, {step_}, {*module_->function("copy")},
                                 {problem, sizes, tensors, 0, layout}, nullptr);
    ASSERT_TRUE(status.ok()) << status.to_string();
    status = device_->synchronize(nullptr);
    ASSERT_TRUE(status.ok()) << status.to_string();
    std::vector<uint16_t> o(q.size());
    ASSERT_TRUE(device_->copy_to_host(o.data(), tensors.o.data, bytes).ok());
    EXPECT_EQ(o, q);
    EXPECT_TRUE(device_->free(tensors.q.data).ok());
    EXPECT_TRUE(device_->free(tensors.o.data).ok());
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<DeviceModule> module_;
  LaunchStep step_;
};

TEST_F(ExecutorVirtual, KernelMovesTensorsByItsMaps) {
  for (const int64_t rows : {1, 64, 100, 515}) copy(rows);
}

TEST_F(ExecutorVirtual, PersistentKernelWalksOverAllItsTiles) {
  step_.is_persistent = true;
  copy(515);
  step_.blocks_per_sm = 3;
  copy(515);
}

}  // namespace
}  // namespace lssar
