// The virtual device's own 128 bytes of a tensor map. The driver's encoding is opaque, so kernels
// cannot depend on it; this one has a magic number, a version and a checksum, so that memory that
// never held a map, or holds a part of one, is recognised.
//
// Used by VirtualDevice::encode_tensor_map and by the TMA instructions. Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>

#include "device/tensor_map.h"
#include "device/tensor_map_field.h"

namespace lssar::vdev {

inline constexpr uint32_t kTensorMapBytes = 128;
inline constexpr uint32_t kTensorMapAlignment = 64;  // of its address in the kernel's memory

// REQUIRES: the request is valid.
TensorMap encode_tensor_map(const TensorMapRequest& request);

// Whether the bytes are a valid map made by encode_tensor_map; then `request` has its fields, else
// `why`, where given, what is wrong with them. `bytes` need not be aligned.
bool decode_tensor_map(const uint8_t* bytes, TensorMapRequest& request, std::string* why = nullptr);

// Replaces a field, of dimension `dimension` where each has one (of kGlobalStride: of dimension +
// 1). Other fields are not looked at: a map may be invalid until the last of several is replaced.
// Fails, with nothing changed, where the bytes are no map or the field cannot hold the value.
Status replace_in_tensor_map(uint8_t* bytes, TensorMapField field, uint32_t dimension,
                             uint64_t value);

}  // namespace lssar::vdev
