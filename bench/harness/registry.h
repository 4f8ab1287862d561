#pragma once

#include <map>
#include <string>

#include "bench/harness/bench.h"

namespace penstock::bench {

struct Bench {
  std::string question;
  Run run;
};

// All registered benches by name. Filled before main() begins, and only read after.
std::map<std::string, Bench>& registry();

}  // namespace penstock::bench
