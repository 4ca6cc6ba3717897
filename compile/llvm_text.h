// Text that liblssar_llvm.so hands to its caller.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

namespace lssar {

// A NUL-terminated copy allocated with malloc, or null if there is no memory.
inline char* copy_text(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace lssar
