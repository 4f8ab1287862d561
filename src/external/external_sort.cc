#include "external/external_sort.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/bits.h"
#include "external/bucket_reader.h"
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
#include "external/spill_codec.h"
#include "external/string_sort.h"
#include "external/top_items.h"
#include "file/emulation.h"
#include "file/temporaries.h"
#include "os/memory.h"
#include "record/codec.h"

// How a run goes. README.md of this folder tells it in words.
//
//   look at the inputs: sizes, a sample                                  -> SortPlan
//   it has few sorted stretches (so the sample says): merge them         merge
//   otherwise: split, sort the buckets; what memory holds is kept        in_memory or distribute
//                  numbers: number_sort.cc; records and lines: string_sort.cc
//                  on a disk that seeks slowly by the executor (long_runs.cc)
//   the first K:   one read keeps them (top_items.cc); or, where they    top
//                  are too many, what may be among them is sorted, and
//                  the output cut
//
// -m is not among these: merge_files.cc.
//
// Memory at any time: the first phase's reader and blocks, or the second phase's blocks and
// sorters, never both; each is planned within usable_memory().

namespace penstock::external {
namespace {

constexpr uint64_t minimum_bytes = 32 * MiB;
constexpr uint64_t probe_input_bytes_min = 512 * MiB;
// What an input of unknown length is taken for.
constexpr uint64_t pipe_memory_multiple = 8;
// For predictions: the files that a split spills to (block_keeper.cc).
constexpr uint32_t spill_files_max = 16;
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
// Of a sample's keys: what the C library maps for itself instead of taking it from the heap.
constexpr size_t long_key_bytes = 128 * KiB;

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
  Status check_usable_memory(uint64_t least_bytes) const;
  Status look_at_pipes();
  Status sample_files();
  Status count_memory_again();
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
  Result<Stored> sort_numbers(const Target& target);
  Result<Stored> sort_strings(const Target& target);
  void account(const StringSortStats& done);
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
  SortPhase predict_in_memory() const;
  uint32_t string_writers(const StringPlan& plan) const;
  void decide_compression(std::vector<SortPhase>& splits, SortPhase& buckets_phase, uint64_t bytes,
                          uint64_t spilled);

  const SortOptions& options_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const file::Traffic traffic_before_ = file::traffic();
  Context context_;
  // What a pipe's reader stands on, which is among the inputs.
  FileIo pipe_files_;
  Inputs inputs_;
  uint64_t usable_bytes_ = 0;
  uint64_t pipe_ahead_bytes_ = 0;  // that a pipe's reader has not used yet
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
  size_t moved_block_bytes_ = 2 * MiB;  // of the pool that reads the input
  uint64_t spilled_bytes_ = 0;          // of what went to temporaries, before it was compressed
  uint64_t temp_bytes_spared_ = 0;      // by compression, if the data shrink as a few of them did
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
  if (auto status = check_usable_memory(usable_bytes_min); !status) return status;
  plan_.device = known_device(options_);
  if (auto status = look_at_pipes(); !status) return status;
  if (auto status = sample_files(); !status) return status;
  if (auto status = count_memory_again(); !status) return status;
  if (sample_.item_bytes == 0)
    sample_.item_bytes = options_.format.fixed() ? options_.format.record_bytes : 4 * KiB;
  plan_phase({.name = "sample", .bytes_read = sample_.bytes_read, .seeks = sample_.places}, 1, 0);
  look_at_disk();
  decide();
  decide_output();
  if (!inputs_.known) plan_.phases.clear();
  sum_up_plan();
  total_bytes_ = plan_.bytes_read + plan_.bytes_written;
  return check_space(plan_.temp_bytes + temp_bytes_spared_, output_bytes_max_);
}

Status Run::check_usable_memory(uint64_t least_bytes) const {
  if (usable_bytes_ >= least_bytes) return {};
  return failure(ErrorCode::out_of_memory,
                 "sort within " + std::to_string(options_.memory_bytes / MiB) +
                     " MiB, of which the program itself takes " +
                     std::to_string(os::resident_memory().bytes / MiB),
                 "-S", "at least " + std::to_string(budget_for(usable_bytes_min) / MiB + 1) + "M");
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
    pipe_ahead_bytes_ = (blocks - comeback_blocks) * block_bytes;
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

// A sample is thousands of strings, which leave the heap larger than it was. Long ones do not: they
// have pages of their own, which go back before anything else is held. (The blocks of a pipe are
// resident by now as far as it has been read, and counted with the rest.)
Status Run::count_memory_again() {
  uint64_t usable_bytes = usable_memory(options_.memory_bytes);
  for (const std::string& key : sample_.strings) {
    if (key.size() >= long_key_bytes) usable_bytes += key.size();
  }
  usable_bytes_ = std::min(usable_bytes_, usable_bytes - std::min(usable_bytes, pipe_ahead_bytes_));
  return check_usable_memory(planned_bytes_min);
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
  return plan_strings(options_, usable_bytes_, inputs_.bytes, sample_.item_bytes, true).fits;
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
    plan_phase(predict_in_memory(), 0, 1);
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

// The buckets of an input that fits, which are written as they become sorted, unless in order.
SortPhase Run::predict_in_memory() const {
  BucketTraffic traffic{.output_bytes = inputs_.bytes, .buckets = 1};
  if (options_.format.numeric()) {
    const bool ordered = options_.unique || !writes_a_file();
    const NumberPlan numbers = plan_numbers(options_, usable_bytes_, inputs_.bytes, true, ordered);
    if (!ordered) traffic.buckets = numbers.buckets;
  } else {
    const StringPlan strings =
        plan_strings(options_, usable_bytes_, inputs_.bytes, sample_.item_bytes, true);
    traffic.request_bytes = strings.output_block_bytes;
    traffic.writers = string_writers(strings);
    if (traffic.writers > 1) traffic.buckets = strings.buckets;
  }
  return predict_buckets("sort and write", traffic);
}

// Sorters of records and lines write each at its place, unless in order (string_pipeline.cc).
uint32_t Run::string_writers(const StringPlan& plan) const {
  return options_.unique || !writes_a_file() || seeks_slowly(plan_.device) ? 1 : plan.sorters;
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
         .request_bytes = ordered ? numbers.read_block_bytes : JobRequests::bytes_max,
         .in_flight_bytes = JobRequests::depth * JobRequests::bytes_max});
  } else {
    StringPlan strings =
        plan_strings(options_, usable_bytes_, bytes, sample_.item_bytes, inputs_.known);
    plan_.buckets = strings.buckets;
    if (options_.resume) strings.kept_bytes = 0;
    spilled = bytes - std::min(bytes, strings.kept_bytes);
    const uint32_t spill_files = std::min(spill_files_max, strings.buckets);
    SplitTraffic split{.input_bytes = bytes,
                       .input_files = static_cast<uint32_t>(inputs_.pieces.size()),
                       .spilled_bytes = spilled,
                       .kept_bytes = strings.kept_bytes,
                       .read_block_bytes = strings.read_block_bytes,
                       .write_block_bytes = strings.block_bytes,
                       .spill_files = spill_files,
                       .buckets = strings.buckets};
    splits.push_back(predict_split("distribute", split));
    split.input_bytes = split.spilled_bytes = bytes;
    split.kept_bytes = 0;
    split.read_block_bytes = strings.block_bytes;
    const double region_share =
        static_cast<double>(string_region_bytes(
            MiB, static_cast<uint64_t>(static_cast<double>(MiB) / sample_.item_bytes))) /
        static_cast<double>(MiB);
    for (uint64_t bucket = bytes / strings.buckets;
         region_share * static_cast<double>(bucket) > static_cast<double>(strings.region_bytes_max);
         bucket /= strings.buckets) {
      ++plan_.passes;
      spilled = bytes;
      splits.push_back(predict_split("distribute", split));
    }
    buckets_phase = predict_buckets(
        "sort",
        {.output_bytes = bytes,
         .spilled_bytes = spilled,
         .spilled_block_bytes = strings.block_bytes,
         .buckets = strings.buckets,
         .buckets_per_spill_file = static_cast<uint32_t>(ceil_div(strings.buckets, spill_files)),
         .request_bytes = strings.output_block_bytes,
         .in_flight_bytes = output_blocks * strings.output_block_bytes,
         .writers = string_writers(strings)});
  }
  if (!inputs_.known) {
    plan_.phases.clear();
    return;
  }
  plan_.temp_bytes = spilled + uint64_t{plan_.buckets} * file::sector_bytes;
  plan_.spilled_bytes = spilled;

  // Or by the executor, where the device says that seeks are what it costs.
  if (seeks_slowly(plan_.device) && !is_piped() && !cuts_ && !options_.resume) {
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
      plan_.spilled_bytes = bytes;
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
  decide_compression(splits, buckets_phase, bytes, spilled);
  for (SortPhase& split : splits) plan_phase(std::move(split), 1, plan_.buckets);
  plan_phase(std::move(buckets_phase), 1, 1);
}

// Of numbers nothing is compressed (they are written and read where they lie), nor where the sort
// can be resumed, nor what is distributed more than once (string_sort.cc): only if it was asked
// for.
void Run::decide_compression(std::vector<SortPhase>& splits, SortPhase& buckets_phase,
                             uint64_t bytes, uint64_t spilled) {
  const bool always = options_.compression == Compression::always;
  if (options_.format.numeric() || options_.resume || options_.compression == Compression::never)
    return;
  plan_.compresses = always;
  if (!inputs_.known || spilled == 0 || is_piped()) return;
  if (!always && (!plan_.device || splits.size() > 1)) return;
  auto trial = try_compression(context_, inputs_.pieces);
  if (!trial) return;  // the sort will tell what is wrong with the input
  SortPhase split = splits.front();
  SortPhase sorted = buckets_phase;
  auto shrunk = [&](uint64_t of) {
    return static_cast<uint64_t>(static_cast<double>(of) * trial->ratio);
  };
  split.bytes_written = shrunk(split.bytes_written);
  sorted.bytes_read = shrunk(sorted.bytes_read);
  if (!always) {
    const bowtie::DeviceProfile& device = *plan_.device;
    plan_.compresses =
        compression_pays({.trial = *trial,
                          .bytes = bytes,
                          .spilled_bytes = spilled,
                          .threads = options_.threads,
                          .split_seconds = seconds_of(splits.front(), device, 1, plan_.buckets),
                          .split_seconds_compressed = seconds_of(split, device, 1, plan_.buckets),
                          .sort_seconds = seconds_of(buckets_phase, device, 1, 1),
                          .sort_seconds_compressed = seconds_of(sorted, device, 1, 1)});
  }
  if (!plan_.compresses) return;
  plan_.why += "; temporaries are compressed";
  plan_.temp_bytes = shrunk(spilled) + uint64_t{plan_.buckets} * file::sector_bytes;
  temp_bytes_spared_ = spilled - shrunk(spilled);
  splits.front() = split;
  buckets_phase = sorted;
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

Result<Stored> Run::sort_numbers(const Target& target) {
  context_.set_phase("distribute", total_bytes_);
  NumberSort sort(context_, usable_bytes_, temp_directories(options_), resume_.get());
  auto stored =
      sort.run(inputs_.pieces, expected_bytes(), inputs_.known, std::move(sample_), target);
  const NumberSortStats& done = sort.stats();
  deepest_ = done.levels;
  method_ = done.levels == 0 ? Method::in_memory : Method::distribute;
  kept_bytes_ = done.kept_bytes;
  temp_bytes_ += done.spilled_bytes;
  spilled_bytes_ += done.spilled_bytes;
  pipeline_times_ = done.times;
  return stored;
}

Result<Stored> Run::sort_strings(const Target& target) {
  context_.set_phase("distribute", total_bytes_);
  StringSort sort(context_, usable_bytes_, temp_directories(options_), plan_.compresses,
                  resume_.get());
  auto stored =
      sort.run(inputs_.pieces, expected_bytes(), inputs_.known, std::move(sample_), target);
  deepest_ = sort.stats().levels;
  method_ = deepest_ == 0 ? Method::in_memory : Method::distribute;
  kept_bytes_ = sort.stats().kept_bytes;
  account(sort.stats());
  return stored;
}

void Run::account(const StringSortStats& done) {
  temp_bytes_ += done.stored_bytes;
  spilled_bytes_ += done.spilled_bytes;
  moved_block_bytes_ = done.read_block_bytes;
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
    spilled_bytes_ += bucket.bytes;
    const std::vector<Piece> pieces = {{.file = bucket.file.get(), .bytes = bucket.bytes}};
    const Target next{target.file, target.offset + total.bytes};
    Result<Stored> stored;
    if (options_.format.numeric()) {
      NumberSort sort(context_, usable_bytes_, temp_directories(options_));
      stored = sort.run(pieces, bucket.bytes, true, std::move(bucket.sample), next, bucket.keys);
      deepest_ = std::max(deepest_, 1 + sort.stats().levels);
      temp_bytes_ += sort.stats().spilled_bytes;
      spilled_bytes_ += sort.stats().spilled_bytes;
      pipeline_times_.sort_s += sort.stats().times.sort_s;
      pipeline_times_.wait_read_s += sort.stats().times.wait_read_s;
      pipeline_times_.wait_room_s += sort.stats().times.wait_room_s;
    } else {
      bucket.sample.item_bytes =
          static_cast<double>(bucket.bytes) / static_cast<double>(bucket.items);
      StringSort sort(context_, usable_bytes_, temp_directories(options_));
      stored = sort.run(pieces, bucket.bytes, true, std::move(bucket.sample), next);
      deepest_ = std::max(deepest_, 1 + sort.stats().levels);
      account(sort.stats());
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
  return sort_strings(target);
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
  if (kept) {
    temp_bytes_ += kept->bytes;
    spilled_bytes_ += kept->bytes;
  }
  if (!kept || kept->items < *options_.top) {
    kept_file_.reset();
    return check_space_for_all();
  }
  inputs_.pieces = {{.file = kept_file_.get(), .bytes = kept->bytes}};
  inputs_.bytes = kept->bytes;
  sample_ = {};
  if (auto status = sample_files(); !status) return status;
  return count_memory_again();
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
  spilled_bytes_ += *bytes;
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
  stats.spilled_bytes = spilled_bytes_;
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
  stats.occupancy = context_.occupancy().taken();
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
