// penstock join: joins files by key: lines by fields, as POSIX join, or items by their format.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "base/amounts.h"
#include "base/misuse.h"
#include "base/shell_word.h"
#include "cli/common/beginnings.h"
#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/option_words.h"
#include "cli/common/table_guess.h"
#include "cli/files/files_words.h"
#include "files/ops/join/field_list.h"
#include "io/names.h"
#include "items/keys/text/key_words.h"

namespace penstock::cli {
namespace {

// A kind of join other than the inner one, with the options that it sets.
struct JoinKind {
  const char* option;
  bool pairs;
  std::array<bool, 2> alone;
  bool first_only;
  const char* help;
};
constexpr JoinKind join_kinds[] = {
    {"--left", true, {true, false}, false, "same as -a 1: all lines of the left file, and pairs"},
    {"--right", true, {false, true}, false, "same as -a 2"},
    {"--full", true, {true, true}, false, "same as -a 1 -a 2"},
    {"--semi", true, {}, true, "left lines that have partners in all other files, as they are"},
    {"--anti", false, {true, false}, true, "left lines without any partner, as they are"},
};

struct JoinArguments : RunWords {
  JoinFilesOptions join;
  // Options for lines:
  std::vector<std::string> left_fields, right_fields, fields;  // -1, -2, -j
  std::vector<std::string> alone, alone_only;                  // -a, -v
  std::array<bool, std::size(join_kinds)> kinds = {};          // the given ones
  std::vector<std::string> outputs;                            // -o: lists, and the output's name
  std::string empty;
  bool ignore_case = false;
  bool check_order = false;
  bool nocheck_order = false;
  bool has_format = false;  // --format was given

  // Without --format the files are lines, joined by their fields.
  bool joins_lines() const {
    return !has_format || format.name == "jsonl" || !left_fields.empty() || !right_fields.empty() ||
           !fields.empty() || !alone.empty() || !alone_only.empty() ||
           std::ranges::count(kinds, true) > 0 || format.text.separator || format.text.rows() ||
           format.text.zero || !format.text.header.empty() || ignore_case || !empty.empty();
  }
};

// The files named by values of -a or -v, "1" or "2".
Result<std::array<bool, 2>> sides_of(const std::vector<std::string>& words, const char* option) {
  std::array<bool, 2> sides = {};
  for (const std::string& word : words) {
    if (word != "1" && word != "2")
      return misuse("find this file", option + (" " + word), "1 (the left file) or 2 (the right)");
    sides[static_cast<size_t>(word[0] - '1')] = true;
  }
  return sides;
}

// Sets the kind of the join by -a, -v or one of join_kinds.
Status choose_kind(const JoinArguments& arguments, JoinLinesOptions& options) {
  auto alone = sides_of(arguments.alone, "-a");
  auto alone_only = sides_of(arguments.alone_only, "-v");
  if (!alone) return std::unexpected(alone.error());
  if (!alone_only) return std::unexpected(alone_only.error());
  options.pairs = arguments.alone_only.empty();
  for (size_t side = 0; side < 2; ++side)
    options.alone[side] = (*alone)[side] || (*alone_only)[side];
  bool chosen = !arguments.alone.empty() || !arguments.alone_only.empty();
  for (size_t i = 0; i < std::size(join_kinds); ++i) {
    if (!arguments.kinds[i]) continue;
    const JoinKind& kind = join_kinds[i];
    if (chosen)
      return misuse("join in two ways", kind.option,
                    "one of -a, -v, --left, --right, --full, --semi and --anti");
    chosen = true;
    options.pairs = kind.pairs;
    options.alone = kind.alone;
    options.first_only = kind.first_only;
  }
  return {};
}

// Returns the keys of the first side and of the others, by default the first field.
std::array<std::vector<std::string>, 2> keys_of(const JoinArguments& arguments) {
  const std::vector<std::string> first = {"1"};
  const auto& both = !arguments.fields.empty()        ? arguments.fields
                     : !arguments.format.keys.empty() ? arguments.format.keys
                                                      : first;
  return {arguments.left_fields.empty() ? both : arguments.left_fields,
          arguments.right_fields.empty() ? both : arguments.right_fields};
}

// Returns a separator as a shell takes it.
std::string typed_separator(const std::string& separator) {
  return separator == "\t" ? "'\\t'" : shell_word(separator);
}

// Takes the files for tables if a key of any names a column.
Status recognize_tables(JoinArguments& arguments) {
  const auto keys = keys_of(arguments);
  if (!asks_for_table(arguments.format, keys[0]) && !asks_for_table(arguments.format, keys[1]))
    return refuse_bare_numbers(arguments.format, arguments.inputs, arguments.source,
                               *arguments.beginnings);
  // A name on one side needs a header on all.
  TextWords& text = arguments.format.text;
  const bool has_name = std::ranges::any_of(keys, [](const auto& of_side) {
    return std::ranges::any_of(
        of_side, [](const std::string& key) { return !items::read_columns(key, {}); });
  });
  if (has_name && !text.no_header && text.header.empty()) text.header = "true";
  std::optional<FormatOptions> first;
  for (size_t side = 0; side < arguments.inputs.size(); ++side) {
    const std::string& input = arguments.inputs[side];
    FormatOptions format = arguments.format;
    if (side >= seen_inputs_max) arguments.beginnings->clear();  // bounds its memory
    if (Status table = recognize_table(keys[side == 0 ? 0 : 1], {input}, arguments.source,
                                       *arguments.beginnings, format);
        !table)
      return table;
    if (!first) {
      first = format;
      continue;
    }
    // An empty file has no separator of its own.
    std::optional<std::string>& separator = first->text.separator;
    const std::optional<std::string>& own_separator = format.text.separator;
    if (!separator) separator = own_separator;
    if (own_separator && separator != own_separator)
      return misuse(fmt::format("join it, whose separator is {}, with {}, whose separator is {}",
                                typed_separator(*separator), io::shown_input(input),
                                typed_separator(*own_separator)),
                    io::shown_input(arguments.inputs[0]),
                    fmt::format("tr {} {} <{} | penstock join ... {} -, if no field has either",
                                typed_separator(*own_separator), typed_separator(*separator),
                                shell_word(input), typed_word(arguments.inputs[0])));
    if (first->text.header != format.text.header)
      return misuse("join a file without a header to one that has one",
                    io::shown_input(first->text.header.empty() ? arguments.inputs[0] : input),
                    "--header, if both have one; --no-header, if neither has one");
  }
  arguments.format = *first;
  return {};
}

// Returns the options that join the files by columns, if all look like tables with a header; empty
// otherwise.
std::string hint_of_columns(const JoinArguments& arguments) {
  if (arguments.inputs.size() > seen_inputs_max) return {};
  std::vector<std::vector<std::string>> names;
  for (const std::string& input : arguments.inputs) {
    auto table = look_at_table(input, arguments.source, *arguments.beginnings);
    if (!table || !table->is_even || table->first.size() < 2 || !table->has_header.value_or(true))
      return {};
    names.push_back(std::move(table->first));
  }
  const auto common = std::ranges::find_if(names[0], [&](const std::string& name) {
    return !name.empty() && std::ranges::all_of(names, [&](const auto& of_file) {
      return std::ranges::count(of_file, name) == 1;
    });
  });
  if (common != names[0].end())
    return fmt::format("--key {}, a column of {}", typed_word(*common),
                       names.size() == 2 ? "both" : "all");
  return fmt::format("-1 {} -2 {}, or other columns", typed_word(names[0].front()),
                     typed_word(names[1].front()));
}

Result<JoinLinesOptions> lines_options(const JoinArguments& arguments) {
  JoinLinesOptions options{.ignore_case = arguments.ignore_case,
                           .empty = arguments.empty,
                           .inputs_sorted = arguments.check_order};
  const auto keys = keys_of(arguments);
  const bool has_members = arguments.format.name == "jsonl";
  for (size_t side = 0; side < 2; ++side) {
    if (has_members && keys[side].front() == "1")
      return misuse("join JSON lines without a key", "--jsonl", "--key .NAME");
    if (!keys[side].empty()) options.keys[side] = keys[side];
    for (const std::string& key : options.keys[side]) {
      if (!arguments.format.text.rows() && !has_members &&
          key.find_first_not_of("0123456789") != key.npos)
        return misuse("join by this field", "--key " + key,
                      "a number from 1 on; --csv, for columns");
    }
  }
  if (Status kind = choose_kind(arguments, options); !kind) return std::unexpected(kind.error());
  for (const std::string& word : arguments.outputs) {
    if (!files::is_field_list(word, arguments.inputs.size())) continue;
    if (!options.list.empty() && (word == "auto" || options.list == "auto"))
      return misuse("write fields in two ways", "-o auto", "one list");
    options.list += (options.list.empty() ? "" : ",") + word;
  }
  return options;
}

// Whether `word` is the column of a key, as "price" in "price:n".
bool names_a_key(const JoinArguments& arguments, const std::string& word) {
  const std::vector<std::string>* const lists[] = {&arguments.left_fields, &arguments.right_fields,
                                                   &arguments.fields, &arguments.format.keys};
  return std::ranges::any_of(lists, [&](const auto* keys) {
    return std::ranges::any_of(
        *keys, [&](const std::string& key) { return key == word || key.starts_with(word + ":"); });
  });
}

// Sorts out the values of -o, which are either lists of fields or the output's name.
Status take_outputs(JoinArguments& arguments) {
  for (const std::string& word : arguments.outputs) {
    if (arguments.joins_lines()) {
      if (files::is_field_list(word, arguments.inputs.size())) continue;
      if (files::looks_like_field_list(word) || names_a_key(arguments, word))
        return files::no_field_list(word);
    }
    if (arguments.output != "-") return misuse("write two outputs", "-o " + word, "one");
    arguments.output = word;
  }
  return {};
}

int run_join(JoinArguments& arguments, const Parser& parser) {
  arguments.has_format = parser.given("--format");
  if (Status status = take_outputs(arguments); !status) return report("join", status.error());
  if (!arguments.joins_lines()) {
    return run_files("join", arguments, [&](const FilesOptions& files) {
      return statistics_of(join_files(files, arguments.join));
    });
  }
  if (arguments.inputs.size() < 2) {
    const auto wrong =
        misuse("join " + counted(arguments.inputs.size(), "file"), "", "two files or more");
    return report("join", wrong.error());
  }
  if (Status table = recognize_tables(arguments); !table) return report("join", table.error());
  const auto options = lines_options(arguments);
  if (!options) return report("join", options.error());
  RunWords words = arguments;
  words.format.keys.clear();
  // -t '': the whole line is the field.
  std::optional<std::string>& separator = words.format.text.separator;
  const bool whole = separator && separator->empty();
  if (whole) separator.reset();
  const size_t checked = std::min(arguments.inputs.size(), seen_inputs_max);
  for (size_t side = 0; side < checked && !whole; ++side)
    words.named_columns.push_back({"--key", options->keys[side == 0 ? 0 : 1], side});
  // Between blanks, field_notice() looks for tables.
  words.looks_for_header = words.format.text.rows() || separator || whole;
  words.field_hint = [&] { return hint_of_columns(arguments); };
  return run_files("join", words, [&](FilesOptions files) -> Result<FilesDone> {
    if (whole) files.items.separator = files.items.zero_terminated ? '\0' : '\n';
    return statistics_of(join_lines(files, *options));
  });
}

}  // namespace

Command add_join(Parser& program) {
  Parser parser = program.add_subcommand("join", "join files by key");
  auto arguments = std::make_shared<JoinArguments>();
  JoinArguments& a = *arguments;
  using api::option;
  add_files_words(parser, a,
                  "the left file and the right one, or more; one may be - (standard input)",
                  {{"penstock join --key customer orders.csv customers.csv",
                    "join two CSV files by a column that both have"},
                   {"penstock join --left --key customer orders.csv customers.csv notes.csv",
                    "join three CSV files, and keep all rows of the first one"},
                   {"penstock join -a 1 left.txt right.txt",
                    "join lines by their first field, and keep left lines without a partner"},
                   {"penstock join --anti left.txt right.txt", "left lines without a partner"}});
  parser
      .add_option(
          "-o", a.outputs,
          "a LIST of the fields to write, as 0,1.2,2.name or auto; or the output's name, unless it "
          "contains a comma, begins with a digit and a point, or is a number or a key")
      .value_name("LIST|FILE")
      .names_files(FileUse::replaced);
  parser.add_option("--output", a.output, "output file; may be an input (default: standard output)")
      .names_files(FileUse::replaced);
  add_line_words(parser, a.format.text);
  add_compressed_word(parser, a.compressed);
  add_option(parser, option<JoinLinesOptions>("left_keys"), a.left_fields).stands_for("--key");
  add_option(parser, option<JoinLinesOptions>("right_keys"), a.right_fields).stands_for("--key");
  parser.add_option("-j", a.fields, "same as -1 FIELD -2 FIELD, and as --key").stands_for("--key");
  parser.add_option("-a", a.alone, "1 or 2: also print unpaired lines of this file");
  parser.add_option("-v", a.alone_only, "1 or 2: print only unpaired lines of this file");
  for (size_t i = 0; i < std::size(join_kinds); ++i)
    parser.add_flag(join_kinds[i].option, a.kinds[i], join_kinds[i].help);
  add_option(parser, option<JoinLinesOptions>("empty"), a.empty);
  add_flag(parser, option<JoinLinesOptions>("ignore_case"), a.ignore_case);
  add_flag(parser, option<JoinLinesOptions>("inputs_sorted"), a.check_order);
  parser.add_flag("--nocheck-order", a.nocheck_order, "lines: sort unsorted inputs (default)")
      .rare();
  add_options(parser, a.join);
  parser.add_flag("-r,--reverse,--desc", a.descending, "the files are in descending order");
  return {parser, [arguments, parser] { return run_join(*arguments, parser); }};
}

}  // namespace penstock::cli
