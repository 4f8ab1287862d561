#include "base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "penstock/base.h"

namespace penstock {
namespace {

TEST(Printable, KeepsNamesAsTheyAre) {
  EXPECT_EQ(printable("/tmp/run 1/läufe/走る/🙂.bin"), "/tmp/run 1/läufe/走る/🙂.bin");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("a\nb\x1b[31mc\x7f"), "a\\x0ab\\x1b[31mc\\x7f");
  EXPECT_EQ(printable("a\u202Egpj.exe"), "a\\u{202e}gpj.exe");
  EXPECT_EQ(printable("zero\u200Bwidth\u2066"), "zero\\u{200b}width\\u{2066}");
  EXPECT_EQ(printable("\u0085"), "\\x85");
}

TEST(Printable, ShowsBytesThatAreNoCharacters) {
  EXPECT_EQ(printable("a\xff"
                      "b\xc3"),
            "a\\xffb\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong '/'
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a UTF-16 pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above the last character
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                    // cut off
}

TEST(Printable, LongNamesLoseTheirMiddle) {
  const std::string name = "/begin" + std::string(500, 'x') + "end.bin";
  const std::string shown = printable(name, 30);
  EXPECT_TRUE(shown.starts_with("/begin"));
  EXPECT_TRUE(shown.ends_with("end.bin"));
  EXPECT_EQ(shown.size(), 30 + std::string("…").size());
  // A character is never cut, nor an escape.
  EXPECT_EQ(printable("ääää", 3), "ä…ää");
  EXPECT_EQ(printable("\n\n\n\n", 12), "\\x0a…\\x0a\\x0a");
  EXPECT_EQ(printable("\n\n", 3), "…");
}

TEST(ErrorMessage, EscapesControlCharactersInNames) {
  const Error error{ErrorCode::not_found, "open\r", "a\x1b[2Jb\nc", 0, "\x1b]0;title\x07"};
  EXPECT_EQ(error.message(), "a\\x1b[2Jb\\x0ac: cannot open\\x0d (try: \\x1b]0;title\\x07)");
  // A long name is shown completely, because it may be needed.
  const std::string name(1000, 'n');
  EXPECT_EQ((Error{ErrorCode::not_found, "open", name}.message()), name + ": cannot open");
}

TEST(ErrorMessage, BeginsWithTheActionOrWithThePlaceOfAFault) {
  EXPECT_EQ((Error{ErrorCode::io, "line up", "a"}.message()), "a: cannot line up");
  EXPECT_EQ(fault_at(ErrorCode::corrupt, "page 3", "half of it", "a", "b").error().message(),
            "a: page 3: half of it (try: b)");
}

}  // namespace
}  // namespace penstock
