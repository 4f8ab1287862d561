#include "cli/common/command.h"

#include <algorithm>
#include <utility>

#include "cli/common/hints.h"
#include "cli/common/print.h"

namespace penstock::cli {
namespace {

bool is_called_sort = false;  // set once, by main()

struct TypedWords {
  std::string command;
  std::vector<TypedOption> options;
  std::string text;
};
TypedWords& typed_line() {
  static TypedWords line;
  return line;
}

// Returns the option that a text means by `name`, which `rest` follows: one with the value that
// stands there, or else `last` or the last one typed. nullptr: none was typed.
const TypedOption* find_typed(std::string_view name, std::string_view rest,
                              const TypedOption* last) {
  const TypedOption* found = nullptr;
  for (const TypedOption& option : typed_line().options) {
    if (std::ranges::find(option.names, name) == option.names.end()) continue;
    if (!option.value.empty() && rest.size() > 1 && rest.substr(1).starts_with(option.value))
      return &option;
    if (found == nullptr || found != last) found = &option;
  }
  return found;
}

}  // namespace

std::string called(std::string_view command) {
  if (is_called_sort) return "sort";
  return command.empty() ? "penstock" : "penstock " + std::string(command);
}

void call_me_sort() {
  is_called_sort = true;
}

void keep_typed(std::string command, std::vector<TypedOption> options, std::string text) {
  typed_line() = {std::move(command), std::move(options), std::move(text)};
}

const std::string& typed_text() {
  return typed_line().text;
}

const std::string& typed_command() {
  return typed_line().command;
}

bool was_typed(std::string_view name, std::string_view value) {
  return std::ranges::any_of(typed_line().options, [&](const TypedOption& option) {
    return option.name == name && option.value == value;
  });
}

std::string as_typed(std::string text) {
  constexpr std::string_view letters =
      "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const TypedOption* last = nullptr;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_not_of(letters, at), text.size());
    const std::string_view name = std::string_view(text).substr(at, end - at);
    const bool begins = at == 0 || std::string_view(" (\0", 3).contains(text[at - 1]);
    const TypedOption* const typed =
        begins && name.starts_with('-') ? find_typed(name, std::string_view(text).substr(end), last)
                                        : nullptr;
    // A short name takes no "=VALUE".
    const bool fits = typed != nullptr && (typed->name.starts_with("--") || text[end] != '=');
    if (fits) {
      last = typed;
      text.replace(at, end - at, typed->name);
    }
    at += (fits ? typed->name.size() : end - at) + 1;
  }
  return text;
}

int report(std::string_view command, const Error& error) {
  Error shown = with_hint(error, is_called_sort ? "" : command);
  // A subject that is the value of an option gets its name in front.
  if (error.system_errno == 0 &&
      (error.code == ErrorCode::invalid_argument || error.code == ErrorCode::not_found)) {
    const auto& options = typed_line().options;
    const auto option = std::ranges::find(options, shown.subject, &TypedOption::value);
    if (option != options.end() && !shown.subject.empty())
      shown.subject.insert(0, option->name + " ");
  }
  // The subject decides which of two options the hint means. Errors of data hold data.
  const bool holds_data = error.code == ErrorCode::corrupt || error.code == ErrorCode::unsorted;
  const std::string typed = as_typed(shown.subject + '\0' + shown.hint);
  shown.subject = typed.substr(0, typed.find('\0'));
  shown.hint = typed.substr(shown.subject.size() + 1);
  if (!holds_data) shown.attempted = as_typed(shown.attempted);
  print_to(stderr, "{}: {}\n", called(command), shown.message());
  return exit_error;
}

}  // namespace penstock::cli
