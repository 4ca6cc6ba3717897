// Finds the declarations of device source that a kernel reaches.
//
// A declaration is kept if a kept one uses its name. Types decide only between overloads. An
// overload for a class is dropped if nothing else names the class. An overload for numbers is
// dropped if the variables of every call have other types. So more may be kept than a kernel uses,
// but never less. Threads: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/source/source_items.h"

namespace lssar {

// Keeps what `roots` (source that is not in the sections) needs, directly or through other
// declarations.
void keep_reached(std::vector<SourceSection>& sections, std::string_view roots);

}  // namespace lssar
