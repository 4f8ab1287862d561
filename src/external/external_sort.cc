#include "external/external_sort.h"

#include <algorithm>
#include <filesystem>

#include "external/bucket/bucket_sort.h"
#include "external/plan/sort_planner.h"
#include "external/plan/sort_prediction.h"
#include "external/resume/resume.h"
#include "external/ways/merge_only.h"
#include "external/ways/sorted_stretches.h"
#include "external/ways/top_items.h"
#include "file/file.h"
#include "file/temporaries.h"
#include "files/memory_plan.h"
#include "files/space.h"

// How a run goes. README.md of this folder tells it in words.
//
//   look:          at the inputs: sizes, a sample (sort_input.cc)
//   decide:        (sort_planner.cc)                                     -> SortPlan
//   it has few sorted stretches (so the sample says): merge them         merge
//   otherwise: split, sort the buckets; what memory holds is kept        in_memory or distribute
//                  (bucket_sort.cc)
//                  on a disk that seeks slowly by the executor (long_runs.cc)
//   the first K:   one read keeps them (top_items.cc); or, where they    top
//                  are too many, what may be among them is sorted, and
//                  the output cut
//
// -m is not among these: merge_only.cc.
//
// Memory at any time: the first phase's reader and blocks, or the second phase's blocks and
// sorters, never both; each is planned within usable_memory().

namespace penstock::external {
namespace {

constexpr uint64_t minimum_bytes = 32 * MiB;

// One run: what it decided and what it did.
class Run {
 public:
  explicit Run(const SortOptions& options) : options_(options), context_(options_) {}

  Status prepare();
  Result<SortStats> go();
  // To a temporary.
  Result<files::SortedCopy> go_to_temporary();
  const SortPlan& plan() const { return decision_.plan; }

 private:
  Status check_space(uint64_t temp_bytes, uint64_t output_bytes) const;
  void tell_about_temporaries() const;
  Status check_space_for_all() const;
  Status check_resumable() const;
  Status open_resume();
  Result<Stored> sort_buckets(const Target& target);
  void account(const BucketSortStats& done);
  Result<Stored> sort_input(const Target& target);
  Result<Stored> sort_all(const Target& target);
  Result<Stored> sort_long_runs(const Target& target);
  Result<Stored> sort_long_runs(LongBucket bucket, const std::vector<files::Piece>& pieces,
                                const LongRunsPlan& plan, uint32_t level, const Target& target);
  Result<Stored> sort_long_bucket(LongBucket bucket, const LongRunsPlan& plan, uint32_t level,
                                  const Target& target);
  Result<Stored> sort_and_cut(const Target& target);
  Status keep_what_may_be_first();
  std::vector<SortPhase> measured_phases();
  Result<file::File> open_output();
  Result<Stored> sort_to_output();
  Result<Stored> sort_to(file::File& output);
  Status compare(const ItemSum& sorted) const;
  SortStats stats_of(const Stored& stored);
  void remove_stale() const;

  SortOptions options_;  // whose format the header makes whole
  const std::vector<std::string> temp_directories_ =
      file::temp_directories_or_default(options_.temp_directories, options_.output);
  Context context_;
  SortInput input_;
  SortDecision decision_;
  bool cuts_ = false;  // the output, behind the first K items
  std::unique_ptr<file::File> kept_file_;
  std::unique_ptr<Resume> resume_;  // where the sort can be resumed
  uint64_t total_bytes_ = 0;        // of reading and writing, as far as it is planned
  uint64_t temp_bytes_ = 0;
  uint64_t kept_bytes_ = 0;
  PipelineTimes pipeline_times_;
  uint32_t deepest_ = 0;  // passes over the data beyond the first
  Method method_ = Method::empty;
  size_t moved_block_bytes_ = 2 * MiB;  // of the pool that reads the input
  // What was distributed. Nothing: nothing was; what is merged, or is among the first items that
  // memory holds, is not summed up.
  std::optional<ItemSum> read_;
  uint64_t spilled_bytes_ = 0;  // of what went to temporaries, before it was compressed
};

Status Run::prepare() {
  if (files::input_count(options_) == 0)
    return failure(ErrorCode::invalid_argument, "sort without an input", "sort");
  if (options_.memory_bytes < minimum_memory_bytes(options_)) {
    return failure(ErrorCode::out_of_memory,
                   "sort within " + std::to_string(options_.memory_bytes / MiB) + " MiB", "-S",
                   "at least " + std::to_string(minimum_memory_bytes(options_) / MiB) + "M");
  }
  auto input = open_sort_input(options_, [this](const std::string& header) -> Status {
    auto format = record::with_header(options_.format, header);
    if (!format) return std::unexpected(format.error());
    options_.format = std::move(*format);
    return {};
  });
  if (!input) return std::unexpected(input.error());
  input_ = std::move(*input);
  if (auto status = check_resumable(); !status) return status;
  const auto device = known_device(options_);
  if (auto status = look_at_input(context_, device, input_); !status) return status;
  decision_ = decide_sort(context_, device, input_);
  if (auto status = check_memory(options_, input_, plan()); !status) return status;
  cuts_ = decision_.cuts;
  total_bytes_ = plan().bytes_read + plan().bytes_written;
  std::vector<files::RunContext::ExpectedPhase> expected;
  for (const SortPhase& phase : plan().phases) expected.push_back({phase.bytes(), phase.seconds});
  if (!options_.resume) context_.expect(std::move(expected));
  decision_.plan.temp_memory_bytes =
      file::temporaries_in_memory(temp_directories_, plan().temp_bytes);
  auto room =
      check_space(plan().temp_bytes + decision_.temp_bytes_spared, decision_.output_bytes_max);
  if (!room && decision_.temp_bytes_spared > 0)
    room.error().hint += ", or --compress-temporaries always, if all shrinks as what was tried";
  return room;
}

Status Run::check_space(uint64_t temp_bytes, uint64_t output_bytes) const {
  if (!input_.known) return {};
  // A run that goes on has its temporaries already.
  std::error_code ignored;
  if (options_.resume && std::filesystem::exists(resume_folder(options_), ignored)) return {};
  return files::check_space({.output = options_.output,
                             .output_bytes = output_bytes,
                             .temp_directories = temp_directories_,
                             .temp_bytes = temp_bytes,
                             .memory_bytes = options_.memory_bytes});
}

void Run::tell_about_temporaries() const {
  if (!options_.notice || (input_.known && plan().temp_bytes == 0)) return;
  const std::string notice =
      file::notice_of_temporaries(options_.temp_directories, temp_directories_);
  if (!notice.empty()) options_.notice(notice);
}

// Of a sort of the first items that turns out to need all of them sorted, and cuts the output.
Status Run::check_space_for_all() const {
  const uint64_t sorted_bytes = fits_in_memory(options_, input_) ? 0 : input_.bytes;
  return check_space(sorted_bytes + (file::names_a_file(options_.output) ? 0 : input_.bytes),
                     input_.bytes);
}

Result<Stored> Run::sort_buckets(const Target& target) {
  context_.set_phase("distribute", total_bytes_);
  BucketSort sort(context_, input_.usable_bytes, temp_directories_, plan().compresses,
                  resume_.get());
  auto stored = sort.run({.pieces = input_.pieces,
                          .bytes = expected_bytes(options_, input_),
                          .known = input_.known,
                          .sample = std::move(input_.sample)},
                         target);
  deepest_ = sort.stats().levels;
  method_ = deepest_ == 0 ? Method::in_memory : Method::distribute;
  kept_bytes_ = sort.stats().kept_bytes;
  account(sort.stats());
  return stored;
}

void Run::account(const BucketSortStats& done) {
  temp_bytes_ += done.stored_bytes;
  spilled_bytes_ += done.spilled_bytes;
  moved_block_bytes_ = done.read_block_bytes;
  pipeline_times_.sort_s += done.times.sort_s;
  pipeline_times_.wait_read_s += done.times.wait_read_s;
  pipeline_times_.wait_room_s += done.times.wait_room_s;
  if (!read_) read_ = done.read;
}

// What killed runs left where the file system knows no unnamed files.
void Run::remove_stale() const {
  if (file::names_a_file(options_.output))
    file::remove_stale_temporaries(file::directory_of(options_.output));
  for (const std::string& directory : temp_directories_) {
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
  for (const auto& input : input_.files) {
    if (input->kind() != file::Kind::regular || input->path() == "-")
      return refuse("resume a sort of what is no named file", input->path(), "a file");
  }
  for (const files::Piece& piece : input_.pieces) {
    if (piece.in_order)
      return refuse("resume a sort of compressed data", piece.file->path(),
                    "penstock cat to a file, and that; or --no-decompress");
  }
  if (!file::names_a_file(options_.output))
    return refuse("resume a sort to what is no named file", options_.output, "-o FILE");
  return {};
}

// What an earlier run left is used, whatever this one would do. Without it an input that is empty
// or fits has no steps: its sort begins anew.
Status Run::open_resume() {
  const bool has_steps = plan().method != Method::empty && plan().method != Method::in_memory;
  std::error_code ignored;
  if (has_steps || std::filesystem::exists(resume_folder(options_), ignored)) {
    auto resume = Resume::open(options_, input_.files, temp_directories_, options_.notice,
                               has_steps ? Resume::Otherwise::begin : Resume::Otherwise::give_up);
    if (!resume) return std::unexpected(resume.error());
    resume_ = std::move(*resume);
  }
  if (resume_ == nullptr && plan().method == Method::in_memory && options_.notice)
    options_.notice("the input fits in memory: there is nothing to resume");
  if (resume_ != nullptr && resume_->has_split({})) {
    const uint64_t done_bytes = std::min(resume_->progress().bytes_done, input_.bytes);
    total_bytes_ = input_.sample.bytes_read + 2 * (input_.bytes - done_bytes);
  }
  return {};
}

// By the executor to one file for each bucket; then these one after the other, each of which fits
// in memory and is read in one run and written in one.
Result<Stored> Run::sort_long_runs(const Target& target) {
  method_ = Method::distribute;
  context_.set_phase("distribute", plan().bytes_read + plan().bytes_written);
  return sort_long_runs({.sample = std::move(input_.sample)}, input_.pieces, *decision_.long_runs,
                        1, target);
}

// What is in `pieces`, or in the bucket's file, which is gone when it is distributed.
Result<Stored> Run::sort_long_runs(LongBucket bucket, const std::vector<files::Piece>& pieces,
                                   const LongRunsPlan& plan, uint32_t level, const Target& target) {
  auto distributed =
      distribute_in_long_runs(context_, pieces, input_.usable_bytes, std::move(bucket.sample),
                              bucket.keys, plan, temp_directories_);
  if (!distributed) return std::unexpected(distributed.error());
  bucket.file.reset();
  if (!read_) read_ = distributed->read;
  deepest_ = std::max(deepest_, level);
  if (level == 1) context_.pin_phase("sort");
  Stored total;
  for (LongBucket& part : distributed->buckets) {
    if (level == 1) temp_bytes_ += part.bytes;  // where it goes again has room as it is taken away
    spilled_bytes_ += part.bytes;
    part.sample.item_bytes = static_cast<double>(part.bytes) / static_cast<double>(part.items);
    auto stored =
        sort_long_bucket(std::move(part), plan, level, {target.file, target.offset + total.bytes});
    if (!stored) return stored;
    total += *stored;
  }
  return total;
}

Result<Stored> Run::sort_long_bucket(LongBucket bucket, const LongRunsPlan& plan, uint32_t level,
                                     const Target& target) {
  const std::vector<files::Piece> pieces = {{.file = bucket.file.get(), .bytes = bucket.bytes}};
  if (plan.goes_again(bucket.bytes)) {
    const auto again = plan_long_runs(options_, input_.usable_bytes, bucket.bytes, 1, bucket.sample,
                                      in_order(options_, target), *this->plan().device);
    if (again) return sort_long_runs(std::move(bucket), pieces, *again, level + 1, target);
  }
  BucketSort sort(context_, input_.usable_bytes, temp_directories_);
  auto stored = sort.run({.pieces = pieces,
                          .bytes = bucket.bytes,
                          .sample = std::move(bucket.sample),
                          .keys = bucket.keys},
                         target);
  deepest_ = std::max(deepest_, level + sort.stats().levels);
  account(sort.stats());
  return stored;
}

Result<Stored> Run::sort_all(const Target& target) {
  // A copy that is given up is written over, and checks are of bytes that are written once.
  const bool can_copy = target.file->checks() == nullptr;
  const bool copies = decision_.copies && can_copy;
  if (plan().method == Method::merge) {
    context_.set_phase(copies ? "copy" : "look for sorted stretches",
                       plan().bytes_read + plan().bytes_written);
    auto stretches =
        find_stretches(context_, input_.pieces, input_.usable_bytes,
                       std::min<uint32_t>(stretches_max(options_.format, input_.usable_bytes),
                                          4 * sample_descents_max),
                       copies ? &target : nullptr);
    if (!stretches) return std::unexpected(stretches.error());
    if (stretches->are_copied) {
      deepest_ = 0;
      method_ = Method::merge;
      return Stored{.bytes = stretches->bytes, .items = stretches->items};
    }
    // A merge holds shorter items than a distribution does.
    const uint64_t merge_bytes =
        std::min(input_.usable_bytes, files::usable_memory(options_.memory_bytes));
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
  if (plan().long_runs) return sort_long_runs(target);
  return sort_buckets(target);
}

// What comes after a key that the sample gives is left out, if as many items are left as are
// wanted, and none of them is too long to be looked at one by one. Otherwise all are sorted.
Status Run::keep_what_may_be_first() {
  context_.set_phase("keep what may be first", plan().bytes_read + plan().bytes_written);
  auto file = file::File::create_temporary(temp_directories_.front());
  if (!file) return std::unexpected(file.error());
  kept_file_ = std::make_unique<file::File>(std::move(*file));
  kept_file_->keep_checks();
  auto kept =
      keep_below(context_, input_.pieces, input_.usable_bytes,
                 limit_of_share(options_, input_.sample, decision_.kept_share), *kept_file_);
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
  read_ = kept->sum;
  input_.pieces = {{.file = kept_file_.get(), .bytes = kept->bytes}};
  input_.bytes = kept->bytes;
  input_.sample = {};
  return look_at_files(context_, plan().device, input_);
}

// The first items of a sorted file: the output itself, which becomes shorter, or, where it is none,
// a temporary, which is copied to it as far as that.
Result<Stored> Run::sort_and_cut(const Target& target) {
  if (decision_.kept_share < 1) {
    if (auto status = keep_what_may_be_first(); !status) return std::unexpected(status.error());
  }
  file::File sorted;
  const bool in_place = target.file->kind() == file::Kind::regular;
  if (!in_place) {
    auto file = file::File::create_temporary(temp_directories_.front());
    if (!file) return std::unexpected(file.error());
    sorted = std::move(*file);
    sorted.keep_checks();
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
  if (plan().method == Method::empty) return Stored{};
  if (plan().method == Method::top) {
    context_.set_phase("read", plan().bytes_read + plan().bytes_written);
    method_ = Method::top;
    auto stored = sort_top(context_, input_.pieces, input_.usable_bytes, *options_.top, target);
    // Items were longer than the sample said, nothing is written yet, and files can be read again.
    if (stored || stored.error().code != ErrorCode::out_of_memory || input_.any_in_order())
      return stored;
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
  tell_about_temporaries();
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

// Every item that was read came out of a bucket, and no other. If not, memory lost it or changed it
// between the two: temporaries have checks of their own.
Status Run::compare(const ItemSum& sorted) const {
  if (!read_ || *read_ == sorted) return {};
  if (resume_ != nullptr) resume_->distrust();
  std::string what = "trust what was sorted: ";
  if (read_->items != sorted.items) {
    what += std::to_string(read_->items) + " items were read, and " + std::to_string(sorted.items) +
            " were sorted";
  } else {
    what += "the sum of the " + std::to_string(sorted.items) +
            " items that were sorted is not the sum of those that were read";
  }
  return failure(ErrorCode::corrupt,
                 what + "; the memory of this machine changed them, or a fault of the program",
                 options_.output, "the same once more; if it happens again, a test of the memory");
}

Result<file::File> Run::open_output() {
  const bool all = input_.known && !options_.unique && !options_.top;
  const file::OutputOptions how{.rules = options_.output_rules,
                                .inputs = input_.guard,
                                .bytes = all ? input_.bytes : 0,
                                .cancel = options_.cancel};
  return resume_ != nullptr ? resume_->open_output(how) : files::open_output(options_, how);
}

// The header, and what is sorted.
Result<Stored> Run::sort_to(file::File& output) {
  const std::string& header = input_.header;
  if (!header.empty()) {
    if (auto status = file::write_exactly(
            output, 0, reinterpret_cast<const std::byte*>(header.data()), header.size());
        !status)
      return std::unexpected(status.error());
  }
  auto stored = sort_input({&output, header.size()});
  if (!stored) return stored;
  if (auto status = compare(stored->sum); !status) return std::unexpected(status.error());
  stored->bytes += header.size();
  if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
  return stored;
}

Result<files::SortedCopy> Run::go_to_temporary() {
  remove_stale();
  tell_about_temporaries();
  auto output = file::File::create_temporary(temp_directories_.front());
  if (!output) return std::unexpected(output.error());
  output->keep_checks();
  if (auto stored = sort_to(*output); !stored) return std::unexpected(stored.error());
  return files::SortedCopy{std::move(*output), input_.first_row};
}

Result<Stored> Run::sort_to_output() {
  if (resume_ != nullptr && resume_->completed()) return *resume_->completed();
  auto output = open_output();
  if (!output) return std::unexpected(output.error());
  auto stored = sort_to(*output);
  if (!stored) return stored;
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
  SortStats stats;
  stats.temp_bytes = temp_bytes_;
  context_.fill(stats, temp_directories_);
  stats.predicted = plan();
  stats.method = method_;
  stats.items = stored.items;
  stats.bytes = stored.bytes;
  stats.passes = method_ == Method::empty ? 0 : 1 + deepest_;
  stats.spilled_bytes = spilled_bytes_;
  stats.kept_bytes = kept_bytes_;
  stats.phases = measured_phases();
  for (const SortPhase& phase : stats.phases)
    stats.phase_seconds.emplace_back(phase.name, phase.seconds);
  if (options_.format.numeric() && pipeline_times_.sort_s > 0) {
    stats.phase_seconds.emplace_back("sorters at work", pipeline_times_.sort_s);
    stats.phase_seconds.emplace_back("sorters wait for reads", pipeline_times_.wait_read_s);
    stats.phase_seconds.emplace_back("reader waits for writes", pipeline_times_.wait_room_s);
  }
  stats.occupancy = context_.occupancy().taken();
  stats.staircases = context_.staircases();
  const uint64_t known_bytes = input_.known ? input_.bytes : UINT64_MAX;
  stats.pool = pool::name_of(files::mechanism_of(options_, moved_block_bytes_, known_bytes));
  stats.engine = files::engine_name(known_bytes);
  return stats;
}

}  // namespace

uint64_t minimum_memory_bytes(const SortOptions&) {
  return minimum_bytes;
}

std::string resume_folder(const SortOptions& options) {
  return Resume::folder_of(
      options, file::temp_directories_or_default(options.temp_directories, options.output));
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

Result<files::SortedCopy> sort_to_temporary(const SortOptions& given) {
  SortOptions options = given;
  options.temp_directories =
      file::temp_directories_or_default(given.temp_directories, given.output);
  // A name that the disk has to have room for, and that messages show.
  options.output = options.temp_directories.front() + "/sorted";
  options.sink = nullptr;
  options.keeps_first_row = true;
  Run run(options);
  if (auto status = run.prepare(); !status) return std::unexpected(status.error());
  return run.go_to_temporary();
}

}  // namespace penstock::external
