// Tests that words reach the commands as they were typed: for every text option and positional word
// of every command.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/common/command.h"
#include "cli/sort/gnu_options.h"

namespace penstock::cli {
namespace {

const std::vector<std::string> odd_words = {
    "[notes]", "[]", "[a,b]", "[[x]]", "[^a][^b]", "{}",       "a,b", "\"a\"", "'a b'",
    "a b",     " ",  "%s",    "%%",    "a=b",      "=",        "\\n", "*?",    "\xff\xfe[\x80]",
    "(a)",     "#",  "sort",  "+1",    "[+1]",     "name=[v]", "\n",  "true"};
// Words that look like options; only "--" or an option in front makes them values.
const std::vector<std::string> odd_options = {"-x", "--", "--a=",   "--key=[a]",
                                              "-3", "-",  "--help", "-[a]"};

// A program with one command.
class Words : public testing::TestWithParam<CommandDeclaration> {
 protected:
  Words()
      : line_("penstock", "", ""), program_(line_.parser()), command_(GetParam().add(program_)) {}

  // Parses "COMMAND WORDS" and returns the value of the text option `name`, or of the positional
  // word if `name` is empty.
  std::vector<std::string> parse(const std::string& name, std::vector<std::string> words) {
    // Other required options go in front.
    for (const TextOption& option : options_) {
      if (!option.is_required || is(option, name)) continue;
      words.insert(words.begin(), option.is_checked ? "auto" : "x");
      if (!option.names.empty()) words.insert(words.begin(), option.names.back());
    }
    words.insert(words.begin(), {"penstock", std::string(GetParam().name)});
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    const auto code = line_.parse(words_of(static_cast<int>(argv.size()), argv.data(), {command_}));
    if (code) return {"exit code " + std::to_string(*code)};
    return std::ranges::find_if(options_, [&](const TextOption& one) { return is(one, name); })
        ->words();
  }

  CommandLine line_;
  Parser program_;
  const Command command_;
  const std::vector<TextOption> options_ = command_.parser.text_options();

 private:
  static bool is(const TextOption& option, const std::string& name) {
    return name.empty() ? option.names.empty()
                        : std::ranges::find(option.names, name) != option.names.end();
  }
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += "<" + word + ">";
  return text;
}

TEST_P(Words, ReachOptionsAsTheyWereTyped) {
  std::vector<std::string> values = odd_words;
  values.insert(values.end(), odd_options.begin(), odd_options.end());
  for (const TextOption& option : options_) {
    if (option.names.empty() || option.is_checked) continue;
    for (const std::string& value : values) {
      for (const std::string& name : option.names) {
        const bool is_long = name.starts_with("--");
        const std::string in_one = name + (is_long ? "=" : "") + value;
        SCOPED_TRACE(in_one);
        if (option.is_flag) {
          // CLI11 uses "{}" for "no value".
          if (is_long && value != "{}") {
            EXPECT_EQ(joined(parse(name, {in_one})), joined({value}));
          }
          continue;
        }
        EXPECT_EQ(joined(parse(name, {name, value})), joined({value}));
        EXPECT_EQ(joined(parse(name, {in_one})), joined({value}));
      }
    }
    if (!option.is_list) continue;
    const std::string& name = option.names.back();
    EXPECT_EQ(joined(parse(name, {name, "[a,b]", name, "[]", name, "-x"})), "<[a,b]><[]><-x>");
  }
}

TEST_P(Words, ReachCommandsAsTheyWereTyped) {
  for (const TextOption& option : options_) {
    if (!option.names.empty()) continue;
    const bool is_trace = GetParam().name == "trace";  // passes on all words after PROGRAM
    for (const std::string& word : odd_words) {
      SCOPED_TRACE(word);
      // A key in GNU sort's older form.
      const bool is_key = word == "+1" && (GetParam().name == "sort");
      if (!is_key) {
        EXPECT_EQ(joined(parse("", {word})), joined({word}));
      }
      EXPECT_EQ(joined(parse("", {"--", word})), joined({word}));
      if (!option.is_list) continue;
      if (!is_key) {
        EXPECT_EQ(joined(parse("", {"a", word, "b"})), joined({"a", word, "b"}));
      }
      EXPECT_EQ(joined(parse("", {"a", "--", word, word})),
                is_trace ? joined({"a", "--", word, word}) : joined({"a", word, word}));
    }
    for (const std::string& word : odd_options) {
      SCOPED_TRACE(word);
      EXPECT_EQ(joined(parse("", {"--", word})), joined({word}));
      if (option.is_list) {
        EXPECT_EQ(joined(parse("", {"--", "[a]", word})), joined({"[a]", word}));
      }
    }
  }
}

TEST_P(Words, FlagsRefuseValues) {
  const CommandText command = line_.texts().back();
  for (const OptionText& option : command.options) {
    for (const std::string& name : option.names) {
      if (!option.value.empty()) continue;
      EXPECT_EQ(line_.parse({std::string(GetParam().name), name + "=1"}), exit_error) << name;
    }
  }
}

TEST_P(Words, MessagesNameOptionsAsTheyWereTyped) {
  const CommandText command = line_.texts().back();
  for (const OptionText& option : command.options) {
    for (const std::string& typed : option.names) {
      if (typed == "--help" || typed == "-h" || typed == "--help-all") continue;
      line_.parse({std::string(GetParam().name), typed, "7"});
      for (const std::string& name : option.names)
        EXPECT_EQ(as_typed(name + " 7: cannot (try: " + name + ", " + name + "x)"),
                  typed + " 7: cannot (try: " + typed + ", " + name + "x)");
    }
  }
}

TEST_P(Words, NamesOfOptionsAreDeclaredOnce) {
  for (const CommandText& command : line_.texts()) {
    std::set<std::string> names;
    for (const OptionText& option : command.options) {
      for (const std::string& name : option.names) EXPECT_TRUE(names.insert(name).second) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryCommand, Words,
                         testing::ValuesIn(all_commands().begin(), all_commands().end()),
                         [](const auto& command) { return std::string(command.param.name); });

}  // namespace
}  // namespace penstock::cli
