#include "files/bowtie/computations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "items/keys/codec.h"

namespace penstock::bowtie {
namespace {

// The error for a fixed item cut off by the end, or for a line or row longer than `item_bytes_max`,
// number `item` of the input.
std::unexpected<Error> bad_item(const items::Format& format, uint32_t input, size_t item_bytes_max,
                                uint64_t item) {
  if (format.fixed()) {
    return failure(ErrorCode::corrupt, "read whole items of its size",
                   fmt::format("input {}", input), "another --format or --record");
  }
  auto error = items::too_long(format, item_bytes_max, fmt::format("input {}", input));
  error.error().item = item;
  return error;
}

// The next size of a window that holds no whole item: one byte more, but an eighth of a large one
// that has to be searched from its beginning again.
size_t wider(const items::Format& format, size_t window_bytes, size_t item_bytes_max) {
  constexpr size_t large_bytes = 256 * KiB;
  const bool from_begin = !format.framing().is_by_line() && window_bytes >= large_bytes;
  return std::min(window_bytes + (from_begin ? window_bytes / 8 : 1), item_bytes_max);
}

// `lines`: lines up to the bad row, not counting the header.
std::unexpected<Error> bad_row(const items::Format& format, uint32_t input, uint64_t lines,
                               const items::ItemFault& fault) {
  const uint64_t number = format.header_lines + lines;
  return items::bad_item(format, items::Place{number, number}.text(format), fault, {},
                         fmt::format("input {}", input));
}

}  // namespace

// ---- Items of one input.

// Longer items are written in pieces, because the room of an output may be no larger.
constexpr size_t piece_bytes_max = 4 * KiB;

bool append(OutputStream& output, std::string_view bytes) {
  if (bytes.size() > piece_bytes_max) return output.append(bytes.data(), bytes.size());
  const std::span<std::byte> room = output.room(bytes.size());
  if (room.empty()) return false;
  std::memcpy(room.data(), bytes.data(), bytes.size());
  output.advance(bytes.size());
  return true;
}

bool append_item(OutputStream& output, const items::Format& format, std::string_view item) {
  return append(output, item) &&
         (!items::lacks_line_end(format, item) || append(output, {&format.line_end, 1}));
}

void LongText::free() {
  std::string().swap(text_);  // (An assignment would keep the memory.)
  (void)loan_.set(0);
}

bool ItemReader::next() {
  if (done_) return false;
  // The position advances item by item, because the scheduler plans with it.
  if (at_ != nullptr) input_->advance_to(at_);
  at_ = input_->position();
  if (!format_.fixed()) return next_line();
  const size_t item_bytes = format_.record_bytes;
  if (static_cast<size_t>(end_ - at_) < item_bytes || end_ == nullptr) {
    const auto window = input_->window(item_bytes);
    at_ = window.data();
    end_ = window.data() + window.size();
    if (window.size() < item_bytes) {
      done_ = true;
      malformed_ = !window.empty();
      return false;
    }
  }
  item_ = {reinterpret_cast<const char*>(at_), item_bytes};
  at_ += item_bytes;
  return true;
}

// The longest line is the largest size a window always has, wherever in a block the line begins: a
// reordered input must not become readable or unreadable.
bool ItemReader::next_line() {
  auto malformed = [this] {
    malformed_ = done_ = true;
    return false;
  };
  size_t searched = 0;
  for (auto window = input_->window();;) {
    const std::byte* const end = window.data() + window.size();
    // Quotes of CSV are counted from the beginning of a row, and so are length prefixes.
    const std::byte* const from = window.data() + (format_.framing().is_by_line() ? searched : 0);
    if (const size_t bytes = items::item_bytes_at(format_, from, end); bytes > 0) {
      at_ = from + bytes;
      end_ = end;
      break;
    }
    searched = window.size();
    if (input_->is_full()) item_bytes_max_ = searched;
    if (searched >= item_bytes_max_) return malformed();
    window = input_->window(wider(format_, searched, item_bytes_max_));
    if (window.size() > searched) continue;
    if (input_->is_full()) {
      item_bytes_max_ = searched;
      return malformed();
    }
    // An empty window: the end, or an error.
    done_ = window.empty() || !input_->status();
    if (done_) return false;
    at_ = end_ = window.data() + window.size();
    break;
  }
  const std::byte* const from = input_->position();
  item_ = {reinterpret_cast<const char*>(from), static_cast<size_t>(at_ - from)};
  if (has_rules_) fault_ = fault_of(format_, item_, is_even_);
  ++lines_;
  return (item_.size() <= item_bytes_max_ && !fault_) || malformed();
}

Status ItemReader::status() const {
  if (auto status = input_->status(); !status) return status;
  if (fault_) return bad_row(format_, input_->index(), lines_, *fault_);
  if (malformed_) return bad_item(format_, input_->index(), item_bytes_max_, lines_ + 1);
  return {};
}

Status ItemReader::no_room() const {
  if (auto status = input_->status(); !status) return status;
  return bad_item(format_, input_->index(), item_.size() - 1, lines_);
}

BatchReader::BatchReader(InputStream& input, const items::Format& format, size_t item_bytes_max,
                         const std::vector<size_t>& columns, uint64_t passed)
    : input_(input),
      format_(format),
      item_bytes_max_(item_bytes_max),
      rows_(items::RowIndex::of(format, columns)),
      passed_(passed) {}

Status BatchReader::no_room(size_t item_bytes) const {
  if (auto status = input_.status(); !status) return status;
  return bad_item(format_, input_.index(), item_bytes - 1, passed_ + 1);
}

bool BatchReader::next() {
  if (bytes_ > 0) input_.advance(std::exchange(bytes_, 0));
  passed_ += items_.size();
  lines_.clear();
  items_ = Items(lines_);
  return status_ && (format_.fixed() ? next_fixed() : next_lines());
}

bool BatchReader::next_fixed() {
  const auto window = input_.window(format_.record_bytes);
  const size_t items = std::min<size_t>(window.size() / format_.record_bytes, batch_items_max);
  items_ = Items(window.data(), format_.record_bytes, items);
  bytes_ = items * format_.record_bytes;
  if (items > 0) return true;
  status_ = input_.status();
  if (status_ && !window.empty())
    status_ = bad_item(format_, input_.index(), item_bytes_max_, passed_ + 1);
  return false;
}

bool BatchReader::next_lines() {
  if (rows_) rows_->clear();
  for (size_t wanted = 1; lines_.empty();) {
    const auto window = input_.window(wanted);
    status_ = input_.status();
    if (!status_ || window.empty()) return false;
    const bool is_last = window.size() < wanted && !input_.is_full();
    const size_t item_bytes_max = input_.is_full() ? window.size() : item_bytes_max_;
    const std::byte* at = window.data();
    const std::byte* const end = at + window.size();
    while (at < end && lines_.size() < batch_items_max) {
      const size_t bytes = item_bytes_at(at, end, is_last);
      if (bytes == 0) break;
      lines_.push_back(items::text_at(at, bytes));
      at += bytes;
    }
    bytes_ = static_cast<size_t>(at - window.data());
    if (lines_.empty() && status_ && window.size() >= item_bytes_max)
      status_ = bad_item(format_, input_.index(), item_bytes_max, passed_ + 1);
    if (lines_.empty() && !status_) return false;
    wanted = wider(format_, window.size(), item_bytes_max);
  }
  items_ = Items(lines_, rows_ ? &*rows_ : nullptr);
  return true;
}

// Returns the bytes of the item that begins at `at`; 0 if it does not end before `end`, or if it is
// malformed (status_ has the error).
size_t BatchReader::item_bytes_at(const std::byte* at, const std::byte* end, bool is_last) {
  size_t bytes = 0;
  std::optional<items::ItemFault> fault;
  if (rows_) {
    bytes = rows_->add(at, end, is_last);
    fault = rows_->fault();
  } else {
    bytes = items::item_bytes_at(format_, at, end);
    if (bytes == 0 && is_last) bytes = static_cast<size_t>(end - at);
    if (bytes > 0) fault = fault_of(format_, items::text_at(at, bytes));
  }
  if (fault) {
    status_ = bad_row(format_, input_.index(), passed_ + lines_.size() + 1, *fault);
  } else if (bytes > item_bytes_max_) {
    status_ = bad_item(format_, input_.index(), item_bytes_max_, passed_ + lines_.size() + 1);
  }
  return status_ ? bytes : 0;
}

Items items_at(const items::Format& format, const std::byte* begin, const std::byte* end,
               std::vector<std::string_view>& lines) {
  if (format.fixed()) {
    const size_t items = static_cast<size_t>(end - begin) / format.record_bytes;
    return {begin, format.record_bytes, std::min(items, batch_items_max)};
  }
  lines.clear();
  while (lines.size() < batch_items_max) {
    const std::string_view line = items::item_at(format, begin, end);
    if (line.empty()) break;
    lines.push_back(line);
    begin += line.size();
  }
  return Items(lines);
}

// ---- Distribute.

namespace {

// Appends item i to output put(i). Common sizes are compile-time constants.
template <size_t fixed_bytes, class Put>
bool scatter(Streams& streams, const std::byte* data, size_t item_bytes, size_t items, Put put) {
  const size_t bytes = fixed_bytes != 0 ? fixed_bytes : item_bytes;
  for (size_t i = 0; i < items; ++i) {
    OutputStream& output = streams.output(put(i));
    const std::span<std::byte> room = output.room(bytes);
    if (room.empty()) return false;
    std::memcpy(room.data(), data + i * bytes, bytes);
    output.advance(bytes);
  }
  return true;
}

template <class Put>
bool scatter(Streams& streams, const items::Format& format, const Items& items, Put put) {
  if (items.fixed()) {
    const size_t bytes = items[0].size();
    if (bytes == sizeof(uint64_t))
      return scatter<sizeof(uint64_t)>(streams, items.data(), bytes, items.size(), put);
    if (bytes == 2 * sizeof(uint64_t))
      return scatter<2 * sizeof(uint64_t)>(streams, items.data(), bytes, items.size(), put);
    return scatter<0>(streams, items.data(), bytes, items.size(), put);
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (!append_item(streams.output(put(i)), format, items[i])) return false;
  }
  return true;
}

}  // namespace

Computation distribute(const items::Format& format, ToOutput to_output) {
  return [format, to_output = std::move(to_output)](Streams& streams) -> Status {
    std::vector<uint32_t> targets(batch_items_max);
    auto put = [&](const Items& items) -> Status {
      to_output(items, targets.data());
      for (size_t k = 0; k < items.size(); ++k) {
        if (targets[k] >= streams.outputs()) {
          return failure(ErrorCode::invalid_argument,
                         fmt::format("put an item into output {}", targets[k]), "distribute");
        }
      }
      if (!scatter(streams, format, items, [&](size_t k) { return targets[k]; }))
        return streams.status();
      return {};
    };
    for (uint32_t i = 0; i < streams.inputs(); ++i) {
      BatchReader reader(streams.input(i), format, streams.item_bytes_max());
      while (reader.next()) {
        if (auto status = put(reader.items()); !status) return status;
      }
      if (!reader.status()) return reader.status();
    }
    return {};
  };
}

ToOutput by_key_bits(const items::Format& format, unsigned skip_bits, unsigned bits) {
  constexpr unsigned prefix_bits = 64;
  const bool half = format.numeric() && items::item_bytes_of(format.type) == sizeof(uint32_t);
  const unsigned no_key_bits = half ? prefix_bits / 2 : 0;
  PENSTOCK_CHECK(skip_bits + no_key_bits + bits <= prefix_bits && bits < 32,
                 "bits of the key's beginning");
  return [order = items::ItemOrder(format), skip_bits, no_key_bits, bits](const Items& items,
                                                                          uint32_t* to) {
    for (size_t i = 0; i < items.size(); ++i) {
      const uint64_t prefix = order.prefix(items[i]) << (skip_bits + no_key_bits);
      to[i] = bits == 0 ? 0 : static_cast<uint32_t>(prefix >> (prefix_bits - bits));
    }
  };
}

ToOutput by_range(items::Cuts cuts, std::function<void(size_t number, std::string_view item)> odd) {
  return [cuts = std::move(cuts), odd = std::move(odd), position = uint64_t{0},
          room = std::string()](const Items& items, uint32_t* to) mutable {
    const items::Format& format = cuts.order().format();
    if (format.numeric()) {
      cuts.parts_of(items.data(), items.size(), position, to);
      position += items.size() * format.record_bytes;
      return;
    }
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string_view item = items[i];
      bool is_read = true;
      to[i] = cuts.part_of(cuts.order().key(item, room, is_read), position);
      if ((!is_read || !items.is_even(i)) && odd) odd(i, item);
      position += format.framing().counts_positions
                      ? 1
                      : item.size() + (items::lacks_line_end(format, item) ? 1 : 0);
    }
  };
}

}  // namespace penstock::bowtie
