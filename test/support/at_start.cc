// Linked into the program penstock, makes it obey the environment variables for tests.

#include <unistd.h>

#include <cstdio>

#include "test/support/environment.h"

namespace {

// Runs before main().
[[maybe_unused]] const bool obeyed = [] {
  const penstock::Status status = penstock::io::obey_environment();
  if (status) return true;
  std::fprintf(stderr, "penstock environment: %s\n", status.error().message().c_str());
  _exit(2);
}();

}  // namespace
