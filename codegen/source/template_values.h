// Removes branches and static_asserts that constants decide from device source. A template
// parameter counts as a constant if it has the same value in every use of its template. Threads:
// pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/source/constant_value.h"
#include "codegen/source/source_items.h"

namespace lssar {

// `roots` is the source after the sections.
void resolve_constants(std::vector<SourceSection>& sections, std::string_view roots,
                       const SourceConstants& constants);

}  // namespace lssar
