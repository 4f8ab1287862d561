#include "files/ops/group/group_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>

#include "base/bits.h"
#include "base/misuse.h"
#include "base/run_scope.h"
#include "base/thread.h"
#include "files/run/file_run.h"
#include "items/hash.h"
#include "items/keys/codec.h"
#include "sorting/sort/in_place/in_place_sort.h"
#include "sorting/sort/strings/string_pairs.h"

namespace penstock::files {
namespace {

constexpr size_t aggregate_bytes = 8;
constexpr size_t wide_bytes = 16;
// A slot has a place of 32 bits in units of eight bytes; one value means "free".
constexpr uint64_t place_unit = KeyList::place_unit;
constexpr uint64_t data_bytes_most = place_unit * (std::numeric_limits<uint32_t>::max() - 1);
constexpr unsigned tag_shift = 32;
constexpr uint64_t place_mask = std::numeric_limits<uint32_t>::max();
// Assumed bytes of a key and its text, for the division of memory.
constexpr uint64_t text_bytes_usual = 16;

// RowHead::key_bytes of a dead partial.
constexpr uint32_t dead_key_bytes = std::numeric_limits<uint32_t>::max();

// An item of a list is a dead partial: its head, then the place of the next one, and its side.
constexpr size_t link_offset = RowHead::bytes;
constexpr size_t side_offset = link_offset + sizeof(uint32_t);
constexpr size_t kept_bytes = side_offset + sizeof(uint32_t);

template <class Bits>
char* put(char* to, Bits bits) {
  std::memcpy(to, &bits, sizeof bits);
  return to + sizeof bits;
}

// A number of the key for mix64(): the key itself, or a hash.
uint64_t number_of(std::string_view key) {
  if (key.size() == sizeof(uint64_t)) return items::load<uint64_t>(key.data());
  if (key.size() == sizeof(uint32_t)) return items::load<uint32_t>(key.data());
  return items::fold_bytes(~key.size(), reinterpret_cast<const std::byte*>(key.data()), key.size());
}

// Compares keys; fast for short ones.
bool are_equal(std::string_view a, std::string_view b) {
  if (a.size() != b.size() || a.size() > sizeof(uint64_t)) return a == b;
  if (a.size() == sizeof(uint64_t))
    return items::load<uint64_t>(a.data()) == items::load<uint64_t>(b.data());
  auto few = [](std::string_view key) {
    return items::load_few(reinterpret_cast<const std::byte*>(key.data()), key.size());
  };
  return few(a) == few(b);
}

uint64_t high_product(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<__uint128_t>(a) * b) >> 64);
}

std::unexpected<Error> overflow(const items::Format& format, std::string_view partial) {
  return failure(ErrorCode::unsupported,
                 fmt::format("add up the values of key {}: the sum does not fit 64 bits",
                             printable_key(format, partial)),
                 "group", "--count, --min or --max");
}

bool is_integer(items::Type type) {
  using enum items::Type;
  return type == u32 || type == u64 || type == i32 || type == i64;
}

}  // namespace

// ---- Layout.

Result<GroupLayout> GroupLayout::make(const items::Format& format, const Aggregates& aggregates,
                                      const GroupLinesOptions& lines) {
  const bool summing = aggregates.sum || aggregates.min || aggregates.max || !lines.results.empty();
  if (!aggregates.count && !summing && !aggregates.distinct)
    return misuse("group without an aggregate", "group",
                  format.fixed() ? "--count, --sum, --min, --max, --distinct"
                                 : "--count, --sum=COLUMN, --mean=COLUMN, --distinct");
  if (aggregates.distinct && ((aggregates.count && !aggregates.like_uniq) || summing))
    return misuse("keep items whole and aggregate them", "--distinct", "--distinct alone");
  GroupLayout layout;
  layout.item_ = format;
  layout.aggregates_ = aggregates;
  layout.partial_ = layout.result_ = format;
  if (format.fixed() && aggregates.kept != GroupsKept::all)
    return misuse("keep groups of binary items by their number", "kept", "lines");
  if (!format.fixed()) {
    auto made = GroupLines::make(format, aggregates, lines);
    if (!made) return std::unexpected(made.error());
    layout.lines_ = std::move(*made);
    layout.partial_ = {.type = items::Type::rows, .record_bytes = 1};
    return layout;
  }
  if (summing) {
    ValueField value{.bytes = std::min(format.key_bytes, 8u)};
    value.is_signed = format.type == items::Type::i32 || format.type == items::Type::i64;
    if (aggregates.value) {
      value = *aggregates.value;
    } else if (format.type == items::Type::kv64) {
      value.offset = 8;
    } else if (!is_integer(format.type)) {
      return misuse(fmt::format("find the value of a {}", items::name_of(format.type)), "--value",
                    !format.numeric() ? "--value OFFSET:LENGTH" : "--count");
    }
    if (value.bytes == 0 || value.bytes > sizeof(uint64_t) ||
        uint64_t{value.offset} + value.bytes > format.record_bytes) {
      return misuse(fmt::format("use a value of {} bytes at {}", value.bytes, value.offset),
                    "--value", "1 to 8 bytes inside the item");
    }
    layout.value_ = value;
  }
  if (aggregates.distinct) return layout;
  // Numbers keep their type, so that they are ordered as numbers.
  layout.partial_.key_offset = 0;
  const size_t sum_bytes = layout.sum_is_wide() ? wide_bytes : aggregate_bytes;
  layout.partial_.record_bytes = static_cast<uint32_t>(
      format.key_bytes + aggregate_bytes * (aggregates.count + aggregates.min + aggregates.max) +
      (aggregates.sum ? sum_bytes : 0));
  layout.result_ = layout.partial_;
  if (aggregates.sum)
    layout.result_.record_bytes -= static_cast<uint32_t>(sum_bytes - aggregate_bytes);
  return layout;
}

GroupLayout GroupLayout::clone() const {
  GroupLayout layout = *this;
  if (lines_) layout.lines_ = std::make_shared<GroupLines>(*lines_);
  return layout;
}

uint64_t GroupLayout::fixed_bytes() const {
  return lines_ ? lines_->fixed_bytes() : partial_.record_bytes - partial_.key_bytes;
}

uint64_t GroupLayout::usual_bytes() const {
  return fixed_bytes() + (lines_ ? text_bytes_usual : partial_.key_bytes);
}

uint64_t GroupLayout::count_of_partial(std::string_view partial) const {
  if (lines_) return lines_->count_of_partial(partial);
  return items::load<uint64_t>(partial.data() + aggregates_offset());
}

uint64_t GroupLayout::prefix_of_key(std::string_view key) const {
  if (!item_.numeric())
    return items::prefix_of(reinterpret_cast<const std::byte*>(key.data()), key.size());
  if (key.size() == sizeof(uint32_t))
    return items::encode_key32(item_.type, items::load<uint32_t>(key.data()));
  return items::encode_key64(item_.type, items::load<uint64_t>(key.data()));
}

uint64_t GroupLayout::value_of_item(std::string_view item) const {
  unsigned char bytes[8] = {};
  std::memcpy(bytes, item.data() + value_.offset, value_.bytes);
  if (value_.big_endian) std::reverse(bytes, bytes + value_.bytes);
  uint64_t value = items::load<uint64_t>(bytes);
  if (value_.is_signed) {
    const unsigned missing_bits = 64 - 8 * value_.bytes;
    value = static_cast<uint64_t>(static_cast<int64_t>(value << missing_bits) >> missing_bits);
  }
  return value;
}

GroupLayout::Values GroupLayout::values_of_item(std::string_view item) const {
  Values values{.count = 1};
  if (!aggregates_.sum && !aggregates_.min && !aggregates_.max) return values;
  const uint64_t value = value_of_item(item);
  values.sum = value_.is_signed ? static_cast<__int128_t>(static_cast<int64_t>(value))
                                : static_cast<__int128_t>(value);
  values.min = values.max = value;
  return values;
}

GroupLayout::Values GroupLayout::values_of_partial(const char* at) const {
  Values values;
  auto take = [&](auto& value) {
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
  };
  if (aggregates_.count) take(values.count);
  if (aggregates_.sum && sum_is_wide()) take(values.sum);
  if (aggregates_.sum && !sum_is_wide()) {
    uint64_t sum = 0;
    take(sum);
    values.sum = static_cast<__int128_t>(sum);
  }
  if (aggregates_.min) take(values.min);
  if (aggregates_.max) take(values.max);
  return values;
}

void GroupLayout::write_values(const Values& values, char* at) const {
  if (aggregates_.count) at = put(at, values.count);
  if (aggregates_.sum)
    at = sum_is_wide() ? put(at, values.sum) : put(at, static_cast<uint64_t>(values.sum));
  if (aggregates_.min) at = put(at, values.min);
  if (aggregates_.max) put(at, values.max);
}

Result<bool> GroupLayout::combine(char* partial, const Values& values) const {
  char* const aggregates = partial + aggregates_offset();
  Values into = values_of_partial(aggregates);
  into.count += values.count;
  into.sum += values.sum;
  auto before = [&](uint64_t a, uint64_t b) {
    return value_.is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  if (before(values.min, into.min)) into.min = values.min;
  if (before(into.max, values.max)) into.max = values.max;
  if (!sum_is_wide() && into.sum >> 64 != 0)
    return overflow(partial_, {partial, static_cast<size_t>(partial_.record_bytes)});
  write_values(into, aggregates);
  return true;
}

Status GroupLayout::make_partial(const bowtie::Items& items, size_t i, size_t entry,
                                 std::string_view key, std::string& to) const {
  if (lines_) return lines_->make_partial(items, i, entry, key, to);
  if (aggregates_.distinct) {
    to.assign(items[i]);
    return {};
  }
  to.assign(key);
  to.resize(partial_.record_bytes);
  write_values(values_of_item(items[i]), to.data() + aggregates_offset());
  return {};
}

Result<bool> GroupLayout::add_item(char* partial, const bowtie::Items& items, size_t i) const {
  if (lines_) return lines_->add_item(partial, items, i);
  return aggregates_.distinct ? true : combine(partial, values_of_item(items[i]));
}

Result<bool> GroupLayout::add_partial(char* partial, std::string_view other) const {
  if (lines_) return lines_->add_partial(partial, other);
  if (aggregates_.distinct) return true;
  return combine(partial, values_of_partial(other.data() + aggregates_offset()));
}

Status GroupLayout::join(std::string& partial, std::string_view other) const {
  auto added = add_partial(partial.data(), other);
  if (added && !*added) {
    lines_->widen(std::string(partial), partial);
    added = add_partial(partial.data(), other);
  }
  return added ? Status{} : std::unexpected(added.error());
}

Status GroupLayout::append_result(std::string_view partial, std::string& to,
                                  std::span<const std::string> of_values) const {
  if (lines_) return lines_->append_result(partial, to, of_values);
  if (!aggregates_.sum || !sum_is_wide()) {
    to.append(partial);
    return {};
  }
  const size_t sum_offset = aggregates_offset() + (aggregates_.count ? aggregate_bytes : 0);
  const auto sum = items::load<__int128_t>(partial.data() + sum_offset);
  const auto narrow = static_cast<int64_t>(sum);
  if (narrow != sum) return overflow(partial_, partial);
  to.append(partial.substr(0, sum_offset));
  to.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  to.append(partial.substr(sum_offset + wide_bytes));
  return {};
}

uint32_t bucket_of(std::string_view key, uint32_t level, uint32_t buckets) {
  return static_cast<uint32_t>(
      high_product(mix64(number_of(key) ^ mix64(uint64_t{level} + 1)), buckets));
}

// ---- Batches.

std::string_view KeyRoom::copy(std::string_view bytes) {
  bytes_ += bytes.size();
  if (used_blocks_ == 0 || blocks_[used_blocks_ - 1].size - used_bytes_ < bytes.size()) {
    if (used_blocks_ == blocks_.size() || blocks_[used_blocks_].size < bytes.size()) {
      const size_t size = std::max(bytes.size(), block_bytes);
      blocks_.insert(blocks_.begin() + static_cast<ptrdiff_t>(used_blocks_),
                     {std::make_unique_for_overwrite<char[]>(size), size});
    }
    ++used_blocks_;
    used_bytes_ = 0;
  }
  char* const to = blocks_[used_blocks_ - 1].bytes.get() + used_bytes_;
  used_bytes_ += bytes.size();
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return {to, bytes.size()};
}

void KeyRoom::clear() {
  std::erase_if(blocks_, [](const Block& block) { return block.size > block_bytes; });
  used_blocks_ = used_bytes_ = 0;
  bytes_ = 0;
}

KeyedBatch::KeyedBatch(size_t shares, size_t items_max, uint64_t key_bytes_max)
    : shares_(shares), key_bytes_max_(key_bytes_max) {
  for (auto& share : shares_) share.reserve(items_max);
}

void KeyedBatch::clear() {
  items_ = bowtie::Items({});
  for (auto& share : shares_) share.clear();
  room_.clear();
  odd_.clear();
}

size_t KeyedBatch::assign(const GroupLayout& layout, const bowtie::Items& items, size_t first,
                          Kind kind) {
  // Any constant that no level of buckets has.
  constexpr uint64_t table_salt = 0x6a09e667f3bcc908;
  clear();
  items_ = items;
  kind_ = kind;
  const size_t entries = kind == Kind::partial ? 1 : layout.entries();
  size_t i = first;
  for (; i < items.size() && room_.bytes() < key_bytes_max_; ++i) {
    for (size_t entry = 0; entry < entries; ++entry) {
      const auto key = kind == Kind::partial ? layout.key_of_partial(items[i])
                                             : layout.key_of_item(items, i, entry, scratch_);
      if (!key) continue;
      KeyedItem one{
          .key = *key, .item = static_cast<uint32_t>(i), .entry = static_cast<uint32_t>(entry)};
      if (one.key.data() == scratch_.key.data()) one.key = room_.copy(one.key);
      one.hash = mix64(number_of(one.key) ^ table_salt);
      shares_[share_of(one.hash, shares_.size())].push_back(one);
    }
    if (!scratch_.is_read || !items.is_even(i)) odd_.push_back(static_cast<uint32_t>(i));
  }
  return i - first;
}

Result<std::string_view> KeyedBatch::partial_of(const GroupLayout& layout, const KeyedItem& item,
                                                std::string& room) const {
  if (kind_ == Kind::partial) return items_[item.item];
  if (auto made = layout.make_partial(items_, item.item, item.entry, item.key, room); !made)
    return std::unexpected(made.error());
  return room;
}

// ---- Table.

size_t share_of(uint64_t hash, size_t shares) {
  return shares == 1 ? 0 : high_product(hash, shares);
}

namespace {

uint64_t stride_of(uint64_t partial_bytes) {
  return round_up(partial_bytes, place_unit);
}

std::string_view partial_of_layout(const GroupLayout& layout, const std::byte* at) {
  const auto* partial = reinterpret_cast<const char*>(at);
  return {partial,
          layout.lines() ? RowHead::at(partial).row_bytes : layout.partial_format().record_bytes};
}

}  // namespace

Result<GroupTable> GroupTable::open(const GroupLayout& layout, uint64_t memory_bytes, bool sorts,
                                    unsigned shares, uint64_t partial_bytes) {
  GroupTable table(layout);
  if (partial_bytes == 0) partial_bytes = layout.usual_bytes();
  const uint64_t entry_bytes = stride_of(partial_bytes) + sizeof(Pair);
  if (sorts) {
    table.sort_bytes_ =
        shares * sizeof(sorting::KeyDigits) +
        sorting::extra_bytes<Pair>(memory_bytes / entry_bytes, {.order = {}, .threads = shares});
    memory_bytes -= std::min(memory_bytes, table.sort_bytes_);
  }
  table.memory_bytes_ = memory_bytes;
  table.slot_count_ = 2 * shares * std::max<uint64_t>(16, memory_bytes / entry_bytes / shares);
  const uint64_t slots_bytes = round_up(table.slot_count_ * sizeof(uint64_t), os::page_bytes);
  const uint64_t left = memory_bytes - std::min(memory_bytes, slots_bytes);
  const uint64_t data_bytes = std::min(round_down(left, os::page_bytes), data_bytes_most);
  for (auto [part, bytes] : {std::pair{&table.slots_, slots_bytes},
                             {&table.data_, std::max(data_bytes, os::page_bytes + 0)}}) {
    auto reserved = os::Reservation::reserve(bytes);
    if (!reserved) return std::unexpected(reserved.error());
    reserved->charge();
    *part = std::move(*reserved);
    if (const int error = os::commit(part->begin(), bytes); error != 0)
      return system_error(error, fmt::format("commit {} bytes", bytes), "a table of groups");
    if (bytes >= os::huge_page_bytes) (void)os::advise_huge(part->begin(), bytes, true);
  }
  // Chunks of a huge page: then no two threads wait for the same first use of memory.
  table.data_chunks_ = std::make_unique<Data>();
  table.data_chunks_->begin = table.data_.begin();
  table.data_chunks_->bytes_max = data_bytes;
  table.data_chunks_->chunk_bytes =
      shares == 1 ? data_bytes
                  : std::clamp<uint64_t>(round_down(data_bytes / (64 * shares), os::page_bytes),
                                         os::page_bytes, os::huge_page_bytes);
  const uint64_t share_slots = table.slot_count_ / shares;
  auto* const slots = reinterpret_cast<uint64_t*>(table.slots_.begin());
  table.shares_.reserve(shares);
  for (size_t i = 0; i < shares; ++i)
    table.shares_.push_back(
        Share(layout, i, shares, slots + i * share_slots, share_slots, table.data_chunks_.get()));
  return table;
}

bool GroupTable::Data::take(uint64_t bytes, uint64_t& place, uint64_t& end) {
  uint64_t taken = taken_bytes.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    if (bytes > bytes_max - taken) return false;
    next =
        taken + std::min(std::max(chunk_bytes, round_up(bytes, os::page_bytes)), bytes_max - taken);
  } while (!taken_bytes.compare_exchange_weak(taken, next, std::memory_order_relaxed));
  place = taken;
  end = next;
  return true;
}

bool GroupTable::lend(uint64_t bytes) {
  Data& data = *data_chunks_;
  bytes = round_up(bytes, os::page_bytes);
  if (bytes > data.bytes_max - data.taken_bytes.load(std::memory_order_relaxed)) return false;
  data.bytes_max -= bytes;
  lent_bytes_ += bytes;
  // Pages that were used before the table was cleared.
  const uint64_t begin = round_up(data.bytes_max, os::page_bytes);
  (void)os::discard(data.begin + begin, data_.bytes() - begin);
  return true;
}

uint64_t GroupTable::bytes_for(uint64_t items, uint64_t bytes) const {
  if (!layout_.lines()) return items * (stride_of(layout_.usual_bytes()) + sizeof(Pair));
  return bytes + items * (place_unit + sizeof(Pair));
}

bool GroupTable::holds(uint64_t items, uint64_t bytes) const {
  if (items > slot_count_ / 2) return false;
  return bytes_for(items, bytes) - items * sizeof(Pair) <= data_chunks_->bytes_max;
}

uint64_t GroupTable::size() const {
  uint64_t size = 0;
  for (const Share& share : shares_) size += share.size();
  return size;
}

uint64_t GroupTable::used_bytes() const {
  const uint64_t taken = data_chunks_->taken_bytes.load(std::memory_order_relaxed);
  uint64_t bytes = 0;
  for (const Share& share : shares_) {
    for (const Share::Chunk& chunk : share.chunks_) bytes += chunk.end - chunk.begin;
  }
  return std::min(bytes, taken);
}

uint64_t GroupTable::mean_bytes() const {
  return used_bytes() / std::max<uint64_t>(size(), 1);
}

void GroupTable::clear() {
  // Given back, the pages come again as zeros, which is what free slots are.
  (void)os::discard(slots_.begin(), slots_.bytes());
  data_chunks_->taken_bytes.store(0, std::memory_order_relaxed);
  for (Share& share : shares_) share.clear();
  is_sorted_ = false;
}

std::string_view GroupTable::partial_at(uint64_t place) const {
  return partial_of_layout(layout_, data_.begin() + place);
}

GroupTable::KeptItem GroupTable::kept_item(uint32_t place) const {
  const std::string_view item = partial_at((uint64_t{place} - 1) * place_unit);
  return {.side = items::load<uint32_t>(item.data() + side_offset),
          .next = items::load<uint32_t>(item.data() + link_offset),
          .text = item.substr(kept_bytes)};
}

// The keys of partials, as a sort of strings reads them.
class GroupTable::Keys {
 public:
  explicit Keys(const GroupTable& table) : table_(table) {}

  std::string_view key(uint64_t place) const {
    return table_.layout_.key_of_partial(table_.partial_at(place));
  }
  void prefetch(uint64_t place, size_t from) const {
    __builtin_prefetch(table_.data_.begin() + place + from);
  }
  void prefetch_place(uint64_t) const {}
  bool equal_are_alike() const { return true; }

 private:
  const GroupTable& table_;
};

Status GroupTable::sort() {
  const MemoryCharge charge(sort_bytes_);
  const std::span<Pair> all(pairs(), size());
  const bool numeric = layout_.item_format().numeric();
  in_threads(shares_.size(), [&](size_t number) {
    Pair* pair = pairs();
    for (size_t i = 0; i < number; ++i) pair += shares_[i].size();
    (void)shares_[number].for_places([&](uint64_t place) -> Status {
      const std::string_view key = layout_.key_of_partial(partial_at(place));
      *pair++ = {numeric ? layout_.prefix_of_key(key) : 0, place};
      return {};
    });
  });
  is_sorted_ = true;
  const auto threads = static_cast<unsigned>(shares_.size());
  if (numeric) return sorting::sort_by_number(all, threads);
  const Keys keys(*this);
  const uint64_t taken = data_chunks_->taken_bytes.load(std::memory_order_relaxed);
  const auto place_bits = static_cast<unsigned>(std::bit_width(taken));
  return sorting::StringPairs(keys, false, threads, place_bits).sort(all);
}

// ---- One share.

GroupTable::Share::Share(const GroupLayout& layout, size_t number, size_t shares, uint64_t* slots,
                         uint64_t slot_count, Data* data)
    : layout_(shares == 1 ? layout : layout.clone()),
      number_(number),
      shares_(shares),
      slots_(slots),
      slot_count_(slot_count),
      data_(data),
      partials_(data->begin) {}

bool GroupTable::Share::is_dead(uint64_t place) const {
  return layout_.lines() && RowHead::at(partials_ + place).key_bytes == dead_key_bytes;
}

uint64_t GroupTable::Share::stride_at(uint64_t place) const {
  return stride_of(partial_at(place).size());
}

void GroupTable::Share::clear() {
  size_ = at_ = end_ = 0;
  chunks_.clear();
}

uint64_t GroupTable::Share::first_slot(uint64_t hash) const {
  return high_product(hash * shares_, slot_count_);
}

uint64_t GroupTable::Share::find_slot(uint64_t hash, uint64_t slot) const {
  for (;; ++slot) {
    if (slot == slot_count_) slot = 0;
    const uint64_t content = slots_[slot];
    if (content == 0 || content >> tag_shift == (hash & place_mask)) return slot;
  }
}

uint64_t GroupTable::Share::place_at(uint64_t slot) const {
  return ((slots_[slot] & place_mask) - 1) * place_unit;
}

std::string_view GroupTable::Share::partial_at(uint64_t place) const {
  return partial_of_layout(layout_, partials_ + place);
}

bool GroupTable::Share::take_room(uint64_t bytes, uint64_t& place) {
  const uint64_t stride = stride_of(bytes);
  if (stride > end_ - at_) {
    if (!data_->take(stride, at_, end_)) return false;
    chunks_.push_back({at_, at_});
  }
  place = at_;
  at_ += stride;
  chunks_.back().end = at_;
  return true;
}

bool GroupTable::Share::append(std::string_view partial, uint64_t hash, uint64_t slot) {
  uint64_t place = 0;
  if (!take_room(partial.size(), place)) return false;
  std::memcpy(partials_ + place, partial.data(), partial.size());
  slots_[slot] = hash << tag_shift | (place / place_unit + 1);
  return true;
}

inline void GroupTable::Share::prefetch_partial(uint64_t hash) const {
  const uint64_t slot = find_slot(hash, first_slot(hash));
  if (slots_[slot] == 0) return;
  const std::byte* const partial = partials_ + place_at(slot);
  __builtin_prefetch(partial, 1);
  __builtin_prefetch(partial + layout_.usual_bytes() - 1, 1);
}

Status GroupTable::Share::add(const KeyedBatch& batch, size_t& at) {
  const std::span<const KeyedItem> items = batch.share(number_);
  const bool prefetches = !is_small();
  auto prefetch_slots = [&](size_t begin) {
    const size_t end = std::min(begin + burst_items, prefetches ? items.size() : 0);
    for (size_t i = begin; i < end; ++i) __builtin_prefetch(slots_ + first_slot(items[i].hash), 1);
  };
  auto prefetch_partials = [&](size_t begin) {
    const size_t end = std::min(begin + burst_items, prefetches ? items.size() : 0);
    for (size_t i = begin; i < end; ++i) prefetch_partial(items[i].hash);
  };
  prefetch_slots(at);
  prefetch_slots(at + burst_items);
  prefetch_partials(at);
  while (at < items.size()) {
    const size_t end = std::min(at + burst_items, items.size());
    prefetch_slots(at + 2 * burst_items);
    prefetch_partials(at + burst_items);
    for (; at < end; ++at) {
      const auto added = add_one(batch, items[at]);
      if (!added) return std::unexpected(added.error());
      if (*added == Added::full) return {};
    }
  }
  return {};
}

Result<GroupTable::Share::Added> GroupTable::Share::add_one(const KeyedBatch& batch,
                                                            const KeyedItem& item) {
  uint64_t slot = find_slot(item.hash, first_slot(item.hash));
  for (; slots_[slot] != 0; slot = find_slot(item.hash, slot + 1)) {
    if (are_equal(layout_.key_of_partial(partial_at(place_at(slot))), item.key))
      return kept_ ? keep(batch, item, place_at(slot)) : combine(batch, item, slot);
  }
  if (kept_) return keep_first(batch, item, slot);
  if (size_ >= slot_count_ / 2) return Added::full;
  const auto partial = batch.partial_of(layout_, item, made_);
  if (!partial) return std::unexpected(partial.error());
  if (!append(*partial, item.hash, slot)) return Added::full;
  ++size_;
  count_empty_values(batch);
  return Added::yes;
}

Result<GroupTable::Share::Added> GroupTable::Share::combine(const KeyedBatch& batch,
                                                            const KeyedItem& item, uint64_t slot) {
  for (;;) {
    auto* const partial = reinterpret_cast<char*>(partials_ + place_at(slot));
    const auto added = batch.kind() == KeyedBatch::Kind::partial
                           ? layout_.add_partial(partial, batch.items()[item.item])
                           : layout_.add_item(partial, batch.items(), item.item);
    if (!added) return std::unexpected(added.error());
    if (*added) {
      count_empty_values(batch);
      return Added::yes;
    }
    layout_.lines()->widen(partial_at(place_at(slot)), made_);
    if (!append(made_, item.hash, slot)) return Added::full;
    RowHead{RowHead::at(partial).row_bytes, dead_key_bytes}.store(partial);
  }
}

// ---- Items that are kept whole.

bool GroupTable::Share::append_to_list(std::string_view item, char* list_bytes) {
  auto list = items::load<KeyList>(list_bytes);
  uint64_t at = 0;
  if (kept_bytes + item.size() > std::numeric_limits<uint32_t>::max() ||
      !take_room(kept_bytes + item.size(), at))
    return false;
  const auto place = static_cast<uint32_t>(at / place_unit + 1);
  auto* to = reinterpret_cast<char*>(partials_ + at);
  RowHead{static_cast<uint32_t>(kept_bytes + item.size()), dead_key_bytes}.store(to);
  put(put(to + link_offset, uint32_t{0}), kept_->side);
  std::memcpy(to + kept_bytes, item.data(), item.size());
  if (list.last == 0) {
    list.first = place;
  } else {
    put(reinterpret_cast<char*>(partials_ + (uint64_t{list.last} - 1) * place_unit) + link_offset,
        place);
  }
  list.last = place;
  put(list_bytes, list);
  return true;
}

GroupTable::Share::Added GroupTable::Share::keep(const KeyedBatch& batch, const KeyedItem& item,
                                                 uint64_t place) {
  auto* const partial = reinterpret_cast<char*>(partials_ + place);
  char* const list_bytes = partial + RowHead::bytes + RowHead::at(partial).key_bytes;
  auto list = items::load<KeyList>(list_bytes);
  const bool is_new = list.last_side != kept_->number + 1;
  const uint32_t sides_before = list.sides - !is_new;
  if (is_new) {
    ++list.sides;
    list.last_side = (kept_->number + 1) & KeyList::side_mask;
    if (kept_->side == 0) list.has_first_side = 1;
    put(list_bytes, list);
  }
  if (!kept_->keeps[sides_before][list.has_first_side]) return Added::yes;
  return append_to_list(batch.items()[item.item], list_bytes) ? Added::yes : Added::full;
}

GroupTable::Share::Added GroupTable::Share::keep_first(const KeyedBatch& batch,
                                                       const KeyedItem& item, uint64_t slot) {
  if (!kept_->adds_keys) return Added::yes;
  if (size_ >= slot_count_ / 2 || item.key.size() >= dead_key_bytes / 2) return Added::full;
  const KeyList list{.sides = 1,
                     .last_side = (kept_->number + 1) & KeyList::side_mask,
                     .has_first_side = kept_->side == 0};
  made_.assign(RowHead::bytes, '\0');
  made_.append(item.key).append(reinterpret_cast<const char*>(&list), sizeof list);
  RowHead{static_cast<uint32_t>(made_.size()), static_cast<uint32_t>(item.key.size())}.store(
      made_.data());
  if (!append(made_, item.hash, slot)) return Added::full;
  ++size_;
  if (!kept_->keeps[0][list.has_first_side]) return Added::yes;
  char* const list_bytes =
      reinterpret_cast<char*>(partials_ + place_at(slot)) + RowHead::bytes + item.key.size();
  return append_to_list(batch.items()[item.item], list_bytes) ? Added::yes : Added::full;
}

}  // namespace penstock::files
