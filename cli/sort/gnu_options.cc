#include "cli/sort/gnu_options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/misuse.h"
#include "base/random.h"
#include "cli/common/command.h"
#include "cli/common/modes.h"
#include "cli/common/option_words.h"
#include "penstock/source.h"

namespace penstock::cli {
namespace {

constexpr std::string_view long_options[] = {"ignore-leading-blanks",
                                             "dictionary-order",
                                             "ignore-case",
                                             "general-numeric-sort",
                                             "ignore-nonprinting",
                                             "month-sort",
                                             "human-numeric-sort",
                                             "numeric-sort",
                                             "random-sort",
                                             "random-source",
                                             "reverse",
                                             "sort",
                                             "version-sort",
                                             "batch-size",
                                             "check",
                                             "compress-program",
                                             "debug",
                                             "files0-from",
                                             "key",
                                             "merge",
                                             "output",
                                             "stable",
                                             "buffer-size",
                                             "field-separator",
                                             "temporary-directory",
                                             "parallel",
                                             "unique",
                                             "zero-terminated",
                                             "help",
                                             "version"};

// Completes an unambiguous abbreviation of GNU sort's options: "--rev" to "--reverse". Our own
// options make more of them ambiguous, but not under the name of GNU sort.
std::string completed(const std::string& word, const Parser& sort) {
  const std::string_view name = std::string_view(word).substr(2, word.find('=') - 2);
  std::string_view found;
  for (const std::string_view option : long_options) {
    if (option == name) return word;
    if (name.empty() || !option.starts_with(name)) continue;
    if (!found.empty()) return word;
    found = option;
  }
  if (found.empty()) return word;
  if (called("sort") != "sort" && sort.has_other_name(name, found)) return word;
  return "--" + std::string(found) + word.substr(2 + name.size());
}

// The begin or end of a key in the older form, "+1.2nr" or "-3.4". Fields and characters are 0-based.
struct OldPosition {
  uint64_t field = 0;
  uint64_t character = 0;
  std::string letters;
};

std::optional<OldPosition> old_position(std::string_view word, char sign) {
  OldPosition place;
  if (word.size() < 2 || word.front() != sign) return {};
  const char* const end = word.data() + word.size();
  auto read = std::from_chars(word.data() + 1, end, place.field);
  if (read.ec != std::errc{}) return {};
  if (read.ptr != end && *read.ptr == '.') {
    read = std::from_chars(read.ptr + 1, end, place.character);
    if (read.ec != std::errc{}) return {};
  }
  place.letters.assign(read.ptr, end);
  if (place.letters.find_first_not_of("bdfghiMnRrV") != std::string::npos) return {};
  return place;
}

std::string key_of(const OldPosition& from, const std::optional<OldPosition>& to) {
  std::string key = std::to_string(from.field + 1);
  if (from.character > 0) key += "." + std::to_string(from.character + 1);
  key += from.letters;
  if (!to) return key;
  // Without characters the key ends with the field before, otherwise within this one.
  const uint64_t field = to->character > 0 ? to->field + 1 : std::max<uint64_t>(to->field, 1);
  key += "," + std::to_string(field);
  if (to->character > 0) key += "." + std::to_string(to->character);
  return key + to->letters;
}

// The value of --old-key, for the remarks of --debug.
std::string old_key_of(const std::string& key, const OldPosition& from,
                       const std::optional<OldPosition>& to) {
  std::string written = "+" + std::to_string(from.field);
  std::string now = std::to_string(from.field + 1);
  if (to) {
    const std::string end =
        std::to_string(std::max<uint64_t>(to->field + (to->character > 0 ? 1 : 0), 1));
    written += " -" + end;
    now += "," + end;
  }
  return key + "=" + written + "=" + now;
}

}  // namespace

std::vector<std::string> with_gnu_forms(std::vector<std::string> words, const Parser& sort) {
  std::vector<std::string> made;
  const bool files_end_options = std::getenv("POSIXLY_CORRECT") != nullptr;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      made.insert(made.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
      break;
    }
    if (const auto from = old_position(words[i], '+')) {
      const auto to = i + 1 < words.size() ? old_position(words[i + 1], '-') : std::nullopt;
      made.push_back("-k" + key_of(*from, to));
      made.push_back("--old-key=" + old_key_of(made.back().substr(2), *from, to));
      i += to ? 1 : 0;
      continue;
    }
    // The first word names the command.
    if (files_end_options && i > 0 && (words[i] == "-" || !words[i].starts_with('-'))) {
      made.emplace_back("--");
      made.insert(made.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
      break;
    }
    made.push_back(words[i].starts_with("--") ? completed(words[i], sort) : words[i]);
    if (sort.takes_next_word(made.back()) && i + 1 < words.size()) made.push_back(words[++i]);
  }
  return made;
}

void add_gnu_options(Parser& sort, GnuOptions& options) {
  constexpr unsigned files = modes::sorts | modes::checking;
  sort.add_option("--files0-from", options.files0_from,
                  "read the names of the inputs from this file, each followed by a NUL; - is "
                  "standard input")
      .names_files(FileUse::read)
      .rare()
      .in(files);
  add_option(sort, api::option<ItemFormat>("random_seed"), options.random_source)
      .names_files(FileUse::read);
  sort.add_option("--batch-size", options.batch_size,
                  "accepted and ignored: -S decides how many files are merged at once")
      .rare()
      .in((modes::sorts & ~modes::merging) | modes::as_gnu);
  sort.add_option("--compress-program", options.compress_program,
                  "compress temporaries, always with LZ4 (as --compress-temporaries always)")
      .rare()
      .in((modes::sorts & ~modes::merging) | modes::as_gnu);
  sort.add_option("--old-key", options.old_keys, "").in(modes::all_items).hidden();
}

Status check_gnu_options(const GnuOptions& options) {
  if (options.batch_size.empty()) return {};
  uint64_t files = 0;
  const char* const end = options.batch_size.data() + options.batch_size.size();
  const auto [at, error] = std::from_chars(options.batch_size.data(), end, files);
  // A number that overflows is large enough.
  const bool fine =
      at == end && (error == std::errc{} ? files >= 2 : error == std::errc::result_out_of_range);
  if (fine) return {};
  return misuse("merge so many files at once", "--batch-size=" + options.batch_size, "2 or more");
}

Result<std::vector<std::string>> inputs_from(const std::string& path) {
  auto source = open_source(path, {.decompress = false});
  if (!source) return std::unexpected(source.error());
  std::string text;
  for (std::vector<std::byte> piece(64 * KiB);;) {
    const auto bytes = (*source)->read(piece);
    if (!bytes) return std::unexpected(bytes.error());
    if (*bytes == 0) break;
    text.append(reinterpret_cast<const char*>(piece.data()), *bytes);
  }
  std::vector<std::string> names;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    names.push_back(text.substr(at, end - at));
    if (names.back().empty() || (names.back() == "-" && path == "-")) {
      return misuse("use file name " + std::to_string(names.size()) +
                        (names.back().empty() ? ", which is empty" : ", where the names come from"),
                    path, "names, each followed by one NUL");
    }
    at = end + 1;
  }
  if (names.empty()) return misuse("find a file name", path, "names, each followed by a NUL");
  return names;
}

Result<uint64_t> random_seed_from(const std::string& path) {
  auto source = open_source(path, {.decompress = false});
  if (!source) return std::unexpected(source.error());
  uint64_t seed[2] = {};
  for (std::span<std::byte> left = std::as_writable_bytes(std::span(seed)); !left.empty();) {
    const auto bytes = (*source)->read(left);
    if (!bytes) return std::unexpected(bytes.error());
    if (*bytes == 0) return misuse("take 16 bytes of chance", path, "a longer file");
    left = left.subspan(*bytes);
  }
  return mix64(seed[0] ^ mix64(seed[1]));
}

}  // namespace penstock::cli
