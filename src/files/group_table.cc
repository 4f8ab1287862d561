#include "files/group_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/bits.h"
#include "base/check.h"
#include "base/misuse.h"
#include "files/file_run.h"
#include "record/codec.h"
#include "record/hash.h"

namespace penstock::files {
namespace {

constexpr size_t aggregate_bytes = 8;
constexpr size_t wide_bytes = 16;
// A slot's place is in units of eight bytes and has 32 bits, one value of which says "free".
constexpr uint64_t place_unit = 8;
constexpr uint64_t data_bytes_most = place_unit * (std::numeric_limits<uint32_t>::max() - 1);
constexpr unsigned tag_shift = 32;
// What a line is taken for when memory is divided.
constexpr uint64_t line_bytes_usual = 32;

template <class Bits>
char* put(char* to, Bits bits) {
  std::memcpy(to, &bits, sizeof bits);
  return to + sizeof bits;
}

uint64_t number_of(std::string_view key) {
  if (key.size() == sizeof(uint64_t)) return record::load<uint64_t>(key.data());
  if (key.size() == sizeof(uint32_t)) return record::load<uint32_t>(key.data());
  return record::hash_bytes(reinterpret_cast<const std::byte*>(key.data()), key.size());
}

uint64_t high_product(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<__uint128_t>(a) * b) >> 64);
}

// "17\tline\n": the count, and how many bytes it takes with its tab.
std::pair<uint64_t, size_t> count_of_line(std::string_view partial) {
  uint64_t count = 0;
  const auto parsed = std::from_chars(partial.data(), partial.data() + partial.size(), count);
  return {count, static_cast<size_t>(parsed.ptr - partial.data()) + 1};
}

std::unexpected<Error> overflow(const record::Format& format, std::string_view partial) {
  return failure(ErrorCode::unsupported,
                 fmt::format("add up the values of key {}: the sum does not fit 64 bits",
                             printable_key(format, partial)),
                 "group", "--count, --min or --max");
}

bool is_integer(record::Type type) {
  using enum record::Type;
  return type == u32 || type == u64 || type == i32 || type == i64;
}

}  // namespace

// ---- Layout.

Result<GroupLayout> GroupLayout::make(const record::Format& format, const Aggregates& aggregates) {
  const bool summing = aggregates.sum || aggregates.min || aggregates.max;
  if (!aggregates.count && !summing && !aggregates.distinct)
    return misuse("group without an aggregate", "group",
                  "--count, --sum, --min, --max, --distinct");
  if (aggregates.distinct && (aggregates.count || summing))
    return misuse("keep items whole and aggregate them", "--distinct", "--distinct alone");
  GroupLayout layout;
  layout.item_ = format;
  layout.aggregates_ = aggregates;
  if (summing) {
    ValueField value{.bytes = std::min(format.key_bytes, 8u)};
    value.is_signed = format.type == record::Type::i32 || format.type == record::Type::i64;
    if (aggregates.value) {
      value = *aggregates.value;
    } else if (format.type == record::Type::kv64) {
      value.offset = 8;
    } else if (!is_integer(format.type)) {
      return misuse(fmt::format("find the value of a {}", record::name_of(format.type)), "--value",
                    format.type == record::Type::record ? "--value OFFSET:LENGTH" : "--count");
    }
    if (!format.fixed() || value.bytes == 0 || value.bytes > sizeof(uint64_t) ||
        uint64_t{value.offset} + value.bytes > format.record_bytes) {
      return misuse(fmt::format("use a value of {} bytes at {}", value.bytes, value.offset),
                    "--value", "1 to 8 bytes inside the item");
    }
    layout.value_ = value;
  }
  layout.partial_ = layout.result_ = format;
  if (!format.fixed() || aggregates.distinct) return layout;
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

std::string_view GroupLayout::key_of_item(std::string_view item) const {
  return key_of(item_, item);
}

std::string_view GroupLayout::key_of_partial(std::string_view partial) const {
  if (!lines()) return partial.substr(partial_.key_offset, partial_.key_bytes);
  if (aggregates_.count) partial.remove_prefix(count_of_line(partial).second);
  return record::without_line_end(item_, partial);
}

uint64_t GroupLayout::count_of_partial(std::string_view partial) const {
  if (lines()) return count_of_line(partial).first;
  return record::load<uint64_t>(partial.data() + aggregates_offset());
}

uint64_t GroupLayout::prefix_of_key(std::string_view key) const {
  if (!item_.numeric())
    return record::prefix_of(reinterpret_cast<const std::byte*>(key.data()), key.size());
  if (key.size() == sizeof(uint32_t))
    return record::encode_key32(item_.type, record::load<uint32_t>(key.data()));
  return record::encode_key64(item_.type, record::load<uint64_t>(key.data()));
}

uint64_t GroupLayout::value_of_item(std::string_view item) const {
  unsigned char bytes[8] = {};
  std::memcpy(bytes, item.data() + value_.offset, value_.bytes);
  if (value_.big_endian) std::reverse(bytes, bytes + value_.bytes);
  uint64_t value = record::load<uint64_t>(bytes);
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

void GroupLayout::combine(Values& into, const Values& values) const {
  into.count += values.count;
  into.sum += values.sum;
  auto before = [&](uint64_t a, uint64_t b) {
    return value_.is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  if (before(values.min, into.min)) into.min = values.min;
  if (before(into.max, values.max)) into.max = values.max;
}

Status append_result(const GroupLayout& layout, std::string_view partial, std::string& to) {
  const Aggregates& aggregates = layout.aggregates_;
  if (aggregates.like_uniq) {
    const auto [count, bytes] = count_of_line(partial);
    fmt::format_to(std::back_inserter(to), "{:7} ", count);
    to.append(partial.substr(bytes));
    return {};
  }
  if (!aggregates.sum || !layout.sum_is_wide()) {
    to.append(partial);
    return {};
  }
  const size_t sum_offset = layout.aggregates_offset() + (aggregates.count ? aggregate_bytes : 0);
  const auto sum = record::load<__int128_t>(partial.data() + sum_offset);
  const auto narrow = static_cast<int64_t>(sum);
  if (narrow != sum) return overflow(layout.partial_, partial);
  to.append(partial.substr(0, sum_offset));
  to.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  to.append(partial.substr(sum_offset + wide_bytes));
  return {};
}

void make_partial(const GroupLayout& layout, std::string_view item, std::string& to) {
  if (layout.aggregates_.distinct) {
    to.assign(item);
    if (layout.lines() && !item.ends_with('\n')) to += '\n';
    return;
  }
  if (layout.lines()) {
    to.assign("1\t").append(record::without_line_end(layout.item_format(), item)) += '\n';
    return;
  }
  to.assign(layout.key_of_item(item));
  to.resize(layout.partial_.record_bytes);
  layout.write_values(layout.values_of_item(item), to.data() + layout.aggregates_offset());
}

uint32_t bucket_of(std::string_view key, uint32_t level, uint32_t buckets) {
  return static_cast<uint32_t>(
      high_product(mix64(number_of(key) ^ mix64(uint64_t{level} + 1)), buckets));
}

// ---- Table.

Result<GroupTable> GroupTable::open(const GroupLayout& layout, uint64_t memory_bytes) {
  GroupTable table(layout);
  table.memory_bytes_ = memory_bytes;
  const uint64_t text_bytes =
      layout.lines() ? line_bytes_usual : uint64_t{layout.partial_.record_bytes};
  const uint64_t entries =
      std::max<uint64_t>(16, memory_bytes / (table.stride_of(text_bytes) + sizeof(Pair)));
  table.slot_count_ = 2 * entries;
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

uint64_t GroupTable::stride_of(uint64_t text_bytes) const {
  return round_up(text_bytes + (layout_.lines() ? sizeof(LineHeader) : 0), place_unit);
}

uint64_t GroupTable::bytes_for(uint64_t items, uint64_t bytes) const {
  if (!layout_.lines()) return items * (stride_of(layout_.partial_.record_bytes) + sizeof(Pair));
  return bytes + items * (sizeof(LineHeader) + place_unit + sizeof(Pair));
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

uint64_t GroupTable::stride_at(uint64_t place) const {
  if (!layout_.lines()) return stride_of(layout_.partial_.record_bytes);
  LineHeader header;
  std::memcpy(&header, data_.begin() + place, sizeof header);
  return stride_of(header.bytes);
}

std::string_view GroupTable::key_at(uint64_t place) const {
  const auto* entry = reinterpret_cast<const char*>(data_.begin() + place);
  if (!layout_.lines()) return {entry + layout_.partial_.key_offset, layout_.partial_.key_bytes};
  return {entry + sizeof(LineHeader), record::load<LineHeader>(entry).bytes};
}

std::string_view GroupTable::partial_at(uint64_t place) {
  if (!layout_.lines()) {
    return {reinterpret_cast<const char*>(data_.begin() + place), layout_.partial_.record_bytes};
  }
  shown_.clear();
  if (layout_.aggregates_.count) {
    LineHeader header;
    std::memcpy(&header, data_.begin() + place, sizeof header);
    shown_ = std::to_string(header.count) + '\t';
  }
  shown_.append(key_at(place)) += '\n';
  return shown_;
}

template <bool from_partial>
void GroupTable::write_entry(uint64_t place, std::string_view item) {
  auto* entry = reinterpret_cast<char*>(data_.begin() + place);
  if (layout_.lines()) {
    const std::string_view key =
        from_partial ? layout_.key_of_partial(item) : layout_.key_of_item(item);
    LineHeader header{.count = 1, .bytes = key.size()};
    if (from_partial && layout_.aggregates_.count) header.count = count_of_line(item).first;
    std::memcpy(put(entry, header), key.data(), key.size());
  } else if (from_partial || layout_.aggregates_.distinct) {
    std::memcpy(entry, item.data(), item.size());
  } else {
    const std::string_view key = layout_.key_of_item(item);
    std::memcpy(entry, key.data(), key.size());
    layout_.write_values(layout_.values_of_item(item), entry + layout_.aggregates_offset());
  }
}

template <bool from_partial>
Status GroupTable::combine(uint64_t place, std::string_view item) {
  if (layout_.aggregates_.distinct) return {};
  auto* entry = reinterpret_cast<char*>(data_.begin() + place);
  if (layout_.lines()) {
    auto header = record::load<LineHeader>(entry);
    header.count += from_partial ? count_of_line(item).first : 1;
    put(entry, header);
    return {};
  }
  char* const aggregates = entry + layout_.aggregates_offset();
  GroupLayout::Values values = layout_.values_of_partial(aggregates);
  layout_.combine(values, from_partial
                              ? layout_.values_of_partial(item.data() + layout_.aggregates_offset())
                              : layout_.values_of_item(item));
  if (!layout_.sum_is_wide() && values.sum >> 64 != 0) {
    return overflow(layout_.partial_, {entry, static_cast<size_t>(layout_.partial_.record_bytes)});
  }
  layout_.write_values(values, aggregates);
  return {};
}

template <bool from_partial>
Result<GroupTable::Added> GroupTable::add(std::string_view item) {
  const std::string_view key =
      from_partial ? layout_.key_of_partial(item) : layout_.key_of_item(item);
  // Any constant that no level of buckets has.
  constexpr uint64_t table_salt = 0x6a09e667f3bcc908;
  const uint64_t hash = mix64(number_of(key) ^ table_salt);
  const uint64_t tag = hash << tag_shift;
  uint64_t slot = high_product(hash, slot_count_);
  for (;; slot = slot + 1 == slot_count_ ? 0 : slot + 1) {
    const uint64_t content = slots()[slot];
    if (content == 0) break;
    if ((content ^ tag) >> tag_shift != 0) continue;
    const uint64_t place = ((content & std::numeric_limits<uint32_t>::max()) - 1) * place_unit;
    if (key_at(place) != key) continue;
    if (auto status = combine<from_partial>(place, item); !status)
      return std::unexpected(status.error());
    return Added::combined;
  }
  const uint64_t stride = stride_of(layout_.lines() ? key.size() : layout_.partial_.record_bytes);
  if (size_ >= slot_count_ / 2 || stride > data_bytes_max_ - data_bytes_) return Added::full;
  write_entry<from_partial>(data_bytes_, item);
  slots()[slot] = tag | (data_bytes_ / place_unit + 1);
  data_bytes_ += stride;
  ++size_;
  return Added::inserted;
}

template Result<GroupTable::Added> GroupTable::add<false>(std::string_view item);
template Result<GroupTable::Added> GroupTable::add<true>(std::string_view item);

void GroupTable::sort() {
  uint64_t place = 0;
  for (uint64_t i = 0; i < size_; ++i) {
    pairs()[i] = {layout_.prefix_of_key(key_at(place)), place};
    place += stride_at(place);
  }
  is_sorted_ = true;
  const bool numeric = layout_.item_.numeric();
  std::sort(pairs(), pairs() + size_, [&](const Pair& a, const Pair& b) {
    if (a.prefix != b.prefix || numeric) return a.prefix < b.prefix;
    return key_at(a.place) < key_at(b.place);
  });
}

}  // namespace penstock::files
