// Types that Config chooses are written where they are used: a kernel without windows has no name
// KeyTiles, which would only mean int. Threads: pure functions.
#pragma once

#include <vector>

#include "codegen/source/constant_value.h"
#include "codegen/source/source_items.h"

namespace lssar {

// Replaces each alias of `Select<CONDITION, A, B>::Type` outside of classes by the type that it
// means, and removes it. It stays if the constants do not decide its condition, or if the type is
// more than a name.
void write_chosen_types(std::vector<SourceSection>& sections, const SourceConstants& constants);

}  // namespace lssar
