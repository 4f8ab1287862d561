#include "external/cursor.h"

#include "external/item_view.h"
#include "record/codec.h"

namespace penstock::external {

std::string_view Cursor::full_key() const {
  if (options_.format.numeric()) return {};
  return key_of(options_.format, item_);
}

// Finds the item at at_, asking the reader for more when it is not whole.
bool Cursor::find_item() {
  const record::Format& format = options_.format;
  for (bool asked = false;; asked = true) {
    auto have = static_cast<size_t>(end_ - at_);
    const auto* text = reinterpret_cast<const char*>(at_);
    if (format.fixed()) {
      if (have >= format.record_bytes) {
        item_ = {text, format.record_bytes};
        return true;
      }
    } else if (const void* newline = have == 0 ? nullptr : std::memchr(at_, '\n', have);
               newline != nullptr) {
      item_ = {text, static_cast<size_t>(static_cast<const char*>(newline) - text) + 1};
      return true;
    }
    if (!asked) {
      end_ = at_ + reader_->available(at_, block_bytes_);
      continue;
    }
    if (have == block_bytes_) {
      too_long_ = true;
    } else if (have > 0 && !format.fixed()) {
      item_ = {text, have};
      lacks_newline_ = true;
      return true;
    } else if (have > 0) {
      cut_off_ = true;
    }
    return false;
  }
}

bool Cursor::next() {
  lacks_newline_ = false;
  if (!find_item()) {
    done_ = true;
    return false;
  }
  at_ += item_.size();
  if (options_.format.numeric()) {
    std::byte bytes[16];
    std::memcpy(bytes, item_.data(), item_.size());
    record::encode_keys(options_.format.type, bytes, 1, options_.descending);
    key_ = item_.size() == 4 ? record::load<uint32_t>(bytes) : record::load<uint64_t>(bytes);
  } else {
    uint64_t prefix = prefix_of(full_key());
    key_ = options_.descending ? ~prefix : prefix;
  }
  return true;
}

Status Cursor::status() const {
  if (auto status = reader_->status(); !status) return status;
  if (too_long_) {
    return failure(ErrorCode::out_of_memory,
                   "hold an item that is longer than " + std::to_string(block_bytes_) + " bytes",
                   name_, "a larger -S");
  }
  if (cut_off_) {
    return failure(ErrorCode::corrupt, "read a whole item at its end", name_,
                   "another --format or --record");
  }
  return {};
}

int Cursor::compare(const SortOptions& options, uint64_t key_a, std::string_view full_a,
                    uint64_t key_b, std::string_view full_b) {
  if (key_a != key_b) return key_a < key_b ? -1 : 1;
  if (options.format.numeric()) return 0;
  int order = full_a.compare(full_b);
  return options.descending ? -order : order;
}

}  // namespace penstock::external
