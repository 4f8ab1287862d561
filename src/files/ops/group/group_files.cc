#include "files/ops/group/group_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/misuse.h"
#include "base/printable.h"
#include "files/bowtie/addresses.h"
#include "files/ops/group/group_fill.h"
#include "files/ops/group/group_merge.h"
#include "files/ops/group/group_results.h"
#include "files/run/odd_items.h"
#include "files/run/walk.h"
#include "items/rows.h"

// How items are grouped that do not fit in memory.
//
// Sorting and then adding up neighbours is correct, but it moves every item twice though a thousand
// of them may become one group. Files by hash, and then one table for each of them, move items
// twice as well, and fail for a key that has more items than memory.
//
// Here a table (group_table.h, filled by group_fill.cc) stands in front of the buckets:
//
//   inputs, one after the other --> table --(when it is full, all of it)--> buckets by hash
//   each bucket --> table --> results; a bucket whose keys do not fit --> buckets by another hash
//
// Partials come to a bucket, not items: a frequent key is combined in the table, so it writes one
// partial each time that the table fills up, however many items it has. A table has one partial for
// each key, so a bucket of one key never overflows, and a bucket that overflows has more keys than
// fit, which another hash spreads evenly. Hence each level leaves at most a bucket's share of the
// keys, and a few levels suffice.
//
// If nothing combines (all keys differ) the table does useless work. After a table was spilled with
// hardly anything combined, the next items go to their buckets as they are, for some tables' worth;
// then the table is tried again. Partials of a key reach its bucket in the order of their items
// either way, so that `distinct` keeps the very first.
//
// The partials of each bucket are counted as they are written. Buckets that fit whatever their keys
// are need no buckets of their own: they are read in one pass, one after the other, and the results
// of each are written when it is done, while the next one is read ahead.
//
// Results in the order of the input come from one thread, whose table has its groups in that order.
// Partials keep it on their way through the buckets, and have a position. If the table was spilled,
// the groups of each bucket become a sorted stretch of temporaries, and a merge by the positions
// (group_merge.h) makes the results.
//
// The number of lines in a file is not known before. A small file is assumed to fit, and gets no
// buckets, so that its lines may be long; if it does not fit after all, it is read once more.
//
// Sorted results need no buckets (group_merge.h). (Results in any order still go to buckets: these
// need no sort, and no merge.)
//
// Threads. A group of many keys waits for memory: each item misses the cache twice, and a core has
// room for only so many misses. Two ways to share the work fail on the data: a table for each
// thread, merged at the end, takes up to twice the memory, and loses the first line of a key; a
// thread that finds rows and another that adds them are as slow as the slower one, which the number
// of keys decides. Here a key belongs to one share of the table by its hash, and all threads do
// both: in each round they add the rows of the last round, each to the shares that it takes, and
// find the rows and keys of the next one (group_rounds.h). So a key's items keep their order,
// shares need no locks, a table is as large as one thread's, and the results are the same bytes for
// any number of threads. They also sort the groups and make the text of results side by side; the
// thread of the computation appends that text in order.
//
// A share that finds the table full, or an item with an error, leaves the rest of the round to the
// thread of the computation: a table is spilled by one thread, and of several errors in
// items the first item's is reported, as one thread would meet it. (If an input cannot be read on,
// that error comes before those of items that no round has read.) Results in any order come from
// one thread: their order would depend on the shares. (Those of `top` have an order, by count.)
//
// Memory: a quarter for the blocks of a pass, the rest for the table, and of that a few megabytes
// for rounds. The table rests while its partials are written.

namespace penstock::files {
namespace {

using bowtie::OutputStream;
using bowtie::Streams;

// Buckets of a level: more would mean many files, fewer more levels.
constexpr uint32_t buckets_max = 256;
constexpr uint32_t buckets_min = 4;
// Buckets for inputs of unknown size.
constexpr uint32_t buckets_usual = 64;
// Share of the table that a bucket is expected to fill.
constexpr double fill = 0.75;
// Keys that so many hashes do not separate were made to collide.
constexpr uint32_t levels_max = 12;
// A file of lines is assumed to fit in a table that is so many times as large.
constexpr uint64_t lines_expansion = 64;
// Assumed bytes of a line, for estimates of their number.
constexpr uint64_t line_bytes_usual = 32;

// More threads have not been measured.
constexpr unsigned threads_max = 8;
// Rounds may take this part of the memory.
constexpr uint64_t rounds_divisor = 8;

class Group {
 public:
  Group(const GroupFilesOptions& options, GroupLayout layout)
      : options_(options), layout_(std::move(layout)), run_(options.files, "group") {}

  Result<GroupFilesStats> go();

 private:
  using Kind = KeyedBatch::Kind;
  // An input of a level: the user's items, or a bucket of partials.
  struct Source {
    std::vector<bowtie::Input> inputs;
    Kind kind = Kind::item;
    std::optional<uint64_t> items;  // number, if known
    uint64_t bytes = 0;             // or unknown_bytes
  };

  bool may_hold(const Source& source) const;
  uint32_t buckets_for(const Source& source) const;
  Status split(const Source& source, uint32_t level);
  Status read_source(const Source& source, const GroupFill::Spill& spill);
  Status open_temporaries(const Source& source, std::vector<SpillExtent>& buckets);
  // Whether the order of the results leaves the order of groups in the table open.
  bool may_use_threads() const { return options_.threads > 1 && (options_.sorted || options_.top); }
  unsigned threads() const;
  Status open();
  // The output of write_table(): the results, or the temporary that is merged into them.
  bowtie::Output table_output() const {
    return keeps_order_later_ ? merge_.output() : results_->output();
  }
  Status write_table(OutputStream& output);
  Status finish_buckets(std::vector<SpillExtent> buckets, uint32_t level);
  Status finish_those_that_fit(const std::vector<SpillExtent>& buckets,
                               std::vector<SpillExtent>& large);
  Status merge_extents();
  Status group_inputs();
  Status pass(const std::vector<bowtie::Input>& inputs, std::vector<bowtie::Output> outputs,
              const bowtie::Computation& computation) {
    return passes_.pass(inputs, std::move(outputs), computation, {.memory_bytes = pass_bytes_});
  }

  const GroupFilesOptions& options_;
  GroupLayout layout_;
  FileRun run_;
  GroupPasses passes_{run_, layout_, may_use_threads()};
  GroupMerge merge_{passes_, layout_};  // for sorted results that do not fit in one table
  GroupFill fill_{layout_, passes_, merge_};
  std::optional<GroupResults> results_;
  uint64_t pass_bytes_ = 0;
  uint32_t buckets_ = 0;
  uint32_t deepest_ = 0;
  bool keeps_order_later_ = false;  // `in_order`, and the table was spilled
};

// True if the table holds the source whatever its keys are. A source with an unknown number of
// items has to be far smaller than the table.
bool Group::may_hold(const Source& source) const {
  if (source.items) return fill_.table().holds(*source.items, source.bytes);
  return source.bytes < fill_.table().memory_bytes() / lines_expansion;
}

uint32_t Group::buckets_for(const Source& source) const {
  const uint32_t most = std::min(buckets_max, passes_.streams_max(pass_bytes_) * 3 / 4);
  if (source.bytes == bowtie::unknown_bytes) return std::min(most, buckets_usual);
  uint64_t needed = 0;
  if (source.items) {
    needed = fill_.table().bytes_for(*source.items, source.bytes);
  } else {
    const uint64_t items = source.bytes / line_bytes_usual;
    needed = fill_.table().bytes_for(items, source.bytes + items * layout_.fixed_bytes());
  }
  const auto share =
      static_cast<uint64_t>(fill * static_cast<double>(fill_.table().memory_bytes()));
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(ceil_div(needed, share), std::min(buckets_min, most), most));
}

// Groups a source, by way of buckets if necessary.
Status Group::split(const Source& source, uint32_t level) {
  if (level == levels_max) {
    if (fill_.has_long_items()) return passes_.no_room();
    return failure(ErrorCode::unsupported, "distinguish the keys of a bucket", "group",
                   "a larger -S");
  }
  deepest_ = std::max(deepest_, level + 1);
  std::vector<SpillExtent> buckets;
  bool may_spill = !may_hold(source);
  if (!may_spill) {
    if (auto status = read_source(source, {}); !status) return status;
    may_spill = fill_.overflowed();
  }
  if (may_spill) {
    if (auto status = open_temporaries(source, buckets); !status) return status;
    if (level == 0) {
      buckets_ = static_cast<uint32_t>(buckets.size());
      fill_.reset_counts();
    }
    auto status = read_source(source, {.may_spill = true, .level = level, .buckets = &buckets});
    if (!status) return status;
  }
  if (fill_.spilled() && options_.in_order && level == 0) {
    keeps_order_later_ = true;
    if (auto status = merge_.open(); !status) return status;
  }
  if (fill_.spilled())
    return options_.sorted ? Status{} : finish_buckets(std::move(buckets), level);
  buckets.clear();
  if (fill_.table().size() == 0) return {};
  if (options_.sorted) {
    if (auto status = fill_.table().sort(); !status) return status;
  }
  return pass({}, {table_output()},
              [&](Streams& streams) { return write_table(streams.output(0)); });
}

Status Group::open_temporaries(const Source& source, std::vector<SpillExtent>& buckets) {
  if (options_.sorted) return merge_.open();
  buckets.resize(buckets_for(source));
  for (SpillExtent& bucket : buckets) {
    auto file = passes_.temporary();
    if (!file) return std::unexpected(file.error());
    bucket.file = std::move(*file);
  }
  return {};
}

// Adds all items of a source to the empty table, and spills it to temporaries when it is full.
Status Group::read_source(const Source& source, const GroupFill::Spill& spill) {
  static const std::vector<SpillExtent> none;
  const std::vector<SpillExtent>& buckets = spill.may_spill ? *spill.buckets : none;
  fill_.begin(spill);
  // (An input that did not fit is read once more.)
  if (OddItems* const odd = options_.files.odd_items.get();
      odd != nullptr && source.kind == Kind::item) {
    for (const bowtie::Input& input : source.inputs) odd->forget(input.name);
  }
  // A pass reads as many inputs as have room beside the buckets; the next pass continues the
  // buckets.
  const auto taken = static_cast<uint32_t>(buckets.size()) + 2;
  const uint32_t most = passes_.streams_max(pass_bytes_);
  const size_t batch = std::max<uint32_t>(1, most - std::min(most, taken));
  for (size_t at = 0; at < source.inputs.size(); at += batch) {
    const size_t end = std::min(source.inputs.size(), at + batch);
    std::vector<bowtie::Output> outputs;
    for (const SpillExtent& bucket : buckets) {
      outputs.push_back({.file = bucket.file.get(),
                         .offset = bucket.bytes,
                         .bytes_max = bowtie::outputs_address_bytes() / buckets.size()});
    }
    if (options_.sorted && spill.may_spill) outputs.push_back(merge_.output());
    auto status = pass(
        {source.inputs.begin() + static_cast<ptrdiff_t>(at),
         source.inputs.begin() + static_cast<ptrdiff_t>(end)},
        std::move(outputs), [&](Streams& streams) -> Status {
          for (uint32_t i = 0; i < streams.inputs() && !fill_.overflowed(); ++i) {
            auto added = fill_.add(streams, i, source.kind, source.inputs[at + i].name);
            if (!added) return added;
          }
          return end == source.inputs.size() && fill_.spilled() ? fill_.spill(streams) : Status{};
        });
    if (!status || fill_.overflowed()) return status;
  }
  return {};
}

Status Group::finish_buckets(std::vector<SpillExtent> buckets, uint32_t level) {
  std::erase_if(buckets, [](const SpillExtent& bucket) { return bucket.partials == 0; });
  for (const SpillExtent& bucket : buckets) run_.count_temporary_bytes(bucket.bytes);
  auto large = std::partition(buckets.begin(), buckets.end(), [&](const SpillExtent& bucket) {
    return fill_.table().holds(bucket.partials, bucket.bytes);
  });
  std::vector<SpillExtent> those_that_fit(buckets.begin(), large);
  deepest_ = std::max(deepest_, level + 2);
  buckets.erase(buckets.begin(), large);
  auto status = finish_those_that_fit(those_that_fit, buckets);
  if (!status) return status;
  those_that_fit.clear();
  while (!buckets.empty()) {
    const SpillExtent bucket = std::move(buckets.back());
    buckets.pop_back();
    status = split({.inputs = {bucket.input()},
                    .kind = Kind::partial,
                    .items = bucket.partials,
                    .bytes = bucket.bytes},
                   level + 1);
    if (!status) return status;
  }
  return {};
}

// Groups buckets one after the other, as many in a pass as have room. A bucket whose partials
// become too wide for the table joins the large ones.
Status Group::finish_those_that_fit(const std::vector<SpillExtent>& buckets,
                                    std::vector<SpillExtent>& large) {
  const size_t batch = passes_.streams_max(pass_bytes_) - 1;
  for (size_t at = 0; at < buckets.size(); at += batch) {
    std::vector<bowtie::Input> inputs;
    for (size_t i = at; i < std::min(buckets.size(), at + batch); ++i)
      inputs.push_back(buckets[i].input());
    auto status = pass(inputs, {table_output()}, [&](Streams& streams) -> Status {
      for (uint32_t i = 0; i < streams.inputs(); ++i) {
        fill_.begin({});
        if (auto added = fill_.add(streams, i, Kind::partial); !added) return added;
        if (fill_.overflowed()) {
          large.push_back(buckets[at + i]);
        } else if (auto written = write_table(streams.output(0)); !written) {
          return written;
        }
      }
      return {};
    });
    if (!status) return status;
  }
  return {};
}

// Writes the results of the table, whose groups are complete. (Sorted ones are written after all
// inputs: rounds are no longer needed.)
Status Group::write_table(OutputStream& output) {
  if (keeps_order_later_) return merge_.add_by_position(fill_.table(), output);
  if (!options_.sorted) return results_->write_table(output, fill_.table(), nullptr);
  fill_.close_rounds();
  // (Threads would hold many long results at once.)
  return results_->write_table(output, fill_.table(),
                               fill_.has_long_items() ? nullptr : fill_.crew());
}

Status Group::merge_extents() {
  if (merge_.extents() == 0) return {};
  if (options_.sorted) buckets_ = static_cast<uint32_t>(merge_.extents());
  fill_.close();
  const auto levels = merge_.merge(
      results_->output(),
      [this](auto& output, auto partial) {
        return results_->write(output, keeps_order_later_ ? partial_behind(partial) : partial);
      },
      [this](auto& output) { return results_->end_groups(output); });
  if (!levels) return std::unexpected(levels.error());
  deepest_ += *levels;
  return {};
}

// The number of threads: more than one if the order of results does not depend on it, and if input
// and budget are large enough to pay for their start and memory.
unsigned Group::threads() const {
  if (!may_use_threads()) return 1;
  const uint64_t rows = options_.round_items;
  const bool is_large =
      run_.input_bytes() == bowtie::unknown_bytes || run_.input_bytes() / 1024 >= rows;
  const bool has_memory = run_.usable_bytes() / (16 << 10) >= rows;
  if (!is_large || !has_memory) return 1;
  unsigned threads = std::min(options_.threads, threads_max);
  while (threads > 1 && RoundReader::memory_bytes(layout_, 2 * threads, threads, rows) >
                            run_.usable_bytes() / rounds_divisor)
    --threads;
  return threads;
}

Status Group::open() {
  if (auto status = run_.start(); !status) return status;
  auto output = run_.open_output();
  if (!output) return std::unexpected(output.error());
  if (GroupLines* const lines = layout_.lines(); lines != nullptr) {
    layout_.set_row_fields(run_.format().row_fields);
    if (auto status = lines->begin(run_.format(), run_.header()); !status) return status;
  }
  pass_bytes_ = run_.usable_bytes() / 4;
  const uint64_t top_bytes = options_.top ? run_.usable_bytes() / 8 : 0;
  results_.emplace(
      layout_, std::move(*output),
      GroupResults::Options{
          .top = options_.top, .top_bytes = top_bytes, .bytes_at_once = 16 * options_.round_items});
  uint64_t table_bytes = run_.usable_bytes() - pass_bytes_ - top_bytes;
  // Slots of a table for more groups than there can be would only cost time.
  if (layout_.lines() != nullptr && run_.input_bytes() < table_bytes / (2 * lines_expansion))
    table_bytes = std::min(table_bytes, 2 * lines_expansion * (run_.input_bytes() + 1) + 4 * MiB);
  return fill_.open({.memory_bytes = table_bytes,
                     .sorted = options_.sorted,
                     .threads = threads(),
                     .round_items = options_.round_items,
                     .odd_items = options_.files.odd_items.get()});
}

Status Group::group_inputs() {
  Source source{.inputs = run_.inputs(), .bytes = run_.input_bytes()};
  if (layout_.item_format().fixed() && source.bytes != bowtie::unknown_bytes)
    source.items = source.bytes / layout_.item_format().record_bytes;
  if (!source.inputs.empty()) {
    if (auto status = split(source, 0); !status) return status;
    if (auto status = merge_extents(); !status) return status;
  }
  if (!results_->is_finished()) {
    auto status = pass({}, {results_->output()},
                       [&](Streams& streams) { return results_->finish(streams.output(0)); });
    if (!status) return status;
  }
  if (auto status = run_.interrupted(); !status) return status;
  return results_->publish();
}

Result<GroupFilesStats> Group::go() {
  if (auto status = open(); !status) return std::unexpected(status.error());
  if (auto status = group_inputs(); !status) return std::unexpected(status.error());
  GroupFilesStats stats;
  static_cast<RunStats&>(stats) = run_.stats();
  stats.passes = deepest_;
  stats.items = fill_.items();
  stats.empty_values = fill_.empty_values();
  stats.groups = results_->groups();
  stats.bytes = results_->bytes();
  stats.buckets = run_.stats().temp_bytes > 0 ? buckets_ : 0;
  return stats;
}

// The error of a field that is not a number, with its place if the file can be read again.
std::unexpected<Error> refuse(const BadValue& bad, const GroupFilesOptions& options) {
  const items::Format& format = options.files.format;
  const items::FieldStyle style = items::style_of(format, options.lines.separator);
  std::string room;
  std::vector<std::string_view> fields;
  std::vector<items::JsonValue> values;
  const auto found =
      find_row(options.files, named_files(options.files), [&](std::string_view line) {
        if (format.framing().has_members) {
          const auto path = items::json_path_of(bad.name, "--value");
          return path && !items::find_members(line, {&*path, 1}, values) &&
                 values.front().decimal(room) == bad.text;
        }
        if (style.csv) return items::field_of_row(line, *style.csv, bad.column, room) == bad.text;
        split_fields(line, style, fields);
        return bad.column < fields.size() && fields[bad.column] == bad.text;
      });
  const std::string shown = "'" + printable(bad.text, 64) + "'";
  const char* const hint = options.lines.number_format.empty()
                               ? "a column of decimal numbers, as in -1.25; or --number-format "
                                 "for others, as in '1,234.50'"
                               : "a column of numbers in the --number-format";
  if (!found)
    return failure(ErrorCode::corrupt, fmt::format("read {} as a number of up to 38 digits", shown),
                   "column " + bad.name, hint);
  return fault_at(ErrorCode::corrupt,
                  fmt::format("{}, {} {}", found->place.text(format),
                              format.framing().has_members ? "member" : "column", bad.name),
                  shown + " is no number of up to 38 digits", found->path, hint);
}

}  // namespace

Result<GroupFilesStats> group_files(const GroupFilesOptions& options) {
  if (options.top && !options.aggregates.count)
    return misuse("find the highest counts without counts", "--top",
                  "--count; for the highest of other results, penstock group without --top, and "
                  "behind it penstock sort --key RESULT:n:desc --top N");
  auto layout = GroupLayout::make(options.files.format, options.aggregates, options.lines);
  if (!layout) return std::unexpected(layout.error());
  auto done = Group(options, *layout).go();
  const bool is_bad_value = layout->lines() != nullptr && layout->lines()->bad_value();
  return !done && is_bad_value ? refuse(*layout->lines()->bad_value(), options) : done;
}

}  // namespace penstock::files
