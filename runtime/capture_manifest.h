// The manifest of a capture: everything but sources, images and tensors, as JSON.
//
// Used by capture.cpp and `lssar replay --extract`. Threads: pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/capture.h"

namespace lssar {

std::string encode_manifest(const Capture& capture);

// Decodes kernels without text and image, and tensors without values. Errors: kInvalidArgument,
// naming the field, where something is not well formed or out of range; kUnsupported where a newer
// lssar wrote it.
Result<Capture> decode_manifest(const std::string& text);

}  // namespace lssar
