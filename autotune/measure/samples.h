// Statistics of a handful of times. Threads: pure functions.
#pragma once

#include <vector>

namespace lssar {

// NaN if there are none.
double median(std::vector<double> values);
// Half the distance between the quartiles (linear interpolation); 0 for fewer than 2.
double half_quartile_range(std::vector<double> values);

}  // namespace lssar
