#include "files/ops/join/join_table.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "base/bits.h"
#include "io/file.h"
#include "items/items.h"

namespace penstock::files {
namespace {

using bowtie::Streams;

// Memory of a pass; more gains nothing.
constexpr uint64_t pass_bytes_max = 64 * MiB;
constexpr unsigned threads_most = 2;
constexpr size_t round_items = 4096;
// A compressed file is assumed to have so many times as many bytes.
constexpr uint64_t decompressed_times = 5;
// Memory of an item beside its bytes, and of a key with its slots.
constexpr double item_bytes_beside = 20;
constexpr double key_bytes_assumed = 60;
// Room for more keys and bytes than were estimated.
constexpr double reserve = 1.25;
// A side that is larger than all before it, by these times, may be read in vain, up to this share or
// as far as its items are few.
constexpr uint64_t tried_times = 8;
constexpr double tried_share = 1.0 / 64;
// Keys whose partials, or whose last items, are prefetched at once.
constexpr uint64_t burst_keys = 32;

}  // namespace

JoinTable::JoinTable(const JoinLinesOptions& options, const std::vector<items::Format>& formats,
                     const std::vector<ItemsMeasure>& beginnings, FileRun& run)
    : options_(options),
      formats_(formats),
      beginnings_(beginnings),
      run_(run),
      pass_bytes_(std::min(run.usable_bytes() / 4, pass_bytes_max)),
      sides_(formats.size()) {}

Status JoinTable::prepare() {
  for (size_t i = 0; i < sides_.size(); ++i) {
    Side& side = sides_[i];
    side.format = formats_[i];
    side.input = run_.places()[i];
    const std::string& header = run_.headers()[i];
    if (!header.empty()) {
      auto made = items::with_header(side.format, header, input_name(options_.files, i));
      if (!made) return std::unexpected(made.error());
      side.format = std::move(*made);
    }
    if (!side.input) continue;
    side.bytes = run_.inputs()[*side.input].bytes;
    if (side.bytes != bowtie::unknown_bytes) continue;
    const auto file = io::File::open_input(input_name(options_.files, i), io::Caching::buffered);
    const auto size = file ? file->size() : std::unexpected(file.error());
    if (!size) return std::unexpected(size.error());
    side.bytes = decompressed_times * *size;
  }
  order_.resize(sides_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::ranges::stable_sort(order_, {}, [this](size_t i) { return sides_[i].bytes; });
  return {};
}

// Opens the table if it holds all items of all sides.
Result<bool> JoinTable::open_table() {
  double keys = 0;
  double bytes = 0;
  double tried_bytes = 0;  // those of a last side of which few items may be kept
  uint64_t input_bytes = 0;
  size_t first = sides_.size();
  for (size_t number = 0; number < order_.size(); ++number) {
    const Side& side = sides_[order_[number]];
    if (!side.input) continue;
    first = std::min(first, order_[number]);
    const KeptSide kept = kept_side(number);
    const double items = static_cast<double>(side.bytes) / beginnings_[order_[number]].mean_bytes();
    if (kept.adds_keys) keys += items;
    const auto keeps_any = [](const auto& keeps) { return keeps[0] || keeps[1]; };
    const bool is_large = number + 1 == order_.size() && side.bytes / tried_times >= input_bytes;
    if (std::ranges::any_of(kept.keeps, keeps_any))
      (is_large && !keeps_any(kept.keeps[0]) ? tried_bytes : bytes) +=
          static_cast<double>(side.bytes) + items * item_bytes_beside;
    input_bytes += side.bytes;
  }
  const Side& any = sides_[std::min(first, sides_.size() - 1)];
  auto layout =
      GroupLayout::make(any.format, {.distinct = true}, {.separator = options_.separator});
  if (!layout) return std::unexpected(layout.error());
  const unsigned threads = input_bytes / 1024 < round_items ? 1 : threads_most;
  rounds_charge_.set(RoundReader::memory_bytes(*layout, 2 * threads, threads, round_items));
  const uint64_t taken_bytes = pass_bytes_ + rounds_charge_.bytes();
  const uint64_t memory_bytes = run_.usable_bytes() - std::min(run_.usable_bytes(), taken_bytes);
  const double needed = bytes + keys * key_bytes_assumed;
  if (needed > static_cast<double>(memory_bytes)) return false;
  tries_last_ = needed + tried_bytes > static_cast<double>(memory_bytes);
  const auto table_bytes =
      std::min(memory_bytes, static_cast<uint64_t>((needed + tried_bytes) * reserve) + 16 * MiB);
  const auto partial_bytes =
      static_cast<uint64_t>(static_cast<double>(table_bytes) / (reserve * keys + 1024));
  auto table =
      GroupTable::open(*layout, table_bytes, true, threads, std::max<uint64_t>(partial_bytes, 16));
  if (!table) return std::unexpected(table.error());
  table_.emplace(std::move(*table));
  crew_.emplace(threads);
  return true;
}

// How the table keeps the items of the side that is read as number `number`. An item is kept if it
// may be in the output; a key, if it may decide about items of sides that are read later.
KeptSide JoinTable::kept_side(size_t number) const {
  const JoinKinds& kinds = options_.kinds;
  const size_t side = order_[number];
  const size_t unread = sides_.size() - number - 1;
  const bool knows_first =
      std::ranges::find(order_, size_t{0}) - order_.begin() <= static_cast<ptrdiff_t>(number);
  const auto may_want = [&](bool has_first, size_t present) {
    return kinds.may_want(knows_first ? std::optional(has_first) : std::nullopt, present, unread,
                          sides_.size());
  };
  KeptSide kept{.number = static_cast<uint32_t>(number), .side = static_cast<uint32_t>(side)};
  // A key decides if it may be wanted with this side, or without it.
  kept.adds_keys = may_want(side == 0, 1) || may_want(false, 0);
  const bool is_written = side == 0 || !kinds.first_only;
  for (size_t before = 0; before <= number; ++before) {
    const bool may_lack_first = side != 0 && !(knows_first && before == number);
    const bool may_have_first = side == 0 || (knows_first && before > 0);
    kept.keeps.push_back({is_written && may_lack_first && may_want(false, before + 1),
                          is_written && may_have_first && may_want(true, before + 1)});
  }
  return kept;
}

// Notes the item with the least key, the first of several, in place of an item with the key `least`.
void JoinTable::note_least(const KeyedBatch& batch, size_t share) {
  std::optional<Least>& least = least_[share];
  for (const KeyedItem& item : batch.share(share)) {
    if (least && item.key >= least->key) continue;
    least.emplace(std::string(item.key), std::string(batch.items()[item.item]));
  }
}

void JoinTable::add_share(Round round, size_t share) {
  for (const auto& piece : round) {
    const KeyedBatch& batch = piece->batch();
    if (!sides_.front().format.has_rules()) note_least(batch, share);
    size_t at = 0;
    const auto status = table_->share(share).add(batch, at);
    if (!status || at < batch.share(share).size()) is_full_[share] = 1;
    if (is_full_[share] != 0) return;
  }
}

Status JoinTable::read_side(Streams& streams, uint32_t input, size_t number) {
  Side& side = sides_[order_[number]];
  auto layout =
      GroupLayout::make(side.format, {.distinct = true}, {.separator = options_.separator});
  if (!layout) return std::unexpected(layout.error());
  if (auto begun = layout->lines()->begin(side.format, run_.headers()[order_[number]]); !begun)
    return begun;
  table_->keep_items(kept_side(number));
  const size_t shares = table_->shares();
  is_full_.assign(shares, 0);
  least_.assign(shares, {});
  auto has_room = [this] { return std::ranges::count(is_full_, 1) == 0; };
  uint64_t rows = 0;
  const std::string name = input_name(options_.files, order_[number]);
  OddItems* const odd_items = options_.files.odd_items.get();
  auto note = [&](const KeyedBatch& batch, size_t items) {
    if (side.first.empty() && batch.items().size() > 0) side.first = batch.items()[0];
    for (const uint32_t i : batch.odd()) {
      if (odd_items != nullptr)
        odd_items->note(name, side.format.header_lines + rows + i + 1, side.format,
                        batch.items()[i]);
    }
    rows += items;
  };
  const bool is_tried = tries_last_ && number + 1 == order_.size();
  const uint64_t used_before = table_->used_bytes();
  // Gives up a trial if the items that were kept so far are too many for their share of the side.
  auto give_up = [&](Round round) {
    const auto read = round.back()->read_end() - streams.input(input).begin();
    const double share = static_cast<double>(read) / static_cast<double>(side.bytes);
    const auto kept = static_cast<double>(table_->used_bytes() - used_before);
    const auto room = static_cast<double>(table_->used_bytes_max() - used_before);
    if (share > tried_share && kept > share * room) is_full_[0] = 1;
  };
  RoundReader reader(*layout, *crew_, 2 * shares, shares, round_items);
  const RoundReader::Use use{.begin =
                                 [&](Round round) {
                                   for (const auto& piece : round)
                                     note(piece->batch(), piece->items());
                                 },
                             .add = [this](Round round, size_t share) { add_share(round, share); },
                             .settle = [&](Round round) -> Result<bool> {
                               if (is_tried) give_up(round);
                               return has_room();
                             }};
  const auto piece = std::make_unique<RoundPiece>(*layout, shares, bowtie::batch_items_max);
  return reader.read_all(
      streams, input, use, [&](const bowtie::BatchReader& batch) -> Result<bool> {
        const bowtie::Items& items = batch.items();
        // The sort has memory for the keys of long items.
        for (size_t i = 0; i < items.size(); ++i)
          if (items[i].size() > streams.window_bytes_max()) is_full_[0] = 1;
        for (size_t first = 0; first < items.size() && has_room(); first += piece->items()) {
          piece->assign(*layout, items, first, KeyedBatch::Kind::item);
          note(piece->batch(), 0);
          for (size_t share = 0; share < shares; ++share) add_share({&piece, 1}, share);
        }
        rows += items.size();
        return has_room();
      });
}

Result<bool> JoinTable::read() {
  if (auto status = prepare(); !status) return std::unexpected(status.error());
  auto opened = open_table();
  if (!opened || !*opened) return opened;
  for (size_t number = 0; number < order_.size(); ++number) {
    const Side& side = sides_[order_[number]];
    if (!side.input) continue;
    auto status = run_.pass({run_.inputs()[*side.input]}, {},
                            [&](Streams& streams) { return read_side(streams, 0, number); },
                            {.items = options_.files.format,
                             .memory_bytes = pass_bytes_,
                             .inputs_in_turn = true,
                             .phase = "join",
                             .total_bytes = 0});
    if (!status) return std::unexpected(status.error());
    if (std::ranges::count(is_full_, 1) > 0) return false;
    const auto least = std::ranges::min_element(
        least_, [](const auto& a, const auto& b) { return a && (!b || a->key < b->key); });
    if (*least) sides_[order_[number]].first = (*least)->item;
  }
  crew_.reset();
  rounds_charge_.set(0);
  if (auto status = table_->sort(); !status) return std::unexpected(status.error());
  return true;
}

std::vector<SideHead> JoinTable::heads() const {
  std::vector<SideHead> heads;
  for (size_t i = 0; i < sides_.size(); ++i) {
    const Side& side = sides_[i];
    heads.push_back(
        {side.format, run_.headers()[i],
         side.first.empty() ? std::nullopt : std::optional<std::string_view>(side.first)});
  }
  return heads;
}

// Writes the product of the row's first `side` items and the items of the others.
Status JoinTable::write_rows(size_t side, JoinWriter& writer) {
  if (side == sides_.size()) return writer.write(row_);
  if (firsts_[side] == 0) {
    row_[side].reset();
    return write_rows(side + 1, writer);
  }
  for (uint32_t place = firsts_[side]; place != 0;) {
    const GroupTable::KeptItem item = table_->kept_item(place);
    if (item.side != side) break;
    row_[side] = item.text;
    if (auto status = write_rows(side + 1, writer); !status) return status;
    place = item.next;
  }
  return {};
}

Status JoinTable::write(JoinWriter& writer) {
  const uint64_t keys = table_->size();
  row_.resize(sides_.size());
  for (uint64_t i = 0; i < keys; ++i) {
    if (i % burst_keys == 0) {
      table_->prefetch_last(std::min(i + burst_keys, keys), std::min(i + 2 * burst_keys, keys));
      table_->prefetch_sorted(std::min(i + 2 * burst_keys, keys),
                              std::min(i + 3 * burst_keys, keys));
    }
    const KeyList list = table_->key_list(i);
    if (!options_.kinds.wants(list.has_first_side != 0, list.sides, sides_.size())) continue;
    firsts_.assign(sides_.size(), 0);
    for (uint32_t place = list.first; place != 0;) {
      const GroupTable::KeptItem item = table_->kept_item(place);
      if (firsts_[item.side] == 0) firsts_[item.side] = place;
      place = item.next;
    }
    if (auto status = write_rows(0, writer); !status) return status;
    if (i % items_between_pulses == 0) {
      if (auto status = run_.interrupted(); !status) return status;
    }
  }
  return writer.end();
}

}  // namespace penstock::files
