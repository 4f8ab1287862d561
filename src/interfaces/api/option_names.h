#pragma once

// The names of options in messages. Operations name options by the words of the command line; callers
// of the C++ and C interfaces get the members of penstock/files.h that these words set, as the
// settings of penstock.h take them: "memory_bytes" for "-S", "format=u64" for "--format u64".

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/out_of_memory.h"
#include "interfaces/api/option_table.h"
#include "penstock/files.h"

namespace penstock::api {

// The member that a word sets.
struct Member {
  std::string_view name;
  std::string_view value = {};  // the value that a flag sets
  bool takes_next_word = false;
};
using FindMember = std::optional<Member> (*)(std::string_view word);

// Replaces the words of options in a sentence. Texts in single quotes are data, and stay, as do the
// options of other programs, as in "ulimit -n 512".
std::string with_members(std::string_view text, FindMember find);
// Replaces them in all parts of an error. A subject is replaced if it begins with an option.
Error with_members(Error error, FindMember find);

// Returns whether the words of a row, "-k,--key", contain this one.
constexpr bool has_word(std::string_view words, std::string_view word) {
  for (size_t at = 0; at < words.size();) {
    const size_t end = words.find(',', at) == words.npos ? words.size() : words.find(',', at);
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

template <class Options>
void find_member(std::string_view word, std::optional<Member>& found) {
  for_each_option<Options>([&](const OptionText& text, auto field) {
    if (found || !has_word(text.words, word)) return;
    using Value = std::remove_cvref_t<decltype(field(std::declval<Options&>()))>;
    const std::string_view name(text.name);
    found = Member{.name = name == "name" ? std::string_view(text.c) : name};
    if constexpr (std::is_same_v<Value, bool>) {
      found->value = word.starts_with("--no-") ? "false" : "true";
    } else {
      found->takes_next_word = name != "header_lines";
    }
  });
}

// Finds the members of an operation's own options, then those of files and items.
template <class Options>
std::optional<Member> member_of(std::string_view word) {
  std::optional<Member> found;
  if (std::is_same_v<Options, JoinLinesOptions> && word == "-o") return Member{"list", "", true};
  find_member<Options>(word, found);
  find_member<FilesOptions>(word, found);
  find_member<ItemFormat>(word, found);
  return found;
}

// Runs work(files), whose errors and notices name options as the caller does. Returns an error if
// the heap is exhausted.
template <class Options, class Work>
auto called_with(const FilesOptions& given, Work work) -> decltype(work(given)) {
  return or_out_of_memory([&]() -> decltype(work(given)) {
    if (given.option_names == OptionNames::command_line) return work(given);
    FilesOptions files = given;
    if (given.notice) {
      files.notice = [&](const std::string& text) {
        given.notice(with_members(text, member_of<Options>));
      };
    }
    auto done = work(files);
    if (!done) return std::unexpected(with_members(done.error(), member_of<Options>));
    return done;
  });
}

}  // namespace penstock::api
