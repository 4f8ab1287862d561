#include "external/bucket_runner.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "external/bucket_sorters.h"
#include "stream/copy_forward.h"

namespace penstock::external {
namespace {

constexpr size_t window_bytes = 64 * KiB;

// Cuts a window to what belongs to the first item, of which `before` bytes came already. True: it
// ends there.
bool end_first_item(const record::Format& format, ptrdiff_t before, const std::byte* window,
                    size_t* bytes) {
  if (format.fixed()) {
    *bytes = std::min<size_t>(*bytes, format.record_bytes - static_cast<size_t>(before));
    return static_cast<size_t>(before) + *bytes == format.record_bytes;
  }
  const void* newline = std::memchr(window, '\n', *bytes);
  if (newline != nullptr)
    *bytes = static_cast<size_t>(static_cast<const std::byte*>(newline) - window) + 1;
  return newline != nullptr;
}

// A bucket of one key is copied; with `unique`, its first item.
Result<Stored> copy_bucket(Context& context, SorterFiles& files, const Bucket& bucket,
                           const Piece& piece, const Target& target) {
  const SortOptions& options = context.options;
  if (auto status = files.open_writer(target, bucket.bytes); !status)
    return std::unexpected(status.error());
  std::byte* to = files.writer().begin();
  auto reader = PieceReader::open(files.io(), piece, files.read_ahead_blocks());
  if (!reader) return std::unexpected(reader.error());
  const std::byte* at = (*reader)->begin();
  bool complete = false;
  while (size_t bytes = complete ? 0 : (*reader)->available(at, window_bytes)) {
    if (auto status = context.pulse(); !status) return std::unexpected(status.error());
    if (options.unique)
      complete = end_first_item(options.format, to - files.writer().begin(), at, &bytes);
    to = stream::copy_forward(to, at, bytes);
    at += bytes;
  }
  if (auto status = (*reader)->status(); !status) return std::unexpected(status.error());
  auto bytes = static_cast<uint64_t>(to - files.writer().begin());
  if (auto status = files.finish(to); !status) return std::unexpected(status.error());
  return Stored{bytes, options.unique ? 1 : bucket.items};
}

// The next bucket, whose turn it is to write, and what was written.
//
// Thread safety: all members from any thread. Invariant: with in_order, bucket i is stored after
// all before it, at offset_.
class Queue {
 public:
  Queue(Context& context, std::span<const Bucket> buckets, const Target& target)
      : context_(context),
        buckets_(buckets),
        target_(target),
        in_order_(in_order(context.options, target)) {
    uint64_t offset = target.offset;
    for (const Bucket& bucket : buckets) {
      offsets_.push_back(offset);
      offset += bucket.bytes;
    }
    offset_ = target.offset;
  }

  // The index of a bucket to sort; buckets_.size() when all are taken.
  size_t take() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    return std::min(next_++, buckets_.size());
  }

  Target wait_for_turn(size_t bucket) EXCLUDES_LOCK(mutex_) {
    if (!in_order_) return {target_.file, offsets_[bucket]};
    MutexLock lock(mutex_);
    while (turn_ != bucket && !context_.failed()) turned_.wait(mutex_);
    return {target_.file, offset_};
  }

  // Its temporaries are read, or need not be read again.
  void release(SpillSet& spills, const Bucket& bucket) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    spills.release(bucket.spill);
  }

  void stored(const Stored& stored) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    total_.bytes += stored.bytes;
    total_.items += stored.items;
    offset_ += stored.bytes;
    ++turn_;
    turned_.notify_all();
  }

  void fail(Error error) EXCLUDES_LOCK(mutex_) {
    context_.fail(std::move(error));
    MutexLock lock(mutex_);
    turned_.notify_all();
  }

  const file::File* file() const { return target_.file; }

  Stored total() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    return total_;
  }

 private:
  Context& context_;
  std::span<const Bucket> buckets_;
  Target target_;
  bool in_order_;
  std::vector<uint64_t> offsets_;
  Mutex mutex_;
  Condition turned_;
  size_t next_ GUARDED_BY(mutex_) = 0;
  size_t turn_ GUARDED_BY(mutex_) = 0;
  uint64_t offset_ GUARDED_BY(mutex_) = 0;
  Stored total_ GUARDED_BY(mutex_);
};

// One thread's work: sorter and files are opened when first needed.
class Worker {
 public:
  Worker(Context& context, std::span<const Bucket> buckets, const SorterPlan& plan,
         SpillSet& spills, Queue& queue, Resume* resume)
      : context_(context),
        buckets_(buckets),
        plan_(plan),
        spills_(spills),
        queue_(queue),
        resume_(resume) {}

  Status run() {
    for (;;) {
      size_t index = queue_.take();
      if (index == buckets_.size()) return {};
      if (auto status = context_.pulse(); !status) return status;
      const Bucket& bucket = buckets_[index];
      auto stored = bucket.constant ? copy(bucket, index) : sort(bucket, index);
      if (!stored) return std::unexpected(stored.error());
      queue_.stored(*stored);
      if (resume_ != nullptr) {
        const ResumeDone done{.id = bucket.id, .offset = offset_, .stored = *stored};
        if (auto status = resume_->finished({&done, 1}, *queue_.file()); !status) return status;
        queue_.release(spills_, bucket);
      }
    }
  }

 private:
  Result<Stored> copy(const Bucket& bucket, size_t index) {
    Target target = queue_.wait_for_turn(index);
    offset_ = target.offset;
    if (context_.failed()) return std::unexpected(context_.error());
    SorterFiles files(plan_);
    if (auto status = files.open(context_.options); !status) return std::unexpected(status.error());
    auto stored = copy_bucket(context_, files, bucket,
                              bucket.spilled_piece(spills_, plan_.file_block_bytes), target);
    if (stored) read(bucket);
    return stored;
  }

  Result<Stored> sort(const Bucket& bucket, size_t index) {
    if (!sorter_) {
      auto sorter = BucketSorter::open(context_, plan_);
      if (!sorter) return std::unexpected(sorter.error());
      sorter_ = std::move(*sorter);
    }
    const Bucket located{.pieces = {bucket.spilled_piece(spills_, plan_.file_block_bytes)},
                         .bytes = bucket.bytes,
                         .items = bucket.items};
    if (auto status = sorter_->load(located); !status) return std::unexpected(status.error());
    read(bucket);
    Target target = queue_.wait_for_turn(index);
    offset_ = target.offset;
    if (context_.failed()) return std::unexpected(context_.error());
    auto stored = sorter_->store(target);
    if (!stored) return stored;
    if (auto status = sorter_->finish(); !status) return std::unexpected(status.error());
    return stored;
  }

  void read(const Bucket& bucket) {
    if (resume_ == nullptr) queue_.release(spills_, bucket);
  }

  Context& context_;
  std::span<const Bucket> buckets_;
  const SorterPlan& plan_;
  SpillSet& spills_;
  Queue& queue_;
  Resume* resume_;
  uint64_t offset_ = 0;  // of the bucket, in the output
  std::unique_ptr<BucketSorter> sorter_;
};

}  // namespace

Result<Stored> run_buckets(Context& context, std::span<const Bucket> buckets,
                           const SorterPlan& plan, unsigned sorters, SpillSet& spills,
                           const Target& target, Resume* resume) {
  Queue queue(context, buckets, target);
  auto work = [&] {
    Worker worker(context, buckets, plan, spills, queue, resume);
    if (auto status = worker.run(); !status) queue.fail(status.error());
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < std::min<size_t>(sorters, buckets.size()); ++i)
      threads.emplace_back(work);
    work();
  }
  if (context.failed()) return std::unexpected(context.error());
  return queue.total();
}

}  // namespace penstock::external
