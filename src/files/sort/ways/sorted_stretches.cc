#include "files/sort/ways/sorted_stretches.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/bits.h"
#include "files/bowtie/computations.h"
#include "files/run/cursor.h"
#include "files/run/file_run.h"
#include "files/run/memory_plan.h"
#include "files/sort/bucket/output_blocks.h"
#include "files/sort/number_encoder.h"
#include "files/sort/number_type.h"
#include "files/sort/ways/way.h"
#include "sorting/sort/kernels/kernels.h"

// A search and then a merge of an input that is in order would read it twice, and pass each item
// through a heap. So if the sample found no descent, the output is written during the search
// (OutputCopy). The first item that is out of order ends that: the copy is useless, and overwritten
// by the merge or sort that follows. Hence all writes of a copy have ended when find_stretches()
// returns, and the output keeps no checks of its blocks, which are for bytes that are written once
// (sort_by_stretches).

namespace penstock::external {
namespace {

// Share of the memory for each block. The reader has eight (the current one, one to seek back to,
// six ahead), and the copy four.
constexpr uint64_t blocks_of_memory = 16;
constexpr uint32_t look_ahead_blocks = 6;
constexpr uint32_t copy_blocks = 4;
// Items are copied in pieces of this size, which the reader mostly still holds.
constexpr size_t copied_bytes_min = 32 * KiB;
constexpr size_t looked_bytes = 1 * MiB;

// Output of the items, as long as all of them are in order.
class OutputCopy {
 public:
  Status begin(const Target& target, size_t block_bytes, uint64_t total_bytes) {
    if (Status opened = blocks_.open(block_bytes, copy_blocks, total_bytes); !opened) return opened;
    blocks_.begin(target);
    runs_ = true;
    return {};
  }
  bool runs() const { return runs_; }
  void append(const std::byte* data, size_t bytes) {
    if (runs_) blocks_.append(reinterpret_cast<const char*>(data), bytes);
  }
  // Marks the copy as useless.
  void give_up() { runs_ = false; }
  Status status() const { return runs_ ? blocks_.status() : Status{}; }
  Status finish() {
    if (runs_) blocks_.flush();
    return blocks_.is_open() ? blocks_.wait() : Status{};
  }

 private:
  OutputBlocks blocks_;
  bool runs_ = false;
};

// Finds the descents of numbers, window by window.
template <class T>
class NumberOrder {
 public:
  explicit NumberOrder(const SortOptions& options)
      : encoder_(options.format.type, options.descending) {}

  // Calls disorder(k) for each item that belongs before the one in front of it.
  template <class Disorder>
  void look_at(const std::byte* items, size_t count, const Disorder& disorder) {
    const sorting::Kernels<T>& kernels = sorting::kernels<T>();
    for (size_t done = 0; done < count;) {
      const std::span<const T> keys = encoder_.encode(items + done * sizeof(T), count - done);
      if (last_ && sorting::less(keys.front(), *last_)) disorder(done);
      for (size_t k = kernels.ascending(keys.data(), keys.size(), {}); k < keys.size();
           k += kernels.ascending(keys.data() + k, keys.size() - k, {}))
        disorder(done + k);
      last_ = keys.back();
      done += keys.size();
    }
  }

 private:
  NumberEncoder<T> encoder_;
  std::optional<T> last_;  // encoded
};

class StretchSearch {
 public:
  StretchSearch(Context& context, uint64_t memory_bytes, uint32_t stretches_max)
      : context_(context),
        format_(context.options.format),
        order_(context.options.order()),
        block_bytes_(copied_block_bytes(memory_bytes)),
        stretches_max_(stretches_max) {}

  Status copy_to(const Target& target, uint64_t total_bytes) {
    return copy_.begin(target, block_bytes_, total_bytes);
  }
  Result<SortedStretches> run(const std::vector<files::Piece>& pieces);

 private:
  template <class Look>
  Result<SortedStretches> look_at_all(const std::vector<files::Piece>& pieces, Look look);
  Status look_at_items(const files::Piece& piece,
                       const std::shared_ptr<files::PieceReader>& reader);
  template <class T>
  Status look_at_numbers(const files::Piece& piece, files::PieceReader& reader,
                         NumberOrder<T>& order);
  void disorder(const files::Piece& piece, uint64_t at);
  // A merge is limited to stretches_max_; a copy takes any number of files.
  bool too_many() const { return !copy_.runs() && found_.pieces.size() >= stretches_max_; }
  Status go_on() {
    if (Status status = copy_.status(); !status) return status;
    return context_.pulse();
  }

  Context& context_;
  const items::Format& format_;
  const items::ItemOrder order_;
  const size_t block_bytes_;
  const uint32_t stretches_max_;
  SortedStretches found_;
  uint64_t start_ = 0;  // start of the current stretch, in its file
  OutputCopy copy_;
  items::LastItem last_item_;  // last item of all pieces so far
};

Result<SortedStretches> StretchSearch::run(const std::vector<files::Piece>& pieces) {
  if (!format_.numeric()) {
    return look_at_all(pieces, [this](const files::Piece& piece,
                                      const std::shared_ptr<files::PieceReader>& reader) {
      return look_at_items(piece, reader);
    });
  }
  return with_number_type(format_.type, [&]<class T>() {
    NumberOrder<T> order(context_.options);
    return look_at_all(
        pieces, [&](const files::Piece& piece, const std::shared_ptr<files::PieceReader>& reader) {
          return look_at_numbers<T>(piece, *reader, order);
        });
  });
}

template <class Look>
Result<SortedStretches> StretchSearch::look_at_all(const std::vector<files::Piece>& pieces,
                                                   Look look) {
  files::PieceReaders readers(
      context_.options, {.block_bytes = block_bytes_, .read_ahead_blocks = look_ahead_blocks});
  for (const files::Piece& piece : pieces) {
    auto reader = readers.open(piece);
    if (!reader) return std::unexpected(reader.error());
    start_ = piece.offset;
    if (const Status looked = look(piece, *reader); !looked) {
      // An item that is too long for this search may still be sorted.
      if (looked.error().code == ErrorCode::out_of_memory) return SortedStretches{};
      return std::unexpected(looked.error());
    }
    if (too_many()) return SortedStretches{};
    found_.pieces.push_back(
        {.file = piece.file, .offset = start_, .bytes = piece.offset + piece.bytes - start_});
  }
  if (Status finished = copy_.finish(); copy_.runs() && !finished)
    return std::unexpected(finished.error());
  found_.are_copied = copy_.runs();
  return std::move(found_);
}

// Records a descent: the item at `at` belongs before the one in front of it.
void StretchSearch::disorder(const files::Piece& piece, uint64_t at) {
  copy_.give_up();
  if (at == piece.offset) return;
  found_.pieces.push_back({.file = piece.file, .offset = start_, .bytes = at - start_});
  start_ = at;
}

Status StretchSearch::look_at_items(const files::Piece& piece,
                                    const std::shared_ptr<files::PieceReader>& reader) {
  files::Cursor cursor(order_, piece.file->path(), reader);
  uint64_t at = piece.offset;
  const std::byte* copied = reader->begin();
  const std::byte* end = copied;
  for (uint64_t count = 0; cursor.next(); ++count) {
    if (count % files::items_between_pulses == 0) {
      if (Status status = go_on(); !status) return status;
    }
    const std::string_view item = cursor.item();
    if (piece.is_given) cursor.count_odd(context_.options.odd_items.get());
    if (last_item_.any() && last_item_.compare(order_, cursor.prefix(), item) > 0) {
      disorder(piece, at);
      if (too_many()) return {};
    }
    last_item_.set(order_, cursor.prefix(), item);
    at += item.size();
    ++found_.items;
    end = reinterpret_cast<const std::byte*>(item.data()) + item.size();
    if (static_cast<size_t>(end - copied) >= copied_bytes_min) {
      copy_.append(copied, static_cast<size_t>(end - copied));
      copied = end;
    }
    found_.item_bytes_max =
        std::max<uint64_t>(found_.item_bytes_max, item.size() + (cursor.lacks_newline() ? 1 : 0));
    if (cursor.lacks_newline()) {
      copy_.append(copied, static_cast<size_t>(end - copied));
      copied = end;
      copy_.append(reinterpret_cast<const std::byte*>(&format_.line_end), 1);
      ++found_.bytes;
    }
  }
  copy_.append(copied, static_cast<size_t>(end - copied));
  found_.bytes += at - piece.offset;
  return cursor.status();
}

template <class T>
Status StretchSearch::look_at_numbers(const files::Piece& piece, files::PieceReader& reader,
                                      NumberOrder<T>& order) {
  const std::byte* const begin = reader.begin();
  for (const std::byte* at = begin;;) {
    if (Status status = go_on(); !status) return status;
    const size_t bytes = reader.available(at, std::min<size_t>(block_bytes_, looked_bytes));
    if (bytes % sizeof(T) != 0)
      return failure(ErrorCode::corrupt, "read a whole item at its end", piece.file->path(),
                     "another --format or --record");
    if (bytes == 0) break;
    const uint64_t offset = piece.offset + static_cast<uint64_t>(at - begin);
    order.look_at(at, bytes / sizeof(T), [&](size_t k) {
      if (!too_many()) disorder(piece, offset + k * sizeof(T));
    });
    if (too_many()) return {};
    copy_.append(at, bytes);
    at += bytes;
  }
  if (Status status = reader.status(); !status) return status;
  found_.bytes += piece.bytes;
  found_.items += piece.bytes / sizeof(T);
  return {};
}

}  // namespace

Result<SortedStretches> find_stretches(Context& context, const std::vector<files::Piece>& pieces,
                                       uint64_t memory_bytes, uint32_t stretches_max,
                                       const Target* copy_to) {
  StretchSearch search(context, memory_bytes, stretches_max);
  if (copy_to != nullptr) {
    const uint64_t newlines = pieces.size();  // that files may lack
    if (Status begun = search.copy_to(*copy_to, bytes_of(pieces) + newlines); !begun)
      return std::unexpected(begun.error());
  }
  return search.run(pieces);
}

size_t copied_block_bytes(uint64_t memory_bytes) {
  return files::block_within(memory_bytes / blocks_of_memory);
}

uint32_t stretches_max(const items::Format& format, uint64_t memory_bytes) {
  return files::streams_max(format, memory_bytes) - 1;
}

uint64_t stretch_item_bytes_max(const items::Format& format, size_t stretches,
                                uint64_t memory_bytes) {
  return files::item_bytes_max_of_pass(format, static_cast<uint32_t>(stretches) + 1, memory_bytes);
}

Result<Stored> merge_stretches(Context& context, const std::vector<files::Piece>& stretches,
                               uint64_t memory_bytes, const Target& target) {
  const SortOptions& options = context.options;
  files::FilesOptions files = options;
  // The merge is a phase of the sort, and continues its count.
  if (options.progress)
    files.progress = [&context](const files::Progress&) { (void)context.pulse(); };
  files::FileRun run(files, "sort");
  std::vector<bowtie::Input> inputs;
  Stored stored;
  for (const files::Piece& stretch : stretches) {
    inputs.push_back({.file = stretch.file, .offset = stretch.offset, .bytes = stretch.bytes});
    stored.bytes += stretch.bytes + 1;
  }
  run.start_with(std::move(inputs));
  const items::Format& format = options.format;
  const bowtie::MergeOptions how{.descending = options.descending,
                                 .unique = options.unique,
                                 .items_max = options.top.value_or(~uint64_t{0}),
                                 .items = &stored.items};
  // Pipes and sinks have no offsets: they are written from their present position.
  const uint64_t offset = target.file->seekable() ? target.offset : 0;
  auto status = run.pass(
      run.inputs(), {{.file = target.file, .offset = offset, .bytes_max = stored.bytes}},
      bowtie::merge(format, how),
      {.items = format,
       .memory_bytes = memory_bytes - std::min(memory_bytes, bowtie::merge_memory_bytes(format)),
       .phase = "merge"});
  if (!status) return std::unexpected(status.error());
  stored.bytes = run.output_bytes();
  context.add_staircases(run.stats().staircases);
  return stored;
}

Result<Outcome> sort_by_stretches(SortTask& task, const Target& target) {
  Context& context = task.context;
  const SortOptions& options = task.options();
  const SortInput& input = task.input;
  // A copy may be overwritten, but checks are for bytes that are written once.
  const bool copies = task.decision.copies && target.file->checks() == nullptr;
  context.set_phase(copies ? "copy" : "look for sorted stretches", task.planned_bytes());
  const uint32_t most = std::min<uint32_t>(stretches_max(options.format, input.usable_bytes),
                                           4 * sample_descents_max);
  const auto found =
      find_stretches(context, input.pieces, input.usable_bytes, most, copies ? &target : nullptr);
  if (!found) return std::unexpected(found.error());
  if (found->are_copied)
    return Outcome{.stored = {.bytes = found->bytes, .items = found->items},
                   .method = Method::merge};
  // A merge holds shorter items than a distribution does.
  const uint64_t merge_bytes =
      std::min(input.usable_bytes, files::usable_memory(options.memory_bytes));
  const bool fit = options.format.fixed() ||
                   found->item_bytes_max <=
                       stretch_item_bytes_max(options.format, found->pieces.size(), merge_bytes);
  if (found->pieces.empty() || !fit) return sort_by(way_of_rest(task.decision), task, target);
  context.set_step("merge");
  const auto stored = merge_stretches(context, found->pieces, merge_bytes, target);
  if (!stored) return std::unexpected(stored.error());
  return Outcome{.stored = *stored, .method = Method::merge, .passes_more = 1};
}

}  // namespace penstock::external
