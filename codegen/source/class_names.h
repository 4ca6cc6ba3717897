// Calls classes by the names that their users give them: `using Shape = HopperForwardShape;` in
// every class makes that class Shape. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "codegen/source/source_items.h"

namespace lssar {

// Renames each class that has aliases to its shortest name, and removes those aliases. A name that
// is also an alias of something else, or declared otherwise, stays. Aliases of Config leave it.
// `roots` is the source after the sections.
void shorten_class_names(std::vector<SourceSection>& sections, std::string& roots);

}  // namespace lssar
