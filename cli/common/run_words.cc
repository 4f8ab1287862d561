#include "cli/common/run_words.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/amounts.h"
#include "base/misuse.h"
#include "cli/common/column_numbers.h"
#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/input_notices.h"
#include "cli/common/modes.h"
#include "cli/common/option_words.h"
#include "cli/common/output_words.h"
#include "cli/common/size.h"
#include "cli/common/stop_signals.h"
#include "cli/common/table_guess.h"
#include "files/run/memory_plan.h"
#include "io/file.h"
#include "io/shared_budget.h"
#include "os/limits.h"

namespace penstock::cli {
namespace {

using api::option;

// The default of -S with --memory-pool; half of the machine's memory if that is less. Half of the
// available memory would depend on what the other runs of the pool hold.
constexpr uint64_t default_pooled_bytes = 1 * GiB;

// Cached, because it is read from files of the system.
const os::MachineMemory& this_machine() {
  static const os::MachineMemory machine = os::machine_memory();
  return machine;
}

// The machine's memory, or its cgroup's limit if that is less. Percentages of -S refer to it.
uint64_t machine_memory_bytes() {
  const os::MachineMemory& machine = this_machine();
  return std::min(machine.memory_bytes, machine.cgroup_bytes_max.value_or(machine.memory_bytes));
}

// A memory limit in words, from -S or from the environment variable PENSTOCK_MEMORY.
struct MemoryWord {
  std::string text;
  std::string subject;  // for messages: "-S 2G"
  bool is_environment = false;
};

std::optional<MemoryWord> memory_word(const RunWords& words) {
  if (!words.memory.empty()) return MemoryWord{words.memory, "-S " + words.memory};
  const char* const text = std::getenv("PENSTOCK_MEMORY");
  if (text == nullptr || *text == 0) return std::nullopt;
  return MemoryWord{text, std::string("PENSTOCK_MEMORY=") + text, true};
}

uint64_t default_memory_bytes(const RunWords& words) {
  if (!words.pool_of_memory.empty())
    return std::min(default_pooled_bytes, machine_memory_bytes() / 2);
  // Memory takes addresses, which `ulimit -v` may limit.
  const uint64_t half_bytes = os::addresses_for_unknown(this_machine().usable_bytes / 2);
  return std::max(half_bytes, files::files_memory_bytes_min);
}

// Waits for `bytes` of the named memory pool; returns nullopt if none was named.
Result<std::optional<io::SharedBudget>> take_of_memory_pool(
    const RunWords& words, uint64_t bytes, const std::atomic<bool>* cancel,
    std::function<void(const std::string&)> notice) {
  if (words.pool_of_memory.empty()) return std::nullopt;
  const size_t colon = words.pool_of_memory.find(':');
  io::SharedBudget::Options options{.name = words.pool_of_memory.substr(0, colon),
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
  auto share = io::SharedBudget::acquire(options);
  if (!share) return std::unexpected(share.error());
  return std::move(*share);
}

// The notice about a memory limit larger than the machine's memory; empty otherwise.
std::string memory_notice(const RunWords& words) {
  const auto word = memory_word(words);
  if (!word) return {};
  const uint64_t there = machine_memory_bytes();
  const auto bytes = parse_size("-S", word->text, there, KiB);
  if (!bytes || *bytes <= there) return {};
  return fmt::format("{}: taken as {}, nine tenths of the memory of this machine (try: -S 80%)",
                     word->subject, bytes_text(there / 10 * 9));
}

// True if the output is a file, or standard output that is redirected to one. A summary would only
// disturb the data on a terminal, or the next program of a pipeline.
bool becomes_a_file(const std::string& output) {
  const auto descriptor = io::output_descriptor(output);
  struct stat there;
  if (!descriptor) return io::names_a_file(output);
  return ::fstat(*descriptor, &there) == 0 && S_ISREG(there.st_mode);
}

// Errors: a folder of -T does not exist, or cannot be written to. (Under the name of GNU sort there
// is no such check: GNU sort looks only when it needs a folder.)
Status check_temp_directories(const RunWords& words) {
  if (words.takes_any_memory) return {};
  for (const std::string& directory : words.temp_directories) {
    if (auto space = io::space_of(directory); !space) return std::unexpected(space.error());
    if (std::error_code ignored; !std::filesystem::is_directory(directory, ignored))
      return std::unexpected(Error{ErrorCode::invalid_argument, "use this directory", directory,
                                   ENOTDIR, "-T with a directory"});
    if (::access(directory.c_str(), W_OK | X_OK) != 0)
      return std::unexpected(Error{ErrorCode::permission, "write to this directory", directory,
                                   errno, "-T with a directory that you may write to"});
  }
  return {};
}

// Returns whether a key, or the letters of all keys, may name the order n. (A column's name may look
// like it.)
bool may_have_n(std::string_view key) {
  constexpr std::string_view letters = "bdfghiMnRrV";
  while (!key.empty()) {
    const size_t end = std::min(key.find_first_of(":,"), key.size());
    std::string_view part = key.substr(0, end);
    key.remove_prefix(std::min(end + 1, key.size()));
    part.remove_prefix(std::min(part.find_first_not_of("0123456789."), part.size()));
    part = part.substr(0, part.find_first_of("0123456789."));
    if (part.contains('n') && part.find_first_not_of(letters) == part.npos) return true;
  }
  return false;
}

// Refuses the form of times or numbers if the command has none to read.
Status check_value_forms(const ItemFormat& items, const std::vector<NamedColumns>& named) {
  std::vector<std::string> keys = {items.letters};
  bool adds_up = false;
  for (const NamedColumns& one : named) {
    const bool are_keys = one.option == "--key";
    if (are_keys) keys.insert(keys.end(), one.columns.begin(), one.columns.end());
    adds_up |= !are_keys && one.option != "--select" && !one.columns.empty();
  }
  const auto is_of_times = [](const std::string& key) { return key.contains(":time"); };
  if (!items.time_format.empty() && std::ranges::none_of(keys, is_of_times))
    return misuse("read times without a key of times", "--time-format " + items.time_format,
                  "--key COLUMN:time");
  if (!items.number_format.empty() && !adds_up && std::ranges::none_of(keys, may_have_n))
    return misuse("read numbers without a key of numbers", "--number-format " + items.number_format,
                  "--key COLUMN:n");
  return {};
}

}  // namespace

void add_memory_words(Parser& parser, RunWords& words) {
  add_option(parser, option<FilesOptions>("memory_bytes"), words.memory);
  add_option(parser, option<FilesOptions>("temp_directories"), words.temp_directories);
}

Result<uint64_t> memory_bytes_of(const RunWords& words) {
  const auto word = memory_word(words);
  if (!word) return default_memory_bytes(words);
  const uint64_t there = machine_memory_bytes();
  auto bytes = parse_size("-S", word->text, there, KiB);
  if (!bytes) {
    bytes.error().subject = word->subject;
    return bytes;
  }
  // The rest is left to the system.
  if (*bytes > there) return there / 10 * 9;
  if (words.takes_any_memory) return std::max(*bytes, 2 * files::files_memory_bytes_min);
  // The run refuses a small -S itself, but names only -S.
  if (word->is_environment && *bytes < files::files_memory_bytes_min)
    return misuse(fmt::format("work within {}", bytes_text(*bytes)), word->subject, "at least 32M");
  return bytes;
}

void add_memory_pool_word(Parser& parser, RunWords& words) {
  parser
      .add_option("--memory-pool", words.pool_of_memory,
                  "share a memory budget among all runs of this user that name it: take -S from "
                  "it, and wait, first come, first served, until so much is free; the first run "
                  "sets its size")
      .value_name("NAME[:SIZE]")
      .rare()
      .in(modes::items | modes::keys_shown | modes::merging);
}

void add_columns_word(Parser& parser, RunWords& words) {
  add_option(parser, option<FilesOptions>("columns"), words.columns)
      .offers(api::option_words<ColumnRule>);
}

void add_select_word(Parser& parser, RunWords& words) {
  add_option(parser, option<FilesOptions>("select"), words.select);
}

Result<FilesOptions> files_options(const RunWords& words) {
  const std::vector<std::string> inputs =
      words.inputs.empty() ? std::vector<std::string>{"-"} : words.inputs;
  FormatOptions format = words.format;
  if (words.recognizes_tables) {
    std::vector<std::string> columns = format.keys;
    for (const NamedColumns& named : words.named_columns) {
      if (!named.input) columns.insert(columns.end(), named.columns.begin(), named.columns.end());
    }
    columns.insert(columns.end(), words.select.begin(), words.select.end());
    if (Status keys =
            prepare_for_keys(columns, words.inputs, words.source, *words.beginnings, format);
        !keys)
      return std::unexpected(keys.error());
  }
  auto items = format.items(words.descending);
  if (!items) return std::unexpected(items.error());
  std::vector<NamedColumns> named = words.named_columns;
  named.insert(named.begin(), {"--key", items->keys});
  named.push_back({"--select", words.select});
  if (Status forms = check_value_forms(*items, named); !forms)
    return std::unexpected(forms.error());
  for (const auto& [option, columns, input] : named) {
    const auto those = input ? std::vector{inputs[*input]} : inputs;
    Status there =
        check_column_numbers(*items, words.source, *words.beginnings, those, option, columns);
    if (!there) return std::unexpected(there.error());
  }
  if (Status device = check_overwrite_device(words.output, words.output_rules); !device)
    return std::unexpected(device.error());
  if (Status usable = check_temp_directories(words); !usable)
    return std::unexpected(usable.error());
  auto memory_bytes = memory_bytes_of(words);
  if (!memory_bytes) return std::unexpected(memory_bytes.error());
  auto compressed = compressed_format(words.compressed, words.output);
  if (!compressed) return std::unexpected(compressed.error());
  const auto columns =
      api::value_of_word<ColumnRule>(words.columns, "combine columns in this way", "--columns ");
  if (!columns) return std::unexpected(columns.error());
  FilesOptions options{.inputs = inputs,
                       .output = words.output,
                       .compressed = *compressed,
                       .items = std::move(*items),
                       .columns = *columns,
                       .select = words.select,
                       .bad_rows = words.bad_rows,
                       .memory_bytes = *memory_bytes,
                       .memory_scope = MemoryScope::process,
                       .temp_directories = words.temp_directories,
                       .option_names = OptionNames::command_line,
                       .output_rules = words.output_rules,
                       .source = words.source};
  if (!words.device.empty()) {
    auto loaded = load_profile(words.device);
    if (!loaded) return std::unexpected(loaded.error());
    options.device = std::make_shared<const DeviceProfile>(std::move(*loaded));
  }
  return options;
}

std::string describe(const RunSummary& summary, const ItemFormat& items) {
  const char* const noun = summary.noun != nullptr  ? summary.noun
                           : items.csv              ? "rows"
                           : items.name == "lines"  ? "lines"
                           : items.name == "jsonl"  ? "lines"
                           : items.name == "record" ? "records"
                                                    : "items";
  const uint64_t temporary_bytes = summary.run.temp_bytes;
  return fmt::format(
      "{}, {} {} in {}, {} of memory, {}", bytes_text(summary.bytes), grouped(summary.items), noun,
      duration_text(summary.run.seconds), bytes_text(summary.run.peak_rss_bytes),
      temporary_bytes == 0 ? "no temporaries" : bytes_text(temporary_bytes) + " of temporaries");
}

std::vector<std::string> notices_of(const RunWords& words, const FilesOptions& options,
                                    bool counts_odd_values) {
  std::vector<std::string> notices;
  if (!words.telling.quiet) {
    notices = input_notices(options, *words.beginnings,
                            {.orders = words.orders,
                             .groups = words.groups,
                             .header = words.looks_for_header && !words.format.text.no_header,
                             .keys = words.takes_keys,
                             .counts_odd_values = counts_odd_values});
    for (const NamedColumns& named : words.named_columns) {
      const auto inputs = named.input ? std::vector{options.inputs[*named.input]} : options.inputs;
      std::string notice =
          member_notice(options, *words.beginnings, inputs, named.option, named.columns);
      if (notice.empty() && named.input)
        notice = field_notice(options, *words.beginnings, inputs.front(), named.columns, true,
                              words.field_hint);
      if (notice.empty()) continue;
      notices.push_back(std::move(notice));
      break;  // one mistake
    }
  }
  words.beginnings->clear();
  notices.push_back(memory_notice(words));
  notices.push_back(uncompressed_notice(words.compressed, words.output, words.can_compress));
  std::erase(notices, "");
  for (std::string& notice : notices) notice = as_typed(std::move(notice));
  return notices;
}

int carry_out(const std::string& command, const RunWords& words, FilesOptions& options,
              const std::function<Result<RunSummary>()>& work) {
  StopOptions stop = stop_options(command, options.output, options.output_rules);
  stop.reads_stdin = std::ranges::find(options.inputs, "-") != options.inputs.end();
  StopSignals signals(stop);
  options.cancel = &signals.flag();
  const Status done = [&]() -> Status {
    if (words.orders && words.output == "-" && ::isatty(STDOUT_FILENO) == 1 &&
        words.format.name != "lines" && words.format.name != "record")
      return misuse("print items of " + words.format.name + " on a terminal", "standard output",
                    "-o FILE, or | od");
    ProgressLine line(words.telling);
    for (const std::string& notice : notices_of(words, options, words.counts_odd_values))
      line.tell(command, notice);
    options.notice = [&](const std::string& text) { line.tell(command, text); };
    if (line.wanted()) options.progress = [&](const FilesProgress& now) { line.show(now); };
    const auto share =
        take_of_memory_pool(words, options.memory_bytes, options.cancel, options.notice);
    if (!share) return std::unexpected(share.error());
    const auto summary = work();
    if (!summary) return std::unexpected(summary.error());
    line.clear();
    if (line.wanted() && becomes_a_file(options.output))
      line.tell(command, describe(*summary, options.items));
    return {};
  }();
  if (done) return exit_ok;
  if (done.error().code == ErrorCode::interrupted && signals.caught() != 0) return signals.die();
  // The reader of the output has enough ("penstock sort FILE | head"): end as other filters do.
  if (done.error().system_errno == EPIPE) return die_by(SIGPIPE);
  return report(command, done.error());
}

}  // namespace penstock::cli
