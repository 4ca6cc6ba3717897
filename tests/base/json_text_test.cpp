// JSON texts that somebody else wrote: what is refused, and in which words.
#include "base/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lssar {
namespace {

TEST(JsonText, IsReadAsTheLibraryReadsIt) {
  const std::string text =
      R"( {"a": [1, -2, 3.5, {"b": [[], {}]}, true, null], "c": "\u00e9", "d": {"a": 1e3}} )";
  const Result<nlohmann::json> read = parse_json(text, "file");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(*read, nlohmann::json::parse(text));
  EXPECT_EQ(*parse_json("18446744073709551615", "file"), UINT64_MAX);
  EXPECT_EQ(*parse_json("-9223372036854775808", "file"), INT64_MIN);
}

struct BadText {
  const char* name;
  const char* text;
  const char* message;
};

class BadJsonText : public ::testing::TestWithParam<BadText> {};

TEST_P(BadJsonText, IsRefusedSayingWhere) {
  const Status status = parse_json(GetParam().text, "a.json").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadJsonText,
    ::testing::Values(
        BadText{"Empty", "", "a.json: not JSON: line 1, column 1: the text ends too early"},
        BadText{"CutOff",
                "{\"head_dim\": ", "a.json: not JSON: line 1, column 14: the text ends too early"},
        BadText{"TrailingComma", "{\n  \"p\": 3,\n}",
                "a.json: not JSON: line 3, column 1: unexpected '}'"},
        BadText{"AWord", "[1, wide]", "a.json: not JSON: line 1, column 5: unexpected 'w'"},
        BadText{"MoreAfterIt", "{} {}", "a.json: not JSON: line 1, column 4: unexpected '{'"},
        BadText{"AKeyTwice", R"({"a": {"p": 3}, "p": 1, "p": 2})",
                "a.json: \"p\": the object has this key twice"},
        BadText{"AKeyTwiceFurtherIn", R"([{"a": {"p": 3, "p": 3}}])",
                "a.json: \"p\": the object has this key twice"},
        BadText{"WholeNumberBeyond64Bits", R"({"p": 18446744073709551616})",
                "a.json: 18446744073709551616: whole numbers may have 64 bits"},
        BadText{"BeyondDouble", "[1e999]", "a.json: 1e999: the number is too large"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lssar
