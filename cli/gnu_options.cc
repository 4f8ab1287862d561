#include "cli/gnu_options.h"

#include <array>
#include <string>

namespace penstock::cli {
namespace {

struct Refused {
  const char* names;  // as CLI11 takes them
  bool takes_value;
  const char* hint;
};

constexpr const char* use_binary =
    "GNU sort, or numbers in a binary format: --format u32 u64 i32 i64 f32 f64";
constexpr const char* use_bytes =
    "GNU sort, or lines whose bytes already compare as wanted, as with LC_ALL=C";
constexpr const char* use_record =
    "GNU sort, or records of one length: --format record --record 100 --key 0:10";
constexpr const char* use_shuffle = "shuf, or GNU sort -R";

constexpr std::array refused = {
    Refused{"-n,--numeric-sort", false, use_binary},
    Refused{"-g,--general-numeric-sort", false, use_binary},
    Refused{"-h,--human-numeric-sort", false, use_binary},
    Refused{"--sort", true, use_binary},
    Refused{"-M,--month-sort", false, use_bytes},
    Refused{"-V,--version-sort", false, use_bytes},
    Refused{"-b,--ignore-leading-blanks", false, use_bytes},
    Refused{"-d,--dictionary-order", false, use_bytes},
    Refused{"-f,--ignore-case", false, use_bytes},
    Refused{"-i,--ignore-nonprinting", false, use_bytes},
    Refused{"-R,--random-sort", false, use_shuffle},
    Refused{"--random-source", true, use_shuffle},
    Refused{"-k", true, use_record},
    Refused{"-t,--field-separator", true, use_record},
    Refused{"-z,--zero-terminated", false,
            "GNU sort -z, or lines that end with a newline, or --format record"},
    Refused{"--files0-from", true, "xargs -0 penstock sort -o FILE < LIST"},
    Refused{"--compress-program", true, "--compress-temporaries always, which is LZ4"},
    Refused{"--batch-size", true, "-S, from which the number of files merged at once follows"},
    Refused{"--debug", false, "--json, which tells the plan and what happened"},
};

// "-n,--numeric-sort" as a person writes it.
std::string readable(const char* names) {
  std::string text = names;
  if (size_t comma = text.find(','); comma != std::string::npos) text.insert(comma + 1, " ");
  return text;
}

[[noreturn]] void refuse(const Refused& option) {
  throw CLI::ParseError(
      readable(option.names) +
          ": cannot be obeyed: this option of GNU sort is not supported (try: " + option.hint + ")",
      CLI::ExitCodes::InvalidError);
}

}  // namespace

void refuse_gnu_options(CLI::App& sort) {
  // GNU sort's -h sorts; help is --help alone.
  sort.set_help_flag("--help", "print this help and exit");
  for (const Refused& option : refused) {
    // An empty group keeps the option out of the help.
    if (option.takes_value) {
      sort.add_option_function<std::string>(option.names,
                                            [option](const std::string&) { refuse(option); })
          ->expected(0, 1)  // without its value it is refused all the same
          ->group("");
    } else {
      sort.add_flag_callback(option.names, [option] { refuse(option); })->group("");
    }
  }
}

}  // namespace penstock::cli
