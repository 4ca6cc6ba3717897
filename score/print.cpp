// Expressions as text, with no more brackets than the parser needs.

#include <cmath>
#include <span>

#include <fmt/format.h>

#include "score/expression.h"
#include "score/names.h"

namespace lssar {

using Kind = Expression::Kind;

namespace {

// How tightly the text of an expression binds.
enum Tightness { kLoose, kOfTerm, kOfFactor, kOfPower, kOfAtom };

struct Text {
  std::string text;
  Tightness tightness;

  std::string within(Tightness needed) const {
    return tightness < needed ? "(" + text + ")" : text;
  }
};

Text text_of(const Expression& e);

// Whether a sum should subtract this term, because its constant is negative.
bool is_negative(const Expression& e) {
  const Expression& last = e.operands().empty() ? e : e.operands().back();
  return (e.is_constant() || e.kind() == Kind::kProduct) && last.is_constant() &&
         std::signbit(last.constant());
}

Text sum_text(const Expression& e) {
  // Print positive terms first: x - b, not -b + x.
  std::string text;
  for (const bool negative : {false, true}) {
    for (const Expression& term : e.operands()) {
      if (is_negative(term) != negative) continue;
      const bool minus = negative && !text.empty();
      if (!text.empty()) text += minus ? " - " : " + ";
      text += text_of(minus ? -term : term).within(kOfTerm);
    }
  }
  return {text, kLoose};
}

// Whether the factor is x ^ -n with a whole n. It is then printed as a divisor.
bool is_below(const Expression& factor) {
  if (factor.kind() != Kind::kPower || !factor.operands()[1].is_constant()) return false;
  const double exponent = factor.operands()[1].constant();
  return exponent < 0 && std::nearbyint(exponent) == exponent;
}

// Prints "2 * a / b / c": the constant first, then factors and divisors.
Text product_text(std::span<const Expression> factors) {
  std::string text, below;
  for (size_t i = factors.size(); i-- > 0;) {
    const Expression& factor = factors[i];
    if (is_below(factor)) {
      const Expression inverse = pow(factor.operands()[0], -factor.operands()[1].constant());
      below += " / " + text_of(inverse).within(kOfPower);
    } else if (factor.is_constant(-1) && text.empty() && factors.size() > 1) {
      text = "-";
    } else {
      const bool joins = text.empty() || text == "-";
      text += (joins ? "" : " * ") + text_of(factor).within(text.empty() ? kOfTerm : kOfFactor);
    }
  }
  if (text.empty()) text = "1";
  if (text == "-") text = "-1";
  return {text + below, text[0] == '-' ? kOfTerm : kOfFactor};
}

Text power_text(const Expression& e) {
  if (is_below(e)) return product_text({&e, 1});
  return {text_of(e.operands()[0]).within(kOfAtom) + "^" + text_of(e.operands()[1]).within(kOfAtom),
          kOfPower};
}

Text where_text(const Expression& e) {
  const auto& o = e.operands();
  return {
      fmt::format("where({} {} {}, {}, {})", text_of(o[0]).text, comparison_name(e.comparison()),
                  text_of(o[1]).text, text_of(o[2]).text, text_of(o[3]).text),
      kOfAtom};
}

Text text_of(const Expression& e) {
  switch (e.kind()) {
    case Kind::kSum:
      return sum_text(e);
    case Kind::kProduct:
      return product_text(e.operands());
    case Kind::kPower:
      return power_text(e);
    case Kind::kWhere:
      return where_text(e);
    case Kind::kVariable:
      return {variable_name(e.variable()), kOfAtom};
    case Kind::kConstant:
      return {fmt::format("{}", e.constant()), std::signbit(e.constant()) ? kOfTerm : kOfAtom};
    case Kind::kMin:
    case Kind::kMax:
      if (e.kind() == Kind::kMax && e.operands()[1].is_constant(0))
        return {"relu(" + text_of(e.operands()[0]).text + ")", kOfAtom};
      return {fmt::format("{}({}, {})", function_name(e.kind()), text_of(e.operands()[0]).text,
                          text_of(e.operands()[1]).text),
              kOfAtom};
    default:
      return {fmt::format("{}({})", function_name(e.kind()), text_of(e.operands()[0]).text),
              kOfAtom};
  }
}

}  // namespace

std::string to_string(const Expression& expression) { return text_of(expression).text; }

}  // namespace lssar
