#include "tests/score/random_expression.h"

namespace lssar::test {

namespace {

using Kind = Expression::Kind;

class Maker {
 public:
  Maker(std::mt19937& random, bool psi) : random_(random), psi_(psi) {}

  Expression make(int depth) {
    if (depth == 0 || one_of(8) == 0) return leaf();
    switch (one_of(14)) {
      case 0:
      case 1:
        return make(depth - 1) + make(depth - 1);
      case 2:
        return make(depth - 1) - make(depth - 1);
      case 3:
      case 4:
        return make(depth - 1) * make(depth - 1);
      case 5:
        return make(depth - 1) / positive(depth - 1);
      case 6:
        return pow(make(depth - 1), 1.0 + one_of(4));
      case 7:
        return min(make(depth - 1), make(depth - 1));
      case 8:
        return max(make(depth - 1), make(depth - 1));
      case 9:
        return where(one_of(2) == 0 ? Comparison::kLess : Comparison::kLessEqual, make(depth - 1),
                     make(depth - 1), make(depth - 1), make(depth - 1));
      case 10:
        return apply(Kind::kExp, apply(Kind::kTanh, make(depth - 1)));
      case 11:
        return pow(positive(depth - 1), make(0));
      case 12: {
        constexpr Kind kOfPositive[] = {Kind::kLog, Kind::kLog1p, Kind::kSqrt};
        return apply(kOfPositive[one_of(3)], positive(depth - 1));
      }
      default: {
        constexpr Kind kOfAny[] = {Kind::kTanh, Kind::kErf, Kind::kSigmoid, Kind::kSoftplus,
                                   Kind::kAbs};
        return apply(kOfAny[one_of(5)], make(depth - 1));
      }
    }
  }

 private:
  int one_of(int n) { return static_cast<int>(random_() % n); }

  Expression leaf() {
    if (one_of(3) == 0) return (one_of(61) - 30) / 8.0;
    if (psi_ && one_of(2) == 0) return one_of(2) == 0 ? Variable::kOffset : Variable::kLength;
    return Variable::kX;
  }

  Expression positive(int depth) { return 0.5 + apply(Kind::kAbs, make(depth)); }

  std::mt19937& random_;
  const bool psi_;
};

}  // namespace

Expression random_expression(std::mt19937& random, int depth, bool psi) {
  return Maker(random, psi).make(depth);
}

}  // namespace lssar::test
