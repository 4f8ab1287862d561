#pragma once

// The sink of sorted items that keeps some of those with equal keys: the last, none of them, or all
// that have an equal. (A sort or a merge keeps the first by itself.)

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/run_scope.h"
#include "items/items.h"
#include "penstock/files.h"
#include "penstock/source.h"

namespace penstock::files {

// Passes a head, and the kept items after it, on to another sink. Holds an item, and one whose end
// has not come, besides the memory of `to`.
//
// Thread safety: that of Sink; items() and the bytes after close().
class KeepSink final : public Sink {
 public:
  // `order`: that of the items. `items_max`: passes on only so many.
  KeepSink(std::shared_ptr<Sink> to, const items::ItemOrder& order, Keep keep,
           std::optional<uint64_t> items_max);

  Status write(std::span<const std::byte> from) override;
  Status close() override;
  void cancel() override { to_->cancel(); }

  uint64_t items() const { return items_; }
  uint64_t bytes_taken() const { return bytes_taken_; }
  uint64_t bytes_passed_on() const { return bytes_passed_on_; }

 private:
  Status take_head(bool is_all);
  Status take_items(std::span<const std::byte> from);
  Status take_item(std::string_view item);
  Status end_group();
  void hold(std::string_view item, std::string_view key);
  Status pass_on(std::string_view item);
  Status flush();
  void charge();

  const std::shared_ptr<Sink> to_;
  items::ItemOrder order_;
  const Keep keep_;
  const uint64_t items_max_;
  bool has_head_;              // the head has passed
  std::string begun_;          // the begin of a head, or of an item
  bool is_in_quotes_ = false;  // begun_ ends between two of Format::counted_quote()
  std::string held_;           // the first item of the present group, or with Keep::last the last
  std::string_view held_key_;  // a part of held_ or held_room_
  std::string held_room_, room_;
  uint64_t group_items_ = 0;
  std::string out_;
  uint64_t items_ = 0;
  uint64_t bytes_taken_ = 0, bytes_passed_on_ = 0;
  MemoryCharge charge_;
};

}  // namespace penstock::files
