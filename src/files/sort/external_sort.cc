#include "files/sort/external_sort.h"

#include <algorithm>
#include <filesystem>

#include "files/run/memory_plan.h"
#include "files/sort/plan/sort_planner.h"
#include "files/sort/plan/sort_prediction.h"
#include "files/sort/resume/resume.h"
#include "files/sort/ways/merge_only.h"
#include "files/sort/ways/way.h"
#include "io/file.h"
#include "io/request_ring.h"
#include "io/temporaries.h"
#include "items/checker.h"

// Outline of a run. README.md of this folder describes the steps.
//
//   look:      at the inputs: sizes, a sample (plan/sort_input.cc)
//   decide:    the way of the sort (plan/sort_planner.cc)                   -> SortPlan
//   sort:      that way, or another one if the data contradict the sample (dispatch.cc, ways/)
//   compare:   the checksum of the sorted items with that of the items read
//   publish:   the output gets its name
//
// `-m` is not among the ways: ways/merge_only.cc.
//
// Memory at any time holds either the first phase's reader and blocks or the second phase's blocks
// and sorters, never both; each is planned within usable_memory().

namespace penstock::external {
namespace {

constexpr uint64_t minimum_bytes = 32 * MiB;

// One run: what it decided and what it did.
class Run {
 public:
  explicit Run(const SortOptions& options) : options_(options), context_(options_) {}

  Status prepare();
  Result<SortStats> go();
  // Sorts into an unnamed temporary file.
  Result<files::SortedCopy> go_to_temporary();
  const SortPlan& plan() const { return decision_.plan; }

 private:
  SortTask task();
  void report_temporaries() const;
  Status check_resumable() const;
  Status open_resume();
  std::vector<SortPhase> measured_phases();
  Result<io::File> open_output();
  Result<Stored> sort_to_output();
  Result<Stored> sort_to(io::File& output);
  Status compare(const ItemSum& sorted) const;
  Status verify(const io::File& output, const Stored& stored);
  SortStats stats_of(const Stored& stored);
  void remove_stale(bool makes_temporaries) const;

  SortOptions options_;  // the run's options; the header completes the format
  const std::vector<std::string> temp_directories_ =
      io::temp_directories_or_default(options_.temp_directories, options_.output);
  Context context_;
  SortInput input_;
  SortDecision decision_;
  std::unique_ptr<Resume> resume_;  // set if the sort can be resumed
  uint64_t total_bytes_ = 0;        // planned bytes to read and write
  Outcome done_;
};

Status Run::prepare() {
  if (files::input_count(options_) == 0)
    return failure(ErrorCode::invalid_argument, "sort without an input", "sort");
  if (options_.memory_bytes < minimum_memory_bytes(options_)) {
    return failure(ErrorCode::out_of_memory,
                   "sort within " + files::budget_text(options_.memory_bytes), "-S",
                   "at least " + std::to_string(minimum_memory_bytes(options_) / MiB) + "M");
  }
  auto input = open_sort_input(options_, [this](const std::string& header) -> Status {
    auto format = items::with_header(options_.format, header);
    if (!format) return std::unexpected(format.error());
    options_.format = std::move(*format);
    return {};
  });
  if (!input) return std::unexpected(input.error());
  input_ = std::move(*input);
  if (input_.known) context_.set_input_bytes(input_.bytes);
  if (auto status = check_resumable(); !status) return status;
  const auto device = known_device(options_);
  if (auto status = look_at_input(context_, device, input_); !status) return status;
  decision_ = decide_sort(context_, device, input_);
  if (auto status = check_memory(options_, input_, plan()); !status) return status;
  total_bytes_ = plan().bytes_read + plan().bytes_written;
  if (input_.known) context_.set_input_bytes(input_.bytes);
  std::vector<files::RunContext::ExpectedPhase> expected;
  for (const SortPhase& phase : plan().phases) expected.push_back({phase.bytes(), phase.seconds});
  if (options_.verify) expected.push_back({input_.bytes, 0});
  if (!options_.resume) context_.expect(std::move(expected));
  decision_.plan.temp_memory_bytes =
      io::temporaries_in_memory(temp_directories_, plan().temp_bytes);
  auto room = check_space(task(), plan().temp_bytes + decision_.temp_bytes_spared,
                          decision_.output_bytes_max);
  if (!room && decision_.temp_bytes_spared > 0)
    room.error().hint += ", or --compress-temporaries always, if all data shrink like the sample";
  return room;
}

SortTask Run::task() {
  return {.context = context_,
          .input = input_,
          .decision = decision_,
          .temp_directories = temp_directories_,
          .resume = resume_.get(),
          .total_bytes = total_bytes_};
}

void Run::report_temporaries() const {
  if (!options_.notice || (input_.known && plan().temp_bytes == 0)) return;
  const std::string notice =
      io::notice_of_temporaries(options_.temp_directories, temp_directories_);
  if (!notice.empty()) options_.notice(notice);
}

// Removes files of killed runs, if the file system does not support unnamed files. The directories
// of temporaries, which may hold many files of others, are not searched for a sort without any.
void Run::remove_stale(bool makes_temporaries) const {
  if (io::names_a_file(options_.output))
    io::remove_stale_temporaries(io::directory_of(options_.output));
  if (!makes_temporaries) return;
  for (const std::string& directory : temp_directories_) {
    io::remove_stale_temporaries(directory);
  }
}

// Checks what a resumed run depends on: inputs and an output with names, and steps with a journal.
Status Run::check_resumable() const {
  if (!options_.resume) return {};
  auto refuse = [](const char* attempted, std::string subject, const char* hint) {
    return failure(ErrorCode::unsupported, attempted, std::move(subject), hint);
  };
  if (options_.top)
    return refuse("resume a sort of the first items alone", "--resume",
                  "the sort without --resume");
  for (const auto& input : input_.files) {
    if (input->kind() != io::Kind::regular || input->path() == "-")
      return refuse("resume a sort of an input without a name", input->path(), "a file");
  }
  for (const files::Piece& piece : input_.pieces) {
    if (piece.in_order && !options_.source.encoding.empty())
      return refuse("resume a sort of text in another encoding", piece.file->path(),
                    "penstock cat --encoding to a file and a sort of that");
    if (piece.in_order)
      return refuse("resume a sort of compressed data", piece.file->path(),
                    "penstock cat to a file and a sort of that; or --no-decompress");
  }
  if (!io::names_a_file(options_.output))
    return refuse("resume a sort to an output without a name", options_.output, "-o FILE");
  return {};
}

// Uses the state of an earlier run if there is any, whatever this run's plan. Without such a state
// the sort of an empty input, or of one that fits in memory, has no steps and begins anew.
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

// Measured phases under the plan's names: for an input that fits in memory, the distribution writes
// nothing and is the plan's "read".
std::vector<SortPhase> Run::measured_phases() {
  auto phases = context_.phases();
  if (done_.method != Method::in_memory) return phases;
  for (SortPhase& phase : phases) {
    if (phase.name == "distribute") phase.name = "read";
    if (phase.name == "sort") phase.name = "sort and write";
  }
  return phases;
}

Result<SortStats> Run::go() {
  remove_stale(!input_.known || plan().temp_bytes > 0);
  report_temporaries();
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

// Checks that exactly the items read came out of the buckets. Temporaries have checks of their own,
// so that a difference means that memory lost or changed an item.
Status Run::compare(const ItemSum& sorted) const {
  if (!done_.read || *done_.read == sorted) return {};
  if (resume_ != nullptr) resume_->distrust();
  std::string what = "trust the sorted items: ";
  if (done_.read->items != sorted.items) {
    what += std::to_string(done_.read->items) + " items were read, and " +
            std::to_string(sorted.items) + " were sorted";
  } else {
    what += "the sum of the " + std::to_string(sorted.items) +
            " items that were sorted is not the sum of those that were read";
  }
  return failure(ErrorCode::corrupt,
                 what + "; the memory of this machine changed them, or an error of the program",
                 options_.output,
                 "the same command once more; if it fails again, a test of the memory");
}

Result<io::File> Run::open_output() {
  const bool all = input_.known && !options_.unique && !options_.top;
  const io::OutputOptions how{.rules = options_.output_rules,
                              .inputs = input_.guard,
                              .bytes = all ? input_.bytes : 0,
                              .cancel = options_.cancel};
  return resume_ != nullptr ? resume_->open_output(how) : files::open_output(options_, how);
}

// Reads the output back; each block is compared with its check on the way (io/block_checks.h).
Status Run::verify(const io::File& output, const Stored& stored) {
  context_.set_step("verify");
  const uint64_t header_bytes = input_.header.size();
  items::Checker checker(
      {.format = options_.format, .descending = options_.descending, .header_bytes = header_bytes});
  auto add = [&](uint64_t offset, std::span<const std::byte> bytes) {
    const uint64_t of_header = header_bytes - std::min(header_bytes, offset);
    checker.add(bytes.subspan(std::min<uint64_t>(of_header, bytes.size())));
    return context_.pulse();
  };
  if (auto read = io::read_ahead(output, 0, stored.bytes,
                                 files::block_within(options_.memory_bytes / 64), add);
      !read)
    return read;
  auto found = checker.finish();
  if (!found) return std::unexpected(found.error());
  if (found->sorted() && found->count == stored.items &&
      (!options_.unique || found->duplicates == 0))
    return {};
  return failure(ErrorCode::corrupt, "verify the output: it differs from the sorted items",
                 options_.output, "look at the disk and the memory (dmesg)");
}

// Writes the header, and sorts the items behind it.
Result<Stored> Run::sort_to(io::File& output) {
  const std::string& header = input_.header;
  if (!header.empty()) {
    if (auto status = io::write_exactly(
            output, 0, reinterpret_cast<const std::byte*>(header.data()), header.size());
        !status)
      return std::unexpected(status.error());
  }
  SortTask all = task();
  auto done = sort_by(way_of(decision_), all, {&output, header.size()});
  if (!done) return std::unexpected(done.error());
  done_ = std::move(*done);
  Stored stored = done_.stored;
  if (auto status = compare(stored.sum); !status) return std::unexpected(status.error());
  stored.bytes += header.size();
  if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
  return stored;
}

Result<files::SortedCopy> Run::go_to_temporary() {
  remove_stale(true);
  report_temporaries();
  auto output = io::File::create_temporary(temp_directories_.front());
  if (!output) return std::unexpected(output.error());
  output->keep_checks();
  if (auto stored = sort_to(*output); !stored) return std::unexpected(stored.error());
  return files::SortedCopy{std::move(*output), input_.first_row};
}

Result<Stored> Run::sort_to_output() {
  if (resume_ != nullptr && resume_->completed()) return *resume_->completed();
  auto output = open_output();
  if (!output) return std::unexpected(output.error());
  if (options_.verify) output->keep_checks();
  auto stored = sort_to(*output);
  if (!stored) return stored;
  if (resume_ != nullptr) {
    if (auto status = resume_->publish(*output, *stored); !status)
      return std::unexpected(status.error());
    return stored;
  }
  if (done_.has_rest) {
    if (auto status = output->set_size(stored->bytes); !status)
      return std::unexpected(status.error());
  }
  if (options_.verify) {
    if (auto status = verify(*output, *stored); !status) return std::unexpected(status.error());
  }
  if (auto status = output->publish(); !status) return std::unexpected(status.error());
  return stored;
}

SortStats Run::stats_of(const Stored& stored) {
  SortStats stats;
  stats.temp_bytes = done_.temp_bytes;
  context_.fill(stats, temp_directories_);
  stats.predicted = plan();
  stats.method = done_.method;
  stats.items = stored.items;
  stats.bytes = stored.bytes;
  stats.passes = done_.method == Method::empty ? 0 : 1 + done_.passes_more;
  stats.spilled_bytes = done_.spilled_bytes;
  stats.kept_bytes = done_.kept_bytes;
  stats.phases = measured_phases();
  for (const SortPhase& phase : stats.phases)
    stats.phase_seconds.emplace_back(phase.name, phase.seconds);
  if (options_.format.numeric() && done_.times.sort_s > 0) {
    stats.phase_seconds.emplace_back("sorters at work", done_.times.sort_s);
    stats.phase_seconds.emplace_back("sorters wait for reads", done_.times.wait_read_s);
    stats.phase_seconds.emplace_back("reader waits for writes", done_.times.wait_room_s);
  }
  stats.occupancy = context_.occupancy().taken();
  stats.staircases = context_.staircases();
  const uint64_t known_bytes = input_.known ? input_.bytes : UINT64_MAX;
  stats.pool = pool::name_of(files::mechanism_of(options_, done_.read_block_bytes, known_bytes));
  stats.engine = files::engine_name(known_bytes);
  return stats;
}

// Fails unless the output is a file that can be read back exactly as it was written.
Status check_verifiable(const SortOptions& options) {
  const std::string with = options.merge_only   ? "-m"
                           : options.resume     ? "--resume"
                           : options.compressed ? "-Z"
                           : options.sink != nullptr || !io::names_a_file(options.output)
                               ? "-o " + options.output
                               : "";
  if (with.empty()) return {};
  return failure(ErrorCode::unsupported, "read the output back", "--verify " + with,
                 "-o FILE, without -m, -Z and --resume");
}

}  // namespace

uint64_t minimum_memory_bytes(const SortOptions&) {
  return minimum_bytes;
}

std::string resume_folder(const SortOptions& options) {
  return Resume::folder_of(
      options, io::temp_directories_or_default(options.temp_directories, options.output));
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
  if (options.verify) {
    if (auto status = check_verifiable(options); !status) return std::unexpected(status.error());
  }
  if (options.merge_only) return sort_merge_only(options);
  Run run(options);
  if (auto status = run.prepare(); !status) return std::unexpected(status.error());
  return run.go();
}

Result<files::SortedCopy> sort_to_temporary(const SortOptions& given) {
  SortOptions options = given;
  options.temp_directories = io::temp_directories_or_default(given.temp_directories, given.output);
  // The disk must have room for this name, and messages show it.
  options.output = options.temp_directories.front() + "/sorted";
  options.sink = nullptr;
  options.keeps_first_row = true;
  Run run(options);
  if (auto status = run.prepare(); !status) return std::unexpected(status.error());
  return run.go_to_temporary();
}

}  // namespace penstock::external
