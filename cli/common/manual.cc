#include "cli/common/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/common/write_file.h"

namespace penstock::cli {
namespace {

const CommandText* find(const std::vector<CommandText>& texts, std::string_view command) {
  if (command.empty()) return texts.data();
  const auto found = std::ranges::find(texts.begin() + 1, texts.end(), command, &CommandText::name);
  return found == texts.end() ? nullptr : &*found;
}

// ---- help

constexpr size_t help_columns = 100;
constexpr size_t help_indent = 30;

// Wraps `text` into lines indented by `indent` blanks; the first line is not indented.
std::string wrapped(std::string_view text, size_t indent) {
  std::string result;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > help_columns) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string help_entry(std::string names, std::string_view help) {
  names.insert(0, "  ");
  if (names.size() + 1 > help_indent) {
    names += "\n" + std::string(help_indent, ' ');
  } else {
    names.resize(help_indent, ' ');
  }
  return names + wrapped(help, help_indent) + "\n";
}

// Whether the help already names all choices, usually with an explanation of each.
bool says_choices(const OptionText& option) {
  return std::ranges::all_of(option.choices, [&](const std::string& choice) {
    return option.help.find(choice) != std::string::npos;
  });
}

std::string help_entry(const OptionText& option) {
  std::string names = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.names.empty() && option.names.front().starts_with("--")) names.insert(0, "    ");
  if (!names.empty() && !option.value.empty() && !option.optional_value) names += ' ';
  names += option.optional_value ? fmt::format("[={}]", option.value) : option.value;
  std::string help = option.help;
  if (!says_choices(option)) help += fmt::format(" ({})", fmt::join(option.choices, ", "));
  return help_entry(std::move(names), help);
}

// Keeps the footer's own lines; wraps those that are too long.
std::string footer_lines(std::string_view footer) {
  std::string lines;
  while (!footer.empty()) {
    const size_t end = std::min(footer.find('\n'), footer.size());
    const std::string_view line = footer.substr(0, end);
    lines += (line.size() > help_columns ? wrapped(line, 0) : std::string(line)) + "\n";
    footer.remove_prefix(std::min(end + 1, footer.size()));
  }
  return lines;
}

// The groups in the order of their first option; options without a group come last.
std::vector<std::string> groups_of(const CommandText& text) {
  std::vector<std::string> groups;
  for (const OptionText& option : text.options) {
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  }
  std::ranges::stable_partition(groups,
                                [](const std::string& name) { return name != usual_group; });
  return groups;
}

// "[FILE]..." for FILE; a word that already ends with "..." gets only the brackets.
std::string in_synopsis(std::string_view word, std::string_view written) {
  return fmt::format(" [{}]{}", written, word.ends_with("...") ? "" : "...");
}

// ---- man(7)

// Escapes everything that man(7) treats as a command: backslashes, hyphens, apostrophes, and a dot
// that begins a line.
std::string roff(std::string_view text) {
  std::string result;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
    begins = c == '\n';
  }
  return result;
}

std::string bold(std::string_view text) {
  return "\\fB" + roff(text) + "\\fR";
}
std::string italic(std::string_view text) {
  return "\\fI" + roff(text) + "\\fR";
}

std::string page_name(const std::string& program, const CommandText& text) {
  return text.name == program ? program : program + "-" + text.name;
}

std::string option_entry(const OptionText& option) {
  std::string names;
  for (const std::string& name : option.names) {
    if (!names.empty()) names += ", ";
    names += bold(name);
  }
  if (option.optional_value) {
    names += "[=" + italic(option.value) + "]";
  } else if (!option.value.empty()) {
    names += (names.empty() ? "" : " ") + italic(option.value);
  }
  std::string entry = ".TP\n" + names + "\n" + roff(option.help);
  if (!says_choices(option)) entry += roff(fmt::format(": {}", fmt::join(option.choices, ", ")));
  return entry + "\n";
}

// ---- shells

// The description of an option in one short line.
std::string short_help(const OptionText& option) {
  const std::string& help = option.help;
  size_t end = std::min(help.find(" (default"), help.find(';'));
  end = std::min(end, help.size());
  return help.substr(0, std::min<size_t>(end, 100));
}

bool takes_folder(const OptionText& option) {
  return option.value == "DIR";
}

std::string bash_completion(const std::vector<CommandText>& texts) {
  const std::string& program = texts.front().name;
  std::string commands, cases;
  for (size_t i = 1; i < texts.size(); ++i) {
    commands += (i > 1 ? " " : "") + texts[i].name;
    if (texts[i].name == "help") continue;
    std::string names, values;
    for (const OptionText& option : texts[i].options) {
      for (const std::string& name : option.names) names += " " + name;
      if (option.choices.empty() && !takes_folder(option)) continue;
      values += fmt::format(
          "        {}) COMPREPLY=($(compgen {} -- \"$word\")); return ;;\n",
          fmt::join(option.names, "|"),
          takes_folder(option) ? "-d" : fmt::format("-W '{}'", fmt::join(option.choices, " ")));
    }
    cases += fmt::format("    {})\n", texts[i].name);
    if (!values.empty()) cases += "      case $before in\n" + values + "      esac\n";
    cases += fmt::format("      options='{}' ;;\n", names.empty() ? names : names.substr(1));
  }
  return fmt::format(R"(# bash completion of {0}
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} options=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{1} --help --version' -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{2}    help) COMPREPLY=($(compgen -W '{1}' -- "$word")); return ;;
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _{0} {0}
)",
                     program, commands, cases);
}

std::string zsh_completion(const std::vector<CommandText>& texts) {
  const std::string& program = texts.front().name;
  const auto quoted = [](std::string_view text) {
    std::string result;
    for (const char c : text) {
      if (c == '\'') {
        result += "'\\''";
      } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
        result += {'\\', c};
      } else {
        result += c;
      }
    }
    return result;
  };
  std::string commands, cases;
  for (size_t i = 1; i < texts.size(); ++i) {
    commands += fmt::format("    '{}:{}'\n", texts[i].name, quoted(texts[i].help));
    cases += fmt::format("    {})\n      _arguments -s", texts[i].name);
    for (const OptionText& option : texts[i].options) {
      for (const std::string& name : option.names) {
        cases += fmt::format(" \\\n        '*{}{}[{}]", name,
                             option.value.empty() || option.optional_value ? ""
                             : name.starts_with("--")                      ? "="
                                                                           : "+",
                             quoted(short_help(option)));
        if (!option.value.empty() && !option.optional_value)
          cases += fmt::format(":{}:{}", quoted(option.value),
                               !option.choices.empty()
                                   ? fmt::format("({})", fmt::join(option.choices, " "))
                               : takes_folder(option) ? "_files -/"
                                                      : "_files");
        cases += "'";
      }
    }
    cases += " \\\n        '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef {0}
_{0}() {{
  local -a commands
  commands=(
{1}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{2}  esac
}}
_{0} "$@"
)",
                     program, commands, cases);
}

std::string fish_completion(const std::vector<CommandText>& texts) {
  const std::string& program = texts.front().name;
  const auto quoted = [](std::string_view text) {
    std::string result = "'";
    for (const char c : text) {
      if (c == '\\' || c == '\'') result += '\\';
      result += c;
    }
    return result + "'";
  };
  std::string result = fmt::format("# fish completion of {}\n", program);
  for (size_t i = 1; i < texts.size(); ++i) {
    result += fmt::format("complete -c {} -f -n __fish_use_subcommand -a {} -d {}\n", program,
                          texts[i].name, quoted(texts[i].help));
    for (const OptionText& option : texts[i].options) {
      result +=
          fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", program, texts[i].name);
      for (const std::string& name : option.names)
        result += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty() && !option.optional_value) result += " -r";
      if (!option.choices.empty())
        result += " -f -a " + quoted(fmt::format("{}", fmt::join(option.choices, " ")));
      if (takes_folder(option)) result += " -f -a '(__fish_complete_directories)'";
      result += " -d " + quoted(short_help(option)) + "\n";
    }
  }
  return result;
}

}  // namespace

std::optional<std::string> help_text(const std::vector<CommandText>& texts,
                                     std::string_view command) {
  const CommandText* const text = find(texts, command);
  if (text == nullptr) return std::nullopt;
  const std::string& program = texts.front().name;
  const bool whole = text == texts.data();
  std::string help = fmt::format("Usage: {}{} [OPTION]...", program,
                                 whole && texts.size() == 1 ? ""
                                 : whole                    ? " COMMAND"
                                                            : " " + text->name);
  for (const OptionText& word : text->words) help += in_synopsis(word.value, word.value);
  help += "\n" + wrapped(text->help, 0) + "\n";
  if (!text->words.empty()) help += "\n";
  for (const OptionText& word : text->words) help += help_entry(word);
  if (whole && texts.size() > 1) {
    help += "\nCommands:\n";
    for (auto one = texts.begin() + 1; one != texts.end(); ++one)
      help += help_entry(one->name, one->help);
  }
  for (const std::string& group : groups_of(*text)) {
    help += fmt::format("\n{}:\n", group);
    for (const OptionText& option : text->options)
      if (option.group == group) help += help_entry(option);
  }
  if (!text->footer.empty()) help += "\n" + footer_lines(text->footer);
  return help;
}

std::optional<std::string> manual_page(const std::vector<CommandText>& texts,
                                       std::string_view command, std::string_view version) {
  const CommandText* const text = find(texts, command);
  if (text == nullptr) return std::nullopt;
  const std::string& program = texts.front().name;
  const std::string name = page_name(program, *text);
  const bool whole = text == texts.data();
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](char c) {
    return static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  });
  std::string page =
      fmt::format(".TH {} 1 \"\" \"{}\" \"User Commands\"\n", roff(title), roff(version));
  page += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(text->help));
  page += fmt::format(".SH SYNOPSIS\n{}", bold(whole ? program : program + " " + text->name));
  if (whole) page += " " + italic("COMMAND");
  page += " [" + italic("OPTION") + "]...";
  for (const OptionText& word : text->words) page += in_synopsis(word.value, italic(word.value));
  page += "\n";
  if (!text->words.empty()) {
    page += ".SH DESCRIPTION\n";
    for (const OptionText& word : text->words) page += option_entry(word);
  }
  if (whole) {
    page += ".SH COMMANDS\n";
    for (auto one = texts.begin() + 1; one != texts.end(); ++one)
      page += fmt::format(".TP\n{}\n{}\n", bold(one->name), roff(one->help));
  }
  page += ".SH OPTIONS\n";
  for (const std::string& group : groups_of(*text)) {
    if (group != usual_group) page += ".SS " + roff(group) + "\n";
    for (const OptionText& option : text->options)
      if (option.group == group) page += option_entry(option);
  }
  if (!text->footer.empty()) page += ".SH NOTES\n.nf\n" + roff(text->footer) + "\n.fi\n";
  page += ".SH SEE ALSO\n";
  std::string others;
  for (const CommandText& one : texts) {
    if (&one == text || one.name == "help" || (!whole && &one != texts.data())) continue;
    others += (others.empty() ? "" : ",\n") + bold(page_name(program, one)) + "(1)";
  }
  return page + others + "\n";
}

std::optional<std::string> completion(const std::vector<CommandText>& texts,
                                      std::string_view shell) {
  if (shell == "bash") return bash_completion(texts);
  if (shell == "zsh") return zsh_completion(texts);
  if (shell == "fish") return fish_completion(texts);
  return std::nullopt;
}

Status write_manual(const std::vector<CommandText>& texts, std::string_view version,
                    const std::string& folder) {
  const std::string& program = texts.front().name;
  std::vector<std::pair<std::string, std::string>> files = {
      {"/bash-completion/completions/" + program, bash_completion(texts)},
      {"/zsh/site-functions/_" + program, zsh_completion(texts)},
      {"/fish/vendor_completions.d/" + program + ".fish", fish_completion(texts)}};
  for (const CommandText& text : texts) {
    if (text.name == "help") continue;
    const bool whole = &text == texts.data();
    files.emplace_back("/man/man1/" + page_name(program, text) + ".1",
                       *manual_page(texts, whole ? "" : text.name, version));
  }
  for (const auto& [name, text] : files) {
    const std::string path = folder + name;
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    if (error) return system_error(error.value(), "make its folder", path);
    if (auto written = write_file(path, text); !written) return written;
  }
  return {};
}

}  // namespace penstock::cli
