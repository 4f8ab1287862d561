#include "bowtie/computations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "record/codec.h"

namespace penstock::bowtie {
namespace {

// So many items are shown to a function at once: enough to make its call cheap, few enough for
// their targets to stay in the first cache.
constexpr size_t batch_items_max = 1024;

// Of a fixed size, and cut off by the end; or a line or row of more than `item_bytes_max`.
std::unexpected<Error> bad_item(const record::Format& format, uint32_t input,
                                size_t item_bytes_max) {
  if (format.fixed()) {
    return failure(ErrorCode::corrupt, "read whole items of its size",
                   fmt::format("input {}", input), "another --format or --record");
  }
  return failure(ErrorCode::corrupt,
                 fmt::format("read a {} of more than {} bytes", format.lines() ? "line" : "row",
                             item_bytes_max),
                 fmt::format("input {}", input), "more memory (a larger -S)");
}

// `lines`: up to it, without a header.
std::unexpected<Error> bad_row(const record::Format& format, uint32_t input, uint64_t lines,
                               const record::RowFault& fault) {
  return failure(ErrorCode::corrupt,
                 fmt::format("read row {}: at byte {} of it is {}", format.header_lines + lines,
                             fault.at, fault.what),
                 fmt::format("input {}", input), record::hint_of_fault(format));
}

}  // namespace

// ---- Items of one input.

bool append(OutputStream& output, std::string_view bytes) {
  const std::span<std::byte> room = output.room(bytes.size());
  if (room.empty()) return false;
  std::memcpy(room.data(), bytes.data(), bytes.size());
  output.advance(bytes.size());
  return true;
}

bool append_item(OutputStream& output, const record::Format& format, std::string_view item) {
  return append(output, item) &&
         (!record::lacks_line_end(format, item) || append(output, {&format.line_end, 1}));
}

bool ItemReader::next() {
  if (done_) return false;
  // The position is told item by item: the scheduler plans with it.
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

// A line may be as long as a window can always be, wherever in its block it begins: an input whose
// order of lines changes must not become readable, or unreadable, by it.
bool ItemReader::next_line() {
  auto malformed = [this] {
    malformed_ = done_ = true;
    return false;
  };
  size_t searched = 0;
  for (auto window = input_->window();;) {
    const std::byte* const end = window.data() + window.size();
    // Of rows, quotes are counted from the beginning on, and lengths stand there.
    const std::byte* const from = window.data() + (format_.has_rules() ? 0 : searched);
    if (const size_t bytes = record::item_bytes_at(format_, from, end); bytes > 0) {
      at_ = from + bytes;
      end_ = end;
      break;
    }
    searched = window.size();
    if (searched >= item_bytes_max_) return malformed();
    window = input_->window(searched + 1);
    if (window.size() > searched) continue;
    // The end, or an error.
    done_ = window.empty() || !input_->status();
    if (done_) return false;
    at_ = end_ = window.data() + window.size();
    break;
  }
  const std::byte* const from = input_->position();
  item_ = {reinterpret_cast<const char*>(from), static_cast<size_t>(at_ - from)};
  fault_ = fault_of(format_, item_);
  ++lines_;
  return (item_.size() <= item_bytes_max_ && !fault_) || malformed();
}

Status ItemReader::status() const {
  if (auto status = input_->status(); !status) return status;
  if (fault_) return bad_row(format_, input_->index(), lines_, *fault_);
  if (malformed_) return bad_item(format_, input_->index(), item_bytes_max_);
  return {};
}

// ---- Distribute: items in batches.

namespace {

// Calls take(items, bytes) with the items of an input, batch by batch; the batch is consumed when
// it returns true. A last line without newline is shown as it is.
template <class Take>
Status for_each_batch(InputStream& input, const record::Format& format, size_t item_bytes_max,
                      Take take) {
  if (format.fixed()) {
    const size_t item_bytes = format.record_bytes;
    for (;;) {
      const auto window = input.window(item_bytes);
      const size_t items = std::min(window.size() / item_bytes, batch_items_max);
      if (items == 0) {
        if (auto status = input.status(); !status) return status;
        if (!window.empty()) return bad_item(format, input.index(), item_bytes_max);
        return {};
      }
      if (auto status = take(Items(window.data(), item_bytes, items)); !status) return status;
      input.advance(items * item_bytes);
    }
  }
  std::vector<std::string_view> lines;
  uint64_t passed = 0;
  for (size_t wanted = 1;;) {
    const auto window = input.window(wanted);
    if (auto status = input.status(); !status) return status;
    if (window.empty()) return {};
    lines.clear();
    size_t at = 0;
    while (lines.size() < batch_items_max) {
      const std::byte* const from = window.data() + at;
      const size_t bytes = record::item_bytes_at(format, from, window.data() + window.size());
      if (bytes == 0) break;
      if (bytes > item_bytes_max) return bad_item(format, input.index(), item_bytes_max);
      lines.push_back(record::text_at(from, bytes));
      at += bytes;
    }
    if (lines.empty() && window.size() >= wanted) {
      if (window.size() >= item_bytes_max) return bad_item(format, input.index(), item_bytes_max);
      wanted = window.size() + 1;
      continue;
    }
    if (lines.empty()) {
      lines.emplace_back(reinterpret_cast<const char*>(window.data()), window.size());
      at = window.size();
    }
    for (size_t i = 0; format.has_rules() && i < lines.size(); ++i) {
      if (const auto fault = fault_of(format, lines[i]))
        return bad_row(format, input.index(), passed + i + 1, *fault);
    }
    passed += lines.size();
    if (auto status = take(Items(lines)); !status) return status;
    input.advance(at);
    wanted = 1;
  }
}

// Puts item i into put(i). Sizes that are common are known to the compiler.
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
bool scatter(Streams& streams, const record::Format& format, const Items& items, Put put) {
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

Computation distribute(const record::Format& format, ToOutput to_output) {
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
      auto status = for_each_batch(streams.input(i), format, streams.window_bytes_max(), put);
      if (!status) return status;
    }
    return {};
  };
}

ToOutput by_key_bits(const record::Format& format, unsigned skip_bits, unsigned bits) {
  constexpr unsigned prefix_bits = 64;
  const bool half = format.numeric() && record::item_bytes_of(format.type) == sizeof(uint32_t);
  const unsigned no_key_bits = half ? prefix_bits / 2 : 0;
  PENSTOCK_CHECK(skip_bits + no_key_bits + bits <= prefix_bits && bits < 32,
                 "bits of the key's beginning");
  return [order = record::ItemOrder(format), skip_bits, no_key_bits, bits](const Items& items,
                                                                           uint32_t* to) {
    for (size_t i = 0; i < items.size(); ++i) {
      const uint64_t prefix = order.prefix(items[i]) << (skip_bits + no_key_bits);
      to[i] = bits == 0 ? 0 : static_cast<uint32_t>(prefix >> (prefix_bits - bits));
    }
  };
}

ToOutput by_range(const record::ItemOrder& order, std::vector<record::ItemKey> bounds) {
  return [order, bounds = std::move(bounds), room = std::string()](const Items& items,
                                                                   uint32_t* to) mutable {
    for (size_t i = 0; i < items.size(); ++i) {
      const std::string_view item = items[i];
      const uint64_t prefix = order.prefix(item);
      // Bounds that are not after the item. Many may share their first bytes.
      const auto same = std::ranges::equal_range(bounds, prefix, {}, &record::ItemKey::prefix);
      const auto at = std::ranges::partition_point(same, [&](const record::ItemKey& bound) {
        return order.compare(bound, prefix, item, room) <= 0;
      });
      to[i] = static_cast<uint32_t>(at - bounds.begin());
    }
  };
}

}  // namespace penstock::bowtie
