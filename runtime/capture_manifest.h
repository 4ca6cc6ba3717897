// The manifest of a capture: everything but sources, images and tensors, as JSON.
//
// Used by capture.cpp and `lssar replay --extract`. Threads: pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/capture.h"

namespace lssar {

std::string encode_manifest(const Capture& capture);

// Of kernels without text and image, of tensors without values. Errors: kInvalidArgument, naming
// the field, of what is not well formed or out of range; kUnsupported of a newer lssar.
Result<Capture> decode_manifest(const std::string& text);

}  // namespace lssar
