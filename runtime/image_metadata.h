// The JSON beside an image in the binary cache. It describes the image for `lssar inspect` and for
// people, and has what a cache hit needs besides the bytes (resources, log).
//
// Used by engine.cpp. Threads: pure functions.
#pragma once

#include <string>

#include "base/status.h"
#include "codegen/emit.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "compile/compiler.h"

namespace lssar {

struct ImageOrigin {
  const Problem& problem;
  const Schedule& schedule;
  const KernelSource& source;
  const Compiler& compiler;
  const CompileRequest& request;
};

std::string encode_image_metadata(const ImageOrigin& origin, const Image& image);

// The whole image except its bytes. kIoError if encode did not write this text.
Result<Image> decode_image_metadata(const std::string& metadata);

}  // namespace lssar
