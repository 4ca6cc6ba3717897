#include "score/score_text.h"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/field_json.h"
#include "base/json_text.h"
#include "score/known.h"
#include "score/names.h"
#include "score/score_function_fields.h"

namespace lssar {

using nlohmann::json;

namespace {

struct NamedScore {
  const char* name;
  ScoreFunction score;
};

const std::vector<NamedScore>& named_scores() {
  static const std::vector<NamedScore> named = [] {
    ScoreFunction softmax;
    softmax.scale = {ScaleName::kInvSqrtDim};
    softmax.qk_norm = false;
    softmax.phi = Activation(*named_activation("exp"));
    ScoreFunction sigmoid = softmax;
    sigmoid.bias = {BiasName::kNegLogLength};
    sigmoid.phi = Activation(*named_activation("sigmoid"));
    sigmoid.normalizer = Normalizer::kNone;
    return std::vector<NamedScore>{{"lssar", {}}, {"softmax", softmax}, {"sigmoid", sigmoid}};
  }();
  return named;
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == text.npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(' ') + 1 - first));
}

// Splits at commas that are outside of brackets.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (i < text.size() && (c != ',' || depth > 0)) continue;
    parts.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return parts;
}

// A number, true or false; any other text is a string.
json value_of_text(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0') return number;
  return text;
}

Result<ScoreFunction> named_score(const std::string& name) {
  std::string names;
  for (const NamedScore& known : named_scores()) {
    if (name == known.name) return known.score;
    names += std::string(names.empty() ? "" : ", ") + known.name;
  }
  return invalid_argument(fmt::format(
      "score = \"{}\": allowed are {}, and fields as \"phi=relu(x)^2,normalizer=sum_abs\"",
      shown_name(name), names));
}

}  // namespace

Result<ScoreFunction> parse_score(std::string_view text) {
  ScoreFunction score;
  json fields = json::object();
  if (trimmed(text).starts_with("{")) {
    LSSAR_ASSIGN_OR_RETURN(fields, parse_json(text, "score"));
  } else {
    bool is_first = true;
    for (const std::string& part : parts_of(text)) {
      const size_t equals = part.find('=');
      const bool is_field = equals != part.npos;
      if (!is_field && is_first) {
        LSSAR_ASSIGN_OR_RETURN(score, named_score(part));
      } else if (!is_field) {
        return invalid_argument(fmt::format(
            "score: \"{}\" is not a field: allowed is NAME=VALUE after a comma", shown_name(part)));
      } else {
        const std::string name = trimmed(part.substr(0, equals));
        if (fields.contains(name))
          return invalid_argument(fmt::format("score.{}: given twice", shown_name(name)));
        const std::string value = trimmed(part.substr(equals + 1));
        // Expressions stay text, because one may look like a number: phi = 1.
        const bool is_text = name == "phi" || name == "psi" || name == "activation";
        fields[name] = is_text ? json(value) : value_of_text(value);
      }
      is_first = false;
    }
  }
  LSSAR_RETURN_IF_ERROR(read_fields(fields, "score", score));
  return score;
}

}  // namespace lssar
