#include "cli/common/run_words.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/amounts.h"
#include "base/misuse.h"
#include "cli/common/binary_input.h"
#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/modes.h"
#include "cli/common/option_words.h"
#include "cli/common/output_words.h"
#include "cli/common/size.h"
#include "cli/common/stop_signals.h"
#include "files/run/file_run.h"
#include "io/file.h"
#include "io/shared_budget.h"
#include "os/limits.h"

namespace penstock::cli {
namespace {

using api::option;

// The default of -S; half of the machine's memory if that is less.
constexpr uint64_t default_memory_bytes = 1 * GiB;

// The machine's memory, or its cgroup's limit if that is less. Percentages of -S refer to it.
uint64_t machine_memory_bytes() {
  // Cached, because it is read from files of the system.
  static const uint64_t bytes = [] {
    const os::MachineMemory machine = os::machine_memory();
    return std::min(machine.memory_bytes, machine.cgroup_bytes_max.value_or(machine.memory_bytes));
  }();
  return bytes;
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

// The notice about an -S larger than the machine's memory; empty otherwise.
std::string memory_notice(const RunWords& words) {
  if (words.memory.empty()) return {};
  const uint64_t there = machine_memory_bytes();
  const auto bytes = parse_size("-S", words.memory, there, KiB);
  if (!bytes || *bytes <= there) return {};
  return fmt::format("-S {}: this machine has {}, and nine tenths of them are used", words.memory,
                     bytes_text(there));
}

// Errors: a folder of -T does not exist, or cannot be written to. (Under the name of GNU sort there
// is no such check: GNU sort looks only when it needs a folder.)
Status check_temp_directories(const RunWords& words) {
  if (words.takes_any_memory) return {};
  for (const std::string& directory : words.temp_directories) {
    if (auto space = io::space_of(directory); !space) return std::unexpected(space.error());
    if (::access(directory.c_str(), W_OK | X_OK) != 0)
      return std::unexpected(Error{ErrorCode::permission, "write to this directory", directory,
                                   errno, "-T with a directory that you may write to"});
  }
  return {};
}

}  // namespace

void add_memory_words(Parser& parser, RunWords& words) {
  add_option(parser, option<FilesOptions>("memory_bytes"), words.memory);
  add_option(parser, option<FilesOptions>("temp_directories"), words.temp_directories);
}

Result<uint64_t> memory_bytes_of(const RunWords& words) {
  const uint64_t there = machine_memory_bytes();
  if (words.memory.empty()) return std::min(default_memory_bytes, there / 2);
  auto bytes = parse_size("-S", words.memory, there, KiB);
  // The rest is left to the system.
  if (bytes && *bytes > there) return there / 10 * 9;
  if (bytes && words.takes_any_memory) return std::max(*bytes, 2 * files::files_memory_bytes_min);
  return bytes;
}

void add_memory_pool_word(Parser& parser, RunWords& words) {
  parser
      .add_option("--memory-pool", words.pool_of_memory,
                  "share a memory budget among all runs of this user that name it: take -S from "
                  "it, and wait, first come, first served, until so much is free; the first run "
                  "sets its size")
      .value_name("NAME[:SIZE]")
      .in(modes::items | modes::keys_shown | modes::merging);
}

Result<FilesOptions> files_options(const RunWords& words) {
  auto items = words.format.items(words.descending);
  if (!items) return std::unexpected(items.error());
  if (Status usable = check_temp_directories(words); !usable)
    return std::unexpected(usable.error());
  auto memory_bytes = memory_bytes_of(words);
  if (!memory_bytes) return std::unexpected(memory_bytes.error());
  auto compressed = compressed_format(words.compressed, words.output);
  if (!compressed) return std::unexpected(compressed.error());
  FilesOptions options{
      .inputs = words.inputs.empty() ? std::vector<std::string>{"-"} : words.inputs,
      .output = words.output,
      .compressed = *compressed,
      .items = std::move(*items),
      .memory_bytes = *memory_bytes,
      .memory_scope = MemoryScope::process,
      .temp_directories = words.temp_directories,
      .output_rules = words.output_rules,
      .source = words.source};
  if (!words.device.empty()) {
    auto loaded = load_profile(words.device);
    if (!loaded) return std::unexpected(loaded.error());
    options.device = std::make_shared<const DeviceProfile>(std::move(*loaded));
  }
  return options;
}

int carry_out(const std::string& command, const RunWords& words, FilesOptions& options,
              const std::function<Status()>& work) {
  StopOptions stop = stop_options(command, options.output, options.output_rules);
  stop.reads_stdin = std::ranges::find(options.inputs, "-") != options.inputs.end();
  StopSignals signals(stop);
  options.cancel = &signals.flag();
  const Status done = [&]() -> Status {
    ProgressLine line(words.telling);
    for (const std::string& notice :
         {memory_notice(words),
          words.telling.quiet ? std::string()
                              : binary_notice(options.inputs, options.items, options.source),
          uncompressed_notice(words.compressed, words.output, words.can_compress)}) {
      if (!notice.empty()) line.tell(command, notice);
    }
    options.notice = [&](const std::string& text) { line.tell(command, text); };
    if (line.wanted()) options.progress = [&](const FilesProgress& now) { line.show(now); };
    const auto share =
        take_of_memory_pool(words, options.memory_bytes, options.cancel, options.notice);
    if (!share) return std::unexpected(share.error());
    return work();
  }();
  if (done) return exit_ok;
  if (done.error().code == ErrorCode::interrupted && signals.caught() != 0) return signals.die();
  // The reader of the output has enough ("penstock sort FILE | head"): end as other filters do.
  if (done.error().system_errno == EPIPE) return die_by(SIGPIPE);
  return report(command, done.error());
}

}  // namespace penstock::cli
