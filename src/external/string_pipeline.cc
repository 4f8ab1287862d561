#include "external/string_pipeline.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "base/bits.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "external/bucket_reader.h"
#include "external/item_pairs.h"
#include "external/item_view.h"
#include "external/sort_prediction.h"
#include "external/spill_codec.h"
#include "file/engine.h"
#include "os/memory.h"

// The naive way reads a bucket through a stream, copies it to where it can lie in one piece, sorts,
// and writes through another stream: a fault and a move of pages for each block, twice, and a copy
// that nobody needed. Here requests read blocks straight to where the bucket will be sorted, a
// region of the arena, and only the order itself costs a copy: items are gathered from their region
// into a few blocks, which are written.
//
//   this thread   reads buckets in order, each into a region (bucket_reader.cc)
//   sorters       inflate it where it is compressed, sort its pairs behind it, gather it to the
//                 output; then the region is free
//
//   region   | the items as they came ................ | their pairs ....... |
//
// Buckets of one key are not sorted: what came is copied to the output, piece by piece.
//
// A sorter waits for its own writes alone, and then only when all of its blocks are being written.
// Blocks of the output end at multiples of their size there, so that all requests but a bucket's
// first and last are whole sectors.
//
// A compressed block is read to the start of its place, copied from there to where it is in
// nobody's way, and inflated to its place. (To inflate it from its end, in place, takes room behind
// it, where the next block lies.)
//
// In order. Where repeats are dropped, or the output is a pipe, a sorter gathers when the one
// before has: then it is known where its output begins. To a pipe it also waits for its writes
// before the next may begin. The same on a disk that is known to seek slowly: two sorters that
// write at two places would make it jump for every block.
//
// Where the sort can be resumed, a sorter waits until its bucket is written, and writes down that
// it is done, before it gives up the temporaries.
//
// Who waits for whom. The reader waits for room, that is, for sorters to gather; sorters wait for
// the reader, and in order for those with earlier buckets. Regions are given out, and buckets
// taken, in the order of the buckets: so the first bucket that is not done waits for nobody but the
// disk.
//
// Invariant: a region is touched by one thread at a time: the reader's requests until it is loaded,
// then its sorter.

namespace penstock::external {
namespace {

// Items are asked for so many ahead of their copy.
constexpr size_t prefetch_items = 12;
// Between two looks at whether the run was ended.
constexpr size_t items_per_pulse = 16384;
constexpr uint32_t output_blocks = 4;
constexpr uint64_t copied_bytes_per_pulse = 1 * MiB;

// What a sorter writes, from one place of the output on: filled and written in blocks.
// Thread safety: one thread.
class OutputBlocks {
 public:
  Status open(const SortOptions& options, size_t block_bytes) {
    block_bytes_ = block_bytes;
    const uint64_t bytes = output_blocks * block_bytes;
    auto memory = os::Reservation::reserve(bytes);
    if (!memory) return std::unexpected(memory.error());
    memory_ = std::move(*memory);
    if (int error = os::commit(memory_.begin(), bytes); error != 0)
      return system_error(error, "commit memory for the output", "sort", "a smaller -S");
    if (bytes >= os::huge_page_bytes)
      (void)os::advise_huge(memory_.begin(), round_down(bytes, os::huge_page_bytes), true);
    auto engine = file::Engine::open({.depth = output_blocks, .kind = options.engine});
    if (!engine) return std::unexpected(engine.error());
    engine_ = std::move(*engine);
    return {};
  }

  void begin(const Target& target) {
    target_ = target;
    begun_at_ = target.offset;
    begin_block();
  }

  void append(const char* data, size_t bytes) {
    while (bytes > room_) {
      std::memcpy(at_, data, room_);
      data += room_;
      bytes -= room_;
      at_ += room_;
      room_ = 0;
      end_block();
      begin_block();
    }
    std::memcpy(at_, data, bytes);
    at_ += bytes;
    room_ -= bytes;
  }

  // What was appended is on its way; returns how much that is since begin().
  uint64_t flush() {
    end_block();
    return target_.offset - begun_at_;
  }

  // What is on its way has arrived.
  Status wait() {
    for (file::Request& request : requests_) finish(request);
    return status();
  }

  Status status() const {
    if (error_) return std::unexpected(*error_);
    return {};
  }

 private:
  // The next block, from the place in it that the output's offset has.
  void begin_block() {
    finish(requests_[block_]);
    const size_t inside = target_.offset % block_bytes_;
    start_ = at_ = memory_.begin() + block_ * block_bytes_ + inside;
    room_ = block_bytes_ - inside;
  }

  void end_block() {
    const auto bytes = static_cast<size_t>(at_ - start_);
    if (bytes == 0) return;
    file::Request& request = requests_[block_];
    request = {.operation = file::Operation::write,
               .file = target_.file,
               .offset = target_.offset,
               .data = start_,
               .bytes = bytes};
    if (!error_) {
      engine_->submit(request);
      pending_[block_] = true;
    }
    target_.offset += bytes;
    start_ = at_;
    room_ = 0;
    block_ = (block_ + 1) % output_blocks;
  }

  void finish(file::Request& request) {
    bool& pending = pending_[&request - requests_];
    if (!pending) return;
    engine_->wait(request);
    pending = false;
    if (error_) return;
    if (request.error != 0) {
      error_ = system_error(request.error, "write", request.file->path()).error();
    } else if (request.done_bytes != request.bytes) {
      error_ = failure(ErrorCode::io, "write all of it", request.file->path()).error();
    }
  }

  size_t block_bytes_ = 0;
  os::Reservation memory_;
  Target target_;  // of what comes next
  uint64_t begun_at_ = 0;
  std::byte* start_ = nullptr;  // of what the present block holds
  std::byte* at_ = nullptr;
  size_t room_ = 0;
  uint32_t block_ = 0;
  file::Request requests_[output_blocks];
  bool pending_[output_blocks] = {};
  std::optional<Error> error_;            // the first
  std::unique_ptr<file::Engine> engine_;  // goes first: it waits for what is in flight
};

class Pipeline {
 public:
  Pipeline(Context& context, std::span<const SplitBucket> buckets, const BucketPlan& plan,
           BlockArena& arena, SpillSet& spills, const Target& target, Resume* resume)
      : context_(context),
        buckets_(buckets),
        plan_(plan),
        spills_(spills),
        target_(target),
        resume_(resume),
        in_order_(in_order(context.options, target) || seeks_slowly(known_device(context.options))),
        reader_(context, buckets, arena, spills, target, resume == nullptr,
                [this](const BucketJob& job) { return job_region_bytes(job); }),
        progress_(reader_.progress()),
        appended_to_(target.offset) {}

  Result<Stored> run() {
    if (auto status = reader_.open(); !status) return std::unexpected(status.error());
    {
      std::vector<std::jthread> threads;
      const auto sorters = std::min<size_t>(plan_.sorters, reader_.jobs().size());
      for (size_t i = 0; i < sorters; ++i) {
        threads.emplace_back();
        check(start_thread(threads.back(), [this] { check(sort_all()); }));
      }
      check(reader_.read());
    }
    if (context_.failed()) return std::unexpected(context_.error());
    MutexLock lock(mutex_);
    return stored_;
  }

 private:
  using Kind = BucketJob::Kind;

  bool drops_repeats() const { return context_.options.unique; }

  // With pairs behind its items, if these are sorted.
  uint64_t job_region_bytes(const BucketJob& job) const {
    return region_bytes_of(context_.options.format, job.read_bytes,
                           job.kind == Kind::sort ? job.items : 0);
  }

  // ---- sorting

  // What a sorter has for itself: opened when it has something to do.
  struct Sorter {
    OutputBlocks output;
    std::vector<std::byte> compressed;  // a block
  };

  Status sort_all() {
    Sorter sorter;
    bool opened = false;
    while (BucketJob* job = reader_.take()) {
      if (!opened) {
        if (auto status = sorter.output.open(context_.options, plan_.output_block_bytes); !status)
          return status;
        opened = true;
      }
      if (auto status = sort(*job, sorter); !status) return status;
    }
    return opened ? sorter.output.wait() : Status{};
  }

  Status sort(const BucketJob& job, Sorter& sorter) {
    PENSTOCK_CHECK(job.kind != Kind::make, "texts lie somewhere");
    if (auto status = context_.pulse(); !status) return status;
    if (auto status = inflate(job, sorter); !status) return status;
    const ItemsInMemory items{.data = job.region, .bytes = job.bytes, .items = job.items};
    auto* pairs = reinterpret_cast<sorting::KeyValue*>(job.region + pairs_offset(job.bytes));
    if (job.kind == Kind::sort) {
      if (auto status = sort_pairs(context_.options, items, pairs, plan_.sorter_threads); !status)
        return status;
    }
    const Target target = in_order_ ? wait_for_turn(job) : Target{target_.file, job.offset};
    if (context_.failed()) return std::unexpected(context_.error());
    sorter.output.begin(target);
    auto stored =
        job.kind == Kind::sort ? gather(items, pairs, sorter.output) : copy(job, sorter.output);
    if (!stored) return std::unexpected(stored.error());
    stored->bytes = sorter.output.flush();
    const bool is_stream = !target_.file->seekable();
    if (is_stream || resume_ != nullptr) {
      if (auto status = sorter.output.wait(); !status) return status;
    } else if (auto status = sorter.output.status(); !status) {
      return status;
    }
    return done(job, target.offset, *stored);
  }

  // Compressed blocks, each where it belongs.
  Status inflate(const BucketJob& job, Sorter& sorter) {
    const size_t block_bytes = spills_.block_bytes();
    for (size_t block = 0; block < job.stored_bytes.size(); ++block) {
      const uint64_t place = block * block_bytes;
      const auto bytes =
          static_cast<size_t>(std::min<uint64_t>(block_bytes, job.read_bytes - place));
      const size_t stored_bytes = job.stored_bytes[block];
      if (stored_bytes >= bytes) continue;
      sorter.compressed.reserve(block_bytes);
      sorter.compressed.resize(std::max(sorter.compressed.size(), stored_bytes));
      std::memcpy(sorter.compressed.data(), job.region + place, stored_bytes);
      if (!inflate_block(sorter.compressed.data(), stored_bytes, job.region + place, bytes)) {
        return failure(ErrorCode::corrupt,
                       "read back what was written: block " + std::to_string(job.spilled[block]) +
                           " is damaged",
                       spills_.name());
      }
    }
    return {};
  }

  // Items in the order of the pairs; how many, and their sum.
  Result<Stored> gather(const ItemsInMemory& items, const sorting::KeyValue* pairs,
                        OutputBlocks& output) {
    const record::Format& format = context_.options.format;
    const bool unique = drops_repeats();
    Stored stored;
    std::string_view last;
    for (uint64_t i = 0; i < items.items; ++i) {
      if (i % items_per_pulse == 0) {
        if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
        if (auto status = output.status(); !status) return std::unexpected(status.error());
      }
      if (i + prefetch_items < items.items) {
        const std::byte* ahead = items.data + pairs[i + prefetch_items].value;
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead + 64);
      }
      const std::string_view item = item_at(format, items.data + pairs[i].value, items.end());
      stored.sum += sum_of_item(format, item);
      if (unique) {
        const std::string_view key = key_of(format, item);
        if (stored.items > 0 && key == last) continue;
        last = key;
      }
      output.append(item.data(), item.size());
      ++stored.items;
    }
    return stored;
  }

  // As they came; the same of them.
  Result<Stored> copy(const BucketJob& job, OutputBlocks& output) {
    for (uint64_t done = 0; done < job.bytes; done += copied_bytes_per_pulse) {
      if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
      if (auto status = output.status(); !status) return std::unexpected(status.error());
      output.append(reinterpret_cast<const char*>(job.region + done),
                    std::min(copied_bytes_per_pulse, job.bytes - done));
    }
    return Stored{.items = job.items, .sum = sum_of_copied(job)};
  }

  // Of the items that begin in the piece: all are equally long, because a line is its key. Of those
  // that are dropped the split has the sum.
  ItemSum sum_of_copied(const BucketJob& job) const {
    const SplitBucket& bucket = buckets_[job.bucket];
    const uint64_t item_bytes = bucket.bytes / bucket.items;
    ItemSum sum;
    for (uint64_t at = ceil_div(job.start, item_bytes) * item_bytes - job.start; at < job.bytes;
         at += item_bytes) {
      sum += sum_of_item(context_.options.format,
                         {reinterpret_cast<const char*>(job.region + at), item_bytes});
    }
    if (drops_repeats()) sum += bucket.rest;
    return sum;
  }

  Target wait_for_turn(const BucketJob& job) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    while (turn_ != job.number && !context_.failed()) changed_.wait(mutex_);
    return {target_.file, appended_to_};
  }

  // Its region is free, and the next one's turn has come. With `resume` it is written, too.
  Status done(const BucketJob& job, uint64_t offset, const Stored& stored) EXCLUDES_LOCK(mutex_) {
    reader_.release(job);
    ResumeDone finished;
    {
      MutexLock lock(mutex_);
      stored_ += stored;
      appended_to_ += stored.bytes;
      ++turn_;
      BucketProgress& bucket = progress_[job.bucket];
      if (in_order_ && bucket.stored.bytes == 0) bucket.offset = offset;
      bucket.stored += stored;
      changed_.notify_all();
      if (--bucket.jobs_left > 0 || resume_ == nullptr) return {};
      finished = {buckets_[job.bucket].id, bucket.offset, bucket.stored};
    }
    if (auto status = resume_->finished({&finished, 1}, *target_.file); !status) return status;
    MutexLock lock(mutex_);
    if (!buckets_[job.bucket].spilled.empty()) spills_.release(buckets_[job.bucket].spill);
    return {};
  }

  // What a thread has come to. An error ends all.
  void check(const Status& status) EXCLUDES_LOCK(mutex_) {
    if (status) return;
    context_.fail(status.error());
    reader_.wake();
    MutexLock lock(mutex_);
    changed_.notify_all();
  }

  Context& context_;
  const std::span<const SplitBucket> buckets_;
  const BucketPlan& plan_;
  SpillSet& spills_;  // releasing is the reader's, or under the mutex
  const Target target_;
  Resume* const resume_;
  const bool in_order_;
  BucketReader reader_;
  std::vector<BucketProgress> progress_;  // its numbers under the mutex

  Mutex mutex_;
  Condition changed_;
  size_t turn_ GUARDED_BY(mutex_) = 0;
  uint64_t appended_to_ GUARDED_BY(mutex_);
  Stored stored_ GUARDED_BY(mutex_);
};

}  // namespace

Result<Stored> sort_string_buckets(Context& context, std::span<const SplitBucket> buckets,
                                   const BucketPlan& plan, BlockArena& arena, SpillSet& spills,
                                   const Target& target, Resume* resume) {
  return Pipeline(context, buckets, plan, arena, spills, target, resume).run();
}

}  // namespace penstock::external
