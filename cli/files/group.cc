// penstock group: computes one result for each key.

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/option_words.h"
#include "cli/files/files_words.h"
#include "os/limits.h"

namespace penstock::cli {
namespace {

struct GroupArguments : RunWords {
  GroupFilesOptions group{.threads =
                              std::clamp(os::cores_usable(), 1u, GroupFilesOptions().threads)};
  std::vector<std::string> values;
  std::string column;  // the last flag's column; the parser has all of them
  std::vector<std::string> quantiles;
  bool is_signed = false;
  bool big_endian = false;
};

// Functions of columns beside --sum, --min and --max, which are options of binary items too.
struct ColumnFunction {
  const char* words;
  const char* help;
};
constexpr ColumnFunction column_functions[] = {
    {"--mean", "mean of a column's numbers"},
    {"--first", "first value of a column, in the order of the input"},
    {"--last", "last value of a column"},
    {"--count-distinct", "number of different values of a column, as texts"},
    {"--stddev", "standard deviation of a column's numbers, as of a sample"},
    {"--median", "median of a column's numbers"}};
constexpr const char* functions_in_order[] = {
    "--sum",    "--min",    "--max",     "--mean", "--first", "--last", "--count-distinct",
    "--stddev", "--median", "--quantile"};

// Returns whether a format has columns or members.
bool is_text(std::string_view format) {
  return format == "lines" || format == "uniq" || format == "csv" || format == "jsonl";
}

// Returns whether a function takes the next word for its column: not with --value, which names the
// columns, nor for binary items, which have none.
bool next_word_is_column(std::span<const std::string> words) {
  auto is = [](std::string_view word, std::string_view option) {
    return word.starts_with(option) && (word.size() == option.size() || word[option.size()] == '=');
  };
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string_view word = words[i];
    if (is(word, "--value") || is(word, "--record") || is(word, "--dtype")) return false;
    if (word == "--format" && i + 1 < words.size() && !is_text(words[i + 1])) return false;
    if (word.starts_with("--format=") && !is_text(word.substr(9))) return false;
  }
  return true;
}

// A result of a column, "--sum" "price"; `word` is its form in GroupFilesOptions::results.
struct ColumnWord {
  std::string option;
  std::string column;
  std::string word;
  bool is_of_value = false;  // --value named the column
};

// Reads the functions in the order of the command line. Those without a column set the flags of
// `aggregates`, or are of each --value. Errors: one has no column.
Result<std::vector<ColumnWord>> column_words(const GroupArguments& arguments, const Parser& parser,
                                             Aggregates& aggregates) {
  std::vector<ColumnWord> words;
  for (const auto& [option, value] : parser.values_in_order(functions_in_order)) {
    const bool is_quantile = option == "--quantile";
    const size_t colon = is_quantile ? value.find(':') : 0;
    const std::string name = option.substr(2) + "=";
    if (is_quantile ? colon != value.npos : value != "true") {
      words.push_back({option, is_quantile ? value.substr(colon + 1) : value, name + value});
      continue;
    }
    const bool is_flag = option == "--sum" || option == "--min" || option == "--max";
    const bool has_columns = is_text(arguments.format.name);
    if (!is_flag && !has_columns)
      return misuse("compute this of binary items", option, "--sum, --min or --max");
    if (has_columns && arguments.values.empty()) {
      if (!is_quantile) return misuse("find its column", option, option + "=COLUMN");
      const bool is_number = value.find_first_not_of("0123456789.") == value.npos;
      return misuse("find its column", option + " " + value,
                    option + " " + (is_number ? value + ":COLUMN" : "0.9:" + value));
    }
    if (is_flag) {
      (option == "--sum"   ? aggregates.sum
       : option == "--min" ? aggregates.min
                           : aggregates.max) = true;
      continue;
    }
    for (const std::string& column : arguments.values)
      words.push_back({option, column, name + (is_quantile ? value + ":" : "") + column, true});
  }
  return words;
}

// Parses --value, such as "8:4".
Result<ValueField> parse_value(const std::string& text) {
  ValueField value;
  const char* const end = text.data() + text.size();
  const auto offset = std::from_chars(text.data(), end, value.offset);
  const bool has_colon = offset.ec == std::errc{} && offset.ptr != end && *offset.ptr == ':';
  const auto bytes = has_colon ? std::from_chars(offset.ptr + 1, end, value.bytes) : offset;
  if (!has_colon || bytes.ec != std::errc{} || bytes.ptr != end) {
    return failure(ErrorCode::invalid_argument, "find this value", "--value " + text,
                   "OFFSET:LENGTH in bytes, as in --value 8:4");
  }
  return value;
}

// The field that --sum, --min and --max aggregate; nullopt: the format's default. Errors: a word is
// wrong.
Result<std::optional<ValueField>> value_of(const GroupArguments& arguments) {
  const Aggregates& aggregates = arguments.group.aggregates;
  if (arguments.values.size() > 1)
    return misuse("use several values", "--value " + arguments.values.back(), "one");
  if (arguments.values.empty() && !arguments.is_signed && !arguments.big_endian) return {};
  ValueField value{.offset = 8};  // the value of a pair
  if (arguments.values.empty()) {
    if (arguments.format.name != "kv64") {
      return misuse("read the value so", arguments.is_signed ? "--signed" : "--big-endian",
                    "--value OFFSET:LENGTH");
    }
  } else {
    auto parsed = parse_value(arguments.values.front());
    if (!parsed) return std::unexpected(parsed.error());
    value = *parsed;
  }
  if (!aggregates.sum && !aggregates.min && !aggregates.max)
    return misuse("use a value", "--value", "--sum, --min or --max");
  value.is_signed = arguments.is_signed;
  value.big_endian = arguments.big_endian;
  return value;
}

int run_group(GroupArguments& arguments, const Parser& parser) {
  Aggregates& aggregates = arguments.group.aggregates;
  // --format uniq counts lines, and writes them as uniq -c does.
  if (arguments.format.name == "uniq") {
    arguments.format.name = "lines";
    aggregates.count = aggregates.like_uniq = true;
  }
  const auto words = column_words(arguments, parser, aggregates);
  if (!words) return report("group", words.error());
  arguments.named_columns = {{"--value", arguments.values}};
  for (const ColumnWord& one : *words) {
    if (arguments.inputs.empty() && ::access(one.column.c_str(), F_OK) == 0) {
      const auto wrong = misuse("take a file for a column", one.option + " " + one.column,
                                one.option + " COLUMN " + one.column);
      return report("group", wrong.error());
    }
    if (!one.is_of_value) arguments.named_columns.push_back({one.option, {one.column}});
    arguments.group.results.push_back(one.word);
  }
  arguments.counts_odd_values = true;
  arguments.groups = aggregates.count || aggregates.distinct || !words->empty();
  return run_files("group", arguments, [&](const FilesOptions& files) -> Result<FilesDone> {
    GroupFilesOptions options = arguments.group;
    if (is_text(files.items.name)) {
      // Each --value has a use: by a flag, or by the results of other functions.
      if (aggregates.sum || aggregates.min || aggregates.max ||
          std::ranges::none_of(*words, &ColumnWord::is_of_value))
        options.columns = arguments.values;
    } else {
      auto value = value_of(arguments);
      if (!value) return std::unexpected(value.error());
      options.aggregates.value = *value;
    }
    return statistics_of(group_files(files, options));
  });
}

}  // namespace

Command add_group(Parser& program) {
  Parser parser =
      program.add_subcommand("group", "group items by key: counts, sums, means, medians and more");
  auto arguments = std::make_shared<GroupArguments>();
  GroupArguments& a = *arguments;
  add_files_words(
      parser, a, "files to group (default, or -: standard input)",
      {{"penstock group --key customer --count --sum price --mean price orders.csv",
        "orders, and the sum and the mean of the prices, of each customer"},
       {"penstock group --count --median price --quantile 0.9:price orders.csv",
        "the same of all rows: no key, one result"},
       {"penstock group --format uniq --top 10 access.log", "the ten most frequent lines"},
       {"penstock group --key customer --distinct orders.csv", "the first row of each customer"}});
  add_text_words(parser, a.format.text, false);
  parser.group("Input and output");
  add_output_file(parser, a);
  add_columns_word(parser, a);
  parser.group("Results");
  add_options(parser, a.group);
  auto add_function = [&](const char* function, const char* help) {
    return parser.add_flag(function, a.column, help)
        .value_name("COLUMN")
        .values_like([](const std::string& word) {
          return !word.starts_with("-") && word.find_first_of("./") == word.npos;
        })
        .takes_next_word_if(next_word_is_column);
  };
  for (const api::OptionText& text :
       {api::option<GroupFilesOptions>("sum"), api::option<GroupFilesOptions>("min"),
        api::option<GroupFilesOptions>("max")})
    described(add_function(text.words, text.help), text);
  for (const ColumnFunction& one : column_functions) add_function(one.words, one.help);
  parser
      .add_option("--quantile", a.quantiles,
                  "quantile of a column's numbers: that at the part Q, 0 to 1, of their order, or "
                  "in proportion between two; may be repeated")
      .value_name("Q:COLUMN");
  add_option(parser, api::option<GroupFilesOptions>("value"), a.values);
  parser.add_flag("--signed", a.is_signed, "the value may be negative (two's complement)").rare();
  parser
      .add_flag("--big-endian", a.big_endian, "the value's first byte is its most significant one")
      .rare();
  return {parser, [arguments, parser] { return run_group(*arguments, parser); }};
}

}  // namespace penstock::cli
