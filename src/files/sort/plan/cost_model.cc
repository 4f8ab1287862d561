#include "files/sort/plan/cost_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/seconds.h"
#include "files/sort/bucket/bucket_reader.h"
#include "files/sort/bucket/bucket_sort.h"
#include "files/sort/plan/probe.h"
#include "files/sort/plan/sort_prediction.h"
#include "files/sort/spill/block_arena.h"
#include "io/file.h"
#include "io/temporaries.h"
#include "os/cpu.h"
#include "os/limits.h"
#include "os/memory.h"

// The disk, the processors and the first use of memory work side by side, so that a phase would
// take as long as the slowest of them, if there were endless buffers between them. Here there are a
// few blocks, and the resource that is ahead waits: a bucket is spilled at once and the
// distribution waits for a block; a sorter waits for the bucket that is read. So two resources that
// take a second each take 1.4 seconds together. The formula that fits the phases of all formats and
// budgets, most of them within a tenth (bench `prediction`), is
//
//     seconds = (disk^2 + processor^2 + memory^2)^(1/2)
//
// which is the longest time if that is by far the longest, as it should be. If the files lie in
// memory the disk's time is processor time, which all processors share.
//
//   disk        equation 1 of the model, with the measured speeds and switch delay; and for each
//               request that is not adjacent the time until the waiting thread is awake
//   processor   measured on a few MiB of this input, with the very code of the sort, and a few
//               microseconds for each request. Two pieces are sorted, and the difference between
//               the larger and the smaller one is the price of the bytes: threads, rings and first
//               pages are in both. Memory is used before that
//   memory      the system clears a page at its first use, and on a virtual machine the host may
//               have to find it first: 0.16 to 2.3 seconds a GiB on one and the same machine. It is
//               measured before the trials, on more memory than the run has used and freed before.
//               The host's behaviour with the rest is not observable, so the plan has a range
//               (SortPlan::seconds_high).
//
// How the rates grow: a distribution of numbers takes the same time for any number of buckets. One
// of records and lines looks each key up, and writes to as many places as there are buckets, which
// fall out of the caches. A sort takes a little more for a larger bucket. Texts in one bucket are
// sorted first, by all threads, and then copied to the output, by one, beside the disk.

namespace penstock::external {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t trial_bytes_min = 8 * MiB;
constexpr uint64_t trial_bytes_max = 16 * MiB;
constexpr uint32_t trial_places = 256;
// Number of buckets of a trial.
constexpr double trial_buckets = 16;

// Relation between the rates of a trial and those of a long run.
struct ItemCosts {
  // Factors on a trial's rates: in a long run caches and branches are warm.
  double split_of_trial;
  double sort_of_trial;
  // Least share of the usual rates that a trial may report. (The clock may be coarse, and another
  // process may take the processor; the difference of two trials of texts is less certain.)
  double trial_least;
  // Growth of the rates with each doubling of the buckets, and of the bytes sorted at once.
  double split_growth;
  double sort_growth;
  // Share of a distribution's rate that a check of the order takes.
  double look_share;
};
constexpr ItemCosts number_costs = {.split_of_trial = 0.75,
                                    .sort_of_trial = 0.7,
                                    .trial_least = 0.15,
                                    .split_growth = 0,
                                    .sort_growth = 0.01,
                                    .look_share = 0.5};
constexpr ItemCosts short_number_costs = [] {
  ItemCosts costs = number_costs;
  costs.sort_of_trial = 0.55;
  return costs;
}();
constexpr ItemCosts text_costs = {.split_of_trial = 1,
                                  .sort_of_trial = 1,
                                  .trial_least = 0.4,
                                  .split_growth = 0.2,
                                  .sort_growth = 0.08,
                                  .look_share = 0.6};

const ItemCosts& costs_of(const items::Format& format) {
  if (!format.numeric()) return text_costs;
  return format.record_bytes < sizeof(uint64_t) ? short_number_costs : number_costs;
}

constexpr double split_lanes_max = 3;
// A merge's rate as a share of a sort's.
constexpr double merge_share = 1;
// Share of the copy to the output, by one thread, in the sort of a bucket of texts.
constexpr double text_copy_share = 0.2;
// Least input that is measured at all, and the size of the disk's probe.
constexpr uint64_t looked_at_bytes_min = 512 * MiB;
constexpr uint64_t probe_share = 32;
constexpr uint64_t probe_bytes_min = 32 * MiB;
constexpr uint64_t probe_bytes_max = 64 * MiB;
// Exceeds the memory that the run has used before, so that pages are as the sort will find them.
constexpr uint64_t touched_bytes_max = 32 * MiB;
constexpr uint64_t touched_piece_bytes = 4 * MiB;  // whole huge pages
// Size of a trial as shares of the input and of the memory.
constexpr uint64_t trial_share = 64;
constexpr uint64_t trial_memory_share = 3;
// Most measurements if files lie in memory, and the share of the best time to be beaten.
constexpr unsigned disk_looks_max = 4;
constexpr double faster = 0.8;

// First use of memory on a host that finds it page by page.
constexpr double cold_touch_seconds_per_byte = 2.3 / static_cast<double>(GiB);

// Factor for threads that do not end together: the last one counts.
constexpr double uneven = 1.1;

double per_gib(double seconds) {
  return seconds / static_cast<double>(GiB);
}

const SortPhase* find_phase(const std::vector<SortPhase>& phases, const char* name) {
  const auto found = std::ranges::find(phases, name, &SortPhase::name);
  return found == phases.end() ? nullptr : &*found;
}

// Processor time of a sort of the first bytes of a piece. It is that of the whole process,
// including other threads of a program that calls the library.
struct Trial {
  uint64_t bytes = 0;
  double split_seconds = 0;
  double sort_seconds = 0;
};

std::optional<Trial> try_sort(const SortOptions& options, const files::Piece& piece, uint64_t bytes,
                              uint64_t memory_bytes, const std::string& directory) {
  if (options.format.fixed()) bytes -= bytes % options.format.record_bytes;
  SortOptions quiet = options;
  quiet.progress = {};
  quiet.notice = {};
  Context context(quiet);
  const std::vector<files::Piece> pieces = {
      {.file = piece.file, .offset = piece.offset, .bytes = bytes}};
  auto sample = files::take_sample(context, quiet.order(), pieces, trial_places);
  if (!sample) return {};
  auto output = io::File::create_temporary(directory);
  if (!output) return {};
  BucketSort sort(context, memory_bytes, {directory});
  sort.touch_first();
  const auto stored =
      sort.run({.pieces = pieces, .bytes = bytes, .sample = std::move(*sample)}, {&*output, 0});
  if (!stored || sort.stats().levels > 0) return {};
  const auto phases = context.phases();
  const SortPhase* const split = find_phase(phases, "distribute");
  const SortPhase* const sorted = find_phase(phases, "sort");
  if (split == nullptr || sorted == nullptr) return {};
  return Trial{.bytes = bytes,
               .split_seconds = split->processor_seconds,
               .sort_seconds = sorted->processor_seconds};
}

// Typical costs of a machine that was not measured.
MachineRates usual_machine() {
  return {.touch_seconds_per_byte = per_gib(0.2), .request_seconds = 15e-6, .wake_seconds = 25e-6};
}

// Growth of a rate measured at size `than` to size `size`, by `share` with each doubling.
double growth(double share, double size, double than) {
  return std::max(1.0, 1 + share * std::log2(std::max(size, 1.0) / than));
}

// Seconds a byte of the first use of memory: as in the sort, piece by piece, and the median counts.
// (Another process may spoil one or two pieces.)
double measure_touch(uint64_t bytes) {
  BlockArena memory;
  const uint64_t piece_bytes = std::min(bytes, touched_piece_bytes);
  if (bytes == 0 || !memory.open(bytes, piece_bytes)) return usual_machine().touch_seconds_per_byte;
  std::vector<double> seconds;
  for (uint32_t i = 0; i < memory.blocks(); ++i) {
    const auto begin = Clock::now();
    os::touch(memory.block(i), piece_bytes);
    seconds.push_back(seconds_between(begin, Clock::now()));
  }
  const auto middle = seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return *middle / static_cast<double>(piece_bytes);
}

// Typical rates: a current cloud processor with AVX-512 and a busy other hyperthread.
ItemRates usual_rates(const items::Format& format, double item_bytes) {
  if (format.numeric()) {
    const double share = item_bytes < 8 ? 1.7 : 1;  // a byte holds more items
    return {.split_seconds_per_byte = share * per_gib(0.55),
            .sort_seconds_per_byte = share * per_gib(1.2),
            .sorted_bytes = 32e6};
  }
  // Rates have a part for each item and a part for each byte.
  const double items_per_byte = 1 / std::max(item_bytes, 1.0);
  return {.split_seconds_per_byte = 70e-9 * items_per_byte + per_gib(0.5),
          .sort_seconds_per_byte = 100e-9 * items_per_byte + per_gib(0.4),
          .sorted_bytes = 16e6};
}

// Sorts a few MiB of the input twice, with a temporary as output. Returns nullopt if no piece is a
// file that can be read twice, or if the part that was cut out of it cannot be sorted.
std::optional<ItemRates> try_items(const SortOptions& options, const SortInput& input,
                                   const std::string& directory) {
  const auto piece = std::ranges::find_if(input.pieces, [](const files::Piece& one) {
    return one.file != nullptr && !one.in_order && one.bytes >= trial_bytes_min;
  });
  if (piece == input.pieces.end()) return {};
  const uint64_t bytes =
      std::min({std::clamp(input.bytes / trial_share, trial_bytes_min, trial_bytes_max),
                piece->bytes, round_down(input.usable_bytes / trial_memory_share, MiB)});
  if (bytes < MiB) return {};
  const auto few = try_sort(options, *piece, bytes / 4, input.usable_bytes, directory);
  if (!few) return {};
  const auto more = try_sort(options, *piece, bytes, input.usable_bytes, directory);
  if (!more) return {};
  auto rate = [&](double Trial::* seconds) {
    return std::max(0.0, (*more).*seconds - (*few).*seconds) /
           static_cast<double>(more->bytes - few->bytes);
  };
  const ItemRates usual = usual_rates(options.format, input.sample.item_bytes);
  const ItemCosts& costs = costs_of(options.format);
  return ItemRates{
      .split_seconds_per_byte = std::max(costs.trial_least * usual.split_seconds_per_byte,
                                         costs.split_of_trial * rate(&Trial::split_seconds)),
      .sort_seconds_per_byte = std::max(costs.trial_least * usual.sort_seconds_per_byte,
                                        costs.sort_of_trial * rate(&Trial::sort_seconds)),
      .sorted_bytes = static_cast<double>(more->bytes) / 4};
}

// Best of some measurements; another is taken while each is a fifth faster than the best before.
template <class Look, class Seconds>
auto best_of(unsigned looks_left, Look look, Seconds seconds) -> decltype(look()) {
  auto best = look();
  while (best && --looks_left > 0) {
    auto again = look();
    if (!again || seconds(*again) > seconds(*best)) break;
    const double before = seconds(*best);
    best = std::move(again);
    if (seconds(*best) > faster * before) break;
  }
  return best;
}

}  // namespace

Costs::Costs(Context& context, const SortInput& input,
             const std::optional<bowtie::DeviceProfile>& device)
    : context_(context),
      options_(context.options),
      input_(input),
      directories_(io::temp_directories_or_default(options_.temp_directories, options_.output)),
      device_(device),
      machine_(usual_machine()),
      items_(usual_rates(options_.format, input.sample.item_bytes)) {
  machine_.processors = std::max(1u, os::cores_usable());
  machine_.files_in_memory = io::temporaries_in_memory(directories_, 1) > 0;
}

void Costs::look(bool passed_over, bool copied) {
  if (!input_.known || input_.bytes < looked_at_bytes_min || options_.top == 0u || passed_over)
    return;
  if (!device_) look_at_disk();
  context_.set_step("try a few items");
  const uint64_t touched_bytes =
      std::min(touched_bytes_max, round_down(input_.usable_bytes / 2, MiB));
  machine_.touch_seconds_per_byte = measure_touch(touched_bytes);
  if (!copied) {
    const auto rates = best_of(
        looks(), [&] { return try_items(options_, input_, directory()); },
        [](const ItemRates& one) {
          return one.split_seconds_per_byte + one.sort_seconds_per_byte;
        });
    if (rates) items_ = *rates;
  }
  context_.set_step("sample");
}

unsigned Costs::looks() const {
  return machine_.files_in_memory ? disk_looks_max : 1;
}

void Costs::look_at_disk() {
  context_.set_step("probe the disk");
  const DiskProbe probe = {
      .bytes = std::clamp(input_.bytes / probe_share, probe_bytes_min, probe_bytes_max),
      .depth = 4};
  const auto speed = best_of(
      looks(), [&] { return probe_disk(directory(), probe); },
      [](const DiskSpeed& one) { return 1 / one.write_bytes_per_s + 1 / one.read_bytes_per_s; });
  if (!speed) return;
  device_ = {.name = "the disk of " + directory(),
             .source = "a short measurement, with a switch delay of 0 assumed",
             .read_bytes_per_s = speed->read_bytes_per_s,
             .write_bytes_per_s = speed->write_bytes_per_s};
}

void Costs::assume_disk() {
  const bowtie::DeviceProfile* published = bowtie::find_profile("nvme-ssd");
  if (published == nullptr) return;
  device_ = {.name = "a usual disk (not measured)",
             .source = "assumed: " + published->name + " as published, with no switch delay",
             .read_bytes_per_s = published->read_bytes_per_s,
             .write_bytes_per_s = published->write_bytes_per_s};
}

double Costs::lanes(double most) const {
  return std::clamp(most, 1.0, static_cast<double>(machine_.processors));
}

double Costs::seconds_of_requests(const SortPhase& phase, uint64_t request_bytes) const {
  const auto requests = static_cast<double>(phase.bytes()) / static_cast<double>(request_bytes);
  return machine_.request_seconds * std::max(requests, static_cast<double>(phase.seeks));
}

// A thread that distributes numbers alone has only the one beside it that uses memory first.
// Several threads wait for their turns, and for each other's memory. (Texts that are copied side by
// side were measured with two threads only.)
PhaseWork Costs::split_work(const SortPhase& phase, const BucketPlan& plan) const {
  const double rate = items_.split_seconds_per_byte *
                      growth(costs_of(options_.format).split_growth, plan.buckets, trial_buckets);
  return {.processor_seconds = rate * static_cast<double>(phase.bytes_read) +
                               seconds_of_requests(phase, plan.read_block_bytes),
          .lanes = lanes(std::min<double>(plan.split_threads, split_lanes_max)),
          .touched_bytes = std::min(plan.arena_bytes, phase.bytes_read)};
}

PhaseWork Costs::sort_work(const SortPhase& phase, const BucketPlan& plan) const {
  const auto bytes = static_cast<double>(phase.bytes_written);
  const double rate = items_.sort_seconds_per_byte * growth(costs_of(options_.format).sort_growth,
                                                            bytes / std::max(1u, plan.buckets),
                                                            items_.sorted_bytes);
  const double seconds = rate * bytes;
  PhaseWork work = {
      .processor_seconds = seconds + seconds_of_requests(phase, JobRequests::bytes_max),
      .lanes = lanes(plan.sorters * plan.sorter_threads)};
  if (options_.format.numeric()) return work;
  // A single bucket is sorted by all threads, and then copied by one while it is written.
  if (plan.buckets == 1) {
    work.ahead_seconds = (1 - text_copy_share) * seconds;
    work.processor_seconds -= work.ahead_seconds;
    work.ahead_lanes = std::exchange(work.lanes, 1);
  } else {
    work.lanes =
        lanes(plan.sorters / (text_copy_share + (1 - text_copy_share) / plan.sorter_threads));
  }
  // Texts and their pairs lie in new places, all over the arena.
  work.touched_bytes = plan.arena_bytes - std::min(plan.arena_bytes, phase.bytes_written);
  return work;
}

PhaseWork Costs::look_work() const {
  return {.processor_seconds = costs_of(options_.format).look_share *
                               items_.split_seconds_per_byte * static_cast<double>(input_.bytes)};
}

PhaseWork Costs::merge_work() const {
  return {.processor_seconds =
              merge_share * items_.sort_seconds_per_byte * static_cast<double>(input_.bytes)};
}

bool Costs::pays_to_try_compression(uint64_t spilled_bytes) const {
  // Assumes that compression halves the data.
  const uint64_t spared_bytes = spilled_bytes / 2;
  return external::seconds_of({.seeks = compression_trial_places}, *device_, 1, 0) <=
         external::seconds_of({.bytes_read = spared_bytes, .bytes_written = spared_bytes}, *device_,
                              1, 1);
}

double Costs::seconds_of(Step step) const {
  predict(step, machine_);
  return step.phase.seconds;
}

double Costs::seconds_at_most(Step step) const {
  MachineRates slow = machine_;
  if (os::is_virtual_machine()) {
    slow.touch_seconds_per_byte =
        std::max(slow.touch_seconds_per_byte, cold_touch_seconds_per_byte);
  }
  predict(step, slow);
  return step.phase.seconds;
}

void Costs::predict(Step& step, const MachineRates& machine) const {
  SortPhase& phase = step.phase;
  const PhaseWork& work = step.work;
  phase.disk_seconds = external::seconds_of(phase, *device_, step.inputs, step.outputs);
  phase.memory_seconds = static_cast<double>(work.touched_bytes) * machine.touch_seconds_per_byte;
  phase.processor_seconds = work.processor_seconds + work.ahead_seconds + phase.memory_seconds;
  const double ahead = work.ahead_seconds / work.ahead_lanes;
  const double processor = work.processor_seconds / work.lanes;
  // The host finds memory for one thread at a time.
  const double memory = phase.memory_seconds;
  if (machine.files_in_memory) {
    phase.processor_seconds += phase.disk_seconds;
    phase.seconds =
        uneven * std::max(phase.processor_seconds / machine.processors, ahead + processor + memory);
  } else {
    phase.disk_seconds += machine.wake_seconds * static_cast<double>(phase.seeks);
    phase.seconds = ahead + std::hypot(phase.disk_seconds, processor, memory);
  }
  phase.bound = PhaseBound::disk;
  if (ahead + processor > phase.disk_seconds) phase.bound = PhaseBound::processor;
  if (memory > std::max(phase.disk_seconds, ahead + processor)) phase.bound = PhaseBound::memory;
}

}  // namespace penstock::external
