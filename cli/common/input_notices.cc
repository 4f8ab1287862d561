#include "cli/common/input_notices.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ranges>

#include "base/printable.h"
#include "base/shell_word.h"
#include "cli/common/command.h"
#include "cli/common/print.h"
#include "cli/common/table_guess.h"
#include "interfaces/api/binary_input.h"
#include "io/names.h"
#include "items/items.h"

namespace penstock::cli {
namespace {

// The first input that is to be read as lines and has NULs near its beginning, unless an input is
// refused.
std::string binary_notice(const FilesOptions& files, Beginnings& beginnings) {
  constexpr size_t look_bytes = 4096;
  if (files.items.name != "lines" || files.items.zero_terminated) return {};
  for (const std::string& input : files.inputs | std::views::take(seen_inputs_max)) {
    const Beginning& beginning = beginnings.of(input, files.source);
    if (files.source.decompress && !api::refuse_binary(files.items, input, beginning.head))
      return {};
    const std::string head = beginning.text.substr(0, look_bytes);
    if (!head.contains('\0')) continue;
    const char* const encoding = items::wide_encoding(head);
    if (encoding != nullptr && files.items.csv) return {};  // such rows are refused, with this hint
    return fmt::format(
        "{}: read as lines of text, but contains NUL bytes (try: {})", io::shown_input(input),
        encoding == nullptr ? "--format u64 or another format; -z for lines that end with NUL"
                            : items::hint_of_encoding(encoding));
  }
  return {};
}

// The length of records that no word says.
std::string record_notice(const ItemFormat& items) {
  if (items.name != "record" || items.record_bytes || !items.dtype.empty()) return {};
  return fmt::format("records of 100 bytes{} (try: --record BYTES, if theirs is another length)",
                     items.keys.empty() ? ", in the order of the first 10" : "");
}

// The first input of lines that has carriage returns at its beginning, and no line end.
std::string return_notice(const FilesOptions& files, Beginnings& beginnings) {
  if (files.items.name != "lines" || files.items.csv || files.items.zero_terminated) return {};
  for (const std::string& input : files.inputs | std::views::take(seen_inputs_max)) {
    const Beginning& beginning = beginnings.of(input, files.source);
    const std::string& text = beginning.text;
    if (!text.contains('\r') || text.contains('\n') || text.contains('\0')) continue;
    if (!beginning.head.is_file && !beginning.is_all) continue;  // a line end may follow
    return fmt::format(
        "{}: its lines end with carriage returns alone, and are read as one (try: tr '\\r' '\\n' "
        "<{} | penstock ...)",
        io::shown_input(input), input == "-" ? "FILE" : typed_word(input));
  }
  return {};
}

}  // namespace

std::vector<std::string> input_notices(const FilesOptions& files, Beginnings& beginnings,
                                       const InputNotices& wanted) {
  // A wait for one pipe among other inputs might never end: one writer may feed several in turn.
  if (files.inputs.size() == 1)
    beginnings.of(files.inputs.front(), files.source, io::Wait::byte, files.cancel);
  std::vector<std::string> notices = {
      binary_notice(files, beginnings), number_notice(files, beginnings),
      field_notice(files, beginnings, files.inputs.front(), files.items.keys, !wanted.orders),
      member_notice(files, beginnings, files.inputs, "--key", files.items.keys),
      return_notice(files, beginnings)};
  if (std::ranges::find(files.inputs, "-") != files.inputs.end() && ::isatty(STDIN_FILENO) == 1)
    notices.emplace_back("reading standard input, the keyboard (Ctrl-D ends it)");
  // The notice about a number mentions a header, too.
  if (wanted.header && notices[1].empty())
    notices.push_back(header_notice(files, beginnings, wanted.keys));
  const auto is_short = [&](const std::string& input) {
    return beginnings.of(input, files.source).is_all;
  };
  if (wanted.counts_odd_values && files.inputs.size() <= seen_inputs_max &&
      std::ranges::all_of(files.inputs, is_short))
    notices[1].clear();
  if (wanted.groups) notices.push_back(open_key_notice(files, beginnings));
  if (::isatty(STDERR_FILENO) != 0) {
    notices.push_back(table_notice(files, beginnings));
    notices.push_back(record_notice(files.items));
  }
  if (wanted.orders) notices.push_back(text_order_notice(files, beginnings));
  std::erase(notices, "");
  return notices;
}

void print_notices(std::string_view command, const std::vector<std::string>& notices) {
  for (const std::string& notice : notices)
    print_to(stderr, "{}: {}\n", called(command), printable(notice, std::string::npos));
}

}  // namespace penstock::cli
