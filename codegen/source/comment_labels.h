// Comments of templates that begin with the constant they are about. Threads: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/source/source_items.h"

namespace lssar {

// "// kHasWindow: sets the tiles." becomes "// Sets the tiles." if no code of the sections and of
// `roots` has the constant: it decided a branch, and is gone. A comment that is only such a name is
// removed.
void drop_absent_labels(std::vector<SourceSection>& sections, std::string_view roots);

}  // namespace lssar
