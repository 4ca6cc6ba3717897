// The version of the library, as captures and reports name it.
#pragma once

#include <string>

namespace lssar {

// "1.0.0"
std::string library_version();

}  // namespace lssar
