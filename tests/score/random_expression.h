// Random expressions for tests.
#pragma once

#include <random>

#include "score/expression.h"

namespace lssar::test {

// An expression in x (and in b and N where `psi`) of at most `depth` nested operations. Divisions,
// logarithms and roots are of arguments above 0, so that it has a value everywhere.
Expression random_expression(std::mt19937& random, int depth, bool psi);

}  // namespace lssar::test
