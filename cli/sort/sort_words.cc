#include "cli/sort/sort_words.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "base/amounts.h"
#include "base/misuse.h"
#include "cli/common/modes.h"
#include "cli/common/option_words.h"
#include "cli/common/size.h"
#include "cli/common/source_words.h"
#include "file/file.h"
#include "files/file_run.h"
#include "os/limits.h"

namespace penstock::cli {
namespace {

using api::option;

// Threads beyond eight seldom help on one disk; GNU sort stops there too.
constexpr unsigned default_threads_max = 8;
// Without -S; half of the memory where that is less.
constexpr uint64_t default_memory_bytes = 1 * GiB;

// What a percentage of -S is a share of.
uint64_t machine_memory_bytes() {
  // A look reads files of the system.
  static const uint64_t bytes = [] {
    const os::MachineMemory machine = os::machine_memory();
    return std::min(machine.memory_bytes, machine.cgroup_bytes_max.value_or(machine.memory_bytes));
  }();
  return bytes;
}

}  // namespace

const char* const sort_words_footer =
    "Sizes are numbers with a suffix: K M G T (or KiB ...) for powers of 1024, KB MB GB TB for\n"
    "powers of 1000, b for bytes, % for a share of the memory of this machine or of its "
    "container.\n"
    "-S without a suffix counts KiB, as GNU sort's, all others bytes.";

SortWords::SortWords() : sort{.threads = std::clamp(os::cores_usable(), 1u, default_threads_max)} {}

void add_memory_words(Parser& parser, MemoryWords& words) {
  add_option(parser, option<FilesOptions>("memory_bytes"), words.memory);
  add_option(parser, option<FilesOptions>("temp_directories"), words.temp_directories);
}

void add_sort_words(Parser& parser, SortWords& words) {
  add_option(parser, option<FilesOptions>("inputs"), words.inputs);
  parser.group("Input and output");
  add_option(parser, option<FilesOptions>("output"), words.output);
  add_format_options(parser, words.format);
  add_text_words(parser, words.format.text, true);
  add_flag(parser, option<ItemFormat>("descending"), words.descending);
  parser.group("Memory and disk");
  add_memory_words(parser, words);
  parser.group("Advanced");
  add_gnu_options(parser, words.gnu);
  add_option(parser, option<FilesOptions>("device"), words.device);
  add_option(parser, option<SortFilesOptions>("compression"), words.compression);
  add_option(parser, option<FilesOptions>("mechanism"), words.pool);
  add_source_words(parser, words.source);
  add_options(parser, words.sort);
}

Result<uint64_t> memory_bytes_of(const MemoryWords& words) {
  const uint64_t there = machine_memory_bytes();
  if (words.memory.empty()) return std::min(default_memory_bytes, there / 2);
  auto bytes = parse_size("-S", words.memory, there, KiB);
  // The system needs some itself.
  if (bytes && *bytes > there) return there / 10 * 9;
  if (bytes && words.takes_any_memory) return std::max(*bytes, 2 * files::files_memory_bytes_min);
  return bytes;
}

void add_memory_pool_word(Parser& parser, MemoryWords& words) {
  parser
      .add_option("--memory-pool", words.pool_of_memory,
                  "take -S of a budget that all runs of this user share which name it, and wait "
                  "until so much is free, first come, first served. The first says its size")
      .value_name("NAME[:SIZE]")
      .in(modes::items | modes::keys_shown | modes::merging);
}

Result<std::optional<file::SharedBudget>> take_of_memory_pool(
    const MemoryWords& words, uint64_t bytes, const std::atomic<bool>* cancel,
    std::function<void(const std::string&)> notice) {
  if (words.pool_of_memory.empty()) return std::nullopt;
  const size_t colon = words.pool_of_memory.find(':');
  file::SharedBudget::Options options{.name = words.pool_of_memory.substr(0, colon),
                                      .bytes = bytes,
                                      .cancel = cancel,
                                      .notice = std::move(notice)};
  if (colon != std::string::npos) {
    auto size =
        parse_size("--memory-pool", std::string_view(words.pool_of_memory).substr(colon + 1),
                   machine_memory_bytes());
    if (!size) return std::unexpected(size.error());
    options.budget_bytes = std::max(*size, MiB);
  }
  auto share = file::SharedBudget::take(options);
  if (!share) return std::unexpected(share.error());
  return std::move(*share);
}

std::string memory_notice(const MemoryWords& words) {
  if (words.memory.empty()) return {};
  const uint64_t there = machine_memory_bytes();
  const auto bytes = parse_size("-S", words.memory, there, KiB);
  if (!bytes || *bytes <= there) return {};
  return fmt::format("-S {}: here are {}, of which nine tenths are used", words.memory,
                     bytes_text(there));
}

Status check_temp_directories(const MemoryWords& words) {
  if (words.takes_any_memory) return {};
  for (const std::string& directory : words.temp_directories) {
    if (auto space = file::space_of(directory); !space) return std::unexpected(space.error());
    if (::access(directory.c_str(), W_OK | X_OK) != 0)
      return std::unexpected(Error{ErrorCode::permission, "write to this directory", directory,
                                   errno, "-T with a directory that you may write to"});
  }
  return {};
}

Result<SortRequest> sort_request(const SortWords& words) {
  if (auto status = check_gnu_options(words.gnu); !status) return std::unexpected(status.error());
  std::vector<std::string> inputs = words.inputs;
  if (!words.gnu.files0_from.empty()) {
    if (!inputs.empty())
      return misuse("sort " + inputs.front() + " beside the files that a list names",
                    "--files0-from", "one of the two");
    auto names = inputs_from(words.gnu.files0_from);
    if (!names) return std::unexpected(names.error());
    inputs = std::move(*names);
  }
  if (Status usable = check_temp_directories(words); !usable)
    return std::unexpected(usable.error());
  auto items = words.format.items(words.descending);
  if (!items) return std::unexpected(items.error());
  if (!words.gnu.random_source.empty()) {
    auto seed = random_seed_from(words.gnu.random_source);
    if (!seed) return std::unexpected(seed.error());
    items->random_seed = *seed;
  }
  Result<uint64_t> memory_bytes = memory_bytes_of(words);
  if (!memory_bytes) return std::unexpected(memory_bytes.error());
  const auto mechanism =
      api::value_of_word<Mechanism>(words.pool, "move memory in this way", "--pool ");
  if (!mechanism) return std::unexpected(mechanism.error());
  const auto compression = api::value_of_word<Compression>(
      words.compression, "compress temporaries in this way", "--compress-temporaries ");
  if (!compression) return std::unexpected(compression.error());

  SortRequest request{
      .files = {.inputs = inputs.empty() ? std::vector<std::string>{"-"} : std::move(inputs),
                .output = words.output,
                .items = std::move(*items),
                .memory_bytes = *memory_bytes,
                .memory_scope = MemoryScope::process,
                .temp_directories = words.temp_directories,
                .mechanism = *mechanism,
                .source = words.source},
      .sort = words.sort};
  request.sort.compression =
      words.gnu.compress_program.empty() ? *compression : Compression::always;
  if (!words.device.empty()) {
    auto device = load_profile(words.device);
    if (!device) return std::unexpected(device.error());
    request.files.device = std::make_shared<const DeviceProfile>(std::move(*device));
  }
  return request;
}

}  // namespace penstock::cli
