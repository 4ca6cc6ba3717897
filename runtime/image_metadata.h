// The JSON that lies beside an image in the binary cache: what it is, for `lssar inspect` and for
// people, and what a hit needs besides the bytes (resources, log).
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

// Everything of the image but its bytes. kIoError where the text is not what encode writes.
Result<Image> decode_image_metadata(const std::string& metadata);

}  // namespace lssar
