// Tensor maps: what the TMA instructions of a kernel need to know about a tensor in global memory.
// A TensorMapRequest has it in plain fields. Device::encode_tensor_map turns it into the 128 bytes
// that a kernel takes; their meaning is the device's own.
//
// Fields, values and rules are those of the driver's cuTensorMapEncodeTiled. Threads: plain data.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace lssar {

constexpr uint32_t kMaxTensorRank = 5;
constexpr int64_t kMaxTensorStride = int64_t{1} << 40;  // bytes; strides are below it

// Values of these enums are the driver's.
enum class TensorDataType : uint32_t {
  kUint8 = 0,
  kUint16 = 1,
  kUint32 = 2,
  kInt32 = 3,
  kUint64 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat32Ftz = 10,   // loads flush subnormals
  kTfloat32 = 11,     // loads round to tf32
  kTfloat32Ftz = 12,  // both
};
constexpr uint32_t kNumTensorDataTypes = 13;

// Layouts whose innermost dimension is cut into slices of 16 or 32 bytes. No device here supports
// them.
enum class TensorInterleave : uint32_t { kNone = 0, k16Bytes = 1, k32Bytes = 2 };

// The order of a box's 16-byte chunks in shared memory, by the width after which it repeats.
enum class TensorSwizzle : uint32_t { kNone = 0, k32Bytes = 1, k64Bytes = 2, k128Bytes = 3 };

// How much the L2 cache fetches at a time. It affects speed only.
enum class TensorL2Promotion : uint32_t { kNone = 0, k64Bytes = 1, k128Bytes = 2, k256Bytes = 3 };

// The value that a load gives elements of the box outside the tensor.
enum class TensorFill : uint32_t { kZeros = 0, kNan = 1 };

// Dimension 0 is the innermost, its elements are side by side.
struct TensorMapRequest {
  TensorDataType type = TensorDataType::kUint8;
  uint32_t rank = 0;                                 // 1 to 5; the arrays below are read up to it
  uint64_t global_address = 0;                       // multiple of 16
  uint64_t global_dims[kMaxTensorRank] = {};         // elements, 1 to 2^32
  uint64_t global_strides[kMaxTensorRank - 1] = {};  // bytes; [i] is that of dimension i + 1
  uint32_t box_dims[kMaxTensorRank] = {};            // elements of one access, 1 to 256
  // Steps within the box, 1 to 8: it has ceil(box_dims / element_strides) elements. The step of
  // dimension 0 has no effect.
  uint32_t element_strides[kMaxTensorRank] = {1, 1, 1, 1, 1};
  TensorInterleave interleave = TensorInterleave::kNone;
  TensorSwizzle swizzle = TensorSwizzle::kNone;
  TensorL2Promotion l2_promotion = TensorL2Promotion::kNone;
  TensorFill fill = TensorFill::kZeros;
};

// Must be 64-byte aligned wherever a kernel or the driver reads it.
struct alignas(64) TensorMap {
  uint8_t bytes[128];
};

// OK if the driver's rules hold. kInvalidArgument or kUnsupported names field, value and what is
// allowed.
Status validate_tensor_map(const TensorMapRequest& request);

// The request on one line, for error messages.
std::string describe_tensor_map(const TensorMapRequest& request);

// "bfloat16", ...; "?" if there is no such type.
const char* tensor_data_type_name(TensorDataType type);
uint32_t tensor_element_bytes(TensorDataType type);  // REQUIRES: a value of the enum
bool is_floating_point(TensorDataType type);
// Bytes of the innermost dimension that a swizzle permutes; 0 for none.
uint32_t swizzle_span_bytes(TensorSwizzle swizzle);

}  // namespace lssar
