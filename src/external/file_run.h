#pragma once

// What merging, partitioning, grouping and joining of files share: options, memory, passes of the
// executor (bowtie/run.h), temporaries, messages, figures.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bowtie/device_profile.h"
#include "bowtie/run.h"
#include "external/external_sort.h"
#include "external/occupancy.h"
#include "file/file.h"
#include "file/input_guard.h"
#include "penstock/source.h"
#include "record/format.h"

namespace penstock::external {

struct FilesOptions {
  std::vector<std::string> inputs;  // "-" is stdin
  record::Format format;
  uint64_t memory_bytes = 1 * GiB;            // hard: resident memory of the whole process
  std::vector<std::string> temp_directories;  // empty: file::default_temp_directory(output)
  std::string output = {};                    // a path, for that
  // What plans of several passes reckon with. Nothing: the published NVMe profile.
  const bowtie::DeviceProfile* device = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // set it, and the run ends: ErrorCode::interrupted
  // From the run's own threads, with every action of the device.
  std::function<void(const Progress&)> progress = {};
  // Told where temporaries lie, in a sentence, if that is not as usual.
  std::function<void(const std::string&)> notice = {};
  bool record_staircases = false;
  file::OutputRules output_rules = {};
  SourceOptions source = {.decompress = false};  // of the inputs
};

// What a run did, all its passes together.
struct FilesStats {
  double seconds = 0;
  uint32_t passes = 0;  // times that the data are read, at most
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t temp_bytes = 0;         // written to temporaries
  uint64_t temp_memory_bytes = 0;  // of these, to such in memory, beside the budget (tmpfs)
  // How often the device went on to another file, and the bytes between two such times.
  uint64_t switches = 0;
  double run_bytes = 0;
  size_t block_bytes = 0;  // of the last pass
  uint64_t peak_rss_bytes = 0;
  uint64_t budget_bytes = 0;
  std::string emulated;               // the emulated device on which this happened; empty: none
  std::vector<Staircase> staircases;  // with FilesOptions::record_staircases
};

// The least memory_bytes.
inline constexpr uint64_t files_memory_bytes_min = 32 * MiB;

// The blocks of a pass, and how far its streams come back: as large as leaves each stream many of
// them, and a window that holds an item. Lines are as long as they are: 64 KiB, or a block where
// that is more.
struct PassShape {
  size_t block_bytes = 0;
  uint32_t comeback_blocks = 0;
};
PassShape shape_of_pass(const record::Format& format, uint32_t streams, uint64_t memory_bytes);
// The longest item of a pass of so many streams that has so much memory.
uint64_t item_bytes_max_of_pass(const record::Format& format, uint32_t streams,
                                uint64_t memory_bytes);
// What a stream needs at least.
uint64_t stream_bytes_min(const record::Format& format);

// One run of a command. Thread safety: one thread, as said; progress comes from others.
class FileRun {
 public:
  // `verb`: "merge", for messages.
  FileRun(const FilesOptions& options, const char* verb);

  // The inputs, looked at: those that hold anything, with their sizes where they have one. Fails
  // where the memory is too small, and on what cannot be opened or does not hold whole items.
  // `formats`: of each input, where they differ from each other.
  Status start(const std::vector<record::Format>& formats = {});
  // Instead: these, which somebody else has opened and knows.
  void start_with(std::vector<bowtie::Input> inputs);
  const std::vector<bowtie::Input>& inputs() const { return inputs_; }
  // For a result that is written beside the inputs. `bytes`: as much as is known before.
  file::OutputOptions output_options(uint64_t bytes = 0) const {
    return {.rules = options_.output_rules, .inputs = guard_, .bytes = bytes};
  }
  // unknown_bytes where one comes in order.
  uint64_t input_bytes() const { return input_bytes_; }
  // What blocks and tables may take.
  uint64_t usable_bytes() const { return usable_bytes_; }
  // What a stream of a merge needs, for plans.
  uint64_t planned_stream_bytes() const;
  // How many streams a pass of so much memory holds.
  uint32_t streams_max(const record::Format& format, uint64_t memory_bytes) const;
  const bowtie::DeviceProfile& device() const;

  struct PassOptions {
    record::Format format;
    uint64_t memory_bytes = 0;
    // The computation reads its inputs one after the other.
    bool inputs_in_turn = false;
    const char* phase = "";
    uint64_t total_bytes = 0;  // of the whole run, for progress; 0: not known
  };
  // One pass. Errors name files instead of numbers.
  Status pass(const std::vector<bowtie::Input>& inputs, std::vector<bowtie::Output> outputs,
              const bowtie::Computation& computation, const PassOptions& options);
  // A plan of several passes.
  Status plan(const bowtie::Plan& plan, const std::vector<bowtie::Input>& inputs,
              std::vector<bowtie::Output> outputs, const bowtie::SteppedComputation& computation,
              const PassOptions& options);

  const std::vector<std::string>& temp_directories() const { return temp_directories_; }
  // In the temporary directories in turn; gone when it is closed.
  Result<std::unique_ptr<file::File>> temporary();
  void count_temporary_bytes(uint64_t bytes) { stats_.temp_bytes += bytes; }
  // Of the first output of the last pass.
  uint64_t output_bytes() const { return output_bytes_; }

  Status interrupted() const;  // fails when the run was cancelled
  FilesStats stats() const;

 private:
  void tell_about_temporaries();
  Error named(Error error, const std::vector<bowtie::Input>& inputs) const;
  bowtie::RunOptions run_options(const PassOptions& options, uint32_t streams);
  Status note(const Result<bowtie::RunResult>& result, const std::vector<bowtie::Input>& inputs);
  void note_staircases(const bowtie::Staircases& stairs, const char* phase);

  const FilesOptions& options_;
  const char* verb_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const file::Traffic traffic_before_ = file::traffic();
  std::vector<std::string> temp_directories_;
  std::vector<std::unique_ptr<file::File>> streams_;  // inputs that can be opened once only
  std::vector<bowtie::Input> inputs_;
  std::shared_ptr<file::InputGuard> guard_ = std::make_shared<file::InputGuard>();
  uint64_t input_bytes_ = 0;
  bool any_in_order_ = false;
  uint64_t usable_bytes_ = 0;
  size_t turn_ = 0;
  bool told_ = false;
  uint64_t moved_bytes_ = 0;
  uint64_t output_bytes_ = 0;
  FilesStats stats_;
};

}  // namespace penstock::external
