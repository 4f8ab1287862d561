#include "external/external_sort.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/bits.h"
#include "external/bucket_runner.h"
#include "external/distribute.h"
#include "external/file_io.h"
#include "external/long_runs.h"
#include "external/memory_plan.h"
#include "external/merge_files.h"
#include "external/number_sort.h"
#include "external/probe.h"
#include "external/resume.h"
#include "external/sample.h"
#include "external/sort_prediction.h"
#include "external/sorted_stretches.h"
#include "external/top_items.h"
#include "file/emulation.h"
#include "file/temporaries.h"
#include "os/memory.h"
#include "record/codec.h"

// How a run goes. README.md of this folder tells it in words.
//
//   look at the inputs: sizes, a sample                                  -> SortPlan
//   numbers:       split, sort the buckets (number_sort.cc)              in_memory or distribute
//   it fits:       one sorter reads, sorts, writes                       in_memory
//   it has few sorted stretches (so the sample says): merge them         merge
//   otherwise:     distribute into buckets that fit; sort these          distribute
//                  a bucket that turned out too large is itself an input: the same again, one level
//                  deeper
//                  on a disk that seeks slowly by the executor (long_runs.cc)
//   the first K:   one read keeps them (top_items.cc); or, where they    top
//                  are too many, what may be among them is sorted, and
//                  the output cut
//
// -m is not among these: merge_files.cc.
//
// Memory at any time: the first phase's readers and writers, or the second phase's sorters, never
// both; each is planned within usable_memory().

namespace penstock::external {
namespace {

// Each level divides by a hundred or so; what is not done by then cannot be told apart.
constexpr unsigned depth_max = 6;
constexpr uint64_t minimum_bytes = 32 * MiB;
constexpr uint64_t probe_input_bytes_min = 512 * MiB;
// What an input of unknown length is taken for.
constexpr uint64_t pipe_memory_multiple = 8;
// For predictions: the files that a split spills to (spill.cc), and the requests of the pipeline of
// numbers (number_pipeline.cc).
constexpr uint32_t spill_files_max = 16;
constexpr uint64_t number_request_bytes = 2 * MiB;
constexpr uint64_t number_requests = 32;
// The executor's distribution has to be so much faster than the usual one, by the model: it has a
// higher price per item, of which the model knows nothing.
constexpr double long_runs_gain_min = 1.25;
// Of the first K items: with more than this share of the input, looking which they may be saves
// less than it costs; and how much more than the share is kept, beside what a sample may err.
constexpr double top_share_max = 0.5;
constexpr double top_margin = 1.05;
// A sample with no more descents than this may be of input that consists of a few sorted stretches.
constexpr uint64_t sample_descents_max = 32;
constexpr size_t sample_size_min = 1024;
// What the memory's margin has room for, of lists of where blocks lie.
constexpr uint64_t lists_free_bytes = 64 * KiB;

std::vector<std::string> temp_directories(const SortOptions& options) {
  if (!options.temp_directories.empty()) return options.temp_directories;
  return {file::default_temp_directory()};
}

// The opened inputs of a run.
struct Inputs {
  std::vector<std::unique_ptr<file::File>> files;
  std::vector<Piece> pieces;
  uint64_t bytes = 0;
  bool known = true;  // no pipe among them
};

Result<Inputs> open_inputs(const SortOptions& options) {
  Inputs inputs;
  for (const std::string& path : options.inputs) {
    auto file = file::File::open_read(path);
    if (!file) return std::unexpected(file.error());
    inputs.files.push_back(std::make_unique<file::File>(std::move(*file)));
    const file::File& opened = *inputs.files.back();
    if (!opened.seekable()) {
      inputs.known = false;
      inputs.pieces.push_back({.file = &opened});
      continue;
    }
    auto size = opened.size();
    if (!size) return std::unexpected(size.error());
    if (options.format.fixed() && *size % options.format.record_bytes != 0) {
      return failure(ErrorCode::corrupt,
                     "read its " + std::to_string(*size) + " bytes as items of " +
                         std::to_string(options.format.record_bytes),
                     path, "another --format or --record");
    }
    if (*size == 0) continue;
    inputs.pieces.push_back({.file = &opened, .bytes = *size});
    inputs.bytes += *size;
  }
  return inputs;
}

// One run: what it decided and what it did.
class Run {
 public:
  explicit Run(const SortOptions& options) : options_(options), context_(options) {}

  Status prepare();
  Result<SortStats> go();
  const SortPlan& plan() const { return plan_; }

 private:
  Status look_at_pipes();
  Status sample_files();
  void look_at_disk();
  void decide();
  bool first_items_fit() const;
  bool decide_top();
  void decide_output();
  void decide_distribution(uint64_t bytes);
  bool is_piped() const;
  void plan_phase(SortPhase phase, uint32_t inputs, uint32_t outputs);
  void sum_up_plan();
  bool writes_a_file() const;
  Status check_space(uint64_t temp_bytes, uint64_t output_bytes) const;
  Status check_space_for_all() const;
  Status check_resumable() const;
  Status open_resume();
  // What is sorted when its pieces are read: the input, or a bucket, whose temporaries may go then.
  struct Origin {
    BucketId id = {};
    SpillSet* spills = nullptr;  // of a bucket
    uint32_t spill = 0;
    bool done_later = false;  // the sort can be resumed, but only with the whole bucket

    void release() {
      if (spills != nullptr) spills->release(spill);
      spills = nullptr;
    }
  };
  Result<Stored> sort_pieces(const std::vector<Piece>& pieces, uint64_t bytes, Sample sample,
                             const Target& target, unsigned depth, Origin& origin);
  Result<Stored> sort_large_bucket(const Bucket& bucket, SpillSet& spills, const Target& target,
                                   unsigned depth);
  Result<Distribution> distribute_pieces(const std::vector<Piece>& pieces, Sample sample,
                                         const DistributionPlan& plan, Origin& origin);
  Result<Distribution> take_distribution(BucketId id);
  Result<Stored> sort_numbers(const Target& target);
  Result<Stored> sort_in_memory(const std::vector<Piece>& pieces, uint64_t bytes,
                                const SorterPlan& sorter, const Target& target);
  Result<Stored> sort_by_distribution(const std::vector<Piece>& pieces, uint64_t bytes,
                                      Sample sample, const Target& target, unsigned depth,
                                      Origin& origin);
  Result<Stored> sort_buckets(Distribution& parts, const SorterPlan& sorter, const Target& target,
                              unsigned depth);
  Result<Stored> sort_input(const Target& target);
  Result<Stored> sort_all(const Target& target);
  Result<Stored> sort_long_runs(const Target& target);
  Result<Stored> sort_and_cut(const Target& target);
  Status keep_what_may_be_first();
  std::vector<SortPhase> measured_phases();
  Result<Stored> sort_to_output();
  SortStats stats_of(const Stored& stored);
  void remove_stale() const;
  uint64_t expected_bytes() const;
  bool fits_in_memory() const;
  bool fits_in_memory(const std::vector<Piece>& pieces, uint64_t bytes, double item_bytes,
                      SorterPlan* sorter) const;

  const SortOptions& options_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const file::Traffic traffic_before_ = file::traffic();
  Context context_;
  // What a pipe's reader stands on, which is among the inputs.
  FileIo pipe_files_;
  Inputs inputs_;
  uint64_t usable_bytes_ = 0;
  Sample sample_;
  SortPlan plan_;
  std::optional<LongRunsPlan> long_runs_;
  uint64_t output_bytes_max_ = 0;  // that it takes on the disk
  // Of the first K items: they are too many for memory; and what is looked for first (1: nothing).
  bool cuts_ = false;
  double kept_share_ = 1;
  std::unique_ptr<file::File> kept_file_;
  std::unique_ptr<Resume> resume_;  // where the sort can be resumed
  uint64_t total_bytes_ = 0;        // of reading and writing, as far as it is planned
  uint64_t temp_bytes_ = 0;
  uint64_t kept_bytes_ = 0;
  PipelineTimes pipeline_times_;
  uint32_t deepest_ = 0;  // passes over the data beyond the first
  Method method_ = Method::empty;
  size_t moved_block_bytes_ = 2 * MiB;  // of the pool that the sort used most
};

Status Run::prepare() {
  if (options_.inputs.empty())
    return failure(ErrorCode::invalid_argument, "sort without an input", "sort");
  if (options_.memory_bytes < minimum_memory_bytes(options_)) {
    return failure(ErrorCode::out_of_memory,
                   "sort within " + std::to_string(options_.memory_bytes / MiB) + " MiB", "-S",
                   "at least " + std::to_string(minimum_memory_bytes(options_) / MiB) + "M");
  }
  auto inputs = open_inputs(options_);
  if (!inputs) return std::unexpected(inputs.error());
  inputs_ = std::move(*inputs);
  if (auto status = check_resumable(); !status) return status;
  usable_bytes_ = usable_memory(options_.memory_bytes);
  if (usable_bytes_ < usable_bytes_min) {
    return failure(
        ErrorCode::out_of_memory,
        "sort within " + std::to_string(options_.memory_bytes / MiB) +
            " MiB, of which the program itself takes " +
            std::to_string(os::resident_memory().bytes / MiB),
        "-S",
        "at least " +
            std::to_string((options_.memory_bytes - usable_bytes_ + usable_bytes_min) / MiB + 1) +
            "M");
  }
  plan_.device = known_device(options_);
  if (auto status = look_at_pipes(); !status) return status;
  if (auto status = sample_files(); !status) return status;
  if (sample_.item_bytes == 0)
    sample_.item_bytes = options_.format.fixed() ? options_.format.record_bytes : 4 * KiB;
  plan_phase({.name = "sample", .bytes_read = sample_.bytes_read, .seeks = sample_.places}, 1, 0);
  look_at_disk();
  decide();
  decide_output();
  if (!inputs_.known) plan_.phases.clear();
  sum_up_plan();
  total_bytes_ = plan_.bytes_read + plan_.bytes_written;
  return check_space(plan_.temp_bytes, output_bytes_max_);
}

// A pipe is read as far as a quarter of the memory goes before anything is decided; the reader can
// come back that far.
Status Run::look_at_pipes() {
  bool first = true;
  for (Piece& piece : inputs_.pieces) {
    if (piece.file->seekable()) continue;
    if (!first)
      return failure(ErrorCode::unsupported, "sort more than one pipe", piece.file->path(),
                     "one of them a file");
    first = false;
    size_t block_bytes = std::clamp<size_t>(std::bit_floor(usable_bytes_ / 128), 64 * KiB, MiB);
    auto comeback_blocks = static_cast<uint32_t>(usable_bytes_ / 4 / block_bytes);
    uint32_t read_ahead_blocks = 4;
    uint32_t blocks = comeback_blocks + read_ahead_blocks + 2;
    auto files = FileIo::open(options_, block_bytes, blocks);
    if (!files) return std::unexpected(files.error());
    pipe_files_ = std::move(*files);
    auto reader =
        PieceReader::open_pipe(pipe_files_.io(), *piece.file, read_ahead_blocks, comeback_blocks);
    if (!reader) return std::unexpected(reader.error());
    piece.reader = *reader;

    const std::byte* begin = piece.reader->begin();
    size_t head_bytes = 0;
    bool ended = false;
    for (uint32_t block = 0; block < comeback_blocks && !ended; ++block) {
      size_t bytes = piece.reader->available(begin + head_bytes, block_bytes);
      head_bytes += bytes;
      ended = bytes < block_bytes;
      if (auto status = context_.pulse(); !status) return status;
    }
    if (auto status = piece.reader->status(); !status) return status;
    sample_ = sample_memory(options_, begin, head_bytes, sample_places(head_bytes));
    piece.bytes = head_bytes;
    inputs_.bytes += head_bytes;
    inputs_.known = ended;
    piece.ended = ended;
    usable_bytes_ -= blocks * block_bytes;
    if (ended && options_.format.fixed() && head_bytes % options_.format.record_bytes != 0) {
      return failure(ErrorCode::corrupt,
                     "read its " + std::to_string(head_bytes) + " bytes as items of " +
                         std::to_string(options_.format.record_bytes),
                     piece.file->path(), "another --format or --record");
    }
  }
  std::erase_if(inputs_.pieces,
                [](const Piece& piece) { return piece.reader && piece.bytes == 0; });
  return {};
}

// A pipe among the inputs has been sampled already, where it was looked at.
Status Run::sample_files() {
  std::vector<Piece> files;
  uint64_t bytes = 0;
  for (const Piece& piece : inputs_.pieces) {
    if (piece.reader) continue;
    files.push_back(piece);
    bytes += piece.bytes;
  }
  if (files.empty()) return {};
  const SamplePlan looks = plan_sample(bytes, plan_.device ? &*plan_.device : nullptr);
  auto sample = take_sample(context_, files, looks);
  if (!sample) return std::unexpected(sample.error());
  sample->numbers.insert(sample->numbers.end(), sample_.numbers.begin(), sample_.numbers.end());
  sample->strings.insert(sample->strings.end(), sample_.strings.begin(), sample_.strings.end());
  if (sample_.item_bytes > 0) {
    sample->item_bytes = sample->item_bytes > 0 ? std::min(sample->item_bytes, sample_.item_bytes)
                                                : sample_.item_bytes;
  }
  sample_ = std::move(*sample);
  return {};
}

bool Run::fits_in_memory(const std::vector<Piece>& pieces, uint64_t bytes, double item_bytes,
                         SorterPlan* sorter) const {
  *sorter = plan_sorter(options_, usable_bytes_, item_bytes, pieces.front().extent_bytes);
  // Lines are only estimated: leave room for an eighth more of them.
  double items = static_cast<double>(bytes) / item_bytes * (options_.format.fixed() ? 1.0 : 1.125);
  return bytes <= sorter->bytes_max &&
         fits(*sorter, bytes + pieces.size(), static_cast<uint64_t>(items) + 1);
}

uint64_t Run::expected_bytes() const {
  return inputs_.known ? inputs_.bytes : pipe_memory_multiple * options_.memory_bytes;
}

bool Run::fits_in_memory() const {
  if (!inputs_.known) return false;
  if (options_.format.numeric()) {
    return plan_numbers(options_, usable_bytes_, inputs_.bytes, true,
                        options_.unique || !writes_a_file())
        .fits;
  }
  SorterPlan sorter;
  return fits_in_memory(inputs_.pieces, inputs_.bytes, sample_.item_bytes, &sorter);
}

bool Run::is_piped() const {
  return std::ranges::any_of(inputs_.pieces,
                             [](const Piece& piece) { return piece.reader != nullptr; });
}

// One whose name comes again is the same phase, of another level.
void Run::plan_phase(SortPhase phase, uint32_t inputs, uint32_t outputs) {
  if (plan_.device) phase.seconds = seconds_of(phase, *plan_.device, inputs, outputs);
  auto same = std::ranges::find(plan_.phases, phase.name, &SortPhase::name);
  if (same == plan_.phases.end()) {
    plan_.phases.push_back(std::move(phase));
    return;
  }
  same->seconds += phase.seconds;
  same->bytes_read += phase.bytes_read;
  same->bytes_written += phase.bytes_written;
  same->seeks += phase.seeks;
}

void Run::sum_up_plan() {
  for (const SortPhase& phase : plan_.phases) {
    plan_.bytes_read += phase.bytes_read;
    plan_.bytes_written += phase.bytes_written;
    plan_.seeks += phase.seeks;
    plan_.seconds += plan_.device ? phase.seconds : 0;
  }
}

// Where nobody said what the disk can do: the speeds that the temporary directory's has now. Not of
// a run that has no temporaries.
void Run::look_at_disk() {
  if (plan_.device || !inputs_.known || inputs_.bytes < probe_input_bytes_min) return;
  if (options_.top == 0u || first_items_fit()) return;
  const std::string directory = temp_directories(options_).front();
  context_.set_step("probe the disk");
  auto speed = probe_disk(directory, {.depth = 4});
  context_.set_step("sample");
  if (!speed) return;
  plan_.device = {.name = "the disk of " + directory,
                  .source = "a short look, with the switch delay taken for 0",
                  .read_bytes_per_s = speed->read_bytes_per_s,
                  .write_bytes_per_s = speed->write_bytes_per_s};
  // By now it is known what these two took.
  for (SortPhase& planned : plan_.phases)
    planned.seconds = seconds_of(planned, *plan_.device, 1, 0);
  for (SortPhase& done : context_.phases()) {
    if (done.name == "probe the disk") plan_.phases.push_back(std::move(done));
  }
}

void Run::decide() {
  plan_.input_bytes = inputs_.known ? inputs_.bytes : 0;
  plan_.memory_bytes = options_.memory_bytes;
  if (inputs_.known && inputs_.bytes == 0) {
    plan_.why = "the input is empty";
    return;
  }
  if (options_.top == 0u) {
    plan_.why = "none of the items is wanted";
    return;
  }
  if (decide_top()) return;
  const auto files = static_cast<uint32_t>(inputs_.pieces.size());
  // (Merging them has no steps that could be taken over.)
  bool few_stretches = !options_.resume && inputs_.known && !is_piped() &&
                       sample_.size() >= sample_size_min && sample_.descents <= sample_descents_max;
  if (fits_in_memory()) {
    plan_.method = Method::in_memory;
    plan_.why = "the input and what sorting it takes fit in memory";
    plan_.passes = 1;
    plan_.buckets = 1;
    plan_phase({.name = "read", .bytes_read = inputs_.bytes, .seeks = files}, files, 0);
    plan_phase({.name = "sort and write", .bytes_written = inputs_.bytes, .seeks = 1}, 0, 1);
  } else if (few_stretches) {
    plan_.method = Method::merge;
    plan_.why =
        "a sample found a few sorted stretches: they are looked for, and merged where they lie";
    plan_.buckets = static_cast<uint32_t>(sample_.descents) + 1;
    plan_.passes = 2;
    plan_phase({.name = "look for sorted stretches", .bytes_read = inputs_.bytes, .seeks = files},
               1, 0);
    const bowtie::Bowtie bowtie{
        .inputs = plan_.buckets, .outputs = 1, .memory_bytes = usable_bytes_};
    const auto moved = 2 * static_cast<double>(inputs_.bytes);
    plan_phase({.name = "merge",
                .bytes_read = inputs_.bytes,
                .bytes_written = inputs_.bytes,
                .seeks = static_cast<uint64_t>(moved / std::min(moved, best_run_bytes(bowtie))) +
                         plan_.buckets},
               plan_.buckets, 1);
    // Should there be more of them than the sample saw, the input is distributed after all.
    plan_.temp_bytes = inputs_.bytes;
  } else {
    plan_.method = Method::distribute;
    plan_.why = inputs_.known ? "the input is larger than memory; a sample gives buckets that fit"
                              : "the input is a pipe that is longer than was looked at";
    decide_distribution(expected_bytes());
  }
}

// The first K items are not all of them, and memory holds them.
bool Run::first_items_fit() const {
  if (!options_.top) return false;
  if (inputs_.known && *options_.top >= inputs_.bytes / options_.format.record_bytes) return false;
  return top_fits(options_, usable_bytes_, sample_.item_bytes, *options_.top);
}

// False: the first K items are nothing special, because they are all.
bool Run::decide_top() {
  if (!options_.top) return false;
  const uint64_t count = *options_.top;
  const uint64_t items_max = inputs_.bytes / options_.format.record_bytes;
  if (inputs_.known && count >= items_max) return false;
  const auto files = static_cast<uint32_t>(inputs_.pieces.size());
  const double top_bytes = static_cast<double>(count) * sample_.item_bytes;
  if (first_items_fit()) {
    plan_.method = Method::top;
    plan_.why = "the items that are wanted fit in memory, and the others are passed over";
    plan_.passes = 1;
    plan_.buckets = 1;
    const auto written = static_cast<uint64_t>(top_bytes);
    plan_phase({.name = "read", .bytes_read = inputs_.bytes, .seeks = files}, files, 0);
    plan_phase({.name = "write",
                .bytes_written = inputs_.known ? std::min(written, inputs_.bytes) : written,
                .seeks = 1},
               0, 1);
    return true;
  }
  cuts_ = true;
  if (fits_in_memory()) return false;
  const auto bytes = static_cast<double>(expected_bytes());
  // Of repeats a sample does not know how many there are.
  const bool can_tell = inputs_.known && !is_piped() && !options_.unique && sample_.size() > 0;
  if (const double share = top_bytes / bytes; can_tell && share < top_share_max) {
    kept_share_ = std::min(
        1.0, top_margin * share + 3 * std::sqrt(share / static_cast<double>(sample_.size())));
  }
  plan_.method = Method::distribute;
  if (kept_share_ < 1) {
    plan_.why =
        "more items are wanted than memory holds: what may be among them goes to a temporary, and "
        "is sorted from there";
    const auto kept = static_cast<uint64_t>(kept_share_ * bytes);
    plan_phase({.name = "keep what may be first",
                .bytes_read = inputs_.bytes,
                .bytes_written = kept,
                .seeks = files + 2 * kept / (2 * MiB)},
               1, 1);
    decide_distribution(kept);
    ++plan_.passes;
    plan_.temp_bytes += kept;
  } else {
    plan_.why = "so many items are wanted that all are sorted, and the rest is cut off";
    decide_distribution(expected_bytes());
  }
  return true;
}

// What the output holds at most, at any time. Where it is cut, it first has all that is sorted; and
// what is no file gets its items from another temporary, which has them instead.
void Run::decide_output() {
  if (plan_.method == Method::empty) return;
  output_bytes_max_ = inputs_.bytes;
  if (plan_.method == Method::top) {
    output_bytes_max_ = 0;
    for (const SortPhase& phase : plan_.phases) {
      if (phase.name == "write") output_bytes_max_ += phase.bytes_written;
    }
  } else if (kept_share_ < 1) {
    output_bytes_max_ = static_cast<uint64_t>(kept_share_ * static_cast<double>(inputs_.bytes));
  }
  if (cuts_ && inputs_.known && !writes_a_file()) plan_.temp_bytes += output_bytes_max_;
}

void Run::decide_distribution(uint64_t bytes) {
  plan_.passes = 2;
  std::vector<SortPhase> splits;
  SortPhase buckets_phase;
  uint64_t spilled = 0;  // at once, at most
  if (options_.format.numeric()) {
    const bool ordered = options_.unique || !writes_a_file();
    NumberPlan numbers = plan_numbers(options_, usable_bytes_, bytes, inputs_.known, ordered);
    plan_.buckets = numbers.buckets;
    if (options_.resume) numbers.kept_bytes = 0;
    spilled = bytes - std::min(bytes, numbers.kept_bytes);
    const uint32_t spill_files = std::min(spill_files_max, numbers.buckets);
    SplitTraffic split{.input_bytes = bytes,
                       .input_files = static_cast<uint32_t>(inputs_.pieces.size()),
                       .spilled_bytes = spilled,
                       .kept_bytes = numbers.kept_bytes,
                       .read_block_bytes = numbers.read_block_bytes,
                       .write_block_bytes = numbers.block_bytes,
                       .spill_files = spill_files,
                       .buckets = numbers.buckets};
    splits.push_back(predict_split("distribute", split));
    split.input_bytes = split.spilled_bytes = bytes;
    split.kept_bytes = 0;
    split.read_block_bytes = numbers.block_bytes;
    for (uint64_t bucket = bytes / numbers.buckets; bucket > numbers.bucket_bytes_max;
         bucket /= numbers.buckets) {
      ++plan_.passes;
      spilled = bytes;
      splits.push_back(predict_split("distribute", split));
    }
    buckets_phase = predict_buckets(
        "sort",
        {.output_bytes = bytes,
         .spilled_bytes = spilled,
         .spilled_block_bytes = numbers.block_bytes,
         .buckets = numbers.buckets,
         .buckets_per_spill_file = static_cast<uint32_t>(ceil_div(numbers.buckets, spill_files)),
         .request_bytes = ordered ? numbers.read_block_bytes : number_request_bytes,
         .in_flight_bytes = number_requests * number_request_bytes});
  } else {
    SorterPlan each = plan_sorter(
        options_, usable_bytes_ / sorters_for(options_.threads, usable_bytes_), sample_.item_bytes);
    DistributionPlan distribution = plan_distribution(usable_bytes_, bytes, each);
    const uint32_t spill_files = std::min(spill_files_max, distribution.buckets);
    plan_.buckets = distribution.buckets;
    spilled = bytes;
    SplitTraffic split{.input_bytes = bytes,
                       .input_files = static_cast<uint32_t>(inputs_.pieces.size()),
                       .spilled_bytes = bytes,
                       .read_block_bytes = distribution.read_block_bytes,
                       .write_block_bytes = distribution.write_block_bytes,
                       .spill_files = spill_files,
                       .buckets = distribution.buckets};
    splits.push_back(predict_split("distribute", split));
    split.read_block_bytes = distribution.write_block_bytes;
    for (uint64_t bucket = bytes / distribution.buckets; bucket > each.bytes_max;
         bucket /= distribution.buckets) {
      ++plan_.passes;
      splits.push_back(predict_split("distribute", split));
    }
    buckets_phase = predict_buckets(
        "sort", {.output_bytes = bytes,
                 .spilled_bytes = bytes,
                 .spilled_block_bytes = distribution.write_block_bytes,
                 .buckets = distribution.buckets,
                 .buckets_per_spill_file =
                     static_cast<uint32_t>(ceil_div(distribution.buckets, spill_files)),
                 .request_bytes = distribution.write_block_bytes,
                 .in_flight_bytes = 2 * each.read_ahead_blocks * distribution.write_block_bytes});
  }
  if (!inputs_.known) {
    plan_.phases.clear();
    return;
  }
  plan_.temp_bytes = spilled + uint64_t{plan_.buckets} * file::sector_bytes;

  // Or by the executor, where the device says that seeks are what it costs.
  if (plan_.device && !is_piped() && !cuts_ && !options_.resume) {
    double usual_seconds = seconds_of(buckets_phase, *plan_.device, 1, 1);
    for (const SortPhase& split : splits)
      usual_seconds += seconds_of(split, *plan_.device, 1, plan_.buckets);
    auto long_runs = plan_long_runs(options_, usable_bytes_, bytes, sample_,
                                    options_.unique || !writes_a_file(), *plan_.device);
    if (long_runs && long_runs->seconds() * long_runs_gain_min < usual_seconds) {
      plan_.long_runs = true;
      plan_.why += "; in long runs, because this disk seeks slowly";
      plan_.buckets = long_runs->buckets;
      plan_.passes = 2;
      plan_.temp_bytes = bytes + uint64_t{plan_.buckets} * file::sector_bytes;
      plan_phase({.name = "distribute",
                  .bytes_read = bytes,
                  .bytes_written = bytes,
                  .seeks = static_cast<uint64_t>(long_runs->distribution.traffic.switches)},
                 1, plan_.buckets);
      plan_phase({.name = "sort",
                  .bytes_read = bytes,
                  .bytes_written = bytes,
                  .seeks = long_runs->sort_switches},
                 1, 1);
      long_runs_ = std::move(long_runs);
      return;
    }
  }
  for (SortPhase& split : splits) plan_phase(std::move(split), 1, plan_.buckets);
  plan_phase(std::move(buckets_phase), 1, 1);
}

bool Run::writes_a_file() const {
  return names_a_file(options_.output);
}

Status Run::check_space(uint64_t temp_bytes, uint64_t output_bytes) const {
  if (!inputs_.known) return {};
  // A run that goes on has its temporaries already.
  std::error_code ignored;
  if (options_.resume && std::filesystem::exists(resume_folder(options_), ignored)) return {};
  return external::check_space({.output = options_.output,
                                .output_bytes = output_bytes,
                                .temp_directories = temp_directories(options_),
                                .temp_bytes = temp_bytes});
}

// Of a sort of the first items that turns out to need all of them sorted, and cuts the output.
Status Run::check_space_for_all() const {
  const uint64_t sorted_bytes = fits_in_memory() ? 0 : inputs_.bytes;
  return check_space(sorted_bytes + (writes_a_file() ? 0 : inputs_.bytes), inputs_.bytes);
}

Result<Stored> Run::sort_pieces(const std::vector<Piece>& pieces, uint64_t bytes, Sample sample,
                                const Target& target, unsigned depth, Origin& origin) {
  SorterPlan sorter;
  bool known = depth > 0 || inputs_.known;
  bool begun = resume_ != nullptr && resume_->has_split(origin.id);
  if (known && !begun && fits_in_memory(pieces, bytes, sample.item_bytes, &sorter)) {
    auto stored = sort_in_memory(pieces, bytes, sorter, target);
    // More lines than the sample let expect: nothing is written yet.
    if (stored || stored.error().code != ErrorCode::out_of_memory) {
      origin.done_later = resume_ != nullptr;
      return stored;
    }
  }
  return sort_by_distribution(pieces, bytes, std::move(sample), target, depth, origin);
}

Result<Stored> Run::sort_numbers(const Target& target) {
  context_.set_phase("distribute", total_bytes_);
  NumberSort sort(context_, usable_bytes_, temp_directories(options_), resume_.get());
  auto stored =
      sort.run(inputs_.pieces, expected_bytes(), inputs_.known, std::move(sample_), target);
  const NumberSortStats& done = sort.stats();
  deepest_ = done.levels;
  method_ = done.levels == 0 ? Method::in_memory : Method::distribute;
  kept_bytes_ = done.kept_bytes;
  temp_bytes_ = done.spilled_bytes;
  pipeline_times_ = done.times;
  return stored;
}

Result<Stored> Run::sort_in_memory(const std::vector<Piece>& pieces, uint64_t bytes,
                                   const SorterPlan& plan, const Target& target) {
  if (deepest_ == 0) method_ = Method::in_memory;
  moved_block_bytes_ = plan.sort_block_bytes;
  // A bucket that is sorted alone belongs to the phase of all of them.
  const bool alone = method_ == Method::in_memory;
  context_.set_phase(alone ? "read" : "sort", alone ? 2 * bytes : total_bytes_);
  auto sorter = BucketSorter::open(context_, plan);
  if (!sorter) return std::unexpected(sorter.error());
  Bucket bucket{.pieces = pieces, .bytes = bytes, .items = bytes / options_.format.record_bytes};
  if (!options_.format.fixed()) bucket.items = 0;
  if (auto status = (*sorter)->load(bucket); !status) return std::unexpected(status.error());
  if (alone) context_.set_step("sort and write");
  auto stored = (*sorter)->store(target);
  if (!stored) return stored;
  if (auto status = (*sorter)->finish(); !status) return std::unexpected(status.error());
  return stored;
}

Result<Stored> Run::sort_by_distribution(const std::vector<Piece>& pieces, uint64_t bytes,
                                         Sample sample, const Target& target, unsigned depth,
                                         Origin& origin) {
  if (depth == depth_max) {
    return failure(ErrorCode::unsupported, "tell the keys of a bucket apart", "sort",
                   "a larger -S");
  }
  deepest_ = std::max(deepest_, depth + 1);
  if (depth == 0) method_ = Method::distribute;
  double item_bytes = sample.item_bytes;
  uint64_t expected = depth > 0 ? bytes : expected_bytes();
  // To know where blocks lie takes memory, too: less of it makes smaller blocks, and more of them.
  uint64_t usable_bytes = usable_bytes_;
  unsigned sorters = sorters_for(options_.threads, usable_bytes);
  SorterPlan sorter = plan_sorter(options_, usable_bytes / sorters, item_bytes);
  DistributionPlan plan = plan_distribution(usable_bytes, expected, sorter);
  for (uint64_t lists = 0, needed = 0;; lists = needed) {
    needed = expected / plan.write_block_bytes * BucketBlocks::bytes_per_block;
    needed = std::min(needed, usable_bytes_ / 2);
    if (needed <= std::max<uint64_t>(lists, lists_free_bytes)) break;
    usable_bytes = usable_bytes_ - needed;
    sorters = sorters_for(options_.threads, usable_bytes);
    sorter = plan_sorter(options_, usable_bytes / sorters, item_bytes);
    plan = plan_distribution(usable_bytes, expected, sorter);
  }

  context_.set_phase("distribute", depth == 0 && inputs_.known ? total_bytes_ : 0);
  const bool begun = resume_ != nullptr && resume_->has_split(origin.id);
  auto parts = begun ? take_distribution(origin.id)
                     : distribute_pieces(pieces, std::move(sample), plan, origin);
  if (!parts) return std::unexpected(parts.error());
  sorter = plan_sorter(options_, usable_bytes / sorters, item_bytes,
                       std::min(parts->spills.block_bytes(), plan.write_block_bytes));
  moved_block_bytes_ = sorter.sort_block_bytes;
  context_.set_phase("sort", depth == 0 && inputs_.known ? total_bytes_ : 0);
  auto stored = sort_buckets(*parts, sorter, target, depth);
  temp_bytes_ += parts->spills.placed_bytes();
  return stored;
}

Result<Distribution> Run::distribute_pieces(const std::vector<Piece>& pieces, Sample sample,
                                            const DistributionPlan& plan, Origin& origin) {
  const SpillPlace place = resume_ != nullptr
                               ? resume_->place_for_split()
                               : SpillPlace{.directories = temp_directories(options_)};
  auto parts = distribute(context_, pieces, std::move(sample), plan, place);
  if (parts && resume_ != nullptr) {
    std::vector<Bucket>& buckets = parts->buckets;
    for (uint32_t i = 0; i < buckets.size(); ++i) buckets[i].id = {resume_->next_split(), i};
    auto saved = [&](uint32_t i) {
      return ResumeBucket{.bytes = buckets[i].bytes,
                          .items = buckets[i].items,
                          .constant = buckets[i].constant,
                          .part = buckets[i].spill,
                          .blocks = buckets[i].spilled};
    };
    auto status =
        resume_->save_split(origin.id, parts->spills, static_cast<uint32_t>(buckets.size()), saved);
    if (!status) return std::unexpected(status.error());
  }
  if (parts) origin.release();
  return parts;
}

// What an earlier run has distributed.
Result<Distribution> Run::take_distribution(BucketId id) {
  ResumeSplit saved = resume_->take_split(id);
  auto spills = resume_->open_spills(saved);
  if (!spills) return std::unexpected(spills.error());
  Distribution parts{.buckets = {}, .spills = std::move(*spills)};
  for (uint32_t i = 0; i < saved.buckets.size(); ++i) {
    ResumeBucket& bucket = saved.buckets[i];
    parts.buckets.push_back({.bytes = bucket.bytes,
                             .items = bucket.items,
                             .constant = bucket.constant,
                             .spilled = std::move(bucket.blocks),
                             .spill = bucket.part,
                             .id = {saved.number, i}});
  }
  return parts;
}

// Runs of buckets that fit, with a bucket that does not between them, and what an earlier run has
// done.
Result<Stored> Run::sort_buckets(Distribution& parts, const SorterPlan& sorter,
                                 const Target& target, unsigned depth) {
  const std::vector<Bucket>& buckets = parts.buckets;
  Stored total;
  Target next = target;
  auto advance = [&](const Stored& stored) {
    total.bytes += stored.bytes;
    total.items += stored.items;
    next.offset += stored.bytes;
  };
  auto done = [&](const Bucket& bucket) {
    return resume_ != nullptr ? resume_->done(bucket.id) : std::nullopt;
  };
  auto ready = [&](const Bucket& bucket) {
    return (bucket.constant || fits(sorter, bucket.bytes, bucket.items)) && !done(bucket) &&
           (resume_ == nullptr || !resume_->has_split(bucket.id));
  };
  for (auto first = buckets.begin(); first != buckets.end();) {
    if (auto before = done(*first)) {
      advance(*before);
      ++first;
      continue;
    }
    if (ready(*first)) {
      auto last = std::find_if_not(first, buckets.end(), ready);
      auto stored =
          run_buckets(context_, {first, last}, sorter, sorters_for(options_.threads, usable_bytes_),
                      parts.spills, next, resume_.get());
      if (!stored) return stored;
      advance(*stored);
      first = last;
      continue;
    }
    auto stored = sort_large_bucket(*first, parts.spills, next, depth + 1);
    if (!stored) return stored;
    advance(*stored);
    ++first;
  }
  return total;
}

Result<Stored> Run::sort_large_bucket(const Bucket& bucket, SpillSet& spills, const Target& target,
                                      unsigned depth) {
  const double item_bytes = static_cast<double>(bucket.bytes) / static_cast<double>(bucket.items);
  Origin origin{.id = bucket.id, .spills = &spills, .spill = bucket.spill};
  if (resume_ != nullptr && resume_->has_split(bucket.id)) {
    origin.spills = nullptr;
    return sort_by_distribution({}, bucket.bytes, {.item_bytes = item_bytes}, target, depth,
                                origin);
  }
  const std::vector<Piece> pieces = {
      bucket.spilled_piece(spills, block_within(usable_bytes_ / 64))};
  auto sample = take_sample(context_, pieces, sample_places(bucket.bytes));
  if (!sample) return std::unexpected(sample.error());
  if (sample->item_bytes == 0) sample->item_bytes = item_bytes;
  auto stored = sort_pieces(pieces, bucket.bytes, std::move(*sample), target, depth, origin);
  if (stored && origin.done_later) {
    const ResumeDone done{.id = bucket.id, .offset = target.offset, .stored = *stored};
    if (auto status = resume_->finished({&done, 1}, *target.file); !status)
      return std::unexpected(status.error());
  }
  if (stored) origin.release();
  return stored;
}

// What killed runs left where the file system knows no unnamed files.
void Run::remove_stale() const {
  if (options_.output != "-") file::remove_stale_temporaries(file::directory_of(options_.output));
  for (const std::string& directory : temp_directories(options_)) {
    file::remove_stale_temporaries(directory);
  }
}

// What a later run has to find again: files that have names, and steps that can be told apart.
Status Run::check_resumable() const {
  if (!options_.resume) return {};
  auto refuse = [](const char* attempted, std::string subject, const char* hint) {
    return failure(ErrorCode::unsupported, attempted, std::move(subject), hint);
  };
  if (options_.top)
    return refuse("resume a sort of the first items alone", "--resume", "it without --resume");
  for (const auto& input : inputs_.files) {
    if (input->kind() != file::Kind::regular || input->path() == "-")
      return refuse("resume a sort of what is no named file", input->path(), "a file");
  }
  if (!writes_a_file())
    return refuse("resume a sort to what is no named file", options_.output, "-o FILE");
  return {};
}

// What an earlier run left is used, whatever this one would do. Without it an input that is empty
// or fits has no steps: its sort begins anew.
Status Run::open_resume() {
  const bool has_steps = plan_.method != Method::empty && plan_.method != Method::in_memory;
  std::error_code ignored;
  if (has_steps || std::filesystem::exists(resume_folder(options_), ignored)) {
    auto resume = Resume::open(options_, inputs_.files, temp_directories(options_), options_.notice,
                               has_steps ? Resume::Otherwise::begin : Resume::Otherwise::give_up);
    if (!resume) return std::unexpected(resume.error());
    resume_ = std::move(*resume);
  }
  if (resume_ == nullptr && plan_.method == Method::in_memory && options_.notice)
    options_.notice("the input fits in memory: there is nothing to resume");
  if (resume_ != nullptr && resume_->has_split({})) {
    const uint64_t done_bytes = std::min(resume_->progress().bytes_done, inputs_.bytes);
    total_bytes_ = sample_.bytes_read + 2 * (inputs_.bytes - done_bytes);
  }
  return {};
}

// By the executor to one file for each bucket; then these one after the other, each of which fits
// in memory and is read in one run and written in one.
Result<Stored> Run::sort_long_runs(const Target& target) {
  method_ = Method::distribute;
  context_.set_phase("distribute", plan_.bytes_read + plan_.bytes_written);
  auto buckets =
      distribute_in_long_runs(context_, inputs_.pieces, usable_bytes_, std::move(sample_),
                              *long_runs_, temp_directories(options_));
  if (!buckets) return std::unexpected(buckets.error());
  deepest_ = 1;
  context_.pin_phase("sort");
  Stored total;
  for (LongBucket& bucket : *buckets) {
    temp_bytes_ += bucket.bytes;
    const std::vector<Piece> pieces = {{.file = bucket.file.get(), .bytes = bucket.bytes}};
    const Target next{target.file, target.offset + total.bytes};
    Result<Stored> stored;
    if (options_.format.numeric()) {
      NumberSort sort(context_, usable_bytes_, temp_directories(options_));
      stored = sort.run(pieces, bucket.bytes, true, std::move(bucket.sample), next, bucket.keys);
      deepest_ = std::max(deepest_, 1 + sort.stats().levels);
      temp_bytes_ += sort.stats().spilled_bytes;
      pipeline_times_.sort_s += sort.stats().times.sort_s;
      pipeline_times_.wait_read_s += sort.stats().times.wait_read_s;
      pipeline_times_.wait_room_s += sort.stats().times.wait_room_s;
    } else {
      bucket.sample.item_bytes =
          static_cast<double>(bucket.bytes) / static_cast<double>(bucket.items);
      Origin origin;
      stored = sort_pieces(pieces, bucket.bytes, std::move(bucket.sample), next, 1, origin);
    }
    if (!stored) return stored;
    total.bytes += stored->bytes;
    total.items += stored->items;
    bucket.file.reset();
  }
  return total;
}

Result<Stored> Run::sort_all(const Target& target) {
  if (plan_.method == Method::merge) {
    context_.set_phase("look for sorted stretches", plan_.bytes_read + plan_.bytes_written);
    auto stretches = find_stretches(
        context_, inputs_.pieces, usable_bytes_,
        std::min<uint32_t>(stretches_max(options_.format, usable_bytes_), 4 * sample_descents_max));
    if (!stretches) return std::unexpected(stretches.error());
    // A merge holds shorter items than a distribution does.
    const uint64_t merge_bytes = std::min(usable_bytes_, usable_memory(options_.memory_bytes));
    if (!stretches->pieces.empty() &&
        (options_.format.fixed() ||
         stretches->item_bytes_max <=
             stretch_item_bytes_max(options_.format, stretches->pieces.size(), merge_bytes))) {
      deepest_ = 1;
      method_ = Method::merge;
      context_.set_step("merge");
      return merge_stretches(context_, stretches->pieces, merge_bytes, target);
    }
  }
  if (plan_.long_runs) return sort_long_runs(target);
  if (options_.format.numeric()) return sort_numbers(target);
  Origin origin;
  return sort_pieces(inputs_.pieces, inputs_.bytes, std::move(sample_), target, 0, origin);
}

// What comes after a key that the sample gives is left out, if as many items are left as are
// wanted, and none of them is too long to be looked at one by one. Otherwise all are sorted.
Status Run::keep_what_may_be_first() {
  context_.set_phase("keep what may be first", plan_.bytes_read + plan_.bytes_written);
  auto file = file::File::create_temporary(temp_directories(options_).front());
  if (!file) return std::unexpected(file.error());
  kept_file_ = std::make_unique<file::File>(std::move(*file));
  auto kept = keep_below(context_, inputs_.pieces, usable_bytes_,
                         limit_of_share(options_, sample_, kept_share_), *kept_file_);
  if (!kept && kept.error().code != ErrorCode::out_of_memory) return std::unexpected(kept.error());
  deepest_ = 1;
  if (kept) temp_bytes_ += kept->bytes;
  if (!kept || kept->items < *options_.top) {
    kept_file_.reset();
    return check_space_for_all();
  }
  inputs_.pieces = {{.file = kept_file_.get(), .bytes = kept->bytes}};
  inputs_.bytes = kept->bytes;
  sample_ = {};
  return sample_files();
}

// The first items of a sorted file: the output itself, which becomes shorter, or, where it is none,
// a temporary, which is copied to it as far as that.
Result<Stored> Run::sort_and_cut(const Target& target) {
  if (kept_share_ < 1) {
    if (auto status = keep_what_may_be_first(); !status) return std::unexpected(status.error());
  }
  file::File sorted;
  const bool in_place = target.file->kind() == file::Kind::regular;
  if (!in_place) {
    auto file = file::File::create_temporary(temp_directories(options_).front());
    if (!file) return std::unexpected(file.error());
    sorted = std::move(*file);
  }
  const Target all = in_place ? target : Target{&sorted, 0};
  const uint32_t passes_before = deepest_;
  deepest_ = 0;
  auto stored = sort_all(all);
  deepest_ += passes_before;
  if (!stored) return stored;
  auto bytes = bytes_of_first(options_, *all.file, all.offset, *stored, *options_.top);
  if (!bytes) return std::unexpected(bytes.error());
  stored->items = std::min(stored->items, *options_.top);
  stored->bytes = *bytes;
  if (in_place) return stored;  // go() cuts it
  temp_bytes_ += *bytes;
  ++deepest_;
  context_.set_step("write");
  std::vector<std::byte> window(1 * MiB);
  for (uint64_t done = 0; done < *bytes;) {
    if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
    const auto piece = std::min<uint64_t>(window.size(), *bytes - done);
    if (auto status = file::read_exactly(sorted, done, window.data(), piece); !status)
      return std::unexpected(status.error());
    if (auto status = file::write_exactly(*target.file, target.offset + done, window.data(), piece);
        !status)
      return std::unexpected(status.error());
    done += piece;
  }
  return stored;
}

Result<Stored> Run::sort_input(const Target& target) {
  if (plan_.method == Method::empty) return Stored{};
  if (plan_.method == Method::top) {
    context_.set_phase("read", plan_.bytes_read + plan_.bytes_written);
    method_ = Method::top;
    auto stored = sort_top(context_, inputs_.pieces, usable_bytes_, *options_.top, target);
    // Items were longer than the sample said, nothing is written yet, and files can be read again.
    if (stored || stored.error().code != ErrorCode::out_of_memory || is_piped()) return stored;
    cuts_ = true;
    if (auto status = check_space_for_all(); !status) return std::unexpected(status.error());
  }
  return cuts_ ? sort_and_cut(target) : sort_all(target);
}

// The phases as the plan calls them: of an input that fits, a distribution that writes nothing is
// the read.
std::vector<SortPhase> Run::measured_phases() {
  auto phases = context_.phases();
  if (method_ != Method::in_memory) return phases;
  for (SortPhase& phase : phases) {
    if (phase.name == "distribute") phase.name = "read";
    if (phase.name == "sort") phase.name = "sort and write";
  }
  return phases;
}

Result<SortStats> Run::go() {
  remove_stale();
  if (options_.resume) {
    if (auto status = open_resume(); !status) return std::unexpected(status.error());
  }
  auto stored = sort_to_output();
  if (!stored) {
    if (resume_ != nullptr) resume_->keep_or_remove();
    return std::unexpected(stored.error());
  }
  return stats_of(*stored);
}

Result<Stored> Run::sort_to_output() {
  if (resume_ != nullptr && resume_->completed()) return *resume_->completed();
  auto output =
      resume_ != nullptr ? resume_->open_output() : file::File::create_output(options_.output);
  if (!output) return std::unexpected(output.error());
  auto stored = sort_input({&*output, 0});
  if (!stored) return stored;
  if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
  if (resume_ != nullptr) {
    if (auto status = resume_->publish(*output, *stored); !status)
      return std::unexpected(status.error());
    return stored;
  }
  if (cuts_ && output->kind() == file::Kind::regular) {
    if (auto status = output->set_size(stored->bytes); !status)
      return std::unexpected(status.error());
  }
  if (auto status = output->publish(); !status) return std::unexpected(status.error());
  return stored;
}

SortStats Run::stats_of(const Stored& stored) {
  file::Traffic after = file::traffic();
  SortStats stats;
  stats.predicted = plan_;
  stats.method = method_;
  stats.items = stored.items;
  stats.bytes = stored.bytes;
  stats.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  stats.peak_rss_bytes = os::resident_memory().peak_bytes;
  stats.budget_bytes = options_.memory_bytes;
  stats.passes = method_ == Method::empty ? 0 : 1 + deepest_;
  stats.bytes_read = after.bytes_read - traffic_before_.bytes_read;
  stats.bytes_written = after.bytes_written - traffic_before_.bytes_written;
  stats.temp_bytes = temp_bytes_;
  stats.kept_bytes = kept_bytes_;
  stats.phases = measured_phases();
  for (const SortPhase& phase : stats.phases) {
    stats.seeks += phase.seeks;
    stats.phase_seconds.emplace_back(phase.name, phase.seconds);
  }
  if (pipeline_times_.sort_s > 0) {
    stats.phase_seconds.emplace_back("sorters at work", pipeline_times_.sort_s);
    stats.phase_seconds.emplace_back("sorters wait for reads", pipeline_times_.wait_read_s);
    stats.phase_seconds.emplace_back("reader waits for writes", pipeline_times_.wait_room_s);
  }
  if (auto emulated = file::emulated()) stats.emulated = emulated->describe();
  stats.pool = pool::name_of(sort_mechanism(options_, moved_block_bytes_));
  stats.engine = engine_name(options_);
  return stats;
}

}  // namespace

const char* name_of(Method method) {
  switch (method) {
    case Method::empty:
      return "empty";
    case Method::in_memory:
      return "in_memory";
    case Method::distribute:
      return "distribute";
    case Method::merge:
      return "merge";
    case Method::top:
      return "top";
  }
  return "?";
}

uint64_t minimum_memory_bytes(const SortOptions&) {
  return minimum_bytes;
}

std::string resume_folder(const SortOptions& options) {
  return Resume::folder_of(options, temp_directories(options));
}

Result<SortPlan> plan_sort(const SortOptions& options) {
  if (options.merge_only) return plan_merge_only(options);
  Run run(options);
  if (auto status = run.prepare(); !status) return std::unexpected(status.error());
  return run.plan();
}

Result<SortStats> sort_files(const SortOptions& options) {
  if (options.resume && options.merge_only)
    return failure(ErrorCode::unsupported, "resume a merge", "--resume", "-m without --resume");
  if (options.merge_only) return sort_merge_only(options);
  Run run(options);
  if (auto status = run.prepare(); !status) return std::unexpected(status.error());
  return run.go();
}

}  // namespace penstock::external
