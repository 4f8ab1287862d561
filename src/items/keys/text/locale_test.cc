#include "items/keys/text/locale.h"

#include <gtest/gtest.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "items/keys/text/key_bytes.h"
#include "os/sanitizer.h"

namespace penstock::items {
namespace {

std::shared_ptr<const Locale> opened(const std::string& name) {
  auto locale = Locale::open(name);
  EXPECT_TRUE(locale) << locale.error().message();
  return locale ? *locale : nullptr;
}

int sign(int n) {
  return (n > 0) - (n < 0);
}

// German of glibc's sources, as installed machines have it.
class German : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (os::shadowed) return;
    folder_ = testing::TempDir() + "penstock-locale-" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    const std::string command =
        "localedef -i de_DE -f UTF-8 '" + folder_ + "/de_DE.UTF-8' >/dev/null 2>&1";
    if (std::system(command.c_str()) != 0) return;
    ::setenv("LOCPATH", folder_.c_str(), 1);
    locale_ = opened("de_DE.UTF-8");
    theirs_ = ::newlocale(LC_ALL_MASK, "de_DE.UTF-8", locale_t{});
  }
  static void TearDownTestSuite() {
    if (os::shadowed) return;
    ::unsetenv("LOCPATH");
    locale_.reset();
    if (theirs_ != locale_t{}) ::freelocale(theirs_);
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    if (os::shadowed)
      GTEST_SKIP() << "newlocale() of glibc loses a copy of LOCPATH, of which a sanitizer tells";
    if (locale_ == nullptr || theirs_ == locale_t{})
      GTEST_SKIP() << "localedef and the sources of locales are missing";
  }
  static std::string key(TextCompare compare, std::string_view text) {
    std::string bytes;
    append_key({.compare = compare}, text, {.locale = locale_.get()}, bytes);
    return bytes;
  }

  static inline std::string folder_;
  static inline std::shared_ptr<const Locale> locale_;
  static inline locale_t theirs_ = {};
};

TEST(Locale, CIsLikeNone) {
  const auto c = opened("C");
  ASSERT_TRUE(c);
  EXPECT_TRUE(c->is_as_c());
  EXPECT_FALSE(c->is_utf8());
  EXPECT_FALSE(c->collates());
  EXPECT_EQ(c->months(), months_of(nullptr));
  std::string text = "before ";
  c->append_collated("b\0a", text);
  EXPECT_EQ(text, "before b");
}

TEST(Locale, NamesAMissingOne) {
  const auto none = Locale::open("xx_XX.UTF-8");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
  EXPECT_NE(none.error().message().find("--locale=xx_XX.UTF-8"), std::string::npos)
      << none.error().message();
}

TEST(Locale, KnowsHowWideATerminalShowsText) {
  const auto utf8 = Locale::open("C.UTF-8");
  if (!utf8) GTEST_SKIP() << utf8.error().message();
  EXPECT_TRUE((*utf8)->is_utf8());
  auto columns = [&](std::string_view text) { return (*utf8)->columns(text); };
  EXPECT_EQ(columns(""), 0u);
  EXPECT_EQ(columns("abc"), 3u);
  EXPECT_EQ(columns("\u00e4\u20ac"), 2u);
  EXPECT_EQ(columns("\u65e5a"), 3u) << "a wide character";
  EXPECT_EQ(columns("e\u0301"), 1u) << "an accent";
  EXPECT_EQ(columns("a\x01"), 1u);
  EXPECT_EQ(columns(std::string_view("a\0b", 3)), 2u);
  EXPECT_EQ(columns("\xff\xff"), 2u) << "no characters";
  EXPECT_EQ(columns("a\xe2\x82"), 2u) << "cut off";
}

TEST_F(German, TextIsOrderedAsStrcollHasIt) {
  EXPECT_TRUE(locale_->collates());
  EXPECT_FALSE(locale_->is_as_c());
  const std::vector<std::string> words = {
      "",       "a",     "A",           "\u00e4",
      "Apfel",  "apfel", "\u00c4pfel",  "Apfels",
      "a pfel", "Birne", "stra\u00dfe", "strasse",
      "-1",     "10",    "9",           std::string(300, '\xc3')};
  for (const std::string& one : words) {
    for (const std::string& other : words) {
      std::string a = "kept", b = "kept";
      locale_->append_collated(one, a);
      locale_->append_collated(other, b);
      EXPECT_EQ(sign(a.compare(b)), sign(::strcoll_l(one.c_str(), other.c_str(), theirs_)))
          << one << " and " << other;
    }
  }
}

TEST_F(German, PartsBetweenZerosCompareOneAfterAnother) {
  auto collated = [](std::string_view text) {
    std::string bytes;
    locale_->append_collated(text, bytes);
    return bytes;
  };
  EXPECT_LT(collated(std::string_view("a\0z", 3)), collated(std::string_view("\u00e4\0a", 4)));
  EXPECT_LT(collated(std::string_view("a\0a", 3)), collated(std::string_view("a\0b", 3)));
  EXPECT_LT(collated("a"), collated(std::string_view("a\0", 2)));
}

TEST_F(German, NumbersHaveItsPointAndItsGroups) {
  EXPECT_EQ(locale_->point(), ',');
  EXPECT_EQ(locale_->group(), '.');
  EXPECT_FALSE(locale_->has_wide_group());
  EXPECT_EQ(key(TextCompare::numeric, "1.234,50"), key(TextCompare::numeric, "1234,5"));
  EXPECT_LT(key(TextCompare::numeric, "-1.000,5"), key(TextCompare::numeric, "-1.000"));
  EXPECT_LT(key(TextCompare::numeric, "0,9"), key(TextCompare::numeric, "1"));
  EXPECT_EQ(key(TextCompare::human, "2.000K"), key(TextCompare::human, "2000K"));
  EXPECT_LT(key(TextCompare::human, "2.000.K"), key(TextCompare::human, "1K"))
      << "no suffix behind a separator";
  EXPECT_EQ(key(TextCompare::general, "1,5"), key(TextCompare::general, "1,50"));
  EXPECT_LT(key(TextCompare::general, "1"), key(TextCompare::general, "1,5"));
  EXPECT_EQ(compared_part({.compare = TextCompare::numeric}, " 1.234,5x", locale_.get()),
            "1.234,5");
  EXPECT_EQ(compared_part({.compare = TextCompare::human}, "1.234K", locale_.get()), "1.234K");
  EXPECT_EQ(compared_part({.compare = TextCompare::human}, "1.234.K", locale_.get()), "1.234");
}

TEST_F(German, MonthsHaveItsNames) {
  ASSERT_EQ(locale_->months().size(), 12u);
  EXPECT_LT(key(TextCompare::month, "Jan"), key(TextCompare::month, "mai"));
  EXPECT_LT(key(TextCompare::month, "Mai"), key(TextCompare::month, "okt"));
  EXPECT_LT(key(TextCompare::month, "OKT"), key(TextCompare::month, "Dezember"));
  EXPECT_EQ(key(TextCompare::month, "dec"), key(TextCompare::month, "none"));
}

}  // namespace
}  // namespace penstock::items
