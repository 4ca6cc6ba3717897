// Parses PTX text. Any text gives a module, or a Status that names the line, in time linear in the
// text. The virtual device uses it when it loads an image.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "virtual/ptx/ptx_ast.h"

namespace lssar::vdev {

// kDeviceError: the text is not PTX of the accepted subset. Opcodes are not checked here.
Result<std::unique_ptr<ParsedModule>> parse_ptx(std::string text);

}  // namespace lssar::vdev
