#include "interfaces/api/shuffle.h"

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/random.h"
#include "files/ops/draw/batch_writer.h"
#include "files/run/item_reader.h"

// A shuffle is a sort by random keys. Each item becomes a row (RowHead) with a key in front, and
// loses both on its way to the output.
//
// Keys are the numbers of splitmix64, which are all different: a bijection of a counter. So no two
// items have equal keys, which a sort would leave in their order. An item's key depends on the seed
// and on its number alone, so neither memory nor threads change the output.

namespace penstock::api {
namespace {

// The bytes in front of an item.
struct Prefix {
  RowHead head;
  std::array<char, sizeof(uint64_t)> key;  // random, in whatever order of bytes
};
static_assert(sizeof(Prefix) == RowHead::bytes + sizeof(uint64_t));

// The items as rows. Thread safety: that of Source.
class KeyedItems final : public Source {
 public:
  KeyedItems(const files::FilesOptions& files, uint64_t seed)
      : options_(files), reader_(options_), keys_(mix64(seed)) {
    options_.cancel = &cancelled_;
  }

  // REQUIRES: read() has returned 0, as it has when a sort begins its output.
  const std::string& header() const { return reader_.header(); }

  Result<size_t> read(std::span<std::byte> into) override {
    if (!std::exchange(has_begun_, true)) next();
    size_t bytes = 0;
    while (has_item_) {
      const auto piece = std::min(left_.size(), into.size() - bytes);
      std::memcpy(into.data() + bytes, left_.data(), piece);
      bytes += piece;
      left_.remove_prefix(piece);
      if (!left_.empty()) break;
      if (std::exchange(in_prefix_, false)) {
        left_ = reader_.item();
      } else {
        next();
      }
    }
    if (bytes == 0 && !status_) return std::unexpected(status_.error());
    return bytes;
  }
  void cancel() override { cancelled_ = true; }

 private:
  void next() {
    const auto more = reader_.next();
    has_item_ = more && *more;
    if (!more) status_ = std::unexpected(more.error());
    if (!has_item_) return;
    const uint64_t row_bytes = sizeof prefix_ + reader_.item().size();
    if (row_bytes > UINT32_MAX) {
      has_item_ = false;
      status_ = failure(ErrorCode::unsupported, "shuffle an item of 4 GiB or more", "the input");
      return;
    }
    prefix_.head = {static_cast<uint32_t>(row_bytes), sizeof prefix_.key};
    const uint64_t key = keys_.next();
    std::memcpy(prefix_.key.data(), &key, sizeof key);
    left_ = {reinterpret_cast<const char*>(&prefix_), sizeof prefix_};
    in_prefix_ = true;
  }

  std::atomic<bool> cancelled_ = false;
  files::FilesOptions options_;
  files::ItemReader reader_;
  Random keys_;
  Status status_;
  bool has_begun_ = false;
  bool has_item_ = false;
  bool in_prefix_ = false;
  Prefix prefix_;
  std::string_view left_;  // rest of the prefix, or of the item
};

// Writes the items of rows. Thread safety: that of Sink.
class BareItems final : public Sink {
 public:
  BareItems(std::shared_ptr<Sink> to, std::shared_ptr<const KeyedItems> items)
      : sink_(to), out_(std::move(to)), items_(std::move(items)) {}

  Status write(std::span<const std::byte> from) override {
    if (Status begun = write_header(); !begun) return begun;
    for (size_t at = 0; at < from.size();) {
      if (prefix_bytes_ < sizeof prefix_) {
        const size_t piece = std::min(sizeof prefix_ - prefix_bytes_, from.size() - at);
        std::memcpy(reinterpret_cast<char*>(&prefix_) + prefix_bytes_, from.data() + at, piece);
        prefix_bytes_ += piece;
        at += piece;
        if (prefix_bytes_ == sizeof prefix_) left_ = prefix_.head.row_bytes - sizeof prefix_;
        continue;
      }
      const size_t piece = std::min(left_, from.size() - at);
      const auto* const text = reinterpret_cast<const char*>(from.data() + at);
      if (Status added = out_.add({text, piece}); !added) return added;
      at += piece;
      left_ -= piece;
      if (left_ == 0) prefix_bytes_ = 0;
    }
    return {};
  }
  Status close() override {
    const Status begun = write_header();
    return begun ? out_.close() : begun;
  }
  void cancel() override { sink_->cancel(); }
  uint64_t bytes() const { return out_.bytes(); }

 private:
  Status write_header() {
    return std::exchange(has_header_, true) ? Status{} : out_.add(items_->header());
  }

  const std::shared_ptr<Sink> sink_;
  files::BatchWriter out_;
  const std::shared_ptr<const KeyedItems> items_;
  bool has_header_ = false;
  Prefix prefix_;
  size_t prefix_bytes_ = 0;
  size_t left_ = 0;  // rest of the item
};

}  // namespace

Result<DrawFilesStats> shuffle_items(const files::FilesOptions& files,
                                     const DrawFilesOptions& options) {
  auto to = files::sink_of(files);
  if (!to) return std::unexpected(to.error());
  const auto items = std::make_shared<KeyedItems>(files, *options.seed);
  const auto bare = std::make_shared<BareItems>(std::move(*to), items);
  FilesOptions rows = files;
  rows.inputs.clear();
  rows.sources = {items};
  rows.output = "-";
  rows.sink = bare;
  rows.compressed.reset();
  rows.source.encoding.clear();
  rows.items = {.name = "rows"};
  const auto sorted = sort_files(rows, {.threads = options.threads, .top = options.count});
  if (!sorted) return std::unexpected(sorted.error());
  DrawFilesStats stats{*sorted};
  stats.items = sorted->items;
  stats.bytes = bare->bytes();
  return stats;
}

}  // namespace penstock::api
