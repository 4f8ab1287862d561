#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.h"
#include "cli/common/size.h"
#include "cli/sort/gnu_options.h"
#include "cli/sort/sort_words.h"
#include "interfaces/api/options.h"
#include "interfaces/api/profile_json.h"
#include "io/emulation.h"

// Fuzzing users' text that is not data:
//
//   byte 0   modulo 4: 0 a size, 1 the profile of a disk, 2 an emulated disk, 3 the words of penstock sort, a line each
//   rest     the text

namespace penstock {
namespace {

void try_size(std::string_view text) {
  const uint64_t memory_bytes = uint64_t{16} << 30;
  for (const uint64_t unit_bytes : {uint64_t{1}, uint64_t{1024}}) {
    const auto bytes = cli::parse_size("-S", text, memory_bytes, unit_bytes);
    if (!bytes) continue;
    require(*bytes > 0, "a size of nothing");
    const auto again = cli::parse_size("-S", std::to_string(*bytes) + "b", memory_bytes);
    require(again.has_value() && *again == *bytes, "a size that is written out");
  }
}

void try_profile(const std::string& text) {
  const auto read = api::parse_profile(text, "profile");
  if (!read) return;
  require(read->profile.read_bytes_per_s > 0 && read->profile.write_bytes_per_s > 0, "speeds");
  const std::string written = api::profile_json(*read, nullptr).dump();
  const auto again = api::parse_profile(written, "profile");
  require(again.has_value(), "a profile that was written");
  require(api::profile_json(*again, nullptr).dump() == written, "the same profile");
}

void try_emulated(const std::string& text) {
  const auto device = io::EmulatedDevice::parse(text);
  if (!device) return;
  require(
      device->read_bytes_per_s > 0 && device->write_bytes_per_s > 0 && device->switch_seconds >= 0,
      "speeds of an emulated disk");
}

void try_words(std::string_view text) {
  std::vector<std::string> words = {"sort"};
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    // A path would make the parser read a file's header; there are no files.
    std::erase(words.back(), '/');
    std::erase(words.back(), '\0');
    at = end + 1;
  }
  cli::CommandLine line("sort", "", "");
  cli::Parser parser = line.parser();
  cli::SortWords sort;
  cli::add_sort_words(parser, sort);
  words = cli::with_gnu_forms(std::move(words), parser);
  words.erase(words.begin());
  if (line.parse(std::move(words))) return;
  sort.takes_any_memory = true;
  const auto request = cli::sort_request(sort);
  if (request) (void)api::sort_options(request->files, request->sort);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      try_size(rest);
      break;
    case 1:
      try_profile(std::string(rest));
      break;
    case 2:
      try_emulated(std::string(rest));
      break;
    default:
      try_words(rest);
  }
  return 0;
}
