// Columns of the comments beside data members. Threads: pure functions.
#pragma once

#include <vector>

#include "codegen/source/source_items.h"

namespace lssar {

// Begins the comments beside neighbouring data members in one column, two spaces after the longest
// of the members: types are shorter than the template wrote them.
void align_comments(std::vector<SourceItem>& members);

}  // namespace lssar
