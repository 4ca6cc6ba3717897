// Text of strangers: what a terminal would obey is shown as an escape, everything else as it is.
#include "base/printable.h"

#include <gtest/gtest.h>

namespace lssar {
namespace {

TEST(Printable, LettersOfAllLanguagesLineEndsAndTabsStay) {
  const std::string text = "a\\b ~ \xc3\xa9 \xce\xb5 \xe2\x82\xac \xf0\x9f\x98\x80\n\tnext";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, ControlsAreEscaped) {
  EXPECT_EQ(printable("\x1b]0;title\a\x1b[2J"), "\\x1b]0;title\\x07\\x1b[2J");
  EXPECT_EQ(printable("good\rbad\b\x7f"), "good\\x0dbad\\x08\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b" "31m"), "\\u009b31m");                 // CSI of C1
  EXPECT_EQ(printable("\xe2\x80\xae" "x\xe2\x81\xa6"), "\\u202ex\\u2066");  // direction
  EXPECT_EQ(printable("\xe2\x80\xa8\xef\xbb\xbf"), "\\u2028\\ufeff");
}

TEST(Printable, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(printable("\x9b" "31m"), "\\x9b31m");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");              // never, cut short
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");              // longer than needed
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");     // half of a pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xc3(" "a"), "\\xc3(a");
}

TEST(Printable, AFieldHasNoLines) { EXPECT_EQ(printable_field("a\nb\tc\x1b"), "a\\nb\\tc\\x1b"); }

}  // namespace
}  // namespace lssar
