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
#include "files/run/file_run.h"
#include "items/hash.h"
#include "items/keys/codec.h"
#include "sorting/sort/in_place/in_place_sort.h"
#include "sorting/sort/strings/string_pairs.h"

namespace penstock::files {
namespace {

constexpr size_t aggregate_bytes = 8;
constexpr size_t wide_bytes = 16;
// A slot's place is in units of eight bytes and has 32 bits, one value of which says "free".
constexpr uint64_t place_unit = 8;
constexpr uint64_t data_bytes_most = place_unit * (std::numeric_limits<uint32_t>::max() - 1);
constexpr unsigned tag_shift = 32;
constexpr uint64_t place_mask = std::numeric_limits<uint32_t>::max();
// Assumed bytes of a key and its text when memory is divided.
constexpr uint64_t text_bytes_usual = 16;

// RowHead::key_bytes of a dead partial.
constexpr uint32_t dead_key_bytes = std::numeric_limits<uint32_t>::max();

template <class Bits>
char* put(char* to, Bits bits) {
  std::memcpy(to, &bits, sizeof bits);
  return to + sizeof bits;
}

uint64_t number_of(std::string_view key) {
  if (key.size() == sizeof(uint64_t)) return items::load<uint64_t>(key.data());
  if (key.size() == sizeof(uint32_t)) return items::load<uint32_t>(key.data());
  return items::hash_bytes(reinterpret_cast<const std::byte*>(key.data()), key.size());
}

// Keys are short.
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
  const bool summing = aggregates.sum || aggregates.min || aggregates.max;
  if (!aggregates.count && !summing && !aggregates.distinct)
    return misuse("group without an aggregate", "group",
                  "--count, --sum, --min, --max, --distinct");
  if (aggregates.distinct && (aggregates.count || summing))
    return misuse("keep items whole and aggregate them", "--distinct", "--distinct alone");
  GroupLayout layout;
  layout.item_ = format;
  layout.aggregates_ = aggregates;
  layout.partial_ = layout.result_ = format;
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

Status GroupLayout::make_partial(const bowtie::Items& items, size_t i, std::string_view key,
                                 std::string& to) const {
  if (lines_) return lines_->make_partial(items, i, key, to);
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

Status GroupLayout::append_result(std::string_view partial, std::string& to) const {
  if (lines_) return lines_->append_result(partial, to);
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

// ---- Table.

Result<GroupTable> GroupTable::open(const GroupLayout& layout, uint64_t memory_bytes, bool sorts) {
  GroupTable table(layout);
  const uint64_t entry_bytes = stride_of(layout.usual_bytes()) + sizeof(Pair);
  if (sorts) {
    table.sort_bytes_ = sizeof(sorting::KeyDigits) +
                        sorting::extra_bytes<Pair>(memory_bytes / entry_bytes, {.order = {}});
    memory_bytes -= std::min(memory_bytes, table.sort_bytes_);
  }
  table.memory_bytes_ = memory_bytes;
  table.slot_count_ = 2 * std::max<uint64_t>(16, memory_bytes / entry_bytes);
  const uint64_t slots_bytes = round_up(table.slot_count_ * sizeof(uint64_t), os::page_bytes);
  const uint64_t left = memory_bytes - std::min(memory_bytes, slots_bytes);
  table.data_bytes_max_ = std::min(round_down(left, os::page_bytes), data_bytes_most);
  for (auto [part, bytes] : {std::pair{&table.slots_, slots_bytes},
                             {&table.data_, std::max(table.data_bytes_max_, os::page_bytes + 0)}}) {
    auto reserved = os::Reservation::reserve(bytes);
    if (!reserved) return std::unexpected(reserved.error());
    reserved->charge();
    *part = std::move(*reserved);
    if (const int error = os::commit(part->begin(), bytes); error != 0)
      return system_error(error, fmt::format("commit {} bytes", bytes), "a table of groups");
    if (bytes >= os::huge_page_bytes) (void)os::advise_huge(part->begin(), bytes, true);
  }
  return table;
}

uint64_t GroupTable::stride_of(uint64_t partial_bytes) {
  return round_up(partial_bytes, place_unit);
}

uint64_t GroupTable::bytes_for(uint64_t items, uint64_t bytes) const {
  if (!layout_.lines()) return items * (stride_of(layout_.usual_bytes()) + sizeof(Pair));
  return bytes + items * (place_unit + sizeof(Pair));
}

bool GroupTable::holds(uint64_t items, uint64_t bytes) const {
  if (items > slot_count_ / 2) return false;
  return bytes_for(items, bytes) - items * sizeof(Pair) <= data_bytes_max_;
}

void GroupTable::clear() {
  // Given back, the pages come again as zeros, which is what free slots are.
  (void)os::discard(slots_.begin(), slots_.bytes());
  size_ = 0;
  data_bytes_ = 0;
  is_sorted_ = false;
}

std::string_view GroupTable::partial_at(uint64_t place) const {
  const auto* partial = reinterpret_cast<const char*>(data_.begin() + place);
  return {partial,
          layout_.lines() ? RowHead::at(partial).row_bytes : layout_.partial_format().record_bytes};
}

uint64_t GroupTable::first_slot(uint64_t hash) const {
  return high_product(hash, slot_count_);
}

uint64_t GroupTable::find_slot(uint64_t hash, uint64_t slot) const {
  for (;; ++slot) {
    if (slot == slot_count_) slot = 0;
    const uint64_t content = slots()[slot];
    if (content == 0 || content >> tag_shift == (hash & place_mask)) return slot;
  }
}

uint64_t GroupTable::place_at(uint64_t slot) const {
  return ((slots()[slot] & place_mask) - 1) * place_unit;
}

bool GroupTable::is_dead(uint64_t place) const {
  return layout_.lines() && RowHead::at(data_.begin() + place).key_bytes == dead_key_bytes;
}

bool GroupTable::append(std::string_view partial, uint64_t hash, uint64_t slot) {
  const uint64_t stride = stride_of(partial.size());
  if (stride > data_bytes_max_ - data_bytes_) return false;
  std::memcpy(data_.begin() + data_bytes_, partial.data(), partial.size());
  slots()[slot] = hash << tag_shift | (data_bytes_ / place_unit + 1);
  data_bytes_ += stride;
  return true;
}

size_t GroupTable::look_up(const bowtie::Items& items, size_t first, Kind kind) {
  // Any constant that no level of buckets has.
  constexpr uint64_t table_salt = 0x6a09e667f3bcc908;
  items_ = &items;
  first_ = first;
  kind_ = kind;
  const std::span<Keyed> looked_up(keyed_.get(), std::min(items.size() - first, looked_up_max));
  for (Keyed& one : looked_up) {
    one.key = kind == Kind::partial ? layout_.key_of_partial(items[first])
                                    : layout_.key_of_item(items, first, one.room);
    one.hash = mix64(number_of(one.key) ^ table_salt);
    __builtin_prefetch(slots() + first_slot(one.hash));
    ++first;
  }
  if (is_small()) return looked_up.size();
  for (const Keyed& one : looked_up) {
    const uint64_t slot = find_slot(one.hash, first_slot(one.hash));
    if (slots()[slot] != 0) prefetch(place_at(slot));
  }
  return looked_up.size();
}

Result<std::string_view> GroupTable::partial_of(size_t i) {
  if (kind_ == Kind::partial) return (*items_)[first_ + i];
  if (auto made = layout_.make_partial(*items_, first_ + i, keyed_[i].key, made_); !made)
    return std::unexpected(made.error());
  return made_;
}

Result<GroupTable::Added> GroupTable::add(size_t i) {
  const Keyed& one = keyed_[i];
  uint64_t slot = find_slot(one.hash, first_slot(one.hash));
  for (; slots()[slot] != 0; slot = find_slot(one.hash, slot + 1)) {
    if (are_equal(key_at(place_at(slot)), one.key)) return combine(i, slot);
  }
  if (size_ >= slot_count_ / 2) return Added::full;
  const auto partial = partial_of(i);
  if (!partial) return std::unexpected(partial.error());
  if (!append(*partial, one.hash, slot)) return Added::full;
  ++size_;
  return Added::inserted;
}

Result<GroupTable::Added> GroupTable::combine(size_t i, uint64_t slot) {
  for (;;) {
    const uint64_t place = place_at(slot);
    auto* const partial = reinterpret_cast<char*>(data_.begin() + place);
    const auto added = kind_ == Kind::partial ? layout_.add_partial(partial, (*items_)[first_ + i])
                                              : layout_.add_item(partial, *items_, first_ + i);
    if (!added) return std::unexpected(added.error());
    if (*added) return Added::combined;
    layout_.lines()->widen(partial_at(place), made_);
    if (!append(made_, keyed_[i].hash, slot)) return Added::full;
    RowHead{RowHead::at(partial).row_bytes, dead_key_bytes}.store(partial);
  }
}

// As a sort of strings wants them.
class GroupTable::Keys {
 public:
  explicit Keys(const GroupTable& table) : table_(table) {}

  std::string_view key(uint64_t place) const { return table_.key_at(place); }
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
  const std::span<Pair> pairs(reinterpret_cast<Pair*>(slots_.begin()), size_);
  const bool numeric = layout_.item_format().numeric();
  uint64_t place = 0;
  for (Pair& pair : pairs) {
    while (is_dead(place)) place += stride_of(partial_at(place).size());
    pair = {numeric ? layout_.prefix_of_key(key_at(place)) : 0, place};
    place += stride_of(partial_at(place).size());
  }
  is_sorted_ = true;
  if (numeric) return sorting::sort_by_number(pairs, 1);
  const Keys keys(*this);
  const auto place_bits = static_cast<unsigned>(std::bit_width(data_bytes_));
  return sorting::StringPairs(keys, false, 1, place_bits).sort(pairs);
}

}  // namespace penstock::files
