// The commands of cli/trace/ in a build with PENSTOCK_TRACE=OFF.

#include "cli/common/left_out.h"
#include "cli/trace/sort_page.h"

namespace penstock::cli {
namespace {

Command add(Parser& program, const char* name) {
  return add_left_out(program, name, "tracing", "PENSTOCK_TRACE");
}

}  // namespace

Command add_trace(Parser& program) {
  return add(program, "trace");
}
Command add_convert(Parser& program) {
  return add(program, "convert");
}
Command add_replay(Parser& program) {
  return add(program, "replay");
}
Command add_report(Parser& program) {
  return add(program, "report");
}
Command add_compare(Parser& program) {
  return add(program, "compare");
}

std::vector<std::string> mark_traced_program(std::vector<std::string> words, const Parser&) {
  return words;
}

bool has_pages() {
  return false;
}

Status check_page(const std::string&) {
  return left_out("--report", "report pages", "PENSTOCK_TRACE");
}

Result<std::string> sort_page(const std::string&, const std::string&) {
  return left_out("--report", "report pages", "PENSTOCK_TRACE");
}

}  // namespace penstock::cli
