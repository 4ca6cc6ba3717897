// Expression: a real function of x, b and N, in which score functions are written: "relu(x)^2 +
// 0.01*x".
//
// A value: immutable, cheap to copy, safe to share between threads. Every function here returns the
// canonical form: constants are folded, like terms collected, operands ordered. So equal texts mean
// equal functions, but equal functions may have different texts. Caches use the canonical text as
// their key.
//
// Simplification holds for every finite argument at which the operands are finite. It never removes
// a division: x / x stays, because it has no value at 0.
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
  // The order of a sum's operands; constants come last.
  enum class Kind {
    kSum,      // two or more; the constant, if any, is the last
    kProduct,  // two or more; the constant, if any, is the last
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
    kMin,    // two operands
    kMax,    // two operands
    kWhere,  // left, right, the value if the comparison holds, the value if not
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

  // Compares the structure. Most expressions that differ are recognised in constant time.
  bool operator==(const Expression& other) const { return compare(*this, other) == 0; }
  uint64_t hash() const { return node_->hash; }
  // Equal for an expression and its copies.
  const void* identity() const { return node_.get(); }

  // A total order: negative, 0 or positive.
  static int compare(const Expression& a, const Expression& b);

  // An operation on canonical operands, without simplification. Only for expression.cpp and tests;
  // others use the functions below.
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
// `value` if the comparison of left and right holds, else `other`. NaN if left or right is NaN.
Expression where(Comparison comparison, const Expression& left, const Expression& right,
                 const Expression& value, const Expression& other);
// Functions of one operand: kExp to kAbs.
Expression apply(Expression::Kind function, const Expression& operand);

// Text that parse_expression reads back as the same expression.
std::string to_string(const Expression& expression);

// The value of a function of one operand, and of a comparison. Folding and evaluation share these.
double value_of(Expression::Kind function, double operand);
bool holds(Comparison comparison, double left, double right);

}  // namespace lssar
