// Replaces calls of functions that only name an argument or a member of one: seq_q(params) becomes
// params.seq_q, and tile_at(num_tiles, tile + 1) becomes tile + 1. Threads: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/source/source_items.h"

namespace lssar {

// Replaces the calls in the sections and removes the functions. A function stays if `roots` (the
// source after the sections) names it, or if an argument is more than a name or a number. The
// argument that takes the place of the call may be more if it calls nothing, and if the call is a
// whole argument or initializer.
void inline_accessors(std::vector<SourceSection>& sections, std::string_view roots);

}  // namespace lssar
