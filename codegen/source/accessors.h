// Replaces calls of functions that only name a member of an argument: seq_q(params) becomes
// params.seq_q. Threads: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/source/source_items.h"

namespace lssar {

// Replaces the calls in the sections and removes the functions. A function stays if `roots` (the
// source after the sections) names it, or if an argument is more than a name.
void inline_accessors(std::vector<SourceSection>& sections, std::string_view roots);

}  // namespace lssar
