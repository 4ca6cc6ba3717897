// Which declarations of device source a kernel reaches.
//
// A declaration is kept where a kept one has its name. Types decide only between overloads: one for
// a class that nothing else names is never called, nor one for other numbers than a call's
// variables. So more may be kept than a kernel uses, but never less. Threads: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/source/source_items.h"

namespace lssar {

// Leaves what `roots` (source that is not in the sections) and what that reaches need.
void keep_reached(std::vector<SourceSection>& sections, std::string_view roots);

}  // namespace lssar
