#include "cli/common/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace penstock::cli {
namespace {

constexpr size_t short_help_max = 100;

// The first clause of an option's help: it ends at a semicolon or a default outside of parentheses,
// and in front of a parenthesis that would not be closed.
std::string short_help(const OptionText& option) {
  const std::string& help = option.help;
  size_t end = std::min(help.size(), short_help_max);
  size_t opened = std::string::npos;
  for (size_t at = 0; at < end; ++at) {
    if (help[at] == '(' && opened == std::string::npos) {
      opened = at;
      if (help.compare(at, 8, "(default") == 0) end = at;
    } else if (help[at] == ')') {
      opened = std::string::npos;
    } else if (help[at] == ';' && opened == std::string::npos) {
      end = at;
    }
  }
  if (opened != std::string::npos && end < help.size()) end = opened;
  if (end == short_help_max) end = help.rfind(' ', end);
  while (end > 0 && help[end - 1] == ' ') --end;
  return help.substr(0, end);
}

bool takes_folder(const OptionText& option) {
  return option.value == "DIR";
}

// Values are, or may also be, names of files.
bool takes_files(const OptionText& option) {
  return option.value.contains("FILE") || option.value == "DISK" || option.value == "PATH";
}

// Quotes `text` for a shell whose single quotes take a backslash.
std::string fish_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'') result += '\\';
    result += c;
  }
  return result + "'";
}

// Escapes `text` for the single-quoted specifications of zsh's _arguments.
std::string zsh_escaped(std::string_view text) {
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
}

std::string zsh_values(const OptionText& option) {
  if (takes_folder(option)) return "_files -/";
  if (option.choices.empty()) return takes_files(option) ? "_files" : " ";
  const std::string choices = fmt::format("{}", fmt::join(option.choices, " "));
  return takes_files(option) ? "{compadd " + choices + "; _files}" : "(" + choices + ")";
}

}  // namespace

std::string bash_completion(const std::vector<CommandText>& texts) {
  const std::string& program = texts.front().name;
  std::string commands, cases;
  for (size_t i = 1; i < texts.size(); ++i) {
    commands += (i > 1 ? " " : "") + texts[i].name;
    if (texts[i].name == "help") continue;
    std::string names, values;
    for (const OptionText& option : texts[i].options) {
      for (const std::string& name : option.names) names += " " + name;
      if (option.value.empty()) continue;
      const std::string generated = takes_folder(option)
                                        ? "-d"
                                        : fmt::format("{}-W '{}'", takes_files(option) ? "-f " : "",
                                                      fmt::join(option.choices, " "));
      for (const std::string& name : option.names) {
        // An optional value follows "=" only.
        const bool detached = !option.optional_value;
        values += fmt::format("        {}{}) COMPREPLY=($(compgen {} -- \"$word\")); return ;;\n",
                              name, detached ? "|" + name + "=" : "=", generated);
      }
    }
    cases += fmt::format("    {})\n", texts[i].name);
    if (!values.empty()) cases += "      case $before in\n" + values + "      esac\n";
    cases += fmt::format("      options='{}' ;;\n", names.empty() ? names : names.substr(1));
  }
  // readline cuts --name=value at "=".
  return fmt::format(R"(# bash completion of {0}
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} options=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{1} --help --version' -- "$word"))
    return
  fi
  if [ "$word" = = ]; then
    word= before=$before=
  elif [ "$before" = = ]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}=
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
  std::string commands, cases;
  for (size_t i = 1; i < texts.size(); ++i) {
    commands += fmt::format("    '{}:{}'\n", texts[i].name, zsh_escaped(texts[i].help));
    cases += fmt::format("    {})\n      _arguments -s", texts[i].name);
    for (const OptionText& option : texts[i].options) {
      for (const std::string& name : option.names) {
        cases += fmt::format(" \\\n        '*{}{}[{}]", name,
                             option.value.empty() || option.optional_value ? ""
                             : name.starts_with("--")                      ? "="
                                                                           : "+",
                             zsh_escaped(short_help(option)));
        if (!option.value.empty() && !option.optional_value)
          cases += fmt::format(":{}:{}", zsh_escaped(option.value), zsh_values(option));
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
  std::string result = fmt::format("# fish completion of {}\n", program);
  for (size_t i = 1; i < texts.size(); ++i) {
    result += fmt::format("complete -c {} -f -n __fish_use_subcommand -a {} -d {}\n", program,
                          texts[i].name, fish_quoted(texts[i].help));
    for (const OptionText& option : texts[i].options) {
      result +=
          fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", program, texts[i].name);
      for (const std::string& name : option.names)
        result += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.value.empty() && !option.optional_value)
        result += takes_files(option) ? " -r" : " -r -f";
      if (!option.choices.empty())
        result += " -a " + fish_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
      if (takes_folder(option)) result += " -a '(__fish_complete_directories)'";
      result += " -d " + fish_quoted(short_help(option)) + "\n";
    }
  }
  return result;
}

}  // namespace penstock::cli
