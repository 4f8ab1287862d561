#include "files/ops/group/group_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/bits.h"
#include "base/misuse.h"
#include "base/printable.h"
#include "files/bowtie/addresses.h"
#include "files/bowtie/computations.h"
#include "files/ops/group/group_merge.h"
#include "files/ops/group/top_results.h"
#include "files/run/walk.h"
#include "items/rows.h"

// How groups are found that do not fit in memory.
//
// To sort and then add up neighbours is correct, but it moves every item twice though a thousand of
// them may become one group. Files by hash, and then one table for each of them, move items twice as
// well, and have no answer to a key that has more items than memory.
//
// Here a table (group_table.h) stands in front of the buckets:
//
//   inputs, one after the other --> table --(when it is full, all of it)--> buckets by hash
//   each bucket --> table --> results; a bucket whose keys do not fit --> buckets by another hash
//
// Partials come to a bucket, not items: a key that is frequent is combined in the table, so it
// writes one partial each time that the table fills up, however many items it has. A table holds
// one partial for a key, so a bucket of one key never overflows, and a bucket that overflows has
// more keys than fit, which another hash spreads evenly. Hence each level leaves at most a bucket's
// share of the keys, and a few levels do.
//
// Where nothing combines (all keys differ) the table is work for nothing. After it was given out
// with hardly anything combined, the next items go to their buckets as they are, for some tables'
// worth; then it is tried again. Partials of a key reach its bucket in the order of their items
// either way, so that `distinct` keeps the very first.
//
// How many partials are in a bucket is counted as they are written. Buckets that fit whatever their
// keys are need no buckets of their own: all of them are read in one pass, one after the other, and
// their results are written as each is done (so the next one is read ahead meanwhile).
//
// How many lines are in a file is not known before. A small file is taken to fit, and gets no
// buckets, so that its lines may be long; if it does not fit after all, it is read once more.
//
// Sorted results need no buckets (group_merge.h). (Results in any order go to buckets
// all the same: these need no sort, and no merge.)
//
// Memory: a quarter for the blocks of a pass, the rest for the table. The table rests while its
// partials are written.

namespace penstock::files {
namespace {

using bowtie::OutputStream;
using bowtie::Streams;

// Buckets of a level: more would be many files, fewer more levels.
constexpr uint32_t buckets_max = 256;
constexpr uint32_t buckets_min = 4;
// Of inputs whose size nobody knows.
constexpr uint32_t buckets_usual = 64;
// Buckets are cut for this share of the table.
constexpr double fill = 0.75;
// Keys that so many hashes cannot tell apart have been made for that.
constexpr uint32_t levels_max = 12;
// Of a table, how much must combine for it to be worth while, and how many tables' worth of items
// go past it where it was not.
constexpr double combined_share_min = 0.1;
constexpr uint64_t tables_bypassed = 4;
// A table is taken to hold a file of lines if that is so much smaller.
constexpr uint64_t lines_expansion = 64;
// The bytes of a line, where it is reckoned how many there are.
constexpr uint64_t line_bytes_usual = 32;

// A result that may be among the first.
struct Counted {
  uint64_t count;
  std::string partial;
  uint64_t bytes() const { return partial.capacity(); }
};

class Group {
 public:
  Group(const GroupFilesOptions& options, GroupLayout layout)
      : options_(options), layout_(std::move(layout)), run_(options.files, "group") {}

  Result<GroupFilesStats> go();

 private:
  using Kind = GroupTable::Kind;
  // What comes in: items of the user's, or partials of ours.
  struct Source {
    std::vector<bowtie::Input> inputs;
    Kind kind = Kind::item;
    std::optional<uint64_t> items;  // if known
    uint64_t bytes = 0;             // or unknown_bytes
  };

  const items::Format& format_of(Kind kind) const {
    return kind == Kind::item ? layout_.item_format() : layout_.partial_format();
  }
  bool may_hold(const Source& source) const;
  uint32_t buckets_for(const Source& source) const;
  Status split(const Source& source, uint32_t level);
  Status take(const Source& source, uint32_t level, std::vector<Stretch>& buckets);
  Status open_temporaries(const Source& source, std::vector<Stretch>& buckets);
  Status write_table(OutputStream& output);
  Status fill_table(Streams& streams, uint32_t input, Kind kind, uint32_t level,
                    std::vector<Stretch>& buckets);
  Status add(Streams& streams, size_t i, uint32_t level, std::vector<Stretch>& buckets);
  Status make_room(Streams& streams, uint32_t level, std::vector<Stretch>& buckets,
                   size_t item_bytes);
  Status give_out(Streams& streams, uint32_t level, std::vector<Stretch>& buckets);
  Status to_bucket(Streams& streams, std::string_view partial, uint32_t level,
                   std::vector<Stretch>& buckets);
  Status finish_buckets(std::vector<Stretch> buckets, uint32_t level);
  Status finish_those_that_fit(const std::vector<Stretch>& buckets, std::vector<Stretch>& large);
  Status write_result(OutputStream& output, std::string_view partial);
  bool comes_first(const Counted& a, const Counted& b) const;
  Status append_result_to(OutputStream& output, std::string_view partial);
  Status append_head_to(OutputStream& output);
  Status merge_stretches();
  Status pass(const std::vector<bowtie::Input>& inputs, std::vector<bowtie::Output> outputs,
              const bowtie::Computation& computation) {
    return passes_.pass(inputs, std::move(outputs), computation, {.memory_bytes = pass_bytes_});
  }
  bowtie::Output result_output() const;

  const GroupFilesOptions& options_;
  const GroupLayout layout_;
  FileRun run_;
  GroupPasses passes_{run_, layout_};
  GroupMerge merge_{passes_, layout_};  // of sorted results that do not fit in one table
  uint64_t pass_bytes_ = 0;
  std::optional<GroupTable> table_;
  std::optional<TopResults<Counted>> top_;
  io::File output_;
  // Between passes: where the output goes on.
  uint64_t output_bytes_ = 0;
  bool has_head_ = false;  // it was written
  uint64_t items_ = 0;
  uint64_t groups_ = 0;
  uint32_t buckets_ = 0;
  uint32_t deepest_ = 0;
  // Whether a full table of the present bucket has gone to temporaries, and may go there.
  bool spilled_ = false;
  bool may_spill_ = false;
  bool overflowed_ = false;  // a table that may not spill was full
  uint64_t added_ = 0;       // to the table since it was empty
  uint64_t bypassing_ = 0;   // so many more
  std::string scratch_;
};

bowtie::Output Group::result_output() const {
  return {.file = &output_,
          .offset = output_.seekable() ? output_bytes_ : 0,
          .bytes_max = bowtie::outputs_address_bytes()};
}

// True if the table holds the source whatever its keys are. A source of unknown length has to be far smaller than the table.
bool Group::may_hold(const Source& source) const {
  if (source.items) return table_->holds(*source.items, source.bytes);
  return source.bytes < table_->memory_bytes() / lines_expansion;
}

uint32_t Group::buckets_for(const Source& source) const {
  const uint32_t most = std::min(buckets_max, passes_.streams_max(pass_bytes_) * 3 / 4);
  if (source.bytes == bowtie::unknown_bytes) return std::min(most, buckets_usual);
  uint64_t needed = 0;
  if (source.items) {
    needed = table_->bytes_for(*source.items, source.bytes);
  } else {
    const uint64_t items = source.bytes / line_bytes_usual;
    needed = table_->bytes_for(items, source.bytes + items * layout_.fixed_bytes());
  }
  const auto share = static_cast<uint64_t>(fill * static_cast<double>(table_->memory_bytes()));
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(ceil_div(needed, share), std::min(buckets_min, most), most));
}

Status Group::to_bucket(Streams& streams, std::string_view partial, uint32_t level,
                        std::vector<Stretch>& buckets) {
  const auto bucket =
      bucket_of(layout_.key_of_partial(partial), level, static_cast<uint32_t>(buckets.size()));
  passes_.note(partial);
  buckets[bucket].bytes += partial.size();
  ++buckets[bucket].partials;
  if (!streams.output(bucket).append(partial.data(), partial.size())) return streams.status();
  return {};
}

// All that the table holds, to the buckets, or as a sorted stretch.
Status Group::give_out(Streams& streams, uint32_t level, std::vector<Stretch>& buckets) {
  spilled_ = true;
  if (options_.sorted) {
    auto status = merge_.add(*table_, streams);
    table_->clear();
    added_ = 0;
    return status;
  }
  const auto combined = static_cast<double>(added_ - table_->size());
  if (combined < combined_share_min * static_cast<double>(added_))
    bypassing_ = tables_bypassed * added_;
  auto status = table_->for_each(
      [&](std::string_view partial) { return to_bucket(streams, partial, level, buckets); });
  table_->clear();
  added_ = 0;
  return status;
}

// The table is full, and an item of so many bytes does not fit.
Status Group::make_room(Streams& streams, uint32_t level, std::vector<Stretch>& buckets,
                        size_t item_bytes) {
  overflowed_ = !may_spill_;
  if (overflowed_) return {};
  if (table_->size() == 0)
    return failure(ErrorCode::out_of_memory, fmt::format("hold an item of {} bytes", item_bytes),
                   "group", "a larger -S");
  return give_out(streams, level, buckets);
}

// Number `i` of those that were looked up, into the table or past it.
Status Group::add(Streams& streams, size_t i, uint32_t level, std::vector<Stretch>& buckets) {
  while (bypassing_ == 0) {
    const auto added = table_->add(i);
    if (!added) return std::unexpected(added.error());
    if (*added != GroupTable::Added::full) {
      ++added_;
      return {};
    }
    auto status = make_room(streams, level, buckets, table_->item_bytes(i));
    if (!status || overflowed_) return status;
  }
  --bypassing_;
  const auto partial = table_->partial_of(i);
  if (!partial) return std::unexpected(partial.error());
  return to_bucket(streams, *partial, level, buckets);
}

// An input, into the table, or through it into the buckets.
Status Group::fill_table(Streams& streams, uint32_t input, Kind kind, uint32_t level,
                         std::vector<Stretch>& buckets) {
  bowtie::BatchReader reader(streams.input(input), format_of(kind), streams.window_bytes_max(),
                             layout_.columns());
  while (reader.next()) {
    const bowtie::Items& items = reader.items();
    if (kind == Kind::item) items_ += items.size();
    for (size_t first = 0; first < items.size();) {
      const size_t count = table_->look_up(items, first, kind);
      for (size_t i = 0; i < count; ++i) {
        auto status = add(streams, i, level, buckets);
        if (!status || overflowed_) return status;
      }
      first += count;
    }
  }
  return reader.status();
}

// The groups of a source: to the results, by way of buckets if need be.
Status Group::split(const Source& source, uint32_t level) {
  if (level == levels_max) {
    return failure(ErrorCode::unsupported, "tell the keys of a bucket apart", "group",
                   "a larger -S");
  }
  deepest_ = std::max(deepest_, level + 1);
  std::vector<Stretch> buckets;
  may_spill_ = !may_hold(source);
  if (!may_spill_) {
    if (auto status = take(source, level, buckets); !status) return status;
    may_spill_ = overflowed_;
  }
  if (may_spill_) {
    if (auto status = open_temporaries(source, buckets); !status) return status;
    if (level == 0) {
      buckets_ = static_cast<uint32_t>(buckets.size());
      items_ = 0;
    }
    if (auto status = take(source, level, buckets); !status) return status;
  }
  if (spilled_) return options_.sorted ? Status{} : finish_buckets(std::move(buckets), level);
  buckets.clear();
  if (table_->size() == 0) return {};
  if (options_.sorted) {
    if (auto status = table_->sort(); !status) return status;
  }
  return pass({}, {result_output()},
              [&](Streams& streams) { return write_table(streams.output(0)); });
}

Status Group::open_temporaries(const Source& source, std::vector<Stretch>& buckets) {
  if (options_.sorted) return merge_.open();
  buckets.resize(buckets_for(source));
  for (Stretch& bucket : buckets) {
    auto file = passes_.temporary();
    if (!file) return std::unexpected(file.error());
    bucket.file = std::move(*file);
  }
  return {};
}

// All items of a source, into the empty table, and what that does not hold to temporaries.
Status Group::take(const Source& source, uint32_t level, std::vector<Stretch>& buckets) {
  table_->clear();
  spilled_ = overflowed_ = false;
  added_ = bypassing_ = 0;
  // As many inputs at a time as have room beside the buckets; a bucket goes on where it was.
  const auto taken = static_cast<uint32_t>(buckets.size()) + 2;
  const uint32_t most = passes_.streams_max(pass_bytes_);
  const size_t batch = std::max<uint32_t>(1, most - std::min(most, taken));
  for (size_t at = 0; at < source.inputs.size(); at += batch) {
    const size_t end = std::min(source.inputs.size(), at + batch);
    std::vector<bowtie::Output> outputs;
    for (const Stretch& bucket : buckets) {
      outputs.push_back({.file = bucket.file.get(),
                         .offset = bucket.bytes,
                         .bytes_max = bowtie::outputs_address_bytes() / buckets.size()});
    }
    if (options_.sorted && may_spill_) outputs.push_back(merge_.output());
    auto status = pass({source.inputs.begin() + static_cast<ptrdiff_t>(at),
                        source.inputs.begin() + static_cast<ptrdiff_t>(end)},
                       std::move(outputs), [&](Streams& streams) -> Status {
                         for (uint32_t i = 0; i < streams.inputs() && !overflowed_; ++i) {
                           auto filled = fill_table(streams, i, source.kind, level, buckets);
                           if (!filled) return filled;
                         }
                         return end == source.inputs.size() && spilled_
                                    ? give_out(streams, level, buckets)
                                    : Status{};
                       });
    if (!status || overflowed_) return status;
  }
  return {};
}

Status Group::finish_buckets(std::vector<Stretch> buckets, uint32_t level) {
  std::erase_if(buckets, [](const Stretch& bucket) { return bucket.partials == 0; });
  for (const Stretch& bucket : buckets) run_.count_temporary_bytes(bucket.bytes);
  auto large = std::partition(buckets.begin(), buckets.end(), [&](const Stretch& bucket) {
    return table_->holds(bucket.partials, bucket.bytes);
  });
  std::vector<Stretch> those_that_fit(buckets.begin(), large);
  deepest_ = std::max(deepest_, level + 2);
  buckets.erase(buckets.begin(), large);
  auto status = finish_those_that_fit(those_that_fit, buckets);
  if (!status) return status;
  those_that_fit.clear();
  while (!buckets.empty()) {
    const Stretch bucket = std::move(buckets.back());
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

// One after the other, as many in a pass as have room. A bucket whose partials grow too wide for the table is a large one.
Status Group::finish_those_that_fit(const std::vector<Stretch>& buckets,
                                    std::vector<Stretch>& large) {
  const size_t batch = passes_.streams_max(pass_bytes_) - 1;
  bypassing_ = 0;
  may_spill_ = false;
  for (size_t at = 0; at < buckets.size(); at += batch) {
    std::vector<bowtie::Input> inputs;
    for (size_t i = at; i < std::min(buckets.size(), at + batch); ++i)
      inputs.push_back(buckets[i].input());
    auto status = pass(inputs, {result_output()}, [&](Streams& streams) -> Status {
      std::vector<Stretch> none;
      for (uint32_t i = 0; i < streams.inputs(); ++i) {
        table_->clear();
        auto filled = fill_table(streams, i, Kind::partial, 0, none);
        if (!filled) return filled;
        if (std::exchange(overflowed_, false)) {
          large.push_back(buckets[at + i]);
          continue;
        }
        if (auto written = write_table(streams.output(0)); !written) return written;
      }
      return {};
    });
    if (!status) return status;
  }
  return {};
}

// The table's groups are complete.
Status Group::write_table(OutputStream& output) {
  return table_->for_each([&](std::string_view partial) { return write_result(output, partial); });
}

Status Group::write_result(OutputStream& output, std::string_view partial) {
  if (!top_) return append_result_to(output, partial);
  return top_->offer({layout_.count_of_partial(partial), std::string(partial)});
}

// By count, descending, then by key.
bool Group::comes_first(const Counted& a, const Counted& b) const {
  if (a.count != b.count) return a.count > b.count;
  const std::string_view left = layout_.key_of_partial(a.partial);
  const std::string_view right = layout_.key_of_partial(b.partial);
  const uint64_t prefix = layout_.prefix_of_key(left);
  const uint64_t other = layout_.prefix_of_key(right);
  if (prefix != other || layout_.item_format().numeric()) return prefix < other;
  return left < right;
}

Status Group::append_result_to(OutputStream& output, std::string_view partial) {
  if (!has_head_) {
    if (auto status = append_head_to(output); !status) return status;
  }
  scratch_.clear();
  if (auto status = layout_.append_result(partial, scratch_); !status) return status;
  if (!output.append(scratch_.data(), scratch_.size())) return output.status();
  output_bytes_ += scratch_.size();
  ++groups_;
  return {};
}

// In front of the first result, and not before it: an input that breaks the rules leaves nothing in a pipe.
Status Group::append_head_to(OutputStream& output) {
  has_head_ = true;
  if (layout_.lines() == nullptr) return {};
  const std::string& head = layout_.lines()->head();
  output_bytes_ += head.size();
  return output.append(head.data(), head.size()) ? Status{} : output.status();
}

Status Group::merge_stretches() {
  if (merge_.stretches() == 0) return {};
  buckets_ = static_cast<uint32_t>(merge_.stretches());
  table_.reset();
  const auto levels = merge_.merge(result_output(), [this](auto& output, auto partial) {
    return write_result(output, partial);
  });
  if (!levels) return std::unexpected(levels.error());
  deepest_ += *levels;
  return {};
}

Result<GroupFilesStats> Group::go() {
  if (auto status = run_.start(); !status) return std::unexpected(status.error());
  auto output = run_.open_output();
  if (!output) return std::unexpected(output.error());
  output_ = std::move(*output);
  if (GroupLines* const lines = layout_.lines(); lines != nullptr) {
    if (auto status = lines->begin(run_.format(), run_.header()); !status)
      return std::unexpected(status.error());
  }
  pass_bytes_ = run_.usable_bytes() / 4;
  const uint64_t top_bytes = options_.top ? run_.usable_bytes() / 8 : 0;
  if (options_.top) {
    top_.emplace(*options_.top, top_bytes,
                 [this](const Counted& a, const Counted& b) { return comes_first(a, b); });
  }
  auto table =
      GroupTable::open(layout_, run_.usable_bytes() - pass_bytes_ - top_bytes, options_.sorted);
  if (!table) return std::unexpected(table.error());
  table_.emplace(std::move(*table));

  Source source{.inputs = run_.inputs(), .bytes = run_.input_bytes()};
  if (layout_.item_format().fixed() && source.bytes != bowtie::unknown_bytes)
    source.items = source.bytes / layout_.item_format().record_bytes;
  if (!source.inputs.empty()) {
    if (auto status = split(source, 0); !status) return std::unexpected(status.error());
    if (auto status = merge_stretches(); !status) return std::unexpected(status.error());
    if (top_) {
      auto status = pass({}, {result_output()}, [&](Streams& streams) {
        return top_->for_each(
            [&](const Counted& one) { return append_result_to(streams.output(0), one.partial); });
      });
      if (!status) return std::unexpected(status.error());
    }
  }
  if (!has_head_) {
    auto status = pass({}, {result_output()},
                       [&](Streams& streams) { return append_head_to(streams.output(0)); });
    if (!status) return std::unexpected(status.error());
  }
  if (auto status = run_.interrupted(); !status) return std::unexpected(status.error());
  if (auto status = output_.publish(); !status) return std::unexpected(status.error());
  GroupFilesStats stats;
  static_cast<RunStats&>(stats) = run_.stats();
  stats.passes = deepest_;
  stats.items = items_;
  stats.groups = groups_;
  stats.bytes = output_bytes_;
  stats.buckets = run_.stats().temp_bytes > 0 ? buckets_ : 0;
  return stats;
}

// The error of a text that is no number, with its place where that file can be read again.
std::unexpected<Error> refuse(const BadValue& bad, const GroupFilesOptions& options) {
  const items::Format& format = options.files.format;
  const items::FieldStyle style = items::style_of(format, options.lines.separator);
  std::string room;
  std::vector<std::string_view> fields;
  const auto found =
      find_row(options.files, named_files(options.files), [&](std::string_view line) {
        if (style.csv)
          return items::field_of_row(line, *style.separator, bad.column, room) == bad.text;
        split_fields(line, style, fields);
        return bad.column < fields.size() && fields[bad.column] == bad.text;
      });
  const std::string option = "--value " + bad.name;
  return failure(ErrorCode::corrupt,
                 fmt::format("read '{}' as a number of up to 38 digits{}", printable(bad.text, 64),
                             found ? ": " + found->place.text(format) + ", " + option : ""),
                 found ? found->path : option, "a column of decimal numbers, as in -1.25");
}

}  // namespace

Result<GroupFilesStats> group_files(const GroupFilesOptions& options) {
  if (options.top && !options.aggregates.count)
    return misuse("find the highest counts", "--top", "--count");
  auto layout = GroupLayout::make(options.files.format, options.aggregates, options.lines);
  if (!layout) return std::unexpected(layout.error());
  auto done = Group(options, *layout).go();
  const bool is_bad_value = layout->lines() != nullptr && layout->lines()->bad_value();
  return !done && is_bad_value ? refuse(*layout->lines()->bad_value(), options) : done;
}

}  // namespace penstock::files
