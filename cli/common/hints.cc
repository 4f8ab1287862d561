#include "cli/common/hints.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/did_you_mean.h"
#include "base/shell_word.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

// Programs that read and write addresses, such as s3://bucket/x.csv; {} is replaced by the address.
struct Scheme {
  std::string_view name;
  const char* read;
  const char* write;
};
constexpr Scheme schemes[] = {
    {"http://", "curl -sSL {} | penstock ...", "a file, and curl -T FILE {}"},
    {"https://", "curl -sSL {} | penstock ...", "a file, and curl -T FILE {}"},
    {"ftp://", "curl -sS {} | penstock ...", "a file, and curl -T FILE {}"},
    {"s3://", "aws s3 cp {} - | penstock ...", "penstock ... | aws s3 cp - {}"},
    {"gs://", "gcloud storage cat {} | penstock ...", "penstock ... | gcloud storage cp - {}"},
    {"hdfs://", "hdfs dfs -cat {} | penstock ...", "penstock ... | hdfs dfs -put - {}"},
    {"file://", "the path alone, which begins with /", "the path alone, which begins with /"}};

// Explains that an address is no file. (The directory of an output lacks the address's last part.)
bool explain_address(Error& error) {
  const auto scheme = std::ranges::find_if(
      schemes, [&](const Scheme& one) { return error.subject.starts_with(one.name); });
  if (scheme == std::end(schemes)) return false;
  const bool reads = error.attempted == "open";
  error.attempted = reads ? "read from an address, only from files and pipes"
                          : "write to an address, only to files and pipes";
  error.system_errno = 0;
  const std::string address = reads ? error.subject : error.subject + "/...";
  error.hint = fmt::format(fmt::runtime(reads ? scheme->read : scheme->write), address);
  return true;
}

// Returns a file that a missing one may mean, or else the way to see those that there are.
std::string hint_for_missing_file(const std::string& path) {
  constexpr size_t names_max = 10'000;
  const fs::path parent = fs::path(path).parent_path();
  const fs::path folder = parent.empty() ? "." : parent;
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end;
       !error && at != end && names.size() < names_max; at.increment(error))
    names.push_back(at->path().filename().string());
  std::ranges::sort(names);  // the answer depends on no order of the disk
  const std::string name = fs::path(path).filename().string();
  std::erase(names, name);  // a link that leads nowhere
  // A name that was cut short has one continuation.
  const fs::path typed(name);
  const auto continues = [&](const std::string& other) {
    return other.starts_with(typed.stem().string()) &&
           fs::path(other).extension() == typed.extension();
  };
  if (std::ranges::count_if(names, continues) == 1)
    return typed_word((parent / *std::ranges::find_if(names, continues)).string());
  const std::string_view nearest = nearest_name(name, names);
  if (!nearest.empty()) return typed_word((parent / nearest).string());
  fs::path there = folder;
  while (!there.empty() && !fs::exists(there, error)) there = there.parent_path();
  return fmt::format("ls {}", there.empty() ? "." : typed_word(there.string()));
}

std::string hint_for(const Error& error) {
  switch (error.code) {
    case ErrorCode::not_found:
      if (error.system_errno != ENOENT) return "";
      if (error.attempted == "run this program") return "a program in PATH, or the path of one";
      return error.attempted == "open" ? hint_for_missing_file(error.subject) : "";
    case ErrorCode::out_of_space:
      if (error.system_errno == EFBIG) return "a larger limit (ulimit -f), or another file system";
      return "more free space there, or another disk";
    case ErrorCode::permission:
      if (error.attempted == "run this program")
        return fmt::format("chmod u+x {}, or the program that runs it in front",
                           typed_word(error.subject));
      if (error.system_errno == EROFS) return "a file system that can be written to";
      if (::access(error.subject.c_str(), R_OK) != 0 && error.attempted == "open")
        return fmt::format("chmod u+r {}, if it is yours; or sudo", typed_word(error.subject));
      return "another directory, or permission to write to this one";
    case ErrorCode::io:
      // The hint about disks fits only EIO, one of many system errors with this code.
      if (error.system_errno != EIO && error.system_errno != 0) return "";
      return "another disk; the system's log (dmesg) may tell more";
    default:
      return "";
  }
}

}  // namespace

Error with_hint(Error error, std::string_view command) {
  const bool missing = error.code == ErrorCode::not_found;
  if (command.empty() && missing) return error;
  if (missing && explain_address(error)) return error;
  if (error.hint.empty()) error.hint = hint_for(error);
  // A converter's own command reads the file.
  for (const std::string_view converter : {"iconv ", "tr "}) {
    const size_t file = error.hint.rfind("FILE");
    if (!error.hint.starts_with(converter) || file != error.hint.size() - 4) continue;
    const std::string name = error.subject == "-" ? "" : typed_word(error.subject) + " ";
    error.hint.replace(file, 4, name + "| penstock ...");
  }
  if (command.empty()) return error;
  if (error.subject == command) error.subject.clear();
  if (error.subject == "-")
    error.subject = error.attempted.starts_with("write") ? "standard output" : "standard input";
  return error;
}

}  // namespace penstock::cli
