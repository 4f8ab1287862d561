// penstock join: joins two files by key: lines by fields, as POSIX join, or items by their format.

#include <algorithm>
#include <memory>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/option_words.h"
#include "cli/files/files_words.h"
#include "files/ops/join/join_lines.h"

namespace penstock::cli {
namespace {

struct JoinArguments : RunWords {
  JoinFilesOptions join;
  // Options for lines:
  std::vector<std::string> left_fields, right_fields, fields;  // -1, -2, -j
  std::vector<std::string> alone, alone_only;                  // -a, -v
  std::vector<std::string> outputs;                            // -o: lists, and the output's name
  std::string empty;
  bool ignore_case = false;
  bool check_order = false;
  bool nocheck_order = false;
  bool has_format = false;  // --format was given

  // Without --format the files are lines, joined by their fields.
  bool joins_lines() const {
    return !has_format || !left_fields.empty() || !right_fields.empty() || !fields.empty() ||
           !alone.empty() || !alone_only.empty() || format.text.separator || format.text.rows() ||
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

Result<JoinLinesOptions> lines_options(const JoinArguments& arguments) {
  JoinLinesOptions options{.ignore_case = arguments.ignore_case,
                           .empty = arguments.empty,
                           .inputs_sorted = arguments.check_order};
  const std::vector<std::string>& both =
      arguments.fields.empty() ? arguments.format.keys : arguments.fields;
  for (size_t side = 0; side < 2; ++side) {
    const auto& own = side == 0 ? arguments.left_fields : arguments.right_fields;
    if (!own.empty() || !both.empty()) options.keys[side] = !own.empty() ? own : both;
    for (const std::string& key : options.keys[side]) {
      if (!arguments.format.text.rows() && key.find_first_not_of("0123456789") != key.npos)
        return misuse("join by this field", key, "a number from 1 on; --csv, for columns");
    }
  }
  auto alone = sides_of(arguments.alone, "-a");
  auto alone_only = sides_of(arguments.alone_only, "-v");
  if (!alone) return std::unexpected(alone.error());
  if (!alone_only) return std::unexpected(alone_only.error());
  options.pairs = arguments.alone_only.empty();
  for (size_t side = 0; side < 2; ++side)
    options.alone[side] = (*alone)[side] || (*alone_only)[side];
  for (const std::string& word : arguments.outputs) {
    if (!files::is_field_list(word)) continue;
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
      if (files::is_field_list(word)) continue;
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
      return json_of_stats(join_files(files, arguments.join));
    });
  }
  const auto options = lines_options(arguments);
  if (!options) return report("join", options.error());
  RunWords words = arguments;
  words.format.keys.clear();
  // -t '': the whole line is the field.
  std::optional<std::string>& separator = words.format.text.separator;
  const bool whole = separator && separator->empty();
  if (whole) separator.reset();
  return run_files("join", words, [&](FilesOptions files) {
    if (whole) files.items.separator = files.items.zero_terminated ? '\0' : '\n';
    return json_of_stats(join_lines(files, *options));
  });
}

}  // namespace

Command add_join(Parser& program) {
  Parser parser = program.add_subcommand("join", "join two files by key");
  auto arguments = std::make_shared<JoinArguments>();
  JoinArguments& a = *arguments;
  using api::option;
  add_files_words(parser, a, "the left and the right file; one may be - (standard input)");
  parser.add_option(
      "-o", a.outputs,
      "a LIST of the fields to write, as 0,1.2,2.name or auto; or the output's name, unless it "
      "contains a comma, begins with a digit and a point, or is a number or a key");
  parser.add_option("--output", a.output,
                    "output file; may be an input (default: standard output)");
  add_line_words(parser, a.format.text);
  add_compressed_word(parser, a.compressed);
  add_option(parser, option<JoinLinesOptions>("left_keys"), a.left_fields);
  add_option(parser, option<JoinLinesOptions>("right_keys"), a.right_fields);
  parser.add_option("-j", a.fields, "same as -1 FIELD -2 FIELD, and as --key");
  parser.add_option("-a", a.alone, "1 or 2: also print unpaired lines of this file");
  parser.add_option("-v", a.alone_only, "1 or 2: print only unpaired lines of this file");
  add_option(parser, option<JoinLinesOptions>("empty"), a.empty);
  add_flag(parser, option<JoinLinesOptions>("ignore_case"), a.ignore_case);
  add_flag(parser, option<JoinLinesOptions>("inputs_sorted"), a.check_order);
  parser.add_flag("--nocheck-order", a.nocheck_order, "lines: sort unsorted inputs (default)");
  add_options(parser, a.join);
  parser.add_flag("-r,--reverse", a.descending, "the files are in descending order");
  return {parser, [arguments, parser] { return run_join(*arguments, parser); }};
}

}  // namespace penstock::cli
