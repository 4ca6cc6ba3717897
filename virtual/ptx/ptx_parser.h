// Parses PTX text. Any text gives a module or a Status that names the line; the work done is linear
// in the text. Used by the virtual device when an image is loaded.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "virtual/ptx/ptx_ast.h"

namespace lssar::vdev {

// kDeviceError for anything that is not PTX of the accepted subset. Opcodes are not looked at here.
Result<std::unique_ptr<ParsedModule>> parse_ptx(std::string text);

}  // namespace lssar::vdev
