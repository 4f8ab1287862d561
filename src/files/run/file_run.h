#pragma once

// What merging, partitioning, grouping and joining of files share: options, memory, passes of the
// executor (files/bowtie/run.h), temporaries, messages, figures.

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

// The least memory_bytes.
inline constexpr uint64_t files_memory_bytes_min = 32 * MiB;

// The blocks of a pass, and how far its streams come back: as large as leaves each stream many of
// them, and a window that holds an item. Lines are as long as they are: 64 KiB, or a block where
// that is more.
struct PassShape {
  size_t block_bytes = 0;
  uint32_t comeback_blocks = 0;
};
PassShape shape_of_pass(const items::Format& format, uint32_t streams, uint64_t memory_bytes);
// The longest item of a pass of so many streams that has so much memory.
uint64_t item_bytes_max_of_pass(const items::Format& format, uint32_t streams,
                                uint64_t memory_bytes);
// How many streams a pass of so much memory holds.
uint32_t streams_max(const items::Format& format, uint64_t memory_bytes);
// What a stream needs at least.
uint64_t stream_bytes_min(const items::Format& format);

// One run of a command. Thread safety: one thread, as said; progress comes from others.
class FileRun {
 public:
  // `verb`: "merge", for messages.
  FileRun(const FilesOptions& options, const char* verb);

  // The inputs, looked at: those that hold anything, with their sizes where they have one. Fails
  // where the memory is too small, and on what cannot be opened or does not hold whole items.
  struct StartOptions {
    std::vector<items::Format> formats = {};  // of each input, where they differ from each other
    // Read in place of an input that somebody else has read: a file, or nothing (nullptr).
    std::vector<std::optional<const io::File*>> instead = {};
    bool own_headers = false;  // each input has a header of its own: headers()
  };
  Status start(const StartOptions& how);
  Status start() { return start({}); }
  // Instead: these, which somebody else has opened and knows.
  void start_with(std::vector<bowtie::Input> inputs);
  const std::vector<bowtie::Input>& inputs() const { return inputs_; }
  // Where among these each of the options' inputs is; nothing: it holds nothing.
  const std::vector<std::optional<uint32_t>>& places() const { return places_; }
  // For a result that is written beside the inputs. `bytes`: as much as is known before.
  io::OutputOptions output_options(uint64_t bytes = 0) const {
    return {.rules = options_.output_rules,
            .inputs = guard_,
            .bytes = bytes,
            .cancel = options_.cancel};
  }
  Result<io::File> open_output(uint64_t bytes = 0) const {
    return files::open_output(options_, output_options(bytes));
  }
  // The head of the first of them that holds anything; the others have the same columns, and none of them
  // has one any more. Its last line has an end.
  const std::string& header() const { return header_; }
  // The head of each of the options' inputs, where they are their own.
  const std::vector<std::string>& headers() const { return headers_; }
  // Of the items: the options' one, with keys that the header names.
  const items::Format& format() const { return format_; }
  // The header, at the beginning of an output.
  Status write_header(io::File& output) const;
  // unknown_bytes where one comes in order.
  uint64_t input_bytes() const { return input_bytes_; }
  // What blocks and tables may take.
  uint64_t usable_bytes() const { return usable_bytes_; }
  // What a stream of a merge needs, for plans.
  uint64_t planned_stream_bytes() const;
  const bowtie::DeviceProfile& device() const;

  struct PassOptions {
    items::Format format;
    uint64_t memory_bytes = 0;
    // The computation reads its inputs one after the other.
    bool inputs_in_turn = false;
    const char* phase = "";
    uint64_t total_bytes = 0;  // of this pass and those behind it, for progress; 0: not known
  };
  // One pass. Errors name files instead of numbers.
  Status pass(const std::vector<bowtie::Input>& inputs, std::vector<bowtie::Output> outputs,
              const bowtie::Computation& computation, const PassOptions& options);
  // A merge in several passes.
  Status plan(const bowtie::Plan& plan, const std::vector<bowtie::Input>& inputs,
              const bowtie::Output& output, const bowtie::Computation& merge,
              const PassOptions& options);

  const std::vector<std::string>& temp_directories() const { return temp_directories_; }
  // In the temporary directories in turn; gone when it is closed.
  Result<std::unique_ptr<io::File>> temporary();
  void count_temporary_bytes(uint64_t bytes) { stats_.temp_bytes += bytes; }
  // Of the first output of the last pass.
  uint64_t output_bytes() const { return output_bytes_; }

  // Fails when the run was cancelled.
  Status interrupted() { return context_.pulse(); }
  RunStats stats() const;
  // Bytes of a block of the last pass.
  size_t block_bytes() const { return block_bytes_; }
  // The end of a run of one pass, or of none: its output gets its name. Stats are RunStats with the output's bytes;
  // what else they have stays as it is.
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
  Status add(size_t number, const items::Format& format);
  Status take_headers(bool own);
  // Takes off what an input begins with.
  Result<TakenHeader> take_header(bowtie::Input& input);
  Status add_instead(size_t number, const io::File* file);
  Error named(Error error, const std::vector<bowtie::Input>& inputs);
  bowtie::RunOptions run_options(const PassOptions& options, uint32_t streams);
  void note_staircases(const bowtie::Staircases& stairs, const char* phase);

  const FilesOptions& options_;
  const char* verb_;
  RunContext context_;
  std::vector<std::string> temp_directories_;
  std::vector<std::unique_ptr<io::File>> streams_;  // inputs that can be opened once only
  std::vector<bowtie::Input> inputs_;
  std::vector<std::optional<uint32_t>> places_;
  std::string header_;
  std::vector<std::string> headers_;
  items::Format format_;
  std::shared_ptr<io::InputGuard> guard_ = std::make_shared<io::InputGuard>();
  uint64_t input_bytes_ = 0;
  uint64_t in_order_bytes_ = 0;  // what one that comes in order takes beside its blocks; 0: none
  uint64_t usable_bytes_ = 0;
  size_t turn_ = 0;
  bool told_ = false;
  size_t block_bytes_ = 0;
  uint64_t output_bytes_ = 0;
  RunStats stats_;
};

}  // namespace penstock::files
