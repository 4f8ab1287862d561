#pragma once

// Iteration over the table of options (options.def).

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "penstock/files.h"

namespace penstock {

// The modes of `penstock sort` and `penstock plan`, which make up an option's scope. Other commands
// have only the plain mode.
namespace scope {

inline constexpr unsigned items = 1;             // a sort of items
inline constexpr unsigned keys_shown = 2;        // --debug
inline constexpr unsigned merging = 4;           // -m, and its plan
inline constexpr unsigned checking = 8;          // -c, -C
inline constexpr unsigned plan = 16;             // penstock plan FILE
inline constexpr unsigned plan_of_size = 32;     // penstock plan --size
inline constexpr unsigned tables = 64;           // --by
inline constexpr unsigned cluster = 128;         // --engine ray
inline constexpr unsigned cluster_tables = 256;  // --engine ray --by
// Accepted with -c, -m and --debug without effect, by the program `sort`, as GNU sort does.
inline constexpr unsigned as_gnu = 512;
// No mode: a rare option, which the help shows only with --help-all.
inline constexpr unsigned rare = 1024;

// Sorts, their plans, and merges.
inline constexpr unsigned sorts = items | keys_shown | merging | plan;
// The format and the order of items.
inline constexpr unsigned all_items = sorts | checking | cluster;
// Sorts that the Python package carries out.
inline constexpr unsigned packages = tables | cluster | cluster_tables;

}  // namespace scope

namespace api {

// A row of the table.
struct OptionText {
  const char* owner;
  const char* name;
  const char* field;   // "output_rules.sync"
  const char* c;       // empty: not in C
  const char* python;  // empty: not in the package
  const char* words;   // empty: not on the command line
  const char* value;
  const char* group;
  unsigned scope;
  const char* help;
};

// The first long name of a row's words, as in "--output"; empty if there is none.
constexpr std::string_view long_name(std::string_view words) {
  const size_t at = words.find("--");
  return at == words.npos ? "" : words.substr(at, words.find(',', at) - at);
}

// Calls visit(text, field) for each option of the struct Options; field(options) returns a
// reference to its value.
template <class Options, class Visit>
constexpr void for_each_option(Visit&& visit) {
#define C(field) #field
#define C_NOT(field) #field
#define C_LIST(field) #field
#define C_OPTIONAL(field) #field
#define C_OWN(field) #field
#define C_NONE ""
#define OPTION(owner, name, field, c, python, words, value, group, scope, help)           \
  if constexpr (std::is_same_v<Options, owner>) {                                         \
    visit(OptionText{#owner, #name, #field, c, python, words, value, group, scope, help}, \
          [](auto& options) -> auto& { return options.field; });                          \
  }
#include "interfaces/api/options.def"
}

// The row of an option. An unknown name does not compile.
template <class Options>
consteval OptionText option(std::string_view name) {
  OptionText found{};
  for_each_option<Options>([&](const OptionText& text, auto) {
    if (name == text.name) found = text;
  });
  if (found.name == nullptr) throw "no such option";
  return found;
}

// The words of an enumeration, in the order of its values.
template <class Value>
inline constexpr const char* option_words[] = {""};
template <>
inline constexpr const char* option_words<ColumnRule>[] = {"equal", "same", "union"};
template <>
inline constexpr const char* option_words<Compression>[] = {"auto", "never", "always"};
template <>
inline constexpr const char* option_words<Keep>[] = {"first", "last", "none", "repeated"};
template <>
inline constexpr const char* option_words<CompressedFormat>[] = {"gzip", "zstd", "lz4"};
template <>
inline constexpr const char* option_words<Mechanism>[] = {"automatic", "mremap", "uffd_move",
                                                          "shared"};
template <>
inline constexpr const char* option_words<PartitionFilesBy>[] = {"range", "hash", "bits"};

// Errors: an unknown word; the message names `attempted` and `option`, as in "--pool x".
Result<size_t> index_of_word(std::span<const char* const> words, const std::string& word,
                             const char* attempted, const std::string& option);
template <class Value>
Result<Value> value_of_word(const std::string& word, const char* attempted,
                            const std::string& option) {
  const auto index = index_of_word(option_words<Value>, word, attempted, option);
  if (!index) return std::unexpected(index.error());
  return static_cast<Value>(*index);
}

}  // namespace api
}  // namespace penstock
