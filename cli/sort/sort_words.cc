#include "cli/sort/sort_words.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "base/misuse.h"
#include "cli/common/profile_json.h"
#include "cli/common/size.h"
#include "cli/common/source_words.h"
#include "os/limits.h"

namespace penstock::cli {
namespace {

// Threads beyond eight seldom help on one disk; GNU sort stops there too.
constexpr unsigned default_threads_max = 8;
// Without -S; half of the memory where that is less.
constexpr uint64_t default_memory_bytes = 1 * GiB;

// What a percentage of -S is a share of.
uint64_t machine_memory_bytes() {
  os::Limits limits = os::limits();
  return std::min(limits.memory_bytes, limits.cgroup_bytes_max.value_or(limits.memory_bytes));
}

// Nothing if it is a whole number that can be counted to.
std::string what_is_wrong_with_a_count(const std::string& text) {
  uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, count);
  if (error == std::errc{} && at == end) return {};
  return "cannot take " + text + " items (try: a whole number)";
}

Result<pool::Mechanism> parse_mechanism(std::string_view name) {
  using enum pool::Mechanism;
  for (pool::Mechanism mechanism : {automatic, mremap, uffd_move, shared}) {
    if (name == pool::name_of(mechanism)) return mechanism;
  }
  return misuse("move memory in this way", "--pool " + std::string(name),
                "automatic, mremap, uffd_move or shared");
}

Result<external::Compression> parse_compression(std::string_view name) {
  using enum external::Compression;
  if (name == "auto") return automatic;
  if (name == "always") return always;
  if (name == "never") return never;
  return misuse("compress temporaries in this way", "--compress-temporaries " + std::string(name),
                "auto, always or never");
}

}  // namespace

const char* const sort_words_footer =
    "Sizes are numbers with a suffix: b for bytes, K M G T for powers of 1024 (none: K, as GNU "
    "sort's), %\n"
    "for a share of the memory of this machine or of its container.";

SortWords::SortWords()
    : threads(std::clamp(std::thread::hardware_concurrency(), 1u, default_threads_max)) {}

void add_memory_words(Parser& parser, MemoryWords& words) {
  parser.add_option(
      "-S,--buffer-size", words.memory,
      "memory that the program may use, all told (default 1G, or half of the memory if less)");
  parser
      .add_option(
          "-T,--temporary-directory", words.temp_directories,
          "where temporaries go; may be given several times (default: $TMPDIR, or /tmp; where "
          "that is memory, /var/tmp or the output's folder)")
      .one_word();
}

void add_sort_words(Parser& parser, SortWords& words) {
  parser.add_option("FILE", words.inputs, "what to sort; - or nothing is standard input");
  parser.add_option("-o,--output", words.output,
                    "where the result goes; may be an input (default: standard output)");
  add_format_options(parser, words.format);
  add_text_words(parser, words.format.text, true);
  add_gnu_options(parser, words.gnu);
  add_memory_words(parser, words);
  parser.add_option("--parallel", words.threads, "threads (default: the cores, at most 8)");
  parser.add_flag("-r,--reverse", words.descending, "descending order");
  parser.add_flag("-u,--unique", words.unique,
                  "only the first of items with equal keys; with -c: equal keys are disorder");
  parser.add_flag("-s,--stable", words.stable, "items with equal keys keep their order");
  parser.add_flag("-m,--merge", words.merge_only, "the inputs are sorted already: merge them");
  parser
      .add_option("--top", words.top,
                  "the first so many items of the output alone, as head -n would leave them")
      .check(what_is_wrong_with_a_count);
  parser.add_option(
      "--device,--profile", words.device,
      "the disk to plan for: array24, hdd, sata-ssd, nvme, or a profile of penstock disk "
      "(default: a short look at the disk of the temporaries)");
  parser.add_option("--compress-temporaries", words.compression,
                    "of lines and records, with LZ4: auto (where it pays on this disk), always or "
                    "never (default: auto)");
  parser.add_option(
      "--pool", words.pool,
      "how memory moves: automatic, mremap, uffd_move or shared (default: automatic)");
  add_source_words(parser, words.source);
}

Result<uint64_t> memory_bytes_of(const MemoryWords& words) {
  if (!words.memory.empty()) return parse_size(words.memory, machine_memory_bytes());
  return std::min(default_memory_bytes, machine_memory_bytes() / 2);
}

Result<external::SortOptions> sort_options(const SortWords& words, bool resume) {
  if (std::ranges::find(words.inputs, "") != words.inputs.end()) {
    return misuse("sort a file without a name", "FILE ''", "- for standard input");
  }
  if (words.output.empty()) {
    return misuse("write a file without a name", "-o ''", "- for standard output");
  }
  if (auto status = check_gnu_options(words.gnu); !status) return std::unexpected(status.error());
  if (words.threads == 0) return misuse("work with no thread", "--parallel", "--parallel 2");
  std::vector<std::string> inputs = words.inputs;
  if (!words.gnu.files0_from.empty()) {
    if (!inputs.empty())
      return misuse("sort " + inputs.front() + " beside the files that a list names",
                    "--files0-from", "one of the two");
    auto names = inputs_from(words.gnu.files0_from);
    if (!names) return std::unexpected(names.error());
    inputs = std::move(*names);
  }
  std::optional<uint64_t> random_seed;
  if (!words.gnu.random_source.empty()) {
    auto seed = random_seed_from(words.gnu.random_source);
    if (!seed) return std::unexpected(seed.error());
    random_seed = *seed;
  }
  const OrderRules rules{.descending = words.descending,
                         .stable = words.stable,
                         .unique = words.unique,
                         .repeatable = resume,
                         .random_seed = random_seed};
  Result<record::Format> format = words.format.format(rules);
  if (!format) return std::unexpected(format.error());
  Result<uint64_t> memory_bytes = memory_bytes_of(words);
  if (!memory_bytes) return std::unexpected(memory_bytes.error());
  Result<pool::Mechanism> mechanism = parse_mechanism(words.pool);
  if (!mechanism) return std::unexpected(mechanism.error());
  Result<external::Compression> compression = parse_compression(words.compression);
  if (!compression) return std::unexpected(compression.error());

  external::SortOptions options;
  options.inputs = inputs.empty() ? std::vector<std::string>{"-"} : std::move(inputs);
  options.output = words.output;
  options.format = *format;
  options.memory_bytes = *memory_bytes;
  options.temp_directories = words.temp_directories;
  options.threads = words.threads;
  options.descending = words.format.descending(rules, *format);
  options.unique = words.unique;
  options.stable = words.stable;
  options.merge_only = words.merge_only;
  options.mechanism = *mechanism;
  options.compression =
      words.gnu.compress_program.empty() ? *compression : external::Compression::always;
  options.source = words.source;
  options.top = words.top;
  if (!words.device.empty()) {
    auto device = load_device(words.device);
    if (!device) return std::unexpected(device.error());
    options.device = std::make_shared<const bowtie::DeviceProfile>(std::move(device->profile));
  }
  return options;
}

}  // namespace penstock::cli
