#include "cli/trace/sort_page.h"

#include <fmt/format.h>

#include <cctype>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/amounts.h"
#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/write_file.h"
#include "cli/trace/sort_report.h"
#include "os/limits.h"
#include "penstock/version.h"
#include "trace/report/page.h"

namespace penstock::cli {

namespace fs = std::filesystem;

bool has_pages() {
  return true;
}

Status check_page(const std::string& path) {
  const fs::path name = path;
  std::string ending = name.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool stands_for_it = ending == ".html" || ending == ".htm";
  std::error_code ignored;
  if (path == "-" || (fs::exists(name, ignored) && !fs::is_regular_file(name, ignored))) return {};
  const std::string other = fs::path(name).replace_extension(".html").string();
  if (holds_something_else(path, report::page_beginning))
    return misuse("replace a file that is no page of penstock", path,
                  stands_for_it ? "another name" : other);
  if (!ending.empty() && !stands_for_it) return misuse("give a page this name", path, other);
  return {};
}

Result<std::string> sort_page(const std::string& json, const std::string& name) {
  Result<report::SortRun> sort = sort_run_of(json, name);
  if (!sort) return std::unexpected(sort.error());
  sort->command = called("") + " " + typed_text();
  sort->end_s = std::time(nullptr);
  const os::Limits limits = os::limits();
  sort->machine =
      fmt::format("{}, {} for this process, {} of memory, Linux {}", os::processor_name(),
                  counted(limits.cores_usable, "core"),
                  bytes_text(static_cast<double>(limits.memory_bytes)), limits.kernel_release);
  return report::make_page({}, {&*sort, 1}, {.version = PENSTOCK_VERSION_STRING});
}

}  // namespace penstock::cli
