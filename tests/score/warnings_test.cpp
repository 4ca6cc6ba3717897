// Which score functions are warned of, and how.
#include "score/warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "score/score_text.h"

namespace lssar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> warnings_of(const char* score) {
  const auto parsed = parse_score(score);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  return parsed.ok() ? score_warnings(*parsed, {}) : std::vector<std::string>();
}

TEST(ScoreWarnings, AreNotOfWhatHasValues) {
  for (const char* score :
       {"lssar", "softmax", "sigmoid", "phi=relu(x)^2 + 0.01*x,normalizer=sum_abs",
        "phi=gelu,normalizer=sum_abs", "phi=sqrt(x),bias=100", "phi=exp(9*x)",
        "softmax,psi=(x - b) / N", "phi=log(x),bias=80", "phi=mish,normalizer=length"})
    EXPECT_THAT(warnings_of(score), IsEmpty()) << score;
}

TEST(ScoreWarnings, NameTheFieldTheExpressionAndTheArgument) {
  EXPECT_THAT(warnings_of("phi=1/x,normalizer=none"),
              ElementsAre(HasSubstr("score.phi = 1 / x: has no finite float32 value at x = 0")));
  EXPECT_THAT(warnings_of("phi=log(x),bias=10,normalizer=sum_abs"),
              ElementsAre(HasSubstr("score.phi = log(x): has no finite float32 value at x = 0")));
  EXPECT_THAT(warnings_of("phi=sqrt(abs(x))"), ElementsAre(HasSubstr("its derivative")));
  EXPECT_THAT(warnings_of("phi=exp(9*x),normalizer=none"),
              ElementsAre(HasSubstr("score.phi = exp(9 * x): has no finite float32 value at x")));
  EXPECT_THAT(warnings_of("phi=gelu"),
              ElementsAre(HasSubstr("score.normalizer = sum: score.phi = gelu has both signs")));
  EXPECT_THAT(warnings_of("softmax,psi=1/(x - 2)"),
              ElementsAre(HasSubstr("score.psi = 1 / (x - 2): has no finite float32 value at x = "
                                    "2")));
}

}  // namespace
}  // namespace lssar
