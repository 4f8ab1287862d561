// The command find in a build with PENSTOCK_FIND=OFF, which needs no PCRE2.

#include "cli/common/left_out.h"

namespace penstock::cli {

Command add_find(Parser& program) {
  return add_left_out(program, "find", "command find", "PENSTOCK_FIND");
}

}  // namespace penstock::cli
