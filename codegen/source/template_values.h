// Declarations of device source without what constants decide in them: branches and static_asserts.
// Constants are also template parameters that have the same value wherever the template is named.
// Threads: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/source/constant_value.h"
#include "codegen/source/source_items.h"

namespace lssar {

// `roots`: source that comes after the sections.
void resolve_constants(std::vector<SourceSection>& sections, std::string_view roots,
                       const SourceConstants& constants);

}  // namespace lssar
