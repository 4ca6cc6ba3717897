// The virtual device's own 128 bytes of a tensor map. The driver's encoding is opaque, so kernels
// cannot depend on it; this one has a magic number, a version and a checksum, so that memory that
// never held a map, or holds a part of one, is recognised.
//
// Used by VirtualDevice::encode_tensor_map and by the TMA instructions. Threads: plain functions.
#pragma once

#include <cstdint>

#include "device/tensor_map.h"

namespace lssar::vdev {

inline constexpr uint32_t kTensorMapBytes = 128;
inline constexpr uint32_t kTensorMapAlignment = 64;  // of its address in the kernel's memory

// REQUIRES: the request is valid.
TensorMap encode_tensor_map(const TensorMapRequest& request);

// Whether the bytes are a map made by encode_tensor_map; then `request` has its fields. `bytes`
// need not be aligned.
bool decode_tensor_map(const uint8_t* bytes, TensorMapRequest& request);

}  // namespace lssar::vdev
