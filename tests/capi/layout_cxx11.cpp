// The header as C++11 sees it; the checks are layout.h's.
#include "tests/capi/layout.h"

extern "C" int check_layout_cxx11(void) { return check_layout("C++11"); }
