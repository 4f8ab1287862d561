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

constexpr const char* use_shuffle = "shuf, or GNU sort -R";

constexpr std::array refused = {
    Refused{"--random-source", true, use_shuffle},
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
  for (const Refused& option : refused) {
    sort.refuse(option.names, option.takes_value,
                readable(option.names) +
                    ": cannot be obeyed: this option of GNU sort is not supported (try: " +
                    option.hint + ")");
  }
}

}  // namespace penstock::cli
