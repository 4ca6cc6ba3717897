// The virtual device's own 128 bytes of a tensor map. The driver's encoding is opaque, so kernels
// cannot depend on it. This one has a magic number, a version and a checksum, so that memory which
// never held a map, or holds only a part of one, is recognised.
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

// Whether the bytes are a valid map made by encode_tensor_map. If so, `request` gets its fields;
// else `why`, if given, gets what is wrong. `bytes` need not be aligned.
bool decode_tensor_map(const uint8_t* bytes, TensorMapRequest& request, std::string* why = nullptr);

// Replaces a field. If each dimension has one, it is that of `dimension` (kGlobalStride: of
// dimension + 1). Other fields are not checked: a map may be invalid until the last of several
// fields is replaced. If the bytes are no map or the field cannot hold the value, it fails and
// changes nothing.
Status replace_in_tensor_map(uint8_t* bytes, TensorMapField field, uint32_t dimension,
                             uint64_t value);

}  // namespace lssar::vdev
