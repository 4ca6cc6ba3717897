// What each tensor map of a call says, and the strides that maps take.
#include <numeric>

#include "tests/capi/executor_fixture.h"

namespace lssar {
namespace {

const Sizes kSizes{2, 4, 2, 100, 301};

class ExecutorMaps : public ExecutorTest {
 protected:
  ExecutorMaps() { make_call(Pass::kBackward, DType::kBf16, kSizes); }

  // The request, which must be one that devices take.
  TensorMapRequest request(const MapSpec& spec) {
    const Result<TensorMapRequest> made = tensor_map_request(spec, call());
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (!made.ok()) return {};
    const Status valid = validate_tensor_map(*made);
    EXPECT_TRUE(valid.ok()) << valid.to_string();
    return *made;
  }

  static void expect_shape(const TensorMapRequest& r, const std::vector<uint64_t>& dims,
                           const std::vector<uint64_t>& strides, const std::vector<uint32_t>& box) {
    ASSERT_EQ(r.rank, dims.size());
    EXPECT_EQ(std::vector<uint64_t>(r.global_dims, r.global_dims + r.rank), dims);
    EXPECT_EQ(std::vector<uint64_t>(r.global_strides, r.global_strides + r.rank - 1), strides);
    EXPECT_EQ(std::vector<uint32_t>(r.box_dims, r.box_dims + r.rank), box);
    EXPECT_EQ(r.fill, TensorFill::kZeros);
  }

  void expect_refused(const MapSpec& spec, const std::string& text) {
    const Status status = tensor_map_request(spec, call()).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.to_string();
  }
};

TEST_F(ExecutorMaps, TensorsHaveTheirSizesAndStrides) {
  const TensorMapRequest q = request({MapTensor::kQ, 64, 64});
  EXPECT_EQ(q.global_address, tensors_.q.data);
  EXPECT_EQ(q.type, TensorDataType::kBfloat16);
  EXPECT_EQ(q.swizzle, TensorSwizzle::k128Bytes);
  expect_shape(q, {128, 100, 4, 2}, {256, 25600, 102400}, {64, 64, 1, 1});
  const TensorMapRequest v = request({MapTensor::kV, 176, 64});
  EXPECT_EQ(v.global_address, tensors_.v.data);
  expect_shape(v, {64, 301, 2, 2}, {128, 128 * 301, 128 * 301 * 2}, {64, 176, 1, 1});
}

// (dim, heads of a kv head, length, kv heads, batch), and a box of whole queries.
TEST_F(ExecutorMaps, PackedQueriesHaveTheirHeadsSideBySide) {
  expect_shape(request({MapTensor::kQ, 64, 64, true, true}), {128, 2, 100, 2, 2},
               {25600, 256, 51200, 102400}, {64, 2, 32, 1, 1});
  expect_shape(request({MapTensor::kO, 64, 64, true, true}), {64, 2, 100, 2, 2},
               {12800, 128, 25600, 51200}, {64, 2, 32, 1, 1});
  make_call(Pass::kForward, DType::kBf16, {2, 3, 1, 100, 301});
  expect_shape(request({MapTensor::kQ, 64, 64, true, true}), {128, 3, 100, 1, 2},
               {25600, 256, 16, 76800}, {64, 3, 21, 1, 1});
  make_call(Pass::kForward, DType::kBf16, {1, 71, 1, 100, 301});
  expect_shape(request({MapTensor::kQ, 64, 64, true, true}), {128, 71, 100, 1, 1},
               {25600, 256, 16, 16}, {64, 64, 1, 1, 1});
}

TEST_F(ExecutorMaps, EveryTensorIsTheOneThatIsNamed) {
  const std::vector<std::pair<MapTensor, DevicePtr>> expected = {
      {MapTensor::kQ, tensors_.q.data},
      {MapTensor::kK, tensors_.k.data},
      {MapTensor::kV, tensors_.v.data},
      {MapTensor::kO, tensors_.o.data},
      {MapTensor::kGradO, tensors_.grad_o.data},
      {MapTensor::kGradQ, tensors_.grad_q.data},
      {MapTensor::kGradK, tensors_.grad_k.data},
      {MapTensor::kGradV, tensors_.grad_v.data},
      {MapTensor::kGradQSum, kWorkspace + layout_.grad_q_sum},
      {MapTensor::kKeyNorms, kWorkspace + layout_.k_inv_norm},
      {MapTensor::kRowConstants, kWorkspace + layout_.row_constants},
  };
  for (const auto& [tensor, address] : expected) {
    const bool has_eight_columns = tensor == MapTensor::kRowConstants;
    const TensorMapRequest r = request({tensor, 32, has_eight_columns ? 8 : 32});
    EXPECT_EQ(r.global_address, address) << map_tensor_name(tensor);
  }
}

TEST_F(ExecutorMaps, QueriesAndKeysHaveTheirOwnLengthsHeadsAndDims) {
  for (const MapTensor tensor : {MapTensor::kQ, MapTensor::kGradQ}) {
    expect_shape(request({tensor, 64, 64}), {128, 100, 4, 2}, {256, 25600, 102400}, {64, 64, 1, 1});
  }
  for (const MapTensor tensor : {MapTensor::kO, MapTensor::kGradO}) {
    expect_shape(request({tensor, 64, 64}), {64, 100, 4, 2}, {128, 12800, 51200}, {64, 64, 1, 1});
  }
  for (const MapTensor tensor : {MapTensor::kK, MapTensor::kGradK}) {
    expect_shape(request({tensor, 64, 64}), {128, 301, 2, 2}, {256, 77056, 154112}, {64, 64, 1, 1});
  }
  for (const MapTensor tensor : {MapTensor::kV, MapTensor::kGradV}) {
    expect_shape(request({tensor, 64, 64}), {64, 301, 2, 2}, {128, 38528, 77056}, {64, 64, 1, 1});
  }
}

TEST_F(ExecutorMaps, ElementsAreTheProblemsAndThoseOfTheWorkspaceItsOwn) {
  EXPECT_EQ(request({MapTensor::kGradQSum, 16, 32}).type, TensorDataType::kFloat32);
  EXPECT_EQ(request({MapTensor::kKeyNorms, 1, 64}).type, TensorDataType::kFloat32);
  problem_.dtype = DType::kFp16;
  EXPECT_EQ(request({MapTensor::kK, 64, 64}).type, TensorDataType::kFloat16);
}

TEST_F(ExecutorMaps, KeyNormsAreRowsOfAPitchThatMapsTake) {
  const TensorMapRequest norms = request({MapTensor::kKeyNorms, 1, 176});
  EXPECT_EQ(norms.swizzle, TensorSwizzle::kNone);
  expect_shape(norms, {301, 4}, {304 * 4}, {176, 1});
}

TEST_F(ExecutorMaps, RowConstantsEndWithTheirHead) {
  const TensorMapRequest rows = request({MapTensor::kRowConstants, 64, 8});
  EXPECT_EQ(rows.swizzle, TensorSwizzle::kNone);
  expect_shape(rows, {8, 100, 8}, {32, 3200}, {8, 64, 1});
}

TEST_F(ExecutorMaps, GradQSumIsShownInGroupsOfEightColumns) {
  const TensorMapRequest sums = request({MapTensor::kGradQSum, 16, 64});
  EXPECT_EQ(sums.swizzle, TensorSwizzle::kNone);
  expect_shape(sums, {800, 16, 4, 2}, {3200, 51200, 204800}, {128, 8, 1, 1});
}

TEST_F(ExecutorMaps, BoxesMayReachPastSmallHeadDims) {
  make_call(Pass::kForward, DType::kFp16, kSizes, 24, 40);
  expect_shape(request({MapTensor::kK, 64, 64}), {24, 301, 2, 2}, {48, 14448, 28896},
               {64, 64, 1, 1});
}

TEST_F(ExecutorMaps, StridesOfZeroRepeatATensor) {
  tensors_.k.batch_stride = 0;
  tensors_.k.head_stride = 0;
  expect_shape(request({MapTensor::kK, 64, 64}), {128, 301, 2, 2}, {256, 0, 0}, {64, 64, 1, 1});
}

TEST_F(ExecutorMaps, SizesOfOneMayHaveAnyStride) {
  make_call(Pass::kForward, DType::kBf16, {1, 1, 1, 1, 1});
  for (const int64_t stride : {int64_t{-7}, int64_t{3}, std::numeric_limits<int64_t>::max()}) {
    tensors_.q.batch_stride = tensors_.q.head_stride = tensors_.q.row_stride = stride;
    const TensorMapRequest q = request({MapTensor::kQ, 64, 64});
    expect_shape(q, {128, 1, 1, 1}, {16, 16, 16}, {64, 64, 1, 1});
  }
}

TEST_F(ExecutorMaps, StridesBeyondAMapsAreRefused) {
  tensors_.k.batch_stride = (int64_t{1} << 39) - 8;  // the last one
  EXPECT_EQ(request({MapTensor::kK, 64, 64}).global_strides[2], (uint64_t{1} << 40) - 16);
  tensors_.k.batch_stride = int64_t{1} << 39;
  expect_refused({MapTensor::kK, 64, 64},
                 "k.batch stride = 549755813888 elements of bfloat16: a tensor map allows "
                 "multiples of 16 bytes below 2^40");
}

TEST_F(ExecutorMaps, SizesBeyond32BitCoordinatesAreRefused) {
  make_call(Pass::kBackward, DType::kBf16, {1, 1, 1, (int64_t{1} << 28) - 512, 301});
  EXPECT_EQ(request({MapTensor::kGradQSum, 16, 64}).global_dims[0], (uint64_t{1} << 31) - 4096);
  make_call(Pass::kBackward, DType::kBf16, {1, 1, 1, int64_t{1} << 28, 301});
  expect_refused({MapTensor::kGradQSum, 16, 64},
                 "grad_q_sum: 2147483648 elements along dimension 0 of its tensor map: allowed are "
                 "0 to 2147479552");
}

TEST_F(ExecutorMaps, StridesThatAreNotMultiplesOf16BytesAreRefused) {
  tensors_.v.row_stride = 68;
  expect_refused({MapTensor::kV, 64, 64}, "v.row stride = 68 elements");
  make_call(Pass::kBackward, DType::kBf16, kSizes);
  tensors_.grad_o.head_stride += 4;
  expect_refused({MapTensor::kGradO, 64, 64}, "grad_o.head stride = 6404 elements");
}

TEST_F(ExecutorMaps, AddressesThatAreNotMultiplesOf16BytesAreRefused) {
  tensors_.q.data += 8;
  expect_refused({MapTensor::kQ, 64, 64}, "q.data = 0x100008: ");
}

TEST_F(ExecutorMaps, TensorsWithoutElementsHaveLegalMaps) {
  make_call(Pass::kForward, DType::kBf16, {1, 2, 2, 10, 0});
  tensors_.k = tensors_.v = Tensor{0, -1, -1, -1};
  for (const MapTensor tensor : {MapTensor::kK, MapTensor::kV, MapTensor::kKeyNorms}) {
    const TensorMapRequest r = request({tensor, 64, 64});
    EXPECT_EQ(r.global_address, tensors_.q.data) << map_tensor_name(tensor);
    EXPECT_EQ(std::accumulate(r.global_dims, r.global_dims + r.rank, uint64_t{0}), r.rank);
  }
  make_call(Pass::kBackward, DType::kBf16, {1, 2, 2, 0, 10});
  tensors_.q.data = 0;
  for (const MapTensor tensor : {MapTensor::kQ, MapTensor::kGradO, MapTensor::kGradQSum}) {
    EXPECT_EQ(request({tensor, 16, 32}).global_address, tensors_.k.data);
  }
  EXPECT_EQ(request({MapTensor::kRowConstants, 64, 8}).global_address, tensors_.k.data);
}

}  // namespace
}  // namespace lssar
