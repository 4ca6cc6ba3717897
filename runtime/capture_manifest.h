// The manifest of a capture: everything but sources, images and tensor values, as JSON.
//
// Used by capture.cpp and `lssar replay --extract`. Threads: pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/capture.h"

namespace lssar {

std::string encode_manifest(const Capture& capture);

// Decodes kernels without source and image, and tensors without values. kInvalidArgument names the
// field that is malformed or out of range. kUnsupported: written by a newer lssar.
Result<Capture> decode_manifest(const std::string& text);

}  // namespace lssar
