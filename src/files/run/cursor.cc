#include "files/run/cursor.h"

namespace penstock::files {

// Finds the item at at_; reads more if it is not whole.
bool Cursor::find_item() {
  const items::Format& format = order_.format();
  for (size_t asked_bytes = 0;;) {
    if (const size_t bytes = items::item_bytes_at(format, at_, end_); bytes > 0) {
      item_ = items::text_at(at_, bytes);
      return true;
    }
    const auto have = static_cast<size_t>(end_ - at_);
    if (have == asked_bytes || asked_bytes == 0) {
      if (asked_bytes == item_bytes_max_) {
        too_long_ = true;
        return false;
      }
      asked_bytes += reader_->block_bytes();
      end_ = at_ + reader_->available(at_, asked_bytes);
      continue;
    }
    if (have > 0 && !format.fixed()) {
      item_ = items::text_at(at_, have);
      lacks_newline_ = true;
      return true;
    }
    cut_off_ = have > 0;
    return false;
  }
}

bool Cursor::next() {
  lacks_newline_ = false;
  if (!find_item()) {
    done_ = true;
    return false;
  }
  bool is_even = true;
  fault_ = fault_of(order_.format(), item_, is_even);
  if (fault_) {
    done_ = true;
    return false;
  }
  at_ += item_.size();
  ++items_;
  line_ = lines_ + 1;
  lines_ += lines_of_item(order_.format(), item_);
  bool is_read = true;
  prefix_ = order_.prefix(item_, is_read);
  may_be_odd_ = !is_read || !is_even;
  return true;
}

Status Cursor::status() const {
  if (auto status = reader_->status(); !status) return status;
  if (fault_) {
    const items::Format& format = order_.format();
    const auto above = std::ranges::count(item_.substr(0, fault_->at), format.line_end);
    const items::Place place{.line = lines_ + 1 + static_cast<uint64_t>(above),
                             .row = format.header_lines + items_ + 1};
    return items::bad_item(format, place.text(format), *fault_,
                           reader_->offset() + static_cast<uint64_t>(at_ - reader_->begin()),
                           name_);
  }
  if (too_long_) return items::too_long(order_.format(), item_bytes_max_, name_);
  if (cut_off_) {
    return failure(ErrorCode::corrupt, "read a whole item at its end", name_,
                   "another --format or --record");
  }
  return {};
}

}  // namespace penstock::files
