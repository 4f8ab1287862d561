#include "cli/common/left_out.h"

#include <fmt/format.h>

namespace penstock::cli {

std::unexpected<Error> left_out(const std::string& subject, const char* component,
                                const char* option) {
  return failure(ErrorCode::unsupported, fmt::format("do it: this build has no {}", component),
                 subject, fmt::format("a build with cmake -D{}=ON", option));
}

Command add_left_out(Parser& program, const char* name, const char* component, const char* option) {
  Parser parser = program.add_subcommand(name, "");
  parser.leave_out();
  return {parser, [=] { return report(name, left_out("", component, option).error()); }};
}

}  // namespace penstock::cli
