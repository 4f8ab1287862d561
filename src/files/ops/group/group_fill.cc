#include "files/ops/group/group_fill.h"

#include <algorithm>
#include <utility>

namespace penstock::files {
namespace {

using bowtie::Streams;

// The share of a table's items that must combine for it to pay, and the number of tables' worth of
// items that bypass it if fewer did.
constexpr double combined_share_min = 0.1;
constexpr uint64_t tables_bypassed = 4;

}  // namespace

// ---- The table and its threads.

Status GroupFill::open(const Options& options) {
  const unsigned threads = options.threads;
  const size_t pieces = 2 * threads;
  uint64_t table_bytes = options.memory_bytes;
  sorted_ = options.sorted;
  odd_items_ = options.odd_items;
  if (threads > 1) {
    rounds_charge_.set(RoundReader::memory_bytes(layout_, pieces, threads, options.round_items));
    table_bytes -= std::min(table_bytes, rounds_charge_.bytes());
    crew_.emplace(threads);
    rounds_.emplace(layout_, *crew_, pieces, threads, options.round_items);
  }
  batch_.push_back(std::make_unique<RoundPiece>(layout_, threads, bowtie::batch_items_max));
  auto table = GroupTable::open(layout_, table_bytes, options.sorted, threads);
  if (!table) return std::unexpected(table.error());
  table_.emplace(std::move(*table));
  return {};
}

void GroupFill::close_rounds() {
  rounds_.reset();
  rounds_charge_.set(0);
}

void GroupFill::close() {
  empty_values_ = empty_values();
  close_rounds();
  batch_.clear();
  table_.reset();
}

uint64_t GroupFill::empty_values() const {
  uint64_t values = empty_values_;
  for (size_t i = 0; table_ && i < table_->shares(); ++i) values += table_->share(i).empty_values();
  return values;
}

void GroupFill::reset_counts() {
  items_ = 0;
  for (size_t i = 0; i < table_->shares(); ++i) table_->share(i).reset_empty_values();
}

void GroupFill::begin(const Spill& spill) {
  table_->clear();
  spill_ = spill;
  spilled_ = overflowed_ = false;
  added_ = bypassing_ = 0;
}

// ---- Spills.

Status GroupFill::to_bucket(Streams& streams, std::string_view partial) {
  std::vector<SpillExtent>& buckets = *spill_.buckets;
  const auto bucket = bucket_of(layout_.key_of_partial(partial), spill_.level,
                                static_cast<uint32_t>(buckets.size()));
  passes_.note(partial);
  buckets[bucket].bytes += partial.size();
  ++buckets[bucket].partials;
  if (!streams.output(bucket).append(partial.data(), partial.size())) return streams.status();
  return {};
}

Status GroupFill::spill(Streams& streams) {
  spilled_ = true;
  Status status;
  if (sorted_) {
    status = merge_.add(*table_, streams);
  } else {
    const auto combined = static_cast<double>(added_ - table_->size());
    if (combined < combined_share_min * static_cast<double>(added_))
      bypassing_ = tables_bypassed * added_;
    status =
        table_->for_each([&](std::string_view partial) { return to_bucket(streams, partial); });
  }
  table_->clear();
  added_ = 0;
  return status;
}

// Spills the full table, in which an item of so many bytes does not fit, or sets overflowed_.
Status GroupFill::make_room(Streams& streams, size_t item_bytes) {
  overflowed_ = !spill_.may_spill;
  if (overflowed_) return {};
  if (table_->size() == 0) {
    if (input_.empty()) return passes_.no_room();
    return items::too_long(layout_.item_format(), item_bytes - 1, input_);
  }
  return spill(streams);
}

// ---- Items.

void GroupFill::count_added() {
  for (Progress& progress : progress_) added_ += std::exchange(progress.added, 0);
}

// Counts items of the inputs that are about to be added.
void GroupFill::note_items(size_t count, const bowtie::Items& items) {
  items_ += count;
  if (layout_.lines() == nullptr || count == 0) return;
  layout_.lines()->note_first(items[0]);
  for (size_t i = 0; i < table_->shares(); ++i)
    table_->share(i).layout().lines()->note_first(items[0]);
}

void GroupFill::count_odd_items(const KeyedBatch& batch) {
  if (odd_items_ == nullptr || batch.odd().empty()) return;
  const items::Format& format = layout_.lines()->format();
  for (const uint32_t number : batch.odd()) {
    odd_items_->note(input_, format.header_lines + rows_ + number + 1, format,
                     batch.items()[number]);
  }
}

// Adds the items of a round that belong to a share, until the table is full or an item has an
// error.
void GroupFill::add_share(Round round, size_t share) {
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
Status GroupFill::settle(Round round, Streams& streams) {
  for (size_t share = 0; share < progress_.size(); ++share) {
    auto status = settle_share(round, share, streams);
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

Status GroupFill::settle_share(Round round, size_t share, Streams& streams) {
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
      if (auto status = to_bucket(streams, *partial); !status) return status;
    } else {
      add_share(round, share);
      if (!progress.status || progress.piece == round.size()) break;
      count_added();
      const KeyedBatch& full = round[progress.piece]->batch();
      const size_t item_bytes = full.items()[full.share(share)[progress.at].item].size();
      auto status = make_room(streams, item_bytes);
      if (!status || overflowed_) return status;
    }
  }
  return {};
}

Status GroupFill::add(Streams& streams, uint32_t input, Kind kind, const std::string& name) {
  input_ = name;
  rows_ = 0;
  if (rounds_ && kind == Kind::item) return add_in_rounds(streams, input);
  const items::Format& format =
      kind == Kind::item ? layout_.item_format() : layout_.partial_format();
  bowtie::BatchReader reader(streams.input(input), format, streams.item_bytes_max(),
                             layout_.columns());
  while (reader.next()) {
    auto status = add_batch(reader, kind, streams);
    if (!status || overflowed_) return status;
  }
  return reader.status();
}

Status GroupFill::add_batch(const bowtie::BatchReader& reader, Kind kind, Streams& streams) {
  const bowtie::Items& items = reader.items();
  if (kind == Kind::item) note_items(items.size(), items);
  RoundPiece& piece = *batch_.front();
  // Keys and partials of a long item are made in borrowed memory.
  bowtie::Loan loan(streams);
  size_t longest_bytes = 0;
  for (size_t i = 0; !items.fixed() && i < items.size(); ++i)
    longest_bytes = std::max(longest_bytes, items[i].size());
  const bool is_long = longest_bytes > streams.window_bytes_max();
  has_long_items_ = has_long_items_ || is_long;
  // Borrows so many bytes in all: from the table, if need be a spilled one, or from the blocks.
  const auto borrow = [&](uint64_t bytes) -> Status {
    while (!overflowed_) {
      const uint64_t lent_bytes = table_->lent_bytes();
      if (lent_bytes >= bytes || table_->lend(bytes - lent_bytes)) return {};
      if (loan.set(bytes - lent_bytes)) return {};
      if (table_->size() == 0) return reader.no_room(longest_bytes);
      if (auto made = make_room(streams, longest_bytes); !made) return made;
    }
    return {};
  };
  Status status = is_long ? borrow(2 * longest_bytes) : Status();
  for (size_t first = 0; status && !overflowed_ && first < items.size(); first += piece.items()) {
    piece.assign(layout_, items, first, kind);
    if (is_long) status = borrow(2 * (longest_bytes + piece.batch().made_bytes()));
    if (!status || overflowed_) break;
    count_odd_items(piece.batch());
    begin_round();
    status = settle(batch_, streams);
  }
  rows_ += items.size();
  if (is_long) {
    piece.free_texts();
    for (size_t i = 0; i < table_->shares(); ++i) table_->share(i).free_texts();
    std::string().swap(scratch_);
    table_->take_back();
  }
  return status;
}

Status GroupFill::add_in_rounds(Streams& streams, uint32_t input) {
  const RoundReader::Use use{
      .begin =
          [this](Round round) {
            begin_round();
            for (const auto& piece : round) {
              note_items(piece->items(), piece->batch().items());
              count_odd_items(piece->batch());
              rows_ += piece->items();
            }
          },
      .add = [this](Round round, size_t share) { return add_share(round, share); },
      .settle = [&](Round round) -> Result<bool> {
        auto status = settle(round, streams);
        if (!status) return std::unexpected(status.error());
        return !overflowed_;
      }};
  return rounds_->read_all(streams, input, use,
                           [&](const bowtie::BatchReader& reader) -> Result<bool> {
                             auto status = add_batch(reader, Kind::item, streams);
                             if (!status) return std::unexpected(status.error());
                             return !overflowed_;
                           });
}

}  // namespace penstock::files
