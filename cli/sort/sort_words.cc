#include "cli/sort/sort_words.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "base/misuse.h"
#include "cli/common/modes.h"
#include "cli/common/size.h"
#include "cli/common/source_words.h"
#include "file/file.h"
#include "files/file_run.h"
#include "os/limits.h"
#include "pool/pool.h"

namespace penstock::cli {
namespace {

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

// Nothing if it is a whole number that can be counted to.
std::string what_is_wrong_with_a_count(const std::string& text) {
  uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, count);
  if (error == std::errc{} && at == end) return {};
  return "cannot take " + text + " items (try: a whole number)";
}

Result<Mechanism> parse_mechanism(std::string_view name) {
  using enum Mechanism;
  for (Mechanism mechanism : {automatic, mremap, uffd_move, shared}) {
    if (name == pool::name_of(mechanism)) return mechanism;
  }
  return misuse("move memory in this way", "--pool " + std::string(name),
                "automatic, mremap, uffd_move or shared");
}

Result<Compression> parse_compression(std::string_view name) {
  using enum Compression;
  if (name == "auto") return automatic;
  if (name == "always") return always;
  if (name == "never") return never;
  return misuse("compress temporaries in this way", "--compress-temporaries " + std::string(name),
                "auto, always or never");
}

}  // namespace

const char* const sort_words_footer =
    "Sizes are numbers with a suffix: K M G T (or KiB ...) for powers of 1024, KB MB GB TB for\n"
    "powers of 1000, b for bytes, % for a share of the memory of this machine or of its "
    "container.\n"
    "-S without a suffix counts KiB, as GNU sort's, all others bytes.";

SortWords::SortWords() : threads(std::clamp(os::cores_usable(), 1u, default_threads_max)) {}

void add_memory_words(Parser& parser, MemoryWords& words) {
  constexpr unsigned packages = modes::tables | modes::cluster | modes::cluster_tables;
  parser
      .add_option(
          "-S,--buffer-size", words.memory,
          "memory that the program may use, all told (default 1G, or half of the memory if less)")
      .in(modes::sorts | modes::checking | modes::plan_of_size | packages);
  parser
      .add_option(
          "-T,--temporary-directory", words.temp_directories,
          "where temporaries go; may be given several times (default: $TMPDIR, or /tmp; where "
          "that is memory, /var/tmp or the output's folder)")
      .in(modes::sorts | packages | modes::as_gnu);
}

void add_sort_words(Parser& parser, SortWords& words) {
  constexpr unsigned packages = modes::tables | modes::cluster | modes::cluster_tables;
  // A merge has threads, temporaries and pools of its own.
  constexpr unsigned sorts_alone = modes::sorts & ~modes::merging;
  parser.add_option("FILE", words.inputs, "what to sort; - or nothing is standard input")
      .in(modes::sorts | modes::checking | packages);
  parser.group("Input and output");
  parser
      .add_option("-o,--output", words.output,
                  "where the result goes; may be an input (default: standard output)")
      .in((modes::sorts & ~modes::keys_shown) | packages);
  add_format_options(parser, words.format);
  add_text_words(parser, words.format.text, true);
  parser.add_flag("-r,--reverse", words.descending, "descending order").in(modes::all_items);
  parser
      .add_flag("-u,--unique", words.unique,
                "only the first of items with equal keys; with -c: equal keys are disorder")
      .in(modes::sorts | modes::checking);
  parser.add_flag("-s,--stable", words.stable, "items with equal keys keep their order")
      .in(modes::sorts | modes::checking | modes::cluster);
  parser.add_flag("-m,--merge", words.merge_only, "the inputs are sorted already: merge them")
      .in(modes::sorts | modes::as_gnu);
  parser
      .add_option("--top", words.top,
                  "the first so many items of the output alone, as head -n would leave them")
      .check(what_is_wrong_with_a_count)
      .in(modes::sorts | modes::tables);
  parser.group("Memory and disk");
  add_memory_words(parser, words);
  parser.add_option("--parallel", words.threads, "threads (default: the cores, at most 8)")
      .in(sorts_alone | packages | modes::as_gnu);
  parser.group("Advanced");
  add_gnu_options(parser, words.gnu);
  parser
      .add_option(
          "--device,--profile", words.device,
          "the disk to plan for: array24, hdd, sata-ssd, nvme, or a profile of penstock disk "
          "(default: a short look at the disk of the temporaries)")
      .in(modes::sorts | modes::plan_of_size);
  parser
      .add_option("--compress-temporaries", words.compression,
                  "lines and records with LZ4, numbers without the bits that a block shares: auto "
                  "(where it pays on this disk), always or never (default: auto)")
      .value_name("WHEN")
      .in(sorts_alone);
  parser
      .add_option("--pool", words.pool,
                  "how memory moves: automatic, mremap, uffd_move or shared (default: automatic)")
      .value_name("HOW")
      .in(sorts_alone);
  add_source_words(parser, words.source);
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
  const std::string amount = there < GiB
                                 ? fmt::format("{} MiB", there / MiB)
                                 : fmt::format("{:.1f} GiB", static_cast<double>(there) / GiB);
  return fmt::format("-S {}: here are {}, of which nine tenths are used", words.memory, amount);
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
  Result<Mechanism> mechanism = parse_mechanism(words.pool);
  if (!mechanism) return std::unexpected(mechanism.error());
  Result<Compression> compression = parse_compression(words.compression);
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
      .sort = {
          .threads = words.threads,
          .stable = words.stable,
          .unique = words.unique,
          .merge_only = words.merge_only,
          .top = words.top,
          .compression = words.gnu.compress_program.empty() ? *compression : Compression::always}};
  if (!words.device.empty()) {
    auto device = load_profile(words.device);
    if (!device) return std::unexpected(device.error());
    request.files.device = std::make_shared<const DeviceProfile>(std::move(*device));
  }
  return request;
}

}  // namespace penstock::cli
