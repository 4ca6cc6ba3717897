// What kernels of sequences do with the lengths that they find in device memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "reference/numerics.h"
#include "reference/rotary.h"
#include "runtime/engine.h"
#include "virtual/run/virtual_device.h"

namespace lssar {
namespace {

using Lengths = std::vector<int32_t>;

Problem varlen_problem(int rotary_dim) {
  Problem problem;
  problem.head_dim = problem.head_dim_v = 8;
  problem.causal = true;
  problem.heads = 2;
  problem.varlen = true;
  problem.rotary_dim = rotary_dim;
  return problem;
}

std::unique_ptr<Engine> strict_engine(const char* target) {
  VirtualOptions options;
  options.target = target_from_name(target).value();
  options.strict = options.count = true;
  return Engine::create({}, make_virtual_device(options), nullptr);
}

// A forward of packed sequences. q, k and v are one tensor, and o begins as NaN.
class KernelCall {
 public:
  KernelCall(Engine& engine, int64_t batch, int64_t most, int64_t total, int rotary_dim = 0)
      : sizes_{batch, 2, 2, most, most}, total_(total), device_(engine.shared_device()) {
    const auto kernel = engine.prepare(varlen_problem(rotary_dim));
    EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
    if (!kernel.ok()) return;
    kernel_ = *kernel;
    std::vector<float> values(static_cast<size_t>(total_) * 2 * 8);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
    const std::vector<std::byte> packed = pack(DType::kBf16, values);
    in_ = upload(packed.data(), packed.size());
    tensors_.q = tensors_.k = tensors_.v = {in_, 0, 8, 16};
    tensors_.o = {allocate(packed.size()), 0, 8, 16};
    const RotaryTables rotary = rotary_tables(most, rotary_dim);
    tensors_.rotary_cos = upload(rotary.cos.data(), rotary.cos.size() * sizeof(float));
    tensors_.rotary_sin = upload(rotary.sin.data(), rotary.sin.size() * sizeof(float));
    tensors_.rotary_positions = most;
    const auto bytes =
        sequences_workspace_bytes(kernel_->problem, kernel_->schedule, sizes_, total_, total_);
    EXPECT_TRUE(bytes.ok());
    workspace_ = {allocate(*bytes), *bytes};
  }
  ~KernelCall() {
    for (const DevicePtr buffer : buffers_) EXPECT_TRUE(device_->free(buffer).ok());
  }

  // Launches without the host's checks. Null: no such array.
  Status launch(const Lengths* cu_q, const Lengths* cu_k, const Lengths* used_k) {
    return launch(cu_q, cu_k, used_k, {});
  }
  // With new keys and values, which are the first rows of q, for caches in a tensor of their own.
  // `cu_new` is as above.
  Status launch_new(const Lengths* cu, const Lengths* used_k, int64_t most, const Lengths* cu_new) {
    if (caches_ == 0) caches_ = allocate(2 * o_bytes());
    EXPECT_TRUE(device_->fill(caches_, 0, 2 * o_bytes()).ok());
    tensors_.k.data = caches_;
    tensors_.v.data = caches_ + o_bytes();
    tensors_.k_new = tensors_.v_new = tensors_.q;
    Sequences sequences;
    sequences.seq_new = most;
    sequences.cu_seqlens_new = upload(cu_new);
    sequences.total_new = total_;
    return launch(cu, cu, used_k, sequences);
  }
  // Which rows of the cache of keys are not zeros.
  std::vector<int64_t> rows_added() {
    std::vector<uint32_t> words(2 * o_bytes() / sizeof(uint32_t));
    EXPECT_TRUE(device_->copy_to_host(words.data(), caches_, 2 * o_bytes()).ok());
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < 2 * total_; ++row) {
      const auto begin = words.begin() + row * kRowWords;
      if (std::any_of(begin, begin + kRowWords, [](uint32_t word) { return word != 0; }))
        rows.push_back(row);
    }
    return rows;
  }

  Status launch(const Lengths* cu_q, const Lengths* cu_k, const Lengths* used_k,
                Sequences sequences) {
    EXPECT_TRUE(device_->fill(tensors_.o.data, 0xFF, o_bytes()).ok());
    sequences.cu_seqlens_q = upload(cu_q);
    sequences.cu_seqlens_k = upload(cu_k);
    sequences.seqused_k = upload(used_k);
    sequences.total_q = sequences.total_k = total_;
    LSSAR_RETURN_IF_ERROR(launch_sequences(
        *device_, kernel_->source.steps, kernel_->functions,
        {kernel_->problem, kernel_->schedule, sizes_, sequences, tensors_, workspace_}, nullptr));
    return device_->synchronize(nullptr);
  }

  // Rows of o that were written.
  int64_t rows_written() {
    std::vector<uint32_t> words(o_bytes() / sizeof(uint32_t));
    EXPECT_TRUE(device_->copy_to_host(words.data(), tensors_.o.data, o_bytes()).ok());
    int64_t count = 0;
    for (size_t row = 0; row < static_cast<size_t>(total_); ++row) {
      const auto begin = words.begin() + row * kRowWords;
      count += std::any_of(begin, begin + kRowWords, [](uint32_t word) { return word != ~0u; });
    }
    return count;
  }

  // What the first launch wrote: the order of the sequences.
  Lengths order() const {
    const size_t table = aligned_part(static_cast<size_t>(sizes_.batch) * sizeof(int32_t));
    Lengths order(sizes_.batch);
    EXPECT_TRUE(device_
                    ->copy_to_host(order.data(), workspace_.data + aligned_part(1) + table,
                                   order.size() * sizeof(int32_t))
                    .ok());
    return order;
  }

 private:
  static constexpr size_t kRowBytes = 2 * 8 * 2;  // of both heads
  static constexpr size_t kRowWords = kRowBytes / sizeof(uint32_t);

  size_t o_bytes() const { return static_cast<size_t>(total_) * kRowBytes; }
  DevicePtr allocate(size_t bytes) {
    const auto buffer = device_->allocate(bytes);
    EXPECT_TRUE(buffer.ok());
    buffers_.push_back(*buffer);
    return *buffer;
  }
  DevicePtr upload(const void* data, size_t bytes) {
    const DevicePtr buffer = allocate(bytes);
    EXPECT_TRUE(device_->copy_to_device(buffer, data, bytes).ok());
    return buffer;
  }
  const int32_t* upload(const Lengths* lengths) {
    if (lengths == nullptr) return nullptr;
    return reinterpret_cast<const int32_t*>(
        upload(lengths->data(), lengths->size() * sizeof(int32_t)));
  }

  const Sizes sizes_;
  const int64_t total_;
  const std::shared_ptr<Device> device_;
  std::shared_ptr<const PreparedKernel> kernel_;
  std::vector<DevicePtr> buffers_;
  DevicePtr in_ = 0, caches_ = 0;
  Tensors tensors_;
  Workspace workspace_;
};

// Portable kernels, and those for Hopper.
class VarlenKernels : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Targets, VarlenKernels, testing::Values("sm_80", "sm_90a"),
                         [](const auto& info) { return std::string(info.param); });

// Where the host cannot read the lengths it cannot name a bad one. Then nothing is computed.
TEST_P(VarlenKernels, BadLengthsComputeNothing) {
  const std::unique_ptr<Engine> engine = strict_engine(GetParam());
  KernelCall call(*engine, 3, 40, 90);
  const Lengths good = {0, 40, 50, 90};
  const auto expect_nothing = [&](const char* what, const Lengths* q, const Lengths* k,
                                  const Lengths* used) {
    const Status status = call.launch(q, k, used);
    EXPECT_TRUE(status.ok()) << what << ": " << status.to_string();
    EXPECT_EQ(call.rows_written(), 0) << what;
  };
  const Lengths falling = {0, 40, 30, 70}, beyond = {0, 40, 60, 91}, negative = {-1, 30, 50, 90};
  const Lengths too_long = {0, 41, 50, 90}, huge = {0, 2147483647, -2147483647, 90};
  for (const Lengths* bad : {&falling, &beyond, &negative, &too_long, &huge}) {
    expect_nothing("cu_seqlens_q", bad, &good, nullptr);
    expect_nothing("cu_seqlens_k", &good, bad, nullptr);
  }
  const Lengths used_more = {40, 11, 40}, used_less = {40, 10, -1};
  expect_nothing("seqused_k above", &good, &good, &used_more);
  expect_nothing("seqused_k below", &good, &good, &used_less);

  const Lengths used = {40, 10, 0};
  const Status status = call.launch(&good, &good, &used);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(call.rows_written(), 90);
}

// Bad numbers of new keys write nothing, neither within the caches nor outside.
TEST_P(VarlenKernels, BadNewKeysAreNotWritten) {
  const std::unique_ptr<Engine> engine = strict_engine(GetParam());
  KernelCall call(*engine, 3, 40, 90);
  const Lengths cu = {0, 40, 50, 90}, used = {3, 10, 0}, more = {3, 11, 0};
  const auto expect_nothing = [&](const char* what, const Lengths* used_k, int64_t most,
                                  const Lengths* cu_new) {
    const Status status = call.launch_new(&cu, used_k, most, cu_new);
    EXPECT_TRUE(status.ok()) << what << ": " << status.to_string();
    EXPECT_EQ(call.rows_written(), 0) << what;
    EXPECT_EQ(call.rows_added(), std::vector<int64_t>()) << what;
  };
  const Lengths good = {0, 2, 12, 12};
  const Lengths falling = {0, 2, 1, 1}, beyond = {81, 83, 91, 91}, negative = {-1, 2, 12, 12};
  const Lengths too_long = {0, 2, 13, 13}, huge = {0, 2147483647, -2147483647, 0};
  for (const Lengths* bad : {&falling, &beyond, &negative, &too_long, &huge})
    expect_nothing("cu_seqlens_new", &used, 10, bad);
  const Lengths above = {0, 2, 12, 13};
  expect_nothing("more new keys than keys", &used, 10, &above);
  expect_nothing("one for a sequence without keys", &used, 1, nullptr);
  expect_nothing("seqused_k", &more, 10, &good);

  const Status status = call.launch_new(&cu, &used, 10, &good);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(call.rows_written(), 90);
  std::vector<int64_t> rows = {1, 2, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49};
  for (size_t i = 0; i < 12; ++i) rows.push_back(90 + rows[i]);  // the values
  EXPECT_EQ(call.rows_added(), rows);
}

// Queries before position 0 have no angles in the tables.
TEST_P(VarlenKernels, MoreQueriesThanKeysHaveNoRotaryPositions) {
  const std::unique_ptr<Engine> engine = strict_engine(GetParam());
  KernelCall call(*engine, 3, 40, 90, 4);
  const Lengths good = {0, 40, 50, 90}, used = {40, 9, 40};
  EXPECT_TRUE(call.launch(&good, &good, &used).ok());
  EXPECT_EQ(call.rows_written(), 0);
  EXPECT_TRUE(call.launch(&good, &good, nullptr).ok());
  EXPECT_EQ(call.rows_written(), 90);
}

// There are as many products as in calls of each sequence alone. The longest sequences come first.
TEST_P(VarlenKernels, WorkIsOnlyWhereThereAreRows) {
  const std::unique_ptr<Engine> engine = strict_engine(GetParam());
  const auto products = [&] {
    uint64_t flop = 0;
    for (const uint64_t of_type : engine->device().counters().tensor_flop) flop += of_type;
    return flop;
  };
  Lengths cu = {0};
  const Lengths lengths = {3, 0, 129, 64, 65, 1, 200, 17, 128, 31};
  for (const int32_t length : lengths) cu.push_back(cu.back() + length);
  KernelCall call(*engine, static_cast<int64_t>(lengths.size()), 200, cu.back());
  const Status status = call.launch(&cu, &cu, nullptr);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(call.rows_written(), cu.back());
  const uint64_t together = products();
  EXPECT_EQ(call.order(), Lengths({6, 2, 8, 3, 4, 9, 7, 0, 5, 1}));
  for (const int32_t length : lengths) {
    const Lengths one = {0, length};
    KernelCall single(*engine, 1, 200, std::max(length, 1));
    ASSERT_TRUE(single.launch(&one, &one, nullptr).ok());
  }
  EXPECT_GT(together, 0u);
  EXPECT_EQ(products() - together, together);
}

}  // namespace
}  // namespace lssar
