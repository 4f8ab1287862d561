#include "external/merge.h"

#include <algorithm>

#include "external/cursor.h"
#include "external/file_io.h"
#include "external/memory_plan.h"
#include "stream/copy_forward.h"

// The loser tree. Leaves are the cursors, inner node i holds the loser of the match between the
// winners below it, and the winner of all is kept apart. After the winner was given out its cursor
// goes on, and only the matches on its way to the root are played again: log2(k) comparisons an
// item, each against the one item stored at the node.
//
// Each cursor reads through a plain pointer with one block read ahead and one to come back to; the
// output is a plain pointer.

namespace penstock::external {
namespace {

constexpr uint32_t blocks_per_piece = 3;  // in use, to come back to, being read
constexpr uint32_t blocks_of_output = 6;
constexpr uint32_t items_between_pulses = 4096;

uint32_t blocks_for(size_t pieces) {
  return static_cast<uint32_t>(pieces) * blocks_per_piece + blocks_of_output;
}

class LoserTree {
 public:
  LoserTree(const SortOptions& options, std::vector<Cursor>& cursors)
      : options_(options), cursors_(cursors), losers_(cursors.size()) {
    winner_ = build(1);
  }

  Cursor& winner() { return cursors_[winner_]; }
  uint32_t winner_index() const { return winner_; }

  // The winner's cursor has gone on.
  void replay() {
    uint32_t contender = winner_;
    for (size_t node = (cursors_.size() + winner_) / 2; node > 0; node /= 2) {
      if (less(losers_[node], contender)) std::swap(losers_[node], contender);
    }
    winner_ = contender;
  }

 private:
  // The winner below a node of the implicit tree whose leaves are nodes k to 2k - 1.
  uint32_t build(size_t node) {
    if (node >= cursors_.size()) return static_cast<uint32_t>(node - cursors_.size());
    uint32_t left = build(2 * node);
    uint32_t right = build(2 * node + 1);
    bool left_wins = less(left, right);
    losers_[node] = left_wins ? right : left;
    return left_wins ? left : right;
  }

  bool less(uint32_t a, uint32_t b) const {
    const Cursor& left = cursors_[a];
    const Cursor& right = cursors_[b];
    if (left.done() || right.done()) return !left.done();
    int order =
        Cursor::compare(options_, left.key(), left.full_key(), right.key(), right.full_key());
    return order != 0 ? order < 0 : a < b;
  }

  const SortOptions& options_;
  std::vector<Cursor>& cursors_;
  std::vector<uint32_t> losers_;
  uint32_t winner_ = 0;
};

class Merger {
 public:
  Merger(Context& context, size_t block_bytes) : context_(context), block_bytes_(block_bytes) {}

  // Merges to what `open_writer` opens.
  template <class OpenWriter>
  Result<Stored> run(const std::vector<Piece>& pieces, const std::vector<std::string>& names,
                     OpenWriter open_writer) {
    if (auto status = open_files(pieces, names); !status) return std::unexpected(status.error());
    auto writer = open_writer(files_.io());
    if (!writer) return std::unexpected(writer.error());
    std::byte* to = (*writer)->begin();
    Stored stored;
    if (auto status = merge_items(names, **writer, &to, &stored.items); !status)
      return std::unexpected(status.error());
    stored.bytes = static_cast<uint64_t>(to - (*writer)->begin());
    if (auto status = (*writer)->finish(to); !status) return std::unexpected(status.error());
    return stored;
  }

 private:
  Status open_files(const std::vector<Piece>& pieces, const std::vector<std::string>& names) {
    auto files = FileIo::open(context_.options, block_bytes_, blocks_for(pieces.size()));
    if (!files) return std::unexpected(files.error());
    files_ = std::move(*files);
    for (const Piece& piece : pieces) {
      auto reader = PieceReader::open(files_.io(), piece, 1);
      if (!reader) return std::unexpected(reader.error());
      cursors_.emplace_back(context_.options, names[cursors_.size()], *reader, block_bytes_);
      cursors_.back().next();
      if (auto status = cursors_.back().status(); !status) return status;
      lasts_.emplace_back();
    }
    return {};
  }

  Status merge_items(const std::vector<std::string>& names, const stream::FileWriterCore& writer,
                     std::byte** to, uint64_t* items) {
    LoserTree tree(context_.options, cursors_);
    LastItem last;
    for (uint64_t count = 0;; ++count) {
      if (count % items_between_pulses == 0) {
        if (auto status = context_.pulse(); !status) return status;
        if (auto status = writer.status(); !status) return status;
      }
      Cursor& winner = tree.winner();
      if (winner.done()) break;
      uint32_t index = tree.winner_index();
      bool repeat =
          context_.options.unique && last.any() && last.compare(context_.options, winner) == 0;
      if (context_.options.unique) last.set(winner);
      if (!repeat) {
        *to = stream::copy_forward(*to, winner.item().data(), winner.item().size());
        if (winner.lacks_newline()) *(*to)++ = std::byte{'\n'};
        ++*items;
      }
      lasts_[index].set(winner);
      winner.next();
      if (winner.done()) {
        if (auto status = winner.status(); !status) return status;
      } else if (lasts_[index].compare(context_.options, winner) > 0) {
        return failure(ErrorCode::unsorted, "merge: it is not sorted", names[index],
                       "sort without -m");
      }
      tree.replay();
    }
    return {};
  }

  Context& context_;
  size_t block_bytes_;
  FileIo files_;
  std::vector<Cursor> cursors_;
  std::vector<LastItem> lasts_;  // of each piece
};

uint64_t bytes_of(const std::vector<Piece>& pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.ended ? piece.bytes + 1 : pipe_bytes_max;
  return bytes;
}

// One group of an inner level: to temporaries.
Result<Piece> merge_to_spill(Context& context, const std::vector<Piece>& group,
                             const std::vector<std::string>& names, size_t block_bytes,
                             Spill& spill) {
  Merger merger(context, block_bytes);
  std::unique_ptr<BucketExtents> extents;
  auto stored = merger.run(
      group, names, [&](stream::BlockIo& io) -> Result<std::unique_ptr<stream::FileWriterCore>> {
        uint64_t bytes = bytes_of(group);
        // Of a pipe no more than a terabyte is expected in one group: the table of extents is real.
        uint64_t extents_max = std::min(bytes, 1 * TiB) / block_bytes + 2;
        auto table = BucketExtents::open(spill, 1, extents_max);
        if (!table) return std::unexpected(table.error());
        extents = std::move(*table);
        return stream::FileWriterCore::open(io, extents->sink(0), {.bytes_max = bytes});
      });
  if (!stored) return std::unexpected(stored.error());
  for (const Piece& piece : group) spill.discard(piece.extents);
  return Piece{.bytes = stored->bytes, .extents = extents->extents(0), .extent_bytes = block_bytes};
}

}  // namespace

uint32_t fan_in_max(uint64_t memory_bytes) {
  uint64_t blocks = memory_bytes / block_bytes_min;
  return static_cast<uint32_t>(std::max<uint64_t>(
      2, (blocks - std::min<uint64_t>(blocks, blocks_of_output)) / blocks_per_piece));
}

Result<Stored> merge(Context& context, std::vector<Piece> pieces, std::vector<std::string> names,
                     uint64_t memory_bytes, Spill* spill, const Target& target, uint32_t* levels) {
  uint32_t fan_in = fan_in_max(memory_bytes);
  // All levels use the block size of the widest, because a piece is read back in the blocks it was
  // written in.
  uint32_t widest = blocks_for(std::min<size_t>(pieces.size(), fan_in));
  size_t block_bytes = block_within(memory_bytes / widest);
  while (pieces.size() > fan_in) {
    std::vector<Piece> merged;
    std::vector<std::string> merged_names;
    for (size_t first = 0; first < pieces.size(); first += fan_in) {
      size_t last = std::min<size_t>(first + fan_in, pieces.size());
      auto piece =
          merge_to_spill(context, {pieces.begin() + first, pieces.begin() + last},
                         {names.begin() + first, names.begin() + last}, block_bytes, *spill);
      if (!piece) return std::unexpected(piece.error());
      merged.push_back(std::move(*piece));
      merged_names.push_back("temporaries");
    }
    pieces = std::move(merged);
    names = std::move(merged_names);
    ++*levels;
  }
  ++*levels;
  Merger merger(context, block_bytes);
  return merger.run(pieces, names, [&](stream::BlockIo& io) {
    return stream::FileWriterCore::open(io, *target.file, target.offset,
                                        {.bytes_max = bytes_of(pieces)});
  });
}

Result<std::vector<Piece>> find_runs(Context& context, const std::vector<Piece>& pieces,
                                     uint64_t memory_bytes, uint32_t runs_max) {
  size_t block_bytes = block_within(memory_bytes / 16);
  constexpr uint32_t read_ahead_blocks = 6;
  auto files = FileIo::open(context.options, block_bytes, read_ahead_blocks + 2);
  if (!files) return std::unexpected(files.error());
  std::vector<Piece> runs;
  for (const Piece& piece : pieces) {
    auto reader = PieceReader::open(files->io(), piece, read_ahead_blocks);
    if (!reader) return std::unexpected(reader.error());
    Cursor cursor(context.options, piece.file->path(), *reader, block_bytes);
    LastItem last;
    uint64_t run_start = 0;
    uint64_t at = 0;
    for (uint64_t count = 0; cursor.next(); ++count) {
      if (count % items_between_pulses == 0) {
        if (auto status = context.pulse(); !status) return std::unexpected(status.error());
      }
      if (last.any() && last.compare(context.options, cursor) > 0) {
        runs.push_back({.file = piece.file, .offset = run_start, .bytes = at - run_start});
        run_start = at;
        if (runs.size() >= runs_max) return std::vector<Piece>{};
      }
      last.set(cursor);
      at += cursor.item().size();
    }
    if (auto status = cursor.status(); !status) return std::unexpected(status.error());
    runs.push_back({.file = piece.file, .offset = run_start, .bytes = at - run_start});
  }
  return runs;
}

}  // namespace penstock::external
