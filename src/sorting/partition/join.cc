#include "sorting/partition/join.h"

#include <algorithm>
#include <cstring>

#include "base/bits.h"

namespace penstock::partition_internal {
namespace {

// The bytes of a chain, as if its blocks lay in a row.
class JoinedRow {
 public:
  JoinedRow(pool::Pool& pool, const Chain& chain)
      : pool_(pool), chain_(chain), block_bytes_(pool.block_bytes()) {}

  // REQUIRES: to <= from.
  void move(uint64_t to, uint64_t from, uint64_t bytes) {
    while (bytes != 0) {
      const uint64_t part =
          std::min({bytes, block_bytes_ - to % block_bytes_, block_bytes_ - from % block_bytes_});
      std::memmove(at(to), at(from), part);
      to += part;
      from += part;
      bytes -= part;
    }
  }

 private:
  std::byte* at(uint64_t place) const {
    return pool_.home(chain_.blocks[place / block_bytes_]) + place % block_bytes_;
  }

  pool::Pool& pool_;
  const Chain& chain_;
  const uint64_t block_bytes_;
};

uint64_t move_up(JoinedRow& row, const Chain& chain) {
  uint64_t to = chain.holes.front().from;
  uint64_t copied = 0;
  for (size_t i = 0; i < chain.holes.size(); ++i) {
    const uint64_t from = chain.holes[i].to;
    const uint64_t end = i + 1 < chain.holes.size() ? chain.holes[i + 1].from : chain.extent_bytes;
    row.move(to, from, end - from);
    to += end - from;
    copied += end - from;
  }
  return copied;
}

// `new_end`: end of the items when the holes are closed.
uint64_t fill_from_end(JoinedRow& row, const Chain& chain, uint64_t new_end) {
  const auto& holes = chain.holes;
  uint64_t from = new_end;  // the items behind fill the holes in front
  size_t behind = 0;
  uint64_t copied = 0;
  for (const Chain::Hole& hole : holes) {
    const uint64_t end = std::min(hole.to, new_end);
    for (uint64_t to = hole.from; to < end;) {
      while (behind < holes.size() && holes[behind].from <= from) {
        from = std::max(from, holes[behind].to);
        ++behind;
      }
      const uint64_t limit = behind < holes.size() ? holes[behind].from : chain.extent_bytes;
      const uint64_t part = std::min(end - to, limit - from);
      row.move(to, from, part);
      to += part;
      from += part;
      copied += part;
    }
  }
  return copied;
}

}  // namespace

void append(Chain& chain, const Chain& more, size_t block_bytes) {
  if (more.blocks.empty()) return;
  chain.blocks.reserve(chain.blocks.size() + more.blocks.size());
  chain.holes.reserve(chain.holes.size() + more.holes.size() + 1);
  const uint64_t begin = chain.blocks.size() * block_bytes;
  if (chain.blocks.empty()) {
    chain.begin_bytes = more.begin_bytes;
  } else if (chain.extent_bytes < begin + more.begin_bytes) {
    chain.holes.push_back({chain.extent_bytes, begin + more.begin_bytes});
  }
  chain.blocks.insert(chain.blocks.end(), more.blocks.begin(), more.blocks.end());
  for (const Chain::Hole& hole : more.holes)
    chain.holes.push_back({begin + hole.from, begin + hole.to});
  chain.extent_bytes = begin + more.extent_bytes;
}

uint64_t close_holes(pool::Pool& pool, Chain& chain, bool stable) {
  uint64_t end = chain.extent_bytes;
  for (const Chain::Hole& hole : chain.holes) end -= hole.to - hole.from;
  uint64_t copied = 0;
  if (!chain.holes.empty()) {
    JoinedRow row(pool, chain);
    copied = stable ? move_up(row, chain) : fill_from_end(row, chain, end);
    chain.holes.clear();
  }
  if (end == chain.begin_bytes) chain.begin_bytes = end = 0;
  chain.extent_bytes = end;
  return copied;
}

void give_unused(pool::Pool& pool, Chain& chain) {
  const uint64_t used = ceil_div(chain.extent_bytes, pool.block_bytes());
  for (size_t i = used; i < chain.blocks.size(); ++i) pool.give(chain.blocks[i]);
  chain.blocks.resize(used);
}

}  // namespace penstock::partition_internal
