#include "cli/common/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/wrapped.h"
#include "cli/common/completion.h"
#include "cli/common/write_file.h"
#include "os/standard_streams.h"

namespace penstock::cli {
namespace {

const CommandText* find(const std::vector<CommandText>& texts, std::string_view command) {
  if (command.empty()) return texts.data();
  const auto found = std::ranges::find(texts.begin() + 1, texts.end(), command, &CommandText::name);
  return found == texts.end() ? nullptr : &*found;
}

// ---- help

constexpr size_t columns_min = 60;
constexpr size_t help_indent = 28;

// The columns of the terminal within columns_min and columns_max; columns_max if stdout is none.
size_t help_columns() {
  const size_t columns = os::output_columns();
  return columns == 0 ? columns_max : std::clamp(columns, columns_min, columns_max);
}

std::string help_lines(std::string_view text, size_t indent) {
  return wrapped(text, indent, indent, help_columns());
}

std::string help_entry(std::string names, std::string_view help) {
  names.insert(0, "  ");
  if (names.size() + 2 > help_indent) {
    names += "\n" + std::string(help_indent, ' ');
  } else {
    names.resize(help_indent, ' ');
  }
  return names + help_lines(help, help_indent) + "\n";
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

// "sort files" as a sentence: "Sort files."
std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text + ".";
}

std::string examples_text(const CommandText& text) {
  std::string lines;
  for (const Example& example : text.notes.examples)
    lines += fmt::format("  {}\n      {}\n", example.command, help_lines(example.effect, 6));
  return lines.empty() ? lines : "\nExamples:\n" + lines;
}

std::string code_text(int code) {
  return code == other_exit_code ? "other" : std::to_string(code);
}

std::string exit_codes_text(const CommandText& text) {
  std::string codes;
  for (const auto& [code, meaning] : text.notes.exit_codes)
    codes +=
        fmt::format("{}{} {}", codes.empty() ? "Exit codes: " : ", ", code_text(code), meaning);
  return codes + ".";
}

// The groups of values in the order of their first one.
template <typename Texts>
std::vector<std::string> groups_of(const Texts& texts) {
  std::vector<std::string> groups;
  for (const auto& text : texts) {
    if (std::ranges::find(groups, text.group) == groups.end()) groups.push_back(text.group);
  }
  return groups;
}

// The groups of a command's options; options without a group come last.
std::vector<std::string> option_groups(const CommandText& text) {
  std::vector<std::string> groups = groups_of(text.options);
  std::ranges::stable_partition(groups,
                                [](const std::string& name) { return name != usual_group; });
  return groups;
}

std::string options_text(const CommandText& text, bool all) {
  std::string lines;
  for (const std::string& group : option_groups(text)) {
    std::string entries;
    for (const OptionText& option : text.options)
      if (option.group == group && (all || !option.is_rare)) entries += help_entry(option);
    if (!entries.empty()) lines += fmt::format("\n{}:\n", group) + entries;
  }
  return lines;
}

// " [FILE]..." for a list FILE that may be empty; `written` is the word as it is shown.
std::string in_synopsis(const OptionText& word, const std::string& written) {
  const bool repeats = word.is_list && !word.value.ends_with("...");
  return fmt::format(fmt::runtime(word.is_required ? " {}{}" : " [{}]{}"), written,
                     repeats ? "..." : "");
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

std::string man_entry(const std::string& names, const std::string& text) {
  return ".TP\n" + names + "\n" + roff(text) + "\n";
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
  const std::string choices =
      says_choices(option) ? "" : fmt::format(": {}", fmt::join(option.choices, ", "));
  return man_entry(names, option.help + choices);
}

// A variable of the environment, and the option whose commands read it; "": all commands.
struct EnvironmentVariable {
  const char* name;
  const char* option;
  const char* help;
};
constexpr EnvironmentVariable environment_variables[] = {
    {"PENSTOCK_MEMORY", "--buffer-size", "The memory limit without -S, as in PENSTOCK_MEMORY=2G."},
    {"TMPDIR", "--temporary-directory", "The directory for temporaries without -T."},
    {"LC_ALL, LC_COLLATE, LC_NUMERIC, LANG", "--locale",
     "The locale that --locale without a name takes."},
    {"PENSTOCK_IO", "",
     "threads: read and write by pread() and pwrite() in threads, also where io_uring works."},
    {"PENSTOCK_CPU", "",
     "The newest instructions to use: portable, or avx2 on x86-64. Results are the same."},
    {"PENSTOCK_CORE_DUMPS", "", "without-memory: a core dump of a crash has no data in it."}};

std::string environment_section(const CommandText& text, bool whole) {
  const auto has = [&](const char* name) {
    return whole || *name == 0 || std::ranges::any_of(text.options, [&](const OptionText& option) {
             return std::ranges::find(option.names, name) != option.names.end();
           });
  };
  std::string entries;
  for (const EnvironmentVariable& variable : environment_variables)
    if (has(variable.option)) entries += man_entry(bold(variable.name), variable.help);
  return ".SH ENVIRONMENT\n" + entries;
}

std::string examples_section(const CommandText& text) {
  std::string section;
  for (const Example& example : text.notes.examples) {
    section += fmt::format(".PP\n{}\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n",
                           roff(sentence(example.effect)), roff(example.command));
  }
  return section.empty() ? section : ".SH EXAMPLES\n" + section;
}

}  // namespace

std::optional<std::string> help_text(const std::vector<CommandText>& texts,
                                     std::string_view command, bool all) {
  const CommandText* const text = find(texts, command);
  if (text == nullptr) return std::nullopt;
  const std::string& program = texts.front().name;
  const bool whole = text == texts.data();
  const std::string name = whole ? program : program + " " + text->name;
  const bool lists_commands = whole && texts.size() > 1;
  std::string help = fmt::format("Usage: {}{} [OPTION]...", name, lists_commands ? " COMMAND" : "");
  for (const OptionText& word : text->words) help += in_synopsis(word, word.value);
  help += "\n\n" + help_lines(sentence(text->help), 0) + "\n" + examples_text(*text);
  if (!text->words.empty()) help += "\n";
  for (const OptionText& word : text->words) help += help_entry(word);
  if (lists_commands) {
    const std::vector<CommandText> commands(texts.begin() + 1, texts.end());
    for (const std::string& group : groups_of(commands)) {
      help += fmt::format("\n{}:\n", group);
      for (const CommandText& one : commands)
        if (one.group == group) help += help_entry(one.name, one.help);
    }
  }
  help += options_text(*text, all);
  for (const std::string& note : text->notes.notes) help += "\n" + help_lines(note, 0) + "\n";
  if (!lists_commands) help += "\n" + help_lines(exit_codes_text(*text), 0) + "\n";
  const bool has_more = std::ranges::count(text->options, true, &OptionText::is_rare) > 1;
  if (lists_commands) {
    help += fmt::format("\nOptions of a command: {} COMMAND --help\n", program);
  } else if (!all && has_more) {
    help += fmt::format("\nMore options: {} --help-all\n", name);
  }
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
  for (const OptionText& word : text->words) page += in_synopsis(word, italic(word.value));
  page += "\n.SH DESCRIPTION\n" + roff(sentence(text->help)) + "\n";
  for (const std::string& note : text->notes.notes) page += ".PP\n" + roff(note) + "\n";
  for (const OptionText& word : text->words) page += option_entry(word);
  page += examples_section(*text);
  if (whole) {
    page += ".SH COMMANDS\n";
    for (auto one = texts.begin() + 1; one != texts.end(); ++one)
      page += man_entry(bold(one->name), one->help);
  }
  page += ".SH OPTIONS\n";
  for (const std::string& group : option_groups(*text)) {
    if (group != usual_group) page += ".SS " + roff(group) + "\n";
    for (const OptionText& option : text->options)
      if (option.group == group) page += option_entry(option);
  }
  page += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : text->notes.exit_codes)
    page += man_entry(bold(code_text(code)), meaning);
  page += environment_section(*text, whole);
  page +=
      ".SH BUGS\nLinux only. The manual's page Limits lists the largest and smallest values that "
      "work, and the error beyond each.\n";
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
