#include "files/ops/group/group_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/misuse.h"
#include "base/out_of_memory.h"
#include "base/printable.h"
#include "base/run_scope.h"
#include "files/bowtie/addresses.h"
#include "files/bowtie/computations.h"
#include "files/ops/group/group_merge.h"
#include "files/ops/group/group_rounds.h"
#include "files/ops/group/top_results.h"
#include "files/run/walk.h"
#include "items/rows.h"

// How items are grouped that do not fit in memory.
//
// Sorting and then adding up neighbours is correct, but it moves every item twice though a thousand
// of them may become one group. Files by hash, and then one table for each of them, move items
// twice as well, and fail for a key that has more items than memory.
//
// Here a table (group_table.h) stands in front of the buckets:
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
// The share of a table's items that must combine for it to pay, and the number of tables' worth of
// items that bypass it if fewer did.
constexpr double combined_share_min = 0.1;
constexpr uint64_t tables_bypassed = 4;
// A file of lines is assumed to fit in a table that is so many times as large.
constexpr uint64_t lines_expansion = 64;
// Assumed bytes of a line, for estimates of their number.
constexpr uint64_t line_bytes_usual = 32;

// More threads have not been measured.
constexpr unsigned threads_max = 8;
// Rounds may take this part of the memory.
constexpr uint64_t rounds_divisor = 8;

// A candidate for the first results.
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
  using Kind = KeyedBatch::Kind;
  // An input of a level: the user's items, or a bucket of partials.
  struct Source {
    std::vector<bowtie::Input> inputs;
    Kind kind = Kind::item;
    std::optional<uint64_t> items;  // number, if known
    uint64_t bytes = 0;             // or unknown_bytes
  };

  const items::Format& format_of(Kind kind) const {
    return kind == Kind::item ? layout_.item_format() : layout_.partial_format();
  }
  bool may_hold(const Source& source) const;
  uint32_t buckets_for(const Source& source) const;
  Status split(const Source& source, uint32_t level);
  Status read_source(const Source& source, uint32_t level, std::vector<SpillExtent>& buckets);
  Status open_temporaries(const Source& source, std::vector<SpillExtent>& buckets);
  Status write_table(OutputStream& output);
  Status fill_table(Streams& streams, uint32_t input, Kind kind, uint32_t level,
                    std::vector<SpillExtent>& buckets);
  Status fill_in_rounds(Streams& streams, uint32_t input, uint32_t level,
                        std::vector<SpillExtent>& buckets);
  void begin_round();
  void count_added();
  void add_share(Round round, size_t share);
  Status settle(Round round, Streams& streams, uint32_t level, std::vector<SpillExtent>& buckets);
  Status settle_share(Round round, size_t share, Streams& streams, uint32_t level,
                      std::vector<SpillExtent>& buckets);
  Status add_batch(const bowtie::Items& items, Kind kind, Streams& streams, uint32_t level,
                   std::vector<SpillExtent>& buckets);
  void note_items(size_t count, const bowtie::Items& items);
  // Whether the order of the results leaves the order of groups in the table open.
  bool may_use_threads() const { return options_.threads > 1 && (options_.sorted || options_.top); }
  unsigned threads() const;
  void close_rounds();
  Status open_table(uint64_t memory_bytes);
  Status write_sorted(OutputStream& output);
  Status make_room(Streams& streams, uint32_t level, std::vector<SpillExtent>& buckets,
                   size_t item_bytes);
  Status spill_table(Streams& streams, uint32_t level, std::vector<SpillExtent>& buckets);
  Status to_bucket(Streams& streams, std::string_view partial, uint32_t level,
                   std::vector<SpillExtent>& buckets);
  Status finish_buckets(std::vector<SpillExtent> buckets, uint32_t level);
  Status finish_those_that_fit(const std::vector<SpillExtent>& buckets,
                               std::vector<SpillExtent>& large);
  Status write_result(OutputStream& output, std::string_view partial);
  bool comes_first(const Counted& a, const Counted& b) const;
  Status append_result_to(OutputStream& output, std::string_view partial);
  Status append_head_to(OutputStream& output);
  Status merge_extents();
  Status pass(const std::vector<bowtie::Input>& inputs, std::vector<bowtie::Output> outputs,
              const bowtie::Computation& computation) {
    return passes_.pass(inputs, std::move(outputs), computation, {.memory_bytes = pass_bytes_});
  }
  bowtie::Output result_output() const;

  const GroupFilesOptions& options_;
  const GroupLayout layout_;
  FileRun run_;
  GroupPasses passes_{run_, layout_, may_use_threads()};
  GroupMerge merge_{passes_, layout_};  // for sorted results that do not fit in one table
  uint64_t pass_bytes_ = 0;
  std::optional<GroupTable> table_;
  // Only with several threads:
  std::optional<Crew> crew_;
  std::optional<RoundReader> rounds_;
  MemoryCharge rounds_charge_{0};
  // The position of a share in the present round.
  struct Progress {
    size_t piece = 0;
    size_t at = 0;       // index in the share's items of the piece
    uint64_t added = 0;  // items added to the table that added_ does not count yet
    Status status;
  };
  std::vector<Progress> progress_;
  std::vector<std::unique_ptr<RoundPiece>> batch_;  // one piece, for items outside of rounds
  std::optional<TopResults<Counted>> top_;
  io::File output_;
  // The offset at which the next pass continues the output.
  uint64_t output_bytes_ = 0;
  bool has_head_ = false;  // the head was written
  uint64_t items_ = 0;
  uint64_t groups_ = 0;
  uint32_t buckets_ = 0;
  uint32_t deepest_ = 0;
  // A full table of the present source was spilled; and may be spilled.
  bool spilled_ = false;
  bool may_spill_ = false;
  bool overflowed_ = false;  // a table that may not be spilled was full
  uint64_t added_ = 0;       // items added to the table since it was empty
  uint64_t bypassing_ = 0;   // items that still bypass the table
  std::string scratch_;
};

bowtie::Output Group::result_output() const {
  return {.file = &output_,
          .offset = output_.seekable() ? output_bytes_ : 0,
          .bytes_max = bowtie::outputs_address_bytes()};
}

// True if the table holds the source whatever its keys are. A source with an unknown number of
// items has to be far smaller than the table.
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
                        std::vector<SpillExtent>& buckets) {
  const auto bucket =
      bucket_of(layout_.key_of_partial(partial), level, static_cast<uint32_t>(buckets.size()));
  passes_.note(partial);
  buckets[bucket].bytes += partial.size();
  ++buckets[bucket].partials;
  if (!streams.output(bucket).append(partial.data(), partial.size())) return streams.status();
  return {};
}

// Writes the whole table to the buckets, or as a sorted extent.
Status Group::spill_table(Streams& streams, uint32_t level, std::vector<SpillExtent>& buckets) {
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

// Spills the full table, in which an item of so many bytes does not fit, or sets overflowed_.
Status Group::make_room(Streams& streams, uint32_t level, std::vector<SpillExtent>& buckets,
                        size_t item_bytes) {
  overflowed_ = !may_spill_;
  if (overflowed_) return {};
  if (table_->size() == 0)
    return failure(ErrorCode::out_of_memory, fmt::format("hold an item of {} bytes", item_bytes),
                   "group", "a larger -S");
  return spill_table(streams, level, buckets);
}

void Group::count_added() {
  for (Progress& progress : progress_) added_ += std::exchange(progress.added, 0);
}

// Counts items of the inputs that are about to be added.
void Group::note_items(size_t count, const bowtie::Items& items) {
  items_ += count;
  if (layout_.lines() == nullptr || count == 0) return;
  layout_.lines()->note_first(items[0]);
  for (size_t i = 0; i < table_->shares(); ++i)
    table_->share(i).layout().lines()->note_first(items[0]);
}

void Group::begin_round() {
  progress_.assign(table_->shares(), {});
}

// Adds the items of a round that belong to a share, until the table is full or an item has an
// error.
void Group::add_share(Round round, size_t share) {
  Progress& progress = progress_[share];
  while (bypassing_ == 0 && progress.piece < round.size()) {
    const KeyedBatch& batch = round[progress.piece]->batch();
    const size_t before = progress.at;
    progress.status = table_->share(share).add(batch, progress.at);
    progress.added += progress.at - before;
    if (!progress.status || progress.at < batch.share(share).size()) break;
    ++progress.piece;
    progress.at = 0;
  }
}

// Adds the rest of a round to the table, or lets it bypass the table; ends early with overflowed_.
// If several items have errors it returns the first item's.
Status Group::settle(Round round, Streams& streams, uint32_t level,
                     std::vector<SpillExtent>& buckets) {
  for (size_t share = 0; share < progress_.size(); ++share) {
    auto status = settle_share(round, share, streams, level, buckets);
    if (!status || overflowed_) return status;
  }
  count_added();
  const Progress* first = nullptr;
  auto share_of = [&](const Progress& one) { return static_cast<size_t>(&one - progress_.data()); };
  auto place_of = [&](const Progress& one) {
    const auto items = round[one.piece]->batch().share(share_of(one));
    return std::pair(one.piece, items[one.at].item);
  };
  for (const Progress& one : progress_) {
    if (one.status || (first != nullptr && place_of(*first) < place_of(one))) continue;
    first = &one;
  }
  if (first == nullptr) return {};
  if (GroupLines* const lines = layout_.lines(); lines != nullptr)
    lines->set_bad_value(table_->share(share_of(*first)).layout().lines()->bad_value());
  return first->status;
}

Status Group::settle_share(Round round, size_t share, Streams& streams, uint32_t level,
                           std::vector<SpillExtent>& buckets) {
  Progress& progress = progress_[share];
  while (progress.status && progress.piece < round.size()) {
    const KeyedBatch& batch = round[progress.piece]->batch();
    const auto items = batch.share(share);
    if (progress.at == items.size()) {
      ++progress.piece;
      progress.at = 0;
    } else if (bypassing_ > 0) {
      const auto partial =
          batch.partial_of(table_->share(share).layout(), items[progress.at], scratch_);
      if (!partial) {
        progress.status = std::unexpected(partial.error());
        break;
      }
      --bypassing_;
      ++progress.at;
      if (auto status = to_bucket(streams, *partial, level, buckets); !status) return status;
    } else {
      add_share(round, share);
      if (!progress.status || progress.piece == round.size()) break;
      count_added();
      const KeyedBatch& full = round[progress.piece]->batch();
      const size_t item_bytes = full.items()[full.share(share)[progress.at].item].size();
      auto status = make_room(streams, level, buckets, item_bytes);
      if (!status || overflowed_) return status;
    }
  }
  return {};
}

// Adds an input to the table, and spills it to the buckets when it is full.
Status Group::fill_table(Streams& streams, uint32_t input, Kind kind, uint32_t level,
                         std::vector<SpillExtent>& buckets) {
  if (rounds_ && kind == Kind::item) return fill_in_rounds(streams, input, level, buckets);
  bowtie::BatchReader reader(streams.input(input), format_of(kind), streams.window_bytes_max(),
                             layout_.columns());
  while (reader.next()) {
    auto status = add_batch(reader.items(), kind, streams, level, buckets);
    if (!status || overflowed_) return status;
  }
  return reader.status();
}

Status Group::add_batch(const bowtie::Items& items, Kind kind, Streams& streams, uint32_t level,
                        std::vector<SpillExtent>& buckets) {
  if (kind == Kind::item) note_items(items.size(), items);
  RoundPiece& piece = *batch_.front();
  for (size_t first = 0; first < items.size(); first += piece.items()) {
    piece.assign(layout_, items, first, kind);
    begin_round();
    auto status = settle(batch_, streams, level, buckets);
    if (!status || overflowed_) return status;
  }
  return {};
}

// Reads rounds, and single batches if no round is possible: at the last row of an input, a row
// longer than a piece, or a row with a fault.
Status Group::fill_in_rounds(Streams& streams, uint32_t number, uint32_t level,
                             std::vector<SpillExtent>& buckets) {
  bowtie::InputStream& input = streams.input(number);
  uint64_t rows = 0;
  const RoundReader::Use use{
      .begin =
          [this](Round round) {
            begin_round();
            for (const auto& piece : round) note_items(piece->items(), piece->batch().items());
          },
      .add = [this](Round round, size_t share) { return add_share(round, share); },
      .settle = [&](Round round) -> Result<bool> {
        auto status = settle(round, streams, level, buckets);
        if (!status) return std::unexpected(status.error());
        return !overflowed_;
      }};
  for (;;) {
    const auto read = rounds_->read(streams, number, use);
    if (!read) return std::unexpected(read.error());
    if (overflowed_) return {};
    rows += *read;
    bowtie::BatchReader reader(input, layout_.item_format(), streams.window_bytes_max(),
                               layout_.columns(), rows);
    if (!reader.next()) return reader.status();
    auto status = add_batch(reader.items(), Kind::item, streams, level, buckets);
    if (!status || overflowed_) return status;
    rows += reader.items().size();
    input.advance(reader.items().bytes());
  }
}

// Groups a source, by way of buckets if necessary.
Status Group::split(const Source& source, uint32_t level) {
  if (level == levels_max) {
    return failure(ErrorCode::unsupported, "tell the keys of a bucket apart", "group",
                   "a larger -S");
  }
  deepest_ = std::max(deepest_, level + 1);
  std::vector<SpillExtent> buckets;
  may_spill_ = !may_hold(source);
  if (!may_spill_) {
    if (auto status = read_source(source, level, buckets); !status) return status;
    may_spill_ = overflowed_;
  }
  if (may_spill_) {
    if (auto status = open_temporaries(source, buckets); !status) return status;
    if (level == 0) {
      buckets_ = static_cast<uint32_t>(buckets.size());
      items_ = 0;
    }
    if (auto status = read_source(source, level, buckets); !status) return status;
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
Status Group::read_source(const Source& source, uint32_t level, std::vector<SpillExtent>& buckets) {
  table_->clear();
  spilled_ = overflowed_ = false;
  added_ = bypassing_ = 0;
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
    if (options_.sorted && may_spill_) outputs.push_back(merge_.output());
    auto status = pass({source.inputs.begin() + static_cast<ptrdiff_t>(at),
                        source.inputs.begin() + static_cast<ptrdiff_t>(end)},
                       std::move(outputs), [&](Streams& streams) -> Status {
                         for (uint32_t i = 0; i < streams.inputs() && !overflowed_; ++i) {
                           auto filled = fill_table(streams, i, source.kind, level, buckets);
                           if (!filled) return filled;
                         }
                         return end == source.inputs.size() && spilled_
                                    ? spill_table(streams, level, buckets)
                                    : Status{};
                       });
    if (!status || overflowed_) return status;
  }
  return {};
}

Status Group::finish_buckets(std::vector<SpillExtent> buckets, uint32_t level) {
  std::erase_if(buckets, [](const SpillExtent& bucket) { return bucket.partials == 0; });
  for (const SpillExtent& bucket : buckets) run_.count_temporary_bytes(bucket.bytes);
  auto large = std::partition(buckets.begin(), buckets.end(), [&](const SpillExtent& bucket) {
    return table_->holds(bucket.partials, bucket.bytes);
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
  bypassing_ = 0;
  may_spill_ = false;
  for (size_t at = 0; at < buckets.size(); at += batch) {
    std::vector<bowtie::Input> inputs;
    for (size_t i = at; i < std::min(buckets.size(), at + batch); ++i)
      inputs.push_back(buckets[i].input());
    auto status = pass(inputs, {result_output()}, [&](Streams& streams) -> Status {
      std::vector<SpillExtent> none;
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

// Writes the results of sorted groups, whose text the threads make side by side.
Status Group::write_sorted(OutputStream& output) {
  // Bytes of results that a thread makes at a time.
  const uint64_t bytes_at_once = 16 * options_.round_items;
  struct Results {
    uint64_t begin = 0, end = 0;
    uint64_t made = 0;  // end of those made: before `end` if they are long
    std::string text;
  };
  close_rounds();
  const uint64_t size = table_->size();
  const uint64_t each =
      std::clamp<uint64_t>(bytes_at_once / std::max<uint64_t>(table_->mean_bytes(), 1), 1, 4096);
  std::vector<Results> present(2 * table_->shares());
  std::vector<Results> next(present.size());
  const MemoryCharge charge(2 * 2 * present.size() * bytes_at_once);
  // The first round writes nothing, the last one makes nothing.
  size_t made = 0;
  for (uint64_t begin = 0; begin < size || made > 0;) {
    size_t count = 0;
    for (uint64_t at = begin; at < size && count < next.size(); at += each, ++count)
      next[count] = {.begin = at,
                     .end = std::min(size, at + each),
                     .made = at,
                     .text = std::move(next[count].text)};
    auto make = [&](Results& results) {
      results.text.clear();
      return table_->for_sorted(results.begin, results.end,
                                [&](std::string_view partial) -> Status {
                                  if (results.text.size() >= 2 * bytes_at_once) return {};
                                  ++results.made;
                                  return layout_.append_result(partial, results.text);
                                });
    };
    auto write = [&]() -> Status {
      for (size_t i = 0; i < made; ++i) {
        if (!output.append(present[i].text.data(), present[i].text.size())) return output.status();
        output_bytes_ += present[i].text.size();
        groups_ += present[i].made - present[i].begin;
      }
      return {};
    };
    crew_->begin(count, [&](size_t i) { return make(next[i]); });
    auto written = or_out_of_memory(write);  // the tasks have to end before this call does
    auto status = crew_->finish();
    if (!written) return written;
    if (!status) return status;
    for (made = 0; made < count; ++made) {
      begin = next[made].made;
      if (begin < next[made].end) {
        ++made;
        break;
      }
    }
    std::swap(present, next);
  }
  return {};
}

// Writes the results of the table, whose groups are complete.
Status Group::write_table(OutputStream& output) {
  if (crew_ && options_.sorted && !top_ && table_->size() > 0) {
    if (auto status = append_head_to(output); !status) return status;
    return write_sorted(output);
  }
  return table_->for_each([&](std::string_view partial) { return write_result(output, partial); });
}

Status Group::write_result(OutputStream& output, std::string_view partial) {
  if (!top_) return append_result_to(output, partial);
  return top_->offer({layout_.count_of_partial(partial), std::string(partial)});
}

// True if `a` comes before `b`: by count, descending, then by key.
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

// Called with the first result, not earlier: an input with an error leaves nothing in a pipe.
Status Group::append_head_to(OutputStream& output) {
  has_head_ = true;
  if (layout_.lines() == nullptr) return {};
  const std::string& head = layout_.lines()->head();
  output_bytes_ += head.size();
  return output.append(head.data(), head.size()) ? Status{} : output.status();
}

Status Group::merge_extents() {
  if (merge_.extents() == 0) return {};
  buckets_ = static_cast<uint32_t>(merge_.extents());
  close_rounds();
  batch_.clear();
  table_.reset();
  const auto levels = merge_.merge(result_output(), [this](auto& output, auto partial) {
    return write_result(output, partial);
  });
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

// Frees the memory of rounds.
void Group::close_rounds() {
  rounds_.reset();
  rounds_charge_.set(0);
}

Status Group::open_table(uint64_t memory_bytes) {
  const unsigned threads = this->threads();
  const size_t pieces = 2 * threads;
  if (threads > 1) {
    rounds_charge_.set(RoundReader::memory_bytes(layout_, pieces, threads, options_.round_items));
    memory_bytes -= std::min(memory_bytes, rounds_charge_.bytes());
    crew_.emplace(threads);
    rounds_.emplace(layout_, *crew_, pieces, threads, options_.round_items);
  }
  batch_.push_back(std::make_unique<RoundPiece>(layout_, threads, bowtie::batch_items_max));
  auto table = GroupTable::open(layout_, memory_bytes, options_.sorted, threads);
  if (!table) return std::unexpected(table.error());
  table_.emplace(std::move(*table));
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
  if (auto status = open_table(run_.usable_bytes() - pass_bytes_ - top_bytes); !status)
    return std::unexpected(status.error());

  Source source{.inputs = run_.inputs(), .bytes = run_.input_bytes()};
  if (layout_.item_format().fixed() && source.bytes != bowtie::unknown_bytes)
    source.items = source.bytes / layout_.item_format().record_bytes;
  if (!source.inputs.empty()) {
    if (auto status = split(source, 0); !status) return std::unexpected(status.error());
    if (auto status = merge_extents(); !status) return std::unexpected(status.error());
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

// The error of a field that is not a number, with its place if the file can be read again.
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
