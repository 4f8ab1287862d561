#include "cli/trace/sort_page.h"

#include "cli/trace/sort_report.h"
#include "penstock/version.h"
#include "trace/report/page.h"

namespace penstock::cli {

Status check_pages_built() {
  return {};
}

Result<std::string> sort_page(const std::string& json, const std::string& name) {
  const Result<report::SortRun> sort = sort_run_of(json, name);
  if (!sort) return std::unexpected(sort.error());
  return report::make_page({}, {&*sort, 1}, {.version = PENSTOCK_VERSION_STRING});
}

}  // namespace penstock::cli
