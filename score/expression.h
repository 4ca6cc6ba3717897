// Expression: a real function of x, b and N, as score functions are written: "relu(x)^2 + 0.01*x".
//
// A value: immutable, cheap to copy, safe to share between threads. Every function here returns the
// canonical form: constants folded, like terms collected, operands ordered, so equal text means
// equal functions (not the other way round). Canonical text is what caches are keyed by.
//
// The rules of simplification hold for every finite argument at which the operands are finite. They
// never remove a division: x / x stays, since it has no value at 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lssar {

enum class Variable {
  kX,       // x: the score in phi, N P in psi
  kOffset,  // b
  kLength,  // N, the number of keys that the row sees
};

enum class Comparison { kLess, kLessEqual, kEqual };

class Expression {
 public:
  // In the order of operands of a sum: constants come last.
  enum class Kind {
    kSum,      // of two or more; the constant, if any, is the last
    kProduct,  // of two or more; the constant, if any, is the last
    kPower,    // base, exponent
    kExp,
    kLog,
    kLog1p,
    kSqrt,
    kTanh,
    kErf,
    kSigmoid,
    kSoftplus,
    kAbs,
    kMin,    // of two
    kMax,    // of two
    kWhere,  // left, right, the value where the comparison holds, the value elsewhere
    kVariable,
    kConstant,
  };

  Expression(double constant);    // NOLINT: implicit on purpose, "2 * x"
  Expression(Variable variable);  // NOLINT: implicit on purpose

  Kind kind() const { return node_->kind; }
  const std::vector<Expression>& operands() const { return node_->operands; }
  double constant() const { return node_->constant; }          // REQUIRES: kConstant
  Variable variable() const { return node_->variable; }        // REQUIRES: kVariable
  Comparison comparison() const { return node_->comparison; }  // REQUIRES: kWhere

  bool is_constant() const { return kind() == Kind::kConstant; }
  bool is_constant(double value) const { return is_constant() && constant() == value; }
  bool depends_on(Variable variable) const;

  // Compares the structure. Most expressions that differ are told apart in constant time.
  bool operator==(const Expression& other) const { return compare(*this, other) == 0; }
  uint64_t hash() const { return node_->hash; }
  // The same for one expression and its copies.
  const void* identity() const { return node_.get(); }

  // A total order: negative, 0 or positive.
  static int compare(const Expression& a, const Expression& b);

  // An operation on operands that are canonical, as it is: for expression.cpp's own use and for
  // tests. Others use the functions below, which simplify.
  static Expression raw(Kind kind, std::vector<Expression> operands,
                        Comparison comparison = Comparison::kEqual);

 private:
  struct Node {
    Kind kind;
    double constant = 0;
    Variable variable = Variable::kX;
    Comparison comparison = Comparison::kEqual;
    std::vector<Expression> operands;
    uint64_t hash = 0;
  };
  explicit Expression(Node node);

  std::shared_ptr<const Node> node_;
};

Expression operator+(const Expression& a, const Expression& b);
Expression operator-(const Expression& a, const Expression& b);
Expression operator-(const Expression& a);
Expression operator*(const Expression& a, const Expression& b);
Expression operator/(const Expression& a, const Expression& b);
Expression pow(const Expression& base, const Expression& exponent);
Expression min(const Expression& a, const Expression& b);
Expression max(const Expression& a, const Expression& b);
// `value` where the comparison of left and right holds, else `other`. NaN where one of them is NaN.
Expression where(Comparison comparison, const Expression& left, const Expression& right,
                 const Expression& value, const Expression& other);
// Functions of one operand: kExp to kAbs.
Expression apply(Expression::Kind function, const Expression& operand);

// Text that parse_expression reads back as the same expression.
std::string to_string(const Expression& expression);

// The value of one function of one operand, and of comparisons: what folding and evaluating use.
double value_of(Expression::Kind function, double operand);
bool holds(Comparison comparison, double left, double right);

}  // namespace lssar
