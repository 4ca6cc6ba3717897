// Finds the constants and types in declarations of device source. Threads: pure functions.
#pragma once

#include <vector>

#include "codegen/source/constant_value.h"
#include "codegen/source/source_items.h"

namespace lssar {

// The constants of Config, and those that follow from them. With `folds`, integer constants outside
// of templates get their values as initializers.
SourceConstants known_constants(std::vector<SourceSection>& sections, bool folds);

}  // namespace lssar
