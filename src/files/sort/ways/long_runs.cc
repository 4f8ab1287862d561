#include "files/sort/ways/long_runs.h"

#include <algorithm>
#include <cmath>

#include "base/bits.h"
#include "files/bowtie/addresses.h"
#include "files/bowtie/computations.h"
#include "files/run/file_run.h"
#include "files/run/odd_items.h"
#include "files/sort/number_encoder.h"
#include "files/sort/number_type.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/ways/way.h"
#include "items/cuts.h"
#include "os/limits.h"

// The executor distributes to one file for each bucket; then the buckets are sorted in memory, one
// after the other, each read in one run and written in one.
//
// The other distribution (split.cc) writes a bucket's block as soon as it is full, and reads on: a
// seek for every two megabytes at best. If a seek takes 50 us that is a few per cent, and its
// savings (no call per item, memory kept between the phases) are worth more. If it takes 10 ms it
// is half of the time, and on an array of disks nine tenths.
//
// Here all memory is shared by the buckets, and the policy A2 of src/files/bowtie writes the
// fullest ones whole before it reads on: runs of about M / sqrt(m) bytes. Then each bucket, which
// fits in memory, is read in one run and written in one. The price: each item goes through an
// output stream, and is written to a temporary.
//
// There may be more buckets than memory has streams for, or than it fills in long runs. Then they
// are made in two steps, or more: to a few buckets, each of which is read back and distributed
// again. Every step moves all bytes once more, but in long runs; a block for each of so many
// buckets would be a seek for every 64 KiB.
//
// The planner chooses between the two (sort_planner.cc): the model predicts both for the device.
//
// The sample alone determines the buckets' bounds. A key that exceeds a bucket makes its bucket too
// large; the sort then handles it like any input. For numbers that costs nothing: items of one key
// are sorted. Texts are distributed once more, while their first file is still there: if the sample
// shows a text that is a quarter of the input, this way is not taken.

namespace penstock::external {
namespace {

// Safety factor on a bucket's estimated size.
constexpr double size_error = 1.15;
// The largest share of the input that one text may have.
constexpr double heavy_share_max = 0.25;

// The largest bucket that is sorted in memory, in one piece.
uint64_t bucket_bytes_max(const SortOptions& options, uint64_t memory_bytes, double item_bytes,
                          bool ordered) {
  auto fits = [&](uint64_t bytes) {
    return plan_buckets(options, memory_bytes,
                        {.bytes = bytes, .item_bytes = item_bytes, .in_order = ordered})
        .fits;
  };
  uint64_t bytes = memory_bytes;
  while (bytes > MiB && !fits(bytes)) bytes -= bytes / 16;
  return bytes;
}

// Largest share of the input's bytes that one text has in the sample. A text that occurs once
// counts for nothing. (Many lines may be empty, and take hardly any room.)
double heaviest_text(const SortOptions& options, const files::Sample& sample) {
  std::vector<std::string_view> texts(sample.strings.begin(), sample.strings.end());
  std::ranges::sort(texts);
  const bool is_item = options.format.has_line_ends() && options.format.keys == nullptr;
  double most_bytes = 0;
  for (size_t from = 0, to = 0; from < texts.size(); from = to) {
    while (to < texts.size() && texts[to] == texts[from]) ++to;
    if (to - from == 1) continue;
    const double item_bytes =
        is_item ? static_cast<double>(texts[from].size() + 1) : sample.item_bytes;
    most_bytes = std::max(most_bytes, static_cast<double>(to - from) * item_bytes);
  }
  return most_bytes > 0 ? most_bytes / (static_cast<double>(texts.size()) * sample.item_bytes) : 0;
}

// A sample cut at the buckets' bounds: its parts, and the first key of each but the first.
struct CutSample {
  std::vector<files::Sample> parts;
  std::vector<items::ItemKey> bounds;
};

// Cuts a sample for `buckets` buckets, or fewer if it has few keys: each key belongs to one bucket.
CutSample cut_sample(const items::ItemOrder& order, files::Sample sample, uint32_t buckets) {
  const std::vector<items::ItemKey> quantiles = sample.quantiles(order, buckets);
  const bool numeric = order.format().numeric();
  CutSample cut{.parts = {{.item_bytes = sample.item_bytes}}, .bounds = {}};
  auto next = quantiles.begin();
  const size_t keys = sample.size();
  for (size_t i = 0; i < keys; ++i) {
    items::ItemKey key = numeric ? items::ItemKey{sample.numbers[i]}
                                 : order.key_of_bytes(std::move(sample.strings[i]));
    const auto before = next;
    while (next != quantiles.end() && next->prefix == key.prefix && next->bytes == key.bytes)
      ++next;
    if (next != before && i > 0) {
      cut.bounds.push_back(key);
      cut.parts.push_back({.item_bytes = sample.item_bytes});
    }
    files::Sample& part = cut.parts.back();
    numeric ? part.numbers.push_back(key.prefix) : part.strings.push_back(std::move(key.bytes));
  }
  return cut;
}

ItemSum sum_of_items(const SortOptions& options, const bowtie::Items& items) {
  ItemSum sum;
  const items::Format& format = options.format;
  if (!format.numeric()) {
    for (size_t i = 0; i < items.size(); ++i) sum += sum_of_item(format, items[i]);
    return sum;
  }
  with_number_type(format.type, [&]<class T>() {
    NumberEncoder<T> encoder(format.type, options.descending);
    for (size_t done = 0; done < items.size();) {
      const auto keys = encoder.encode(items.data() + done * sizeof(T), items.size() - done);
      sum += sum_of(keys);
      done += keys.size();
    }
  });
  return sum;
}

}  // namespace

std::optional<LongRunsPlan> plan_long_runs(const SortOptions& options, uint64_t memory_bytes,
                                           uint64_t input_bytes, uint64_t inputs,
                                           const files::Sample& sample, bool ordered,
                                           const bowtie::DeviceProfile& device) {
  const auto bytes = static_cast<double>(input_bytes);
  const uint64_t most = bucket_bytes_max(options, memory_bytes, sample.item_bytes, ordered);
  const double wanted = std::max(2.0, std::ceil(size_error * bytes / static_cast<double>(most)));
  const uint64_t streams_max = memory_bytes / 4 / files::stream_bytes_min(options.format);
  if (streams_max < inputs + 2) return {};
  const double heaviest = heaviest_text(options, sample);
  const bool is_heavy = heaviest * bytes > static_cast<double>(most);
  if (is_heavy && heaviest > heavy_share_max) return {};
  const auto outputs_max = static_cast<double>(streams_max - inputs);
  // Uses as few levels as possible, or one or two more if the runs become so much longer.
  auto with_levels = [&](uint32_t levels) {
    LongRunsPlan plan{.bytes = input_bytes, .bucket_bytes_max = most, .levels = levels};
    plan.buckets =
        static_cast<uint32_t>(std::min(std::ceil(std::pow(wanted, 1.0 / levels)), outputs_max));
    const bowtie::Bowtie bowtie{
        .inputs = 1, .outputs = plan.buckets, .input_share = 0.5, .memory_bytes = memory_bytes};
    plan.distribution = bowtie::predict(bowtie, 2 * bytes, device);
    plan.again_seconds = (levels - 1) * plan.distribution.seconds;
    plan.again_switches = (levels - 1) * static_cast<uint64_t>(plan.distribution.traffic.switches);
    return plan;
  };
  uint32_t levels = 1;
  while (std::pow(outputs_max, levels) < wanted) ++levels;
  LongRunsPlan plan = with_levels(levels);
  for (const uint32_t more : {levels + 1, levels + 2}) {
    const LongRunsPlan other = with_levels(more);
    if (other.seconds() < plan.seconds()) plan = other;
  }
  plan.heavy_bytes = is_heavy ? static_cast<uint64_t>(heaviest * bytes) : 0;
  plan.sort_switches =
      2 * static_cast<uint64_t>(wanted) + 2 * plan.heavy_bytes / files::block_bytes_min;
  const double moved = bytes + static_cast<double>(plan.heavy_bytes);
  plan.sort_seconds = bowtie::seconds_of({.read_bytes = moved,
                                          .written_bytes = moved,
                                          .switches = static_cast<double>(plan.sort_switches)},
                                         device, 1, 1);
  return plan;
}

Result<LongBuckets> distribute_in_long_runs(Context& context,
                                            const std::vector<files::Piece>& pieces,
                                            uint64_t memory_bytes, files::Sample sample,
                                            const scatter::KeyRange& keys, const LongRunsPlan& plan,
                                            const std::vector<std::string>& temp_directories) {
  const SortOptions& options = context.options;
  files::FilesOptions files = options;
  files.temp_directories = temp_directories;
  files.progress = [&](const files::Progress&) { (void)context.pulse(); };
  files.notice = {};
  files::FileRun run(files, "sort");
  std::vector<bowtie::Input> inputs;
  for (const files::Piece& piece : pieces)
    inputs.push_back({.file = piece.file, .offset = piece.offset, .bytes = piece.bytes});
  run.start_with(std::move(inputs));
  // Each bucket has two descriptors.
  (void)os::raise_open_files_limit();

  const items::ItemOrder order = options.order();
  auto [samples, bounds] = cut_sample(order, std::move(sample), plan.buckets);
  std::vector<LongBucket> buckets(samples.size());
  std::vector<bowtie::Output> outputs;
  for (size_t j = 0; j < buckets.size(); ++j) {
    auto file = run.temporary();
    if (!file) return std::unexpected(file.error());
    buckets[j].file = std::move(*file);
    buckets[j].sample = std::move(samples[j]);
    buckets[j].keys = keys;
    if (options.format.numeric() && j > 0) buckets[j].keys.low = bounds[j - 1].prefix;
    if (options.format.numeric() && j < bounds.size()) buckets[j].keys.high = bounds[j].prefix - 1;
    outputs.push_back({.file = buckets[j].file.get(),
                       .bytes_max = bowtie::outputs_address_bytes() / buckets.size(),
                       .whole_sectors = true});
  }
  ItemSum read;
  // Items come without their input, which is known if there is only one.
  const auto count_odd = [&](size_t number, std::string_view item) {
    if (options.odd_items != nullptr && pieces.front().is_given)
      options.odd_items->note(
          pieces.size() == 1 ? pieces.front().file->path() : std::string(),
          pieces.size() == 1 ? options.format.header_lines + read.items + number + 1 : 0,
          options.format, item);
  };
  const auto count_and_route = [&, to_bucket = bowtie::by_range({order, bounds}, count_odd)](
                                   const bowtie::Items& items, uint32_t* to) {
    to_bucket(items, to);
    read += sum_of_items(options, items);
    for (size_t i = 0; i < items.size(); ++i) {
      ++buckets[to[i]].items;
      buckets[to[i]].bytes += items[i].size() + (lacks_line_end(options.format, items[i]) ? 1 : 0);
    }
  };
  auto status = run.pass(run.inputs(), std::move(outputs),
                         bowtie::distribute(options.format, count_and_route),
                         {.items = options.format,
                          .memory_bytes = memory_bytes,
                          .inputs_in_turn = true,
                          .phase = "distribute"});
  if (!status) return std::unexpected(status.error());
  context.add_staircases(run.stats().staircases);
  std::erase_if(buckets, [](const LongBucket& bucket) { return bucket.items == 0; });
  return LongBuckets{std::move(buckets), read};
}

namespace {

Result<Outcome> sort_parts(SortTask& task, LongBucket bucket,
                           const std::vector<files::Piece>& pieces, const LongRunsPlan& plan,
                           uint32_t level, const Target& target);

// Sorts a bucket that a distribution of `level` made: in memory, or by another distribution.
Result<Outcome> sort_part(SortTask& task, LongBucket bucket, const LongRunsPlan& plan,
                          uint32_t level, const Target& target) {
  const std::vector<files::Piece> pieces = {{.file = bucket.file.get(), .bytes = bucket.bytes}};
  if (plan.goes_again(bucket.bytes)) {
    const auto again =
        plan_long_runs(task.options(), task.input.usable_bytes, bucket.bytes, 1, bucket.sample,
                       in_order(task.options(), target), *task.plan().device);
    if (again) return sort_parts(task, std::move(bucket), pieces, *again, level + 1, target);
  }
  BucketSort sort(task.context, task.input.usable_bytes, task.temp_directories);
  const auto stored = sort.run({.pieces = pieces,
                                .bytes = bucket.bytes,
                                .sample = std::move(bucket.sample),
                                .keys = bucket.keys},
                               target);
  if (!stored) return std::unexpected(stored.error());
  Outcome outcome = outcome_of(*stored, sort.stats());
  outcome.kept_bytes = 0;  // all of it came from a temporary
  outcome.passes_more += level;
  return outcome;
}

// Sorts the items of `pieces`, which are the bucket's file if it has one. The file is removed when
// its items are distributed.
Result<Outcome> sort_parts(SortTask& task, LongBucket bucket,
                           const std::vector<files::Piece>& pieces, const LongRunsPlan& plan,
                           uint32_t level, const Target& target) {
  auto distributed =
      distribute_in_long_runs(task.context, pieces, task.input.usable_bytes,
                              std::move(bucket.sample), bucket.keys, plan, task.temp_directories);
  if (!distributed) return std::unexpected(distributed.error());
  bucket.file.reset();
  if (level == 1) task.context.pin_phase("sort");
  Outcome all{.passes_more = level, .read = distributed->read};
  for (LongBucket& part : distributed->buckets) {
    // A bucket that is distributed again reuses the space of its own file.
    if (level == 1) all.temp_bytes += part.bytes;
    all.spilled_bytes += part.bytes;
    part.sample.item_bytes = static_cast<double>(part.bytes) / static_cast<double>(part.items);
    const auto done = sort_part(task, std::move(part), plan, level,
                                {target.file, target.offset + all.stored.bytes});
    if (!done) return done;
    all += *done;
  }
  all.method = Method::distribute;
  return all;
}

}  // namespace

Result<Outcome> sort_by_long_runs(SortTask& task, const Target& target) {
  task.context.set_phase("distribute", task.planned_bytes());
  return sort_parts(task, {.sample = std::move(task.input.sample)}, task.input.pieces,
                    *task.decision.long_runs, 1, target);
}

}  // namespace penstock::external
