#include "cli/sort/gnu_options.h"

#include <array>
#include <string>

namespace penstock::cli {
namespace {

struct Refused {
  const char* name;
  bool takes_value;
  const char* hint;
};

constexpr std::array refused = {
    Refused{"--random-source", true, "shuf, or GNU sort -R"},
    Refused{"--files0-from", true, "xargs -0 penstock sort -o FILE < LIST"},
    Refused{"--compress-program", true, "--compress-temporaries always, which is LZ4"},
    Refused{"--batch-size", true, "-S, from which the number of files merged at once follows"},
    Refused{"--debug", false, "--json, which tells the plan and what happened"},
};

}  // namespace

void refuse_gnu_options(Parser& sort) {
  for (const Refused& option : refused) {
    sort.refuse(option.name, option.takes_value,
                std::string(option.name) +
                    ": cannot be obeyed: this option of GNU sort is not supported (try: " +
                    option.hint + ")");
  }
}

}  // namespace penstock::cli
