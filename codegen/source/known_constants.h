// What declarations of device source say of constants and types. Threads: pure functions.
#pragma once

#include <vector>

#include "codegen/source/constant_value.h"
#include "codegen/source/source_items.h"

namespace lssar {

bool is_config(const SourceItem& item);

// What Config says, and what follows from it. `folds`: constants of whole numbers that are no
// template's get their values in place of what these are computed from.
SourceConstants known_constants(std::vector<SourceSection>& sections, bool folds);

}  // namespace lssar
