#include "files/run/keep.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

namespace penstock::files {
namespace {

constexpr size_t out_bytes = 256 * KiB;
constexpr size_t head_piece_bytes = 64 * KiB;

}  // namespace

KeepSink::KeepSink(std::shared_ptr<Sink> to, const items::ItemOrder& order, Keep keep,
                   std::optional<uint64_t> items_max)
    : to_(std::move(to)),
      order_(order),
      keep_(keep),
      items_max_(items_max.value_or(std::numeric_limits<uint64_t>::max())),
      has_head_(!order.format().has_head()) {
  out_.reserve(2 * out_bytes);
  charge_ = MemoryCharge(2 * out_bytes);
}

Status KeepSink::write(std::span<const std::byte> from) {
  bytes_taken_ += from.size();
  while (!has_head_ && !from.empty()) {
    const auto piece = from.first(std::min(from.size(), head_piece_bytes));
    begun_ += items::text_at(piece.data(), piece.size());
    from = from.subspan(piece.size());
    if (auto status = take_head(false); !status) return status;
  }
  return take_items(from);
}

// Passes the head on if it is whole, and takes the items after it.
Status KeepSink::take_head(bool is_all) {
  const auto bytes = items::head_bytes(order_.format(), begun_, is_all);
  if (!bytes) return std::unexpected(bytes.error());
  if (!*bytes && !is_all) return {};
  // A header without an end has no items after it.
  const std::string head = begun_.substr(0, bytes->value_or(begun_.size()));
  auto format = items::with_header(order_.format(), head);
  if (!format) return std::unexpected(format.error());
  order_ = items::ItemOrder(*format, order_.descending());
  has_head_ = true;
  out_ += head;
  const std::string items = std::exchange(begun_, {}).substr(head.size());
  return take_items(std::as_bytes(std::span(items)));
}

Status KeepSink::take_items(std::span<const std::byte> from) {
  const items::Format& format = order_.format();
  const std::byte* at = from.data();
  const std::byte* const end = at + from.size();
  auto begin_item = [&] {
    begun_.append(items::text_at(at, static_cast<size_t>(end - at)));
    const auto quote = format.counted_quote();
    if (quote && std::count(at, end, std::byte(*quote)) % 2 != 0) is_in_quotes_ = !is_in_quotes_;
    charge();
  };
  if (!begun_.empty() && at < end) {
    const size_t bytes = format.framing().item_bytes(format, at, end, begun_, is_in_quotes_);
    if (bytes == 0 || bytes > from.size()) {
      begin_item();
      return {};
    }
    begun_.append(items::text_at(at, bytes));
    at += bytes;
    if (auto status = take_item(begun_); !status) return status;
    begun_.clear();
    is_in_quotes_ = false;
  }
  while (const size_t bytes = items::item_bytes_at(format, at, end)) {
    if (auto status = take_item(items::text_at(at, bytes)); !status) return status;
    at += bytes;
  }
  if (at < end) begin_item();
  return {};
}

Status KeepSink::take_item(std::string_view item) {
  const std::string_view key = order_.key(item, room_);
  const bool is_equal = group_items_ > 0 && key == held_key_;
  if (!is_equal) {
    if (auto status = end_group(); !status) return status;
    group_items_ = 0;
  }
  ++group_items_;
  if (is_equal && keep_ == Keep::repeated) {
    if (group_items_ == 2) {
      if (auto status = pass_on(held_); !status) return status;
    }
    return pass_on(item);
  }
  if (!is_equal || keep_ == Keep::last) hold(item, key);
  return {};
}

void KeepSink::charge() {
  charge_.set(2 * out_bytes + begun_.capacity() + held_.capacity() + held_room_.capacity() +
              room_.capacity());
}

// REQUIRES: `key` is the item's, in the item or in room_.
void KeepSink::hold(std::string_view item, std::string_view key) {
  held_.assign(item);
  if (key.data() == room_.data()) {
    const size_t bytes = key.size();
    std::swap(room_, held_room_);
    held_key_ = std::string_view(held_room_).substr(0, bytes);
  } else {
    held_key_ = key.empty() ? key
                            : std::string_view(held_).substr(
                                  static_cast<size_t>(key.data() - item.data()), key.size());
  }
  charge();
}

Status KeepSink::end_group() {
  const bool keeps = group_items_ > 0 && (keep_ == Keep::first || keep_ == Keep::last ||
                                          (keep_ == Keep::none && group_items_ == 1));
  return keeps ? pass_on(held_) : Status{};
}

Status KeepSink::pass_on(std::string_view item) {
  if (items_ == items_max_) return {};
  ++items_;
  if (item.size() >= out_bytes) {
    if (auto status = flush(); !status) return status;
    bytes_passed_on_ += item.size();
    return to_->write(std::as_bytes(std::span(item)));
  }
  out_ += item;
  return out_.size() < out_bytes ? Status{} : flush();
}

Status KeepSink::flush() {
  if (out_.empty()) return {};
  bytes_passed_on_ += out_.size();
  auto status = to_->write(std::as_bytes(std::span(out_)));
  out_.clear();
  return status;
}

Status KeepSink::close() {
  if (!has_head_) {
    if (auto status = take_head(true); !status) return status;
  }
  if (!begun_.empty()) {
    if (auto status = take_item(begun_); !status) return status;
  }
  if (auto status = end_group(); !status) return status;
  if (auto status = flush(); !status) return status;
  return to_->close();
}

}  // namespace penstock::files
