// Calls of operator new in this program so far; counting_new.cpp replaces it.
#pragma once

namespace lssar {

int num_allocations();

}  // namespace lssar
