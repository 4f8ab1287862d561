#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "files/bowtie/computations.h"
#include "files/bowtie/merge_numbers.h"
#include "files/bowtie/merge_tree.h"

namespace penstock::bowtie {
namespace {

// Most items are short: they are copied in pieces of a fixed size, possibly beyond the item's end
// if both sides have room for it.
bool append_short(OutputStream& output, std::string_view item, size_t readable_bytes) {
  constexpr size_t piece_bytes = 32;
  constexpr size_t short_bytes = 4 * piece_bytes;
  if (item.size() > short_bytes || readable_bytes < short_bytes) return append(output, item);
  const std::span<std::byte> room = output.room(item.size());
  if (room.size() < short_bytes) return append(output, item);
  for (size_t at = 0; at < item.size(); at += piece_bytes)
    std::memcpy(room.data() + at, item.data() + at, piece_bytes);
  output.advance(item.size());
  return true;
}

// The key of the last item written (`unique` only).
struct LastKey {
  bool any = false;
  uint64_t prefix = 0;
  LongText bytes;
};

Status merge_items(Streams& streams, const items::Format& format, const MergeOptions& options) {
  OutputStream& output = streams.output(0);
  MergeTree tree(streams, format, options.descending, options.odd);
  if (auto status = tree.start(); !status) return status;
  LastKey last{.bytes = LongText(streams)};
  uint64_t items = 0;
  while (!tree.done() && items < options.items_max) {
    const std::string_view item = tree.winner().item();
    bool repeat = false;
    if (options.unique) {
      repeat = last.any && last.prefix == tree.prefix() &&
               (format.numeric() || last.bytes.view() == tree.key());
      if (!repeat) {
        last.any = true;
        last.prefix = tree.prefix();
        if (!format.numeric()) {
          const std::string_view key = tree.key();
          if (!last.bytes.make(key.size(), [&](std::string& to) { to = key; }))
            return tree.winner().no_room();
        }
      }
    }
    if (!repeat) {
      const bool given = items::lacks_line_end(format, item)
                             ? append_item(output, format, item)
                             : append_short(output, item, tree.winner().readable_bytes());
      if (!given) return output.status();
      ++items;
    }
    // Items behind the last wanted one are not checked: they need not be in order.
    if (items == options.items_max) break;
    if (auto status = tree.next(); !status) return status;
  }
  if (options.items != nullptr) *options.items = items;
  return {};
}

Status merge_all(Streams& streams, const items::Format& format, const MergeOptions& options) {
  if (streams.outputs() != 1)
    return failure(ErrorCode::invalid_argument, "merge to other than one output", "run");
  if (options.items != nullptr) *options.items = 0;
  if (streams.inputs() == 0) return {};
  return merges_batches(streams, format) ? merge_numbers(streams, format, options)
                                         : merge_items(streams, format, options);
}

}  // namespace

Computation merge(const items::Format& format, const MergeOptions& options) {
  return [=](Streams& streams) { return merge_all(streams, format, options); };
}

}  // namespace penstock::bowtie
