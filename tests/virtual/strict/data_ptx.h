// The PTX of data/*.cu, compiled into the tests so that they run without the source folder.
#pragma once

#include <string_view>

namespace lssar::test {

// "adversary_bulk": data/adversary_bulk.ptx. Empty where there is no such file.
std::string_view data_ptx(std::string_view name);

}  // namespace lssar::test
