#pragma once

// The base of merge, partition, group and join: options, memory, passes of the executor
// (files/bowtie/run.h), temporaries, messages, figures.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/bowtie/run.h"
#include "files/run/input.h"
#include "files/run/options.h"
#include "files/run/run_context.h"
#include "io/engine.h"
#include "io/input_guard.h"

namespace penstock::files {

// The items of a pass: those of a format, or of several.
struct PassItems {
  // Implicitly, because most passes have one format.
  PassItems(const items::Format& format);

  uint32_t fixed_bytes = 0;  // the size of items, the largest of several; 0: they have any length
  bool cross_blocks = true;  // an item may lie across two blocks
};

// The block size of a pass and the comeback of its streams: each stream has many blocks, and a
// window holds an item. A line may always have 64 KiB, or a block if that is more; a longer one
// borrows from the other blocks (bowtie::Loan).
struct PassShape {
  size_t block_bytes = 0;
  uint32_t comeback_blocks = 0;
};
PassShape shape_of_pass(const PassItems& items, uint32_t streams, uint64_t memory_bytes);
// The length of items that all inputs of such a pass can show at the same time, with two more copies.
uint64_t item_bytes_max_of_pass(const PassItems& items, uint32_t streams, uint64_t memory_bytes);
// The number of streams that a pass with so much memory holds.
uint32_t streams_max(const PassItems& items, uint64_t memory_bytes);
// The least memory of a stream.
uint64_t stream_bytes_min(const PassItems& items);

// One run of a command. Thread safety: one thread; other threads report progress.
class FileRun {
 public:
  // `verb`: "merge", for messages.
  FileRun(const FilesOptions& options, const char* verb);

  // Opens the inputs, and keeps those that are not empty, with their sizes if known. Fails if the
  // memory is too small, or if an input cannot be opened or is not a whole number of items.
  struct StartOptions {
    std::vector<items::Format> formats = {};  // one for each input, if they differ
    // Files to read in place of inputs that were read already; nullptr: the input was empty.
    std::vector<std::optional<const io::File*>> instead = {};
    bool own_headers = false;  // keeps each input's header: headers()
    // The number of inputs that are read at once. usable_bytes() is without the memory of their
    // decoders and filters; 0: it includes that.
    size_t inputs_at_once = 1;
  };
  Status start(const StartOptions& how);
  Status start() { return start({}); }
  // Starts with inputs that the caller has opened.
  void start_with(std::vector<bowtie::Input> inputs);
  const std::vector<bowtie::Input>& inputs() const { return inputs_; }
  // The index of each of the options' inputs in inputs(); empty for an empty input.
  const std::vector<std::optional<uint32_t>>& places() const { return places_; }
  // The options of an output that may replace an input. `bytes`: its size, as far as known.
  io::OutputOptions output_options(uint64_t bytes = 0) const {
    return {.rules = options_.output_rules,
            .inputs = guard_,
            .bytes = bytes,
            .cancel = options_.cancel};
  }
  Result<io::File> open_output(uint64_t bytes = 0) const {
    return files::open_output(options_, output_options(bytes));
  }
  // The head of the first input that is not empty, with the end of its last line; the others have
  // the same columns. inputs() begin behind their heads.
  const std::string& header() const { return header_; }
  // The head of each of the options' inputs, with own_headers.
  const std::vector<std::string>& headers() const { return headers_; }
  // The format of the items: the options', with the keys that the header names.
  const items::Format& format() const { return format_; }
  // Writes the header at the beginning of an output.
  Status write_header(io::File& output) const;
  // The bytes of all inputs; unknown_bytes if one is in order.
  uint64_t input_bytes() const { return input_bytes_; }
  // The memory for blocks and tables.
  uint64_t usable_bytes() const { return usable_bytes_; }
  // Fails if less memory is usable.
  Status check_usable(uint64_t needed_bytes) const;
  // The memory of a stream of a merge without its decoder, for plans.
  uint64_t planned_stream_bytes() const;
  const bowtie::DeviceProfile& device() const;

  struct PassOptions {
    PassItems items;
    uint64_t memory_bytes = 0;  // beside that of the inputs' decoders
    // The computation reads its inputs one after the other.
    bool inputs_in_turn = false;
    const char* phase = "";
    uint64_t total_bytes = 0;  // traffic of this pass and the later ones, for progress; 0: unknown
    std::function<void(std::optional<uint64_t>)> merge_begins = {};  // PlanRunOptions::begins
  };
  // Runs one pass. Errors name files instead of numbers.
  Status pass(const std::vector<bowtie::Input>& inputs, std::vector<bowtie::Output> outputs,
              const bowtie::Computation& computation, const PassOptions& options);
  // Runs a merge in several passes.
  Status plan(const bowtie::Plan& plan, const std::vector<bowtie::Input>& inputs,
              const bowtie::Output& output, const bowtie::Computation& merge,
              const PassOptions& options);

  const std::vector<std::string>& temp_directories() const { return temp_directories_; }
  // Creates a temporary, in the temporary directories in turn; it disappears when it is closed.
  Result<std::unique_ptr<io::File>> temporary();
  void count_temporary_bytes(uint64_t bytes) { stats_.temp_bytes += bytes; }
  // The bytes of the first output of the last pass.
  uint64_t output_bytes() const { return output_bytes_; }

  // Fails if the run was cancelled.
  Status interrupted() { return context_.pulse(); }
  RunStats stats() const;
  // The block size of the last pass.
  size_t block_bytes() const { return block_bytes_; }
  // Ends a run of at most one pass: the output gets its name, and RunStats and `bytes` of the stats
  // are set; other members stay as they are.
  template <class Stats>
  Status finish(io::File& output, Stats& stats) {
    if (auto status = interrupted(); !status) return status;
    if (auto size = output.size(); size) stats.bytes = *size;
    if (auto status = output.publish(); !status) return status;
    static_cast<RunStats&>(stats) = this->stats();
    stats.passes = inputs_.empty() ? 0 : 1;
    return {};
  }

 private:
  std::unexpected<Error> too_small(uint64_t missing_bytes) const;
  Status add(size_t number, const items::Format& format);
  Status take_headers(bool own);
  // Removes the head from the front of an input.
  Result<TakenHeader> take_header(bowtie::Input& input);
  Status add_instead(size_t number, const io::File* file);
  Error named(Error error, const std::vector<bowtie::Input>& inputs);
  bowtie::RunOptions run_options(const PassOptions& options, uint32_t streams,
                                 uint64_t decoding_bytes);
  void note_staircases(const bowtie::Staircases& stairs, const char* phase);

  const FilesOptions& options_;
  const char* verb_;
  RunContext context_;
  std::vector<std::string> temp_directories_;
  std::vector<std::unique_ptr<io::File>> streams_;  // inputs that can only be opened once
  std::vector<bowtie::Input> inputs_;
  std::vector<std::optional<uint32_t>> places_;
  std::string header_;
  std::vector<std::string> headers_;
  items::Format format_;
  std::shared_ptr<io::InputGuard> guard_ = std::make_shared<io::InputGuard>();
  uint64_t input_bytes_ = 0;
  uint64_t usable_bytes_ = 0;
  size_t turn_ = 0;
  bool has_noticed_ = false;  // the notice of temporaries was given
  size_t block_bytes_ = 0;
  uint64_t output_bytes_ = 0;
  RunStats stats_;
};

}  // namespace penstock::files
