#include "files/source/find.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/trials.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace penstock::source {
namespace {

constexpr size_t block = 4 * KiB;
using Matches = std::vector<std::pair<uint64_t, uint64_t>>;

// A source of a text in pieces of random sizes.
std::unique_ptr<Source> pieces(const std::string& text, uint64_t seed,
                               std::optional<Error> error = {}) {
  return callback_source([&text, error, at = size_t{0}, random = Random(seed)](
                             std::span<std::byte> into) mutable -> Result<size_t> {
    const size_t bytes = std::min({into.size(), text.size() - at, size_t{1} + random.below(6000)});
    if (bytes == 0 && error) return std::unexpected(*error);
    std::memcpy(into.data(), text.data() + at, bytes);
    at += bytes;
    return bytes;
  });
}

SourceStreamOptions options_for(const Pattern& pattern, uint64_t candidate_bytes) {
  return {.block_bytes = block,
          .read_ahead_blocks = 2,
          .comeback_blocks = comeback_blocks_for(pattern, block, candidate_bytes),
          .bytes_max = 64 * MiB,
          .policy = ErrorPolicy::recover,
          .deliver_tail = true,
          .strict = true};
}

struct Found {
  Matches matches;
  Status status;
};
Found find(SourceStream& stream, Pattern& pattern) {
  Found found;
  const auto count = find_all(stream, pattern, [&](const Match& match) {
    found.matches.emplace_back(match.offset, match.bytes);
    return true;
  });
  if (!count) found.status = std::unexpected(count.error());
  EXPECT_EQ(count.value_or(found.matches.size()), found.matches.size());
  return found;
}

Found find_in_pipe(const std::string& text, Pattern& pattern, uint64_t seed,
                   uint64_t candidate_bytes = 4 * block, std::optional<Error> error = {}) {
  auto stream =
      SourceStream::open(pieces(text, seed, error), "pipe", options_for(pattern, candidate_bytes));
  EXPECT_TRUE(stream) << stream.error().message();
  return find(*stream, pattern);
}

class TextFile {
 public:
  explicit TextFile(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  ~TextFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_ =
      testing::TempDir() + "penstock-find-" + std::to_string(getpid()) + ".txt";
};

Found find_in_file(const std::string& text, Pattern& pattern) {
  const TextFile file(text);
  SourceStreamOptions options = options_for(pattern, block);
  options.comeback_blocks = 1;
  auto stream = SourceStream::open(file.path(), options);
  EXPECT_TRUE(stream) << stream.error().message();
  return find(*stream, pattern);
}

Matches model_fixed(const std::string& text, const std::string& needle) {
  Matches matches;
  for (size_t at = 0; (at = text.find(needle, at)) != std::string::npos; at += needle.size()) {
    matches.emplace_back(at, needle.size());
  }
  return matches;
}

// The model: a plain loop over a text in memory, interpreted, without any code of find.cc.
Matches model_regex(const std::string& text, const std::string& expression) {
  int error = 0;
  size_t where = 0;
  auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()),
                                   expression.size(), PCRE2_MULTILINE, &error, &where, nullptr);
  EXPECT_NE(code, nullptr) << expression;
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  const size_t* bounds = pcre2_get_ovector_pointer(data);
  Matches matches;
  uint32_t options = 0;
  for (size_t at = 0; at <= text.size();) {
    const int rc = pcre2_match(code, subject, text.size(), at, options, data, nullptr);
    if (rc >= 0) {
      matches.emplace_back(bounds[0], bounds[1] - bounds[0]);
      at = bounds[1];
      options = bounds[0] == bounds[1] ? PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED : 0;
    } else if (options != 0) {
      options = 0;
      ++at;
    } else {
      EXPECT_EQ(rc, PCRE2_ERROR_NOMATCH);
      break;
    }
  }
  pcre2_match_data_free(data);
  pcre2_code_free(code);
  return matches;
}

// Few letters, so that there is much to find; lines of very different lengths.
std::string random_text(size_t bytes, Random& random) {
  std::string text;
  uint64_t line_end = random.below(100);
  for (size_t i = 0; i < bytes; ++i) {
    if (i == line_end) {
      text += '\n';
      line_end = i + 1 + random.below(random.below(4) == 0 ? 3000 : 60);
    } else {
      text += "abc d"[random.below(5)];
    }
  }
  return text;
}

TEST(FindFixed, NoMatchIsLostAtABoundary) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::string text = random_text(random.below(30 * block), random);
    std::string needle(1 + random.below(random.below(4) == 0 ? 3 * block : 40), 'a');
    for (char& c : needle) c = "ab"[random.below(needle.size() > 10 ? 2 : 1)];
    needle.back() = 'b';
    // Planted across every boundary.
    for (size_t edge = block; edge < text.size(); edge += block) {
      const size_t at = edge - std::min<size_t>(edge, 1 + random.below(needle.size()));
      if (random.below(3) != 0 && at + needle.size() <= text.size()) {
        text.replace(at, needle.size(), needle);
      }
    }
    auto pattern = Pattern::fixed(needle);
    const Matches wanted = model_fixed(text, needle);
    Found found = find_in_pipe(text, **pattern, seed);
    ASSERT_TRUE(found.status) << found.status.error().message();
    ASSERT_EQ(found.matches, wanted);
    found = find_in_file(text, **pattern);
    ASSERT_TRUE(found.status) << found.status.error().message();
    ASSERT_EQ(found.matches, wanted);
  }
}

TEST(FindRegex, FindsWhatPcre2FindsInMemory) {
  const char* const expressions[] = {"a+b",
                                     "(?<=ab)c",
                                     "\\bab\\b",
                                     "^a.*b$",
                                     "^.*$",
                                     "a*",
                                     "x*",
                                     "(a|b)+c",
                                     "ab?c??",
                                     "(?<!a)b(?!c)",
                                     "^$",
                                     "$",
                                     "^",
                                     "\\z",
                                     "\\A.",
                                     "a(?=b)",
                                     "(?s)a.{100,200}b",
                                     "[^\\n]{50,}?a",
                                     "(a+)(b+)\\1",
                                     "\\Ba",
                                     "(?s)(?<=.{9})dd",
                                     "(?i)ABC",
                                     "c\\n+a",
                                     "\\w+",
                                     "a\\Kb*",
                                     "(?:a(?=.*b)|d$)",
                                     "(?>a+)b",
                                     "(?<=(?<!b)a)c",
                                     "ab|abc|abca",
                                     "d.*?d"};
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + 6; ++seed) {
    Random random(seed);
    const std::string text = random_text(random.below(12 * block), random);
    for (const char* expression : expressions) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << expression);
      auto pattern = Pattern::regex(expression);
      ASSERT_TRUE(pattern) << pattern.error().message();
      const Matches wanted = model_regex(text, expression);
      Found found = find_in_pipe(text, **pattern, seed);
      ASSERT_TRUE(found.status) << found.status.error().message();
      ASSERT_EQ(found.matches, wanted) << "pipe";
      found = find_in_file(text, **pattern);
      ASSERT_TRUE(found.status) << found.status.error().message();
      ASSERT_EQ(found.matches, wanted) << "file";
    }
  }
}

TEST(FindRegex, TextsThatEndAtABlockOrAreEmpty) {
  for (size_t bytes : {size_t{0}, size_t{1}, block - 1, block, block + 1, 2 * block}) {
    const std::string text(bytes, 'a');
    for (const char* expression : {"a*", "a+$", "\\z", "a\\b", "(?<=a)", "a{7}"}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes, " << expression);
      auto pattern = Pattern::regex(expression);
      const Found found = find_in_pipe(text, **pattern, 1);
      ASSERT_TRUE(found.status) << found.status.error().message();
      EXPECT_EQ(found.matches, model_regex(text, expression));
    }
  }
}

TEST(FindRegex, GreedyExpressionsMayGoBackAllOverAFile) {
  std::string text(100 * block, 'a');
  text[3] = 'b';
  text[70 * block] = 'b';
  for (const char* expression : {"b.*b", "^.*b", "b.*c", "(?s).*b.", "a+?b"}) {
    auto pattern = Pattern::regex(expression);
    const Found found = find_in_file(text, **pattern);
    ASSERT_TRUE(found.status) << found.status.error().message();
    EXPECT_EQ(found.matches, model_regex(text, expression)) << expression;
  }
}

// A candidate of every length around the limit is found or an error, never missed.
TEST(FindRegex, ACandidateThatIsTooLongForAPipeIsAnError) {
  auto pattern = Pattern::regex("x[^xy]*y");
  int refused = 0;
  for (size_t length = 3 * block; length < 12 * block; length += block / 4 + 1) {
    std::string text(20 * block, 'a');
    text[5 * block + 17] = 'x';
    text[5 * block + 17 + length] = 'y';
    const Found found = find_in_pipe(text, **pattern, 1, 4 * block);
    if (found.status) {
      EXPECT_EQ(found.matches, (Matches{{5 * block + 17, length + 1}}));
    } else {
      ++refused;
      EXPECT_GT(length, 4 * block) << "what was promised";
      EXPECT_EQ(found.status.error().code, ErrorCode::out_of_memory);
      EXPECT_NE(found.status.error().message().find(std::to_string(5 * block + 17)),
                std::string::npos);
    }
  }
  EXPECT_GT(refused, 5);
}

TEST(Find, MatchesInFrontOfAnErrorAreFound) {
  Random random(3);
  const std::string text = random_text(5 * block + 100, random) + "cccc";
  const Error error{ErrorCode::io, "read the moon", "moon"};
  for (bool regex : {false, true}) {
    auto pattern = regex ? Pattern::regex("a+b") : Pattern::fixed("ab");
    const Found found = find_in_pipe(text, **pattern, 1, block, error);
    ASSERT_FALSE(found.status);
    EXPECT_EQ(found.status.error().attempted, error.attempted);
    EXPECT_EQ(found.matches, regex ? model_regex(text, "a+b") : model_fixed(text, "ab"));
  }
}

TEST(Find, TheMatchCanBeReadAtThePointerAndTheSearchStopped) {
  Random random(4);
  const std::string text = random_text(20 * block, random);
  auto pattern = Pattern::regex("[abc]{5,}");
  auto stream = SourceStream::open(pieces(text, 1), "pipe", options_for(**pattern, 4 * block));
  int left = 50;
  const auto count = find_all(*stream, **pattern, [&](const Match& match) {
    EXPECT_EQ(std::string(stream->begin<char>() + match.offset, match.bytes),
              text.substr(match.offset, match.bytes));
    return --left > 0;
  });
  EXPECT_EQ(count, 50u);
}

TEST(Find, InvalidPatternsAreErrors) {
  EXPECT_FALSE(Pattern::fixed(""));
  const auto broken = Pattern::regex("a(b");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(Pattern::regex("(*UTF)a"));
}

TEST(FindRegex, BacktrackingBeyondItsMemoryIsAnError) {
  auto pattern = Pattern::regex("(?:a|a)*c");
  const Found found = find_in_file(std::string(8 * MiB, 'a'), **pattern);
  ASSERT_FALSE(found.status);
  EXPECT_EQ(found.status.error().code, ErrorCode::out_of_memory) << found.status.error().message();
}

}  // namespace
}  // namespace penstock::source
