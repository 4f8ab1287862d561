#pragma once

// A window of records or lines that several threads distribute side by side. The bytes of its items
// in each bucket are counted, each bucket is given exactly that room (in the order of the windows,
// so that items keep their order), and then the items are copied there, beside other windows.
//
// A bucket is a string of bytes: an item may begin in one piece of room and end in the next.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/sort/item_sum.h"
#include "files/sort/split/distributor.h"
#include "items/items.h"
#include "sorting/scatter/lines.h"

namespace penstock::external {

// Thread safety: one thread at a time. Calls: clear(), add() for each item in order, add_room() for
// each of buckets(), then fill(). If the distributor copies the items itself, it calls
// for_each_kept() once in place of add_room() and fill().
class TextWindow final : public ItemWindow {
 public:
  TextWindow(uint32_t buckets, char line_end) : line_end_(line_end), shares_(buckets) {}

  // A bucket's share of the window.
  struct BucketShare {
    uint64_t bytes = 0;
    uint32_t items = 0;
    uint32_t first = 0;  // index of its first item
    ItemSum sum;
    scatter::Room room = {};  // room in which the next item begins
    uint32_t next_piece = 0;  // index in pieces_ of the room behind it
  };

  std::string key;  // scratch buffer for a key

  void clear() {
    for (const uint32_t bucket : buckets_) shares_[bucket] = {};
    bucket_of_.clear();
    buckets_.clear();
    pieces_.clear();
    sum = {};
    fault.reset();
    odd_values = odd_lengths = {};
  }
  // Adds the next item.
  void add(uint32_t bucket, const ItemSum& sum_of_item) {
    const size_t number = bucket_of_.size();
    BucketShare& share = shares_[bucket];
    if (share.items++ == 0) {
      share.first = static_cast<uint32_t>(number);
      buckets_.push_back(bucket);
    }
    share.bytes += bytes_of(number);
    share.sum += sum_of_item;
    sum += sum_of_item;
    bucket_of_.push_back(bucket);
  }

  // Buckets that get an item, each once.
  std::span<const uint32_t> buckets() const { return buckets_; }
  const BucketShare& share_of(uint32_t bucket) const { return shares_[bucket]; }
  // Keeps only the bucket's first item, or none if it is not `wanted`.
  void keep_first(uint32_t bucket, bool wanted) {
    BucketShare& share = shares_[bucket];
    share.items = wanted ? 1 : 0;
    share.bytes = wanted ? bytes_of(share.first) : 0;
  }

  // Adds room for the bucket's next bytes.
  void add_room(uint32_t bucket, std::byte* from, std::byte* to) {
    BucketShare& share = shares_[bucket];
    if (share.room.next != nullptr) return pieces_.push_back({from, to});
    share.room = {from, to};
    share.next_piece = static_cast<uint32_t>(pieces_.size());
  }
  void fill() {
    for_each_kept(
        [this](uint32_t bucket, std::string_view bytes) { append(shares_[bucket], bytes); });
  }

  // Calls use(bucket, bytes) for each item in order, and for a last line end that is missing.
  template <class Use>
  void for_each_kept(const Use& use) {
    size_t from = 0;
    for (size_t i = 0; i < bucket_of_.size(); from = ends[i++]) {
      const uint32_t bucket = bucket_of_[i];
      BucketShare& share = shares_[bucket];
      if (share.items == 0) continue;
      --share.items;
      use(bucket, items::text_at(begin + from, ends[i] - from));
      if (lacks_its_end(i)) use(bucket, std::string_view(&line_end_, 1));
    }
  }

 private:
  bool lacks_its_end(size_t number) const { return lacks_line_end && number + 1 == ends.size(); }
  size_t bytes_of(size_t number) const {
    return item(number).size() + (lacks_its_end(number) ? 1 : 0);
  }

  void append(BucketShare& share, std::string_view bytes) {
    for (;;) {
      const auto room = static_cast<size_t>(share.room.limit - share.room.next);
      const size_t here = std::min(bytes.size(), room);
      std::memcpy(share.room.next, bytes.data(), here);
      share.room.next += here;
      bytes.remove_prefix(here);
      if (bytes.empty()) return;
      share.room = pieces_[share.next_piece++];
    }
  }

  const char line_end_;
  std::vector<uint32_t> bucket_of_;    // the bucket of each item
  std::vector<BucketShare> shares_;    // the share of each bucket
  std::vector<uint32_t> buckets_;      // buckets that have a share
  std::vector<scatter::Room> pieces_;  // rooms behind each bucket's first, bucket by bucket
};

}  // namespace penstock::external
