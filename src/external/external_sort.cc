#include "external/external_sort.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/bits.h"
#include "external/bucket_runner.h"
#include "external/distribute.h"
#include "external/file_io.h"
#include "external/memory_plan.h"
#include "external/merge.h"
#include "external/number_sort.h"
#include "external/probe.h"
#include "external/sample.h"
#include "os/memory.h"
#include "record/codec.h"

// How a run goes. README.md of this folder tells it in words.
//
//   look at the inputs: sizes, a sample                                  -> SortPlan
//   numbers:       split, sort the buckets (number_sort.cc)              in_memory or distribute
//   it fits:       one sorter reads, sorts, writes                       in_memory
//   it has few sorted stretches (so the sample says), or -m: merge them  merge
//   otherwise:     distribute into buckets that fit; sort these          distribute
//                  a bucket that turned out too large is itself an input: the same again, one level
//                  deeper
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
// A sample with no more descents than this may be of input that consists of a few sorted stretches.
constexpr uint64_t sample_descents_max = 32;
constexpr size_t sample_size_min = 1024;

class Clock {
 public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

std::vector<std::string> temp_directories(const SortOptions& options) {
  if (!options.temp_directories.empty()) return options.temp_directories;
  const char* from_environment = std::getenv("TMPDIR");
  return {from_environment != nullptr && *from_environment != '\0' ? from_environment : "/tmp"};
}

std::string directory_of(const std::string& path) {
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
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
  void decide();
  void predict_seconds();
  void decide_distribution();
  bool writes_a_file() const;
  Status check_space() const;
  Result<Stored> sort_pieces(const std::vector<Piece>& pieces, uint64_t bytes, Sample sample,
                             const Target& target, unsigned depth);
  Result<Stored> sort_numbers(const Target& target);
  Result<Stored> sort_in_memory(const std::vector<Piece>& pieces, uint64_t bytes,
                                const SorterPlan& sorter, const Target& target);
  Result<Stored> sort_by_distribution(const std::vector<Piece>& pieces, uint64_t bytes,
                                      Sample sample, const Target& target, unsigned depth);
  Result<Stored> sort_buckets(const std::vector<Bucket>& buckets, const SorterPlan& sorter,
                              const Target& target, unsigned depth);
  Result<Stored> sort_input(const Target& target);
  Result<Stored> merge_inputs(std::vector<Piece> pieces, const Target& target);
  Status open_spill();
  void remove_stale() const;
  uint64_t expected_bytes() const;
  bool fits_in_memory() const;
  bool fits_in_memory(const std::vector<Piece>& pieces, uint64_t bytes, double item_bytes,
                      SorterPlan* sorter) const;
  void note(const char* phase) { phases_[phase] += clock_.lap(); }

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
  std::unique_ptr<Spill> spill_;
  uint64_t temp_bytes_ = 0;  // of numbers, which have temporaries of their own
  uint64_t kept_bytes_ = 0;
  Clock clock_;
  std::map<std::string, double> phases_;
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
  if (auto status = look_at_pipes(); !status) return status;
  if (auto status = sample_files(); !status) return status;
  decide();
  if (auto status = check_space(); !status) return status;
  predict_seconds();
  return {};
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
  auto sample = take_sample(context_, files, sample_places(bytes));
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

void Run::decide() {
  plan_.input_bytes = inputs_.known ? inputs_.bytes : 0;
  plan_.memory_bytes = options_.memory_bytes;
  if (inputs_.known && inputs_.bytes == 0) {
    plan_.why = "the input is empty";
    return;
  }
  if (sample_.item_bytes == 0)
    sample_.item_bytes = options_.format.fixed() ? options_.format.record_bytes : 4 * KiB;
  bool piped = std::any_of(inputs_.pieces.begin(), inputs_.pieces.end(),
                           [](const Piece& piece) { return piece.reader != nullptr; });
  bool few_runs = inputs_.known && !piped && sample_.size() >= sample_size_min &&
                  sample_.descents <= sample_descents_max;
  if (options_.merge_only) {
    plan_.method = Method::merge;
    plan_.why = "the inputs are said to be sorted";
    plan_.buckets = static_cast<uint32_t>(inputs_.pieces.size());
    uint32_t fan_in = fan_in_max(usable_bytes_);
    for (uint64_t pieces = plan_.buckets; pieces > 1 || plan_.passes == 0;
         pieces = ceil_div(pieces, fan_in))
      ++plan_.passes;
    plan_.bytes_read = plan_.passes * inputs_.bytes + sample_.bytes_read;
    plan_.bytes_written = plan_.passes * inputs_.bytes;
    plan_.temp_bytes = (plan_.passes - 1) * inputs_.bytes;
    plan_.seeks = sample_places(inputs_.bytes) + plan_.bytes_read / MiB;
  } else if (fits_in_memory()) {
    plan_.method = Method::in_memory;
    plan_.why = "the input and what sorting it takes fit in memory";
    plan_.passes = 1;
    plan_.buckets = 1;
    plan_.bytes_read = inputs_.bytes + sample_.bytes_read;
    plan_.bytes_written = inputs_.bytes;
    plan_.seeks = 1 + sample_places(inputs_.bytes);
  } else if (few_runs) {
    plan_.method = Method::merge;
    plan_.why =
        "a sample found a few sorted stretches: they are looked for, and merged where they lie";
    plan_.buckets = static_cast<uint32_t>(sample_.descents) + 1;
    plan_.passes = 2;
    plan_.bytes_read = 2 * inputs_.bytes + sample_.bytes_read;
    plan_.bytes_written = inputs_.bytes;
    plan_.seeks = sample_places(inputs_.bytes) + inputs_.bytes / MiB;
    // Should there be more of them than the sample saw, the input is distributed after all.
    plan_.temp_bytes = inputs_.bytes;
  } else {
    plan_.method = Method::distribute;
    plan_.why = inputs_.known ? "the input is larger than memory; a sample gives buckets that fit"
                              : "the input is a pipe that is longer than was looked at";
    decide_distribution();
  }
}

void Run::decide_distribution() {
  uint64_t expected = expected_bytes();
  plan_.passes = 2;
  uint64_t spilled = 0;  // in all passes
  uint64_t extents = 0;
  if (options_.format.numeric()) {
    NumberPlan numbers = plan_numbers(options_, usable_bytes_, expected, inputs_.known,
                                      options_.unique || !writes_a_file());
    plan_.buckets = numbers.buckets;
    spilled = inputs_.bytes - std::min(inputs_.bytes, numbers.kept_bytes);
    for (uint64_t bucket = expected / numbers.buckets; bucket > numbers.bucket_bytes_max;
         bucket /= numbers.buckets) {
      ++plan_.passes;
      spilled += inputs_.bytes;
    }
    extents = spilled / numbers.block_bytes;
  } else {
    SorterPlan each = plan_sorter(
        options_, usable_bytes_ / sorters_for(options_.threads, usable_bytes_), sample_.item_bytes);
    DistributionPlan distribution = plan_distribution(usable_bytes_, expected, each);
    plan_.buckets = distribution.buckets;
    for (uint64_t bucket = expected / distribution.buckets; bucket > each.bytes_max;
         bucket /= distribution.buckets) {
      ++plan_.passes;
    }
    spilled = (plan_.passes - 1) * inputs_.bytes;
    // The sorters write their buckets in turn.
    extents = 2 * spilled / distribution.write_block_bytes;
  }
  if (!inputs_.known) return;
  plan_.bytes_read = inputs_.bytes + spilled + sample_.bytes_read;
  plan_.bytes_written = inputs_.bytes + spilled;
  plan_.temp_bytes =
      std::min(spilled, inputs_.bytes) + uint64_t{plan_.buckets} * file::sector_bytes;
  // Reading a bucket back jumps at every extent.
  plan_.seeks = sample_places(inputs_.bytes) + extents + 2 * plan_.buckets;
}

// How long it will take at the speed that the temporary directory's disk has now.
void Run::predict_seconds() {
  if (!inputs_.known || inputs_.bytes < probe_input_bytes_min) return;
  if (auto speed = probe_disk(temp_directories(options_).front(), {.depth = 4}); speed) {
    plan_.seconds = static_cast<double>(plan_.bytes_read) / speed->read_bytes_per_s +
                    static_cast<double>(plan_.bytes_written) / speed->write_bytes_per_s;
  }
}

bool Run::writes_a_file() const {
  std::error_code ignored;  // opening the output will tell
  auto status = std::filesystem::status(options_.output, ignored);
  return options_.output != "-" &&
         (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status));
}

// Temporaries shrink while the output grows, so on one file system both together take little more
// than the data once.
Status Run::check_space() const {
  if (!inputs_.known) return {};
  struct Need {
    uint64_t temp_bytes = 0;
    uint64_t output_bytes = 0;
    uint64_t free_bytes = 0;
    std::string directory;
  };
  std::map<uint64_t, Need> needs;  // by device
  auto need_at = [&](const std::string& directory) -> Result<Need*> {
    auto space = file::space_of(directory);
    if (!space) return std::unexpected(space.error());
    Need& need = needs[space->device];
    need.free_bytes = space->free_bytes;
    need.directory = directory;
    return &need;
  };
  if (writes_a_file()) {
    auto need = need_at(directory_of(options_.output));
    if (!need) return std::unexpected(need.error());
    (*need)->output_bytes += inputs_.bytes;
  }
  if (plan_.temp_bytes > 0) {
    auto directories = temp_directories(options_);
    for (const std::string& directory : directories) {
      auto need = need_at(directory);
      if (!need) return std::unexpected(need.error());
      uint64_t each = plan_.temp_bytes / directories.size();
      (*need)->temp_bytes += each + each / 16;
    }
  }
  for (const auto& [device, need] : needs) {
    uint64_t bytes = std::max(need.temp_bytes, need.output_bytes);
    if (bytes > need.free_bytes) {
      return failure(ErrorCode::out_of_space,
                     "hold " + std::to_string(bytes / MiB) + " MiB of output or temporaries: " +
                         std::to_string(need.free_bytes / MiB) + " MiB are free",
                     need.directory, "-T with a directory on a larger disk, or -o on one");
    }
  }
  return {};
}

Result<Stored> Run::sort_pieces(const std::vector<Piece>& pieces, uint64_t bytes, Sample sample,
                                const Target& target, unsigned depth) {
  SorterPlan sorter;
  bool known = depth > 0 || inputs_.known;
  if (known && fits_in_memory(pieces, bytes, sample.item_bytes, &sorter)) {
    auto stored = sort_in_memory(pieces, bytes, sorter, target);
    // More lines than the sample let expect: nothing is written yet.
    if (stored || stored.error().code != ErrorCode::out_of_memory) return stored;
  }
  return sort_by_distribution(pieces, bytes, std::move(sample), target, depth);
}

Result<Stored> Run::sort_numbers(const Target& target) {
  context_.set_phase("distribute", plan_.bytes_read + plan_.bytes_written);
  NumberSort sort(context_, usable_bytes_, temp_directories(options_));
  auto stored =
      sort.run(inputs_.pieces, expected_bytes(), inputs_.known, std::move(sample_), target);
  const NumberSortStats& done = sort.stats();
  deepest_ = done.levels;
  method_ = done.levels == 0 ? Method::in_memory : Method::distribute;
  kept_bytes_ = done.kept_bytes;
  temp_bytes_ = done.spilled_bytes;
  phases_[done.levels == 0 ? "read" : "distribute"] += done.split_s;
  phases_[done.levels == 0 ? "sort and write" : "sort buckets"] += done.buckets_s;
  phases_["sorters at work"] += done.times.sort_s;
  phases_["sorters wait for reads"] += done.times.wait_read_s;
  phases_["reader waits for writes"] += done.times.wait_room_s;
  (void)clock_.lap();
  return stored;
}

Result<Stored> Run::sort_in_memory(const std::vector<Piece>& pieces, uint64_t bytes,
                                   const SorterPlan& plan, const Target& target) {
  if (deepest_ == 0) method_ = Method::in_memory;
  moved_block_bytes_ = plan.sort_block_bytes;
  context_.set_phase("sort", 2 * bytes);
  auto sorter = BucketSorter::open(context_, plan);
  if (!sorter) return std::unexpected(sorter.error());
  Bucket bucket{.pieces = pieces, .bytes = bytes, .items = bytes / options_.format.record_bytes};
  if (!options_.format.fixed()) bucket.items = 0;
  if (auto status = (*sorter)->load(bucket); !status) return std::unexpected(status.error());
  note("read");
  auto stored = (*sorter)->store(target);
  if (!stored) return stored;
  if (auto status = (*sorter)->finish(); !status) return std::unexpected(status.error());
  note("sort and write");
  return stored;
}

Result<Stored> Run::sort_by_distribution(const std::vector<Piece>& pieces, uint64_t bytes,
                                         Sample sample, const Target& target, unsigned depth) {
  if (depth == depth_max) {
    return failure(ErrorCode::unsupported, "tell the keys of a bucket apart", "sort",
                   "a larger -S");
  }
  deepest_ = std::max(deepest_, depth + 1);
  if (depth == 0) method_ = Method::distribute;
  if (auto status = open_spill(); !status) return std::unexpected(status.error());
  unsigned sorters = sorters_for(options_.threads, usable_bytes_);
  double item_bytes = sample.item_bytes;
  uint64_t expected = depth > 0 ? bytes : expected_bytes();
  SorterPlan sorter = plan_sorter(options_, usable_bytes_ / sorters, item_bytes);
  DistributionPlan plan = plan_distribution(usable_bytes_, expected, sorter);
  sorter = plan_sorter(options_, usable_bytes_ / sorters, item_bytes, plan.write_block_bytes);

  moved_block_bytes_ = sorter.sort_block_bytes;

  context_.set_phase("distribute",
                     depth == 0 && inputs_.known ? plan_.bytes_read + plan_.bytes_written : 0);
  auto buckets = distribute(context_, pieces, std::move(sample), plan, *spill_);
  if (!buckets) return std::unexpected(buckets.error());
  for (const Piece& piece : pieces) spill_->discard(piece.extents);
  note("distribute");
  context_.set_phase("sort",
                     depth == 0 && inputs_.known ? plan_.bytes_read + plan_.bytes_written : 0);
  auto stored = sort_buckets(*buckets, sorter, target, depth);
  note("sort buckets");
  return stored;
}

// Runs of buckets that fit, with a bucket that does not between them.
Result<Stored> Run::sort_buckets(const std::vector<Bucket>& buckets, const SorterPlan& sorter,
                                 const Target& target, unsigned depth) {
  Stored total;
  Target next = target;
  auto advance = [&](const Stored& stored) {
    total.bytes += stored.bytes;
    total.items += stored.items;
    next.offset += stored.bytes;
  };
  auto ready = [&](const Bucket& bucket) {
    return bucket.constant || fits(sorter, bucket.bytes, bucket.items);
  };
  for (auto first = buckets.begin(); first != buckets.end();) {
    if (ready(*first)) {
      auto last = std::find_if_not(first, buckets.end(), ready);
      auto stored = run_buckets(context_, {first, last}, sorter,
                                sorters_for(options_.threads, usable_bytes_), *spill_, next);
      if (!stored) return stored;
      advance(*stored);
      first = last;
      continue;
    }
    auto sample = take_sample(context_, first->pieces, sample_places(first->bytes));
    if (!sample) return std::unexpected(sample.error());
    if (sample->item_bytes == 0)
      sample->item_bytes = static_cast<double>(first->bytes) / static_cast<double>(first->items);
    auto stored = sort_pieces(first->pieces, first->bytes, std::move(*sample), next, depth + 1);
    if (!stored) return stored;
    advance(*stored);
    ++first;
  }
  return total;
}

// What killed runs left where the file system knows no unnamed files.
void Run::remove_stale() const {
  if (options_.output != "-") file::remove_stale_temporaries(directory_of(options_.output));
  for (const std::string& directory : temp_directories(options_)) {
    file::remove_stale_temporaries(directory);
  }
}

Status Run::open_spill() {
  if (spill_) return {};
  auto spill = Spill::open(temp_directories(options_));
  if (!spill) return std::unexpected(spill.error());
  spill_ = std::move(*spill);
  return {};
}

Result<Stored> Run::merge_inputs(std::vector<Piece> pieces, const Target& target) {
  method_ = Method::merge;
  if (pieces.size() > fan_in_max(usable_bytes_)) {
    if (auto status = open_spill(); !status) return std::unexpected(status.error());
  }
  std::vector<std::string> names;
  for (const Piece& piece : pieces) names.push_back(piece.file->path());
  context_.set_phase("merge", plan_.bytes_read + plan_.bytes_written);
  uint32_t levels = 0;
  auto stored = merge(context_, std::move(pieces), std::move(names), usable_bytes_, spill_.get(),
                      target, &levels);
  deepest_ += levels - 1;
  note("merge");
  return stored;
}

Result<Stored> Run::sort_input(const Target& target) {
  if (plan_.method == Method::empty) return Stored{};
  if (options_.merge_only) return merge_inputs(std::move(inputs_.pieces), target);
  if (plan_.method == Method::merge) {
    context_.set_phase("look for sorted stretches", plan_.bytes_read + plan_.bytes_written);
    auto runs = find_runs(context_, inputs_.pieces, usable_bytes_,
                          std::min<uint32_t>(fan_in_max(usable_bytes_), 4 * sample_descents_max));
    if (!runs) return std::unexpected(runs.error());
    note("look for sorted stretches");
    if (!runs->empty()) {
      ++deepest_;
      return merge_inputs(std::move(*runs), target);
    }
  }
  if (options_.format.numeric()) return sort_numbers(target);
  return sort_pieces(inputs_.pieces, inputs_.bytes, std::move(sample_), target, 0);
}

Result<SortStats> Run::go() {
  note("look");
  remove_stale();
  auto output = file::File::create_output(options_.output);
  if (!output) return std::unexpected(output.error());
  auto stored = sort_input({&*output, 0});
  if (!stored) return std::unexpected(stored.error());
  if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
  if (auto status = output->publish(); !status) return std::unexpected(status.error());

  file::Traffic after = file::traffic();
  SortStats stats;
  stats.predicted = plan_;
  stats.method = method_;
  stats.items = stored->items;
  stats.bytes = stored->bytes;
  stats.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  stats.peak_rss_bytes = os::resident_memory().peak_bytes;
  stats.budget_bytes = options_.memory_bytes;
  stats.passes = method_ == Method::empty ? 0 : 1 + deepest_;
  stats.seeks = after.seeks - traffic_before_.seeks;
  stats.bytes_read = after.bytes_read - traffic_before_.bytes_read;
  stats.bytes_written = after.bytes_written - traffic_before_.bytes_written;
  stats.temp_bytes = temp_bytes_ + (spill_ ? spill_->placed_bytes() : 0);
  stats.kept_bytes = kept_bytes_;
  stats.phase_seconds.assign(phases_.begin(), phases_.end());
  stats.pool = pool::name_of(sort_mechanism(options_, moved_block_bytes_));
  auto engine = file::Engine::open({.kind = options_.engine});
  stats.engine = engine && (*engine)->kind() == file::EngineKind::io_uring ? "io_uring" : "threads";
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
  }
  return "?";
}

uint64_t minimum_memory_bytes(const SortOptions&) {
  return minimum_bytes;
}

Result<SortPlan> plan_sort(const SortOptions& options) {
  Run run(options);
  if (auto status = run.prepare(); !status) return std::unexpected(status.error());
  return run.plan();
}

Result<SortStats> sort_files(const SortOptions& options) {
  Run run(options);
  if (auto status = run.prepare(); !status) return std::unexpected(status.error());
  return run.go();
}

}  // namespace penstock::external
