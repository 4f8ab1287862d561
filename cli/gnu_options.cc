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
    "lines compare byte by byte; numbers are sorted in binary formats: --format u32 u64 i32 i64 "
    "f32 f64";
constexpr const char* use_bytes =
    "lines compare byte by byte, as with LC_ALL=C; prepare the keys first, or use GNU sort";
constexpr const char* use_record =
    "fields of lines are not known; fixed records have keys: --format record --record 100 --key "
    "0:10";

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
    Refused{"-R,--random-sort", false, "there is no random order; use shuf or GNU sort -R"},
    Refused{"--random-source", true, "there is no random order; use shuf or GNU sort -R"},
    Refused{"-k", true, use_record},
    Refused{"-t,--field-separator", true, use_record},
    Refused{"-z,--zero-terminated", false,
            "lines end with a newline; items of one length are --format record"},
    Refused{"--files0-from", true, "name the files: xargs -0 penstock sort -o FILE ... < LIST"},
    Refused{"--compress-program", true, "temporaries are not compressed; give more room with -T"},
    Refused{"--batch-size", true, "the number of files merged at once follows from -S"},
    Refused{"--debug", false, "--json tells the plan and what happened"},
};

[[noreturn]] void refuse(const Refused& option) {
  throw CLI::ParseError("cannot take " + std::string(option.names) +
                            ": an option of GNU sort that is not supported (try: " + option.hint +
                            ")",
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
          ->group("");
    } else {
      sort.add_flag_callback(option.names, [option] { refuse(option); })->group("");
    }
  }
}

}  // namespace penstock::cli
