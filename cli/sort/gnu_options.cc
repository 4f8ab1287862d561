#include "cli/sort/gnu_options.h"

#include <array>
#include <string>

namespace penstock::cli {
namespace {

struct Refused {
  const char* names;
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

}  // namespace

void refuse_gnu_options(Parser& sort) {
  sort.give_up_short_help();  // GNU sort's -h sorts
  for (const Refused& option : refused) {
    sort.refuse(option.names, option.takes_value,
                readable(option.names) +
                    ": cannot be obeyed: this option of GNU sort is not supported (try: " +
                    option.hint + ")");
  }
}

}  // namespace penstock::cli
