#include "external/number_pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "base/check.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "external/bucket_reader.h"
#include "external/number_type.h"
#include "external/resume.h"
#include "file/engine.h"
#include "record/codec.h"
#include "sort/in_place_sort.h"
#include "stream/copy_forward.h"

// The naive way reads a bucket, sorts it and writes it, and the disk rests while it is sorted.
// Three streams of bytes that go at their own pace, each as far ahead as memory allows, keep both
// busy:
//
//   this thread   reads buckets in order, each into a region of the arena     (loaded)
//                 (bucket_reader.cc)
//   sorters       sort them there, in order                                   (loaded -> sorted)
//   the writer    writes them from there; then the region is free             (sorted -> stored)
//
// No byte is copied between the file it comes from and the one it goes to. That takes one trick:
// direct requests want offset and address to agree within a sector, but a bucket is read to the
// start of a sector and goes to wherever the buckets before it end. So as many items as there are
// bytes in front of that place, in its sector, are added to the bucket, with a key below all
// others: sorted, they come first, and the bucket stands where it has to, byte for byte:
//
//   region   |items of the bucket as they were read ........ |added|
//   sorted   |added|items in order .........................       |
//   output   sector|                 sector|                 sector|
//                  ^ the bucket's place
//
// Buckets of one key are not sorted. Pairs are copied, in pieces. Numbers are nowhere: the writer
// makes them.
//
// Outputs that take items in order only (pipes, or where repeats are dropped so that no place is
// known) are appended to by the sorters themselves, each waiting for its turn.
//
// Where the sort can be resumed (resume.h) a fourth thread, the recorder, takes the buckets that
// are stored, all there are at a time, brings the output to the disk, writes down that they are
// done, and only then gives up their temporaries. Appended buckets are recorded by the sorter whose
// turn it is, when they have become many bytes, because what is on its way to the output has to
// arrive first.
//
// Who waits for whom. The recorder waits for the writer, and nobody for it. The reader waits for
// room, that is, for the writer; sorters wait for the reader; the writer waits for sorters. Regions
// are given out in the order of the buckets, so what the reader waits for has been read in full,
// will be sorted, and will be written: never for itself. Sorters take buckets in order, so the one
// whose turn it is to append is being sorted, or appends.
//
// Invariant: a job's region is touched by one thread at a time: the reader's requests until it is
// loaded, its sorter until it is sorted, the writer's requests until it is stored.

namespace penstock::external {
namespace {

constexpr size_t request_bytes = JobRequests::bytes_max;
// Of buckets that are appended, before they are recorded; less with little memory.
constexpr uint64_t recorded_bytes_max = 64 * MiB;

using Clock = OccupancyRecord::Clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

template <class T>
class Pipeline {
 public:
  Pipeline(Context& context, std::span<const SplitBucket> buckets, const BucketPlan& plan,
           BlockArena& arena, SpillSet& spills, const Target& target, OrderedOutput* ordered,
           Resume* resume)
      : context_(context),
        plan_(plan),
        buckets_(buckets),
        arena_(arena),
        spills_(spills),
        target_(target),
        ordered_(ordered),
        resume_(resume),
        reader_(context, buckets, arena, spills, target, resume == nullptr,
                [&context](const BucketJob& job) {
                  return region_bytes_of(context.options.format, job.read_bytes, job.items);
                }),
        progress_(reader_.progress()),
        times_of_(reader_.jobs().size()),
        appended_to_(target.offset) {}

  Result<Stored> run(PipelineTimes& times) {
    if (auto status = reader_.open(); !status) return std::unexpected(status.error());
    if (auto status = writes_.open(context_.options); !status)
      return std::unexpected(status.error());
    kept_since_ = context_.occupancy().expect_buckets(arena_.bytes());
    {
      std::vector<std::jthread> threads;
      auto start = [&](Status (Pipeline::*work)()) {
        threads.emplace_back();
        check(start_thread(threads.back(), [=, this] { check((this->*work)()); }));
      };
      if (ordered_ == nullptr) start(&Pipeline::write);
      if (ordered_ == nullptr && resume_ != nullptr) start(&Pipeline::record);
      for (unsigned i = 0; i < plan_.sorters; ++i) start(&Pipeline::sort_all);
      check(reader_.read());
    }
    MutexLock lock(mutex_);
    times.sort_s += times_.sort_s;
    times.wait_read_s += times_.wait_read_s;
    times.wait_room_s += reader_.wait_room_s();
    if (context_.failed()) return std::unexpected(context_.error());
    return stored_;
  }

 private:
  using Kind = BucketJob::Kind;
  // For the picture of what held the memory: a sorter took it, and had sorted it.
  struct SortTimes {
    Clock::time_point taken_at = {}, sorted_at = {};
  };

  bool drops_repeats() const { return context_.options.unique; }

  // ---- sorting

  Status sort_all() {
    for (;;) {
      const auto asked_at = Clock::now();
      BucketJob* job = reader_.take();
      const auto taken_at = Clock::now();
      if (job != nullptr) {
        if (auto status = sort(*job); !status) return status;
      }
      const auto sorted_at = Clock::now();
      {
        MutexLock lock(mutex_);
        times_.wait_read_s += seconds_between(asked_at, taken_at);
        times_.sort_s += seconds_between(taken_at, sorted_at);
      }
      if (job == nullptr) return {};
      times_of_[job->number] = {taken_at, sorted_at};
      if (ordered_ != nullptr) {
        if (auto status = append(*job); !status) return status;
      } else {
        MutexLock lock(mutex_);
        sorted_.push_back(job);
        changed_.notify_all();
      }
    }
  }

  // To a file each stands at its place, behind what fills the sector in front of it.
  size_t lead_bytes(const BucketJob& job) const {
    return ordered_ == nullptr ? job.offset % file::sector_bytes : 0;
  }

  Status sort(BucketJob& job) {
    if (auto status = context_.pulse(); !status) return status;
    const SortOptions& options = context_.options;
    const SplitBucket& bucket = buckets_[job.bucket];
    const sorting::KeyRange& keys = bucket.keys;
    if (job.kind == Kind::make) {
      job.sum = sorting::sum_of_one(item_with_key(keys.low)) * bucket.items;
      return {};
    }
    T* items = reinterpret_cast<T*>(job.region);
    size_t count = job.bytes / sizeof(T);
    const size_t lead = lead_bytes(job) / sizeof(T);
    if (job.kind == Kind::copy) {
      if (lead != 0) std::memmove(static_cast<void*>(items + lead), items, job.bytes);
      job.sum = sum_of(std::span<const T>(items + lead, count));
      // Of those that are dropped the split has the sum.
      if (drops_repeats()) job.sum += bucket.rest;
    } else {
      if (lead != 0) {
        // The first bucket begins where the output does, so there is a key below.
        PENSTOCK_CHECK(keys.low > 0, "a bucket that is not the first has keys above 0");
        std::fill_n(items + count, lead, item_with_key(keys.low - 1));
      }
      // Pairs keep the order of equal keys, whether asked to or not.
      if (auto status = sorting::sort_in_place(items, count + lead,
                                               {.order = {},
                                                .stable = std::is_same_v<T, sorting::KeyValue>,
                                                .threads = plan_.sorter_threads,
                                                .sum = &job.sum});
          !status)
        return status;
      // What does not go to the output: the added ones, unless one of the bucket's came before them.
      job.sum = job.sum - sum_of(std::span<const T>(items, lead));
      if (drops_repeats()) count = drop_repeats(items, count);
    }
    job.bytes = count * sizeof(T);
    record::decode_keys(options.format.type, reinterpret_cast<std::byte*>(items + lead), count,
                        options.descending);
    return {};
  }

  static T item_with_key(uint64_t key) {
    if constexpr (std::is_same_v<T, sorting::KeyValue>) {
      return {key, 0};
    } else {
      return static_cast<T>(key);
    }
  }

  static constexpr size_t filled_bytes = 256 * KiB;
  struct Free {
    void operator()(std::byte* memory) const {
      operator delete[](memory, std::align_val_t{file::sector_bytes});
    }
  };

  static size_t drop_repeats(T* items, size_t count) {
    return static_cast<size_t>(std::unique(items, items + count,
                                           [](const T& a, const T& b) {
                                             return sorting::key_of(a) == sorting::key_of(b);
                                           }) -
                               items);
  }

  // ---- in order

  Status append(BucketJob& job) EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(mutex_);
      while (turn_ != job.number && !context_.failed()) changed_.wait(mutex_);
      if (context_.failed()) return {};
    }
    if (job.kind == Kind::make) fill(job);
    for (uint64_t done = 0; done < job.bytes;) {
      if (auto status = context_.pulse(); !status) return status;
      uint64_t bytes = std::min<uint64_t>(piece_bytes(job), job.bytes - done);
      const std::byte* from = job.kind == Kind::make ? filled_.get() : job.region + done;
      if (auto status = ordered_->append(from, bytes); !status) return status;
      done += bytes;
    }
    if (resume_ != nullptr) {
      const bool last = job.number + 1 == reader_.jobs().size();
      if (auto status = record_appended(job, last); !status) return status;
    }
    stored(job);
    return {};
  }

  // REQUIRES: it is this thread's turn.
  Status record_appended(const BucketJob& job, bool last) {
    const uint64_t recorded_bytes = std::min(recorded_bytes_max, arena_.bytes() / 4);
    // Repeats are dropped here, so a bucket is one job.
    appended_.push_back(job.bucket);
    progress_[job.bucket].offset = appended_to_;
    appended_to_ += job.bytes;
    appended_bytes_ += job.bytes;
    if (!last && appended_bytes_ < recorded_bytes) return {};
    if (auto status = ordered_->flush(); !status) return status;
    std::vector<ResumeDone> done;
    for (uint32_t number : appended_) done.push_back(done_of(number));
    // This one is not counted as stored before the next may append.
    done.back().stored = stored_of(job);
    appended_bytes_ = 0;
    return write_down(done, std::exchange(appended_, {}));
  }

  // ---- recording

  Status record() EXCLUDES_LOCK(mutex_) {
    for (size_t left = progress_.size(); left > 0;) {
      std::vector<uint32_t> numbers;
      std::vector<ResumeDone> done;
      {
        MutexLock lock(mutex_);
        while (finished_.empty() && !context_.failed()) changed_.wait(mutex_);
        // What is stored when the run fails need not be done again.
        if (finished_.empty()) return {};
        numbers = std::exchange(finished_, {});
        for (uint32_t number : numbers) done.push_back(done_of(number));
      }
      left -= numbers.size();
      if (auto status = write_down(done, numbers); !status) return status;
    }
    return {};
  }

  static Stored stored_of(const BucketJob& job) {
    return {job.bytes, job.bytes / sizeof(T), job.sum};
  }

  ResumeDone done_of(uint32_t number) const {
    return {buckets_[number].id, progress_[number].offset, progress_[number].stored};
  }

  Status write_down(const std::vector<ResumeDone>& done, const std::vector<uint32_t>& numbers) {
    if (auto status = resume_->finished(done, *target_.file); !status) return status;
    for (uint32_t number : numbers) {
      if (!buckets_[number].spilled.empty()) spills_.release(buckets_[number].spill);
    }
    return {};
  }

  void stored(const BucketJob& job) EXCLUDES_LOCK(mutex_) {
    reader_.release(job);
    {
      MutexLock lock(mutex_);
      ++turn_;
      BucketProgress& bucket = progress_[job.bucket];
      for (Stored* sum : {&stored_, &bucket.stored}) *sum += stored_of(job);
      if (--bucket.jobs_left == 0 && ordered_ == nullptr && resume_ != nullptr)
        finished_.push_back(job.bucket);
      changed_.notify_all();
    }
    if (job.region == nullptr) return;
    // What was kept has been there since before.
    const bool was_kept = job.spilled.empty();
    context_.occupancy().add({.offset_bytes = job.offset,
                              .bytes = job.bytes,
                              .region_bytes = job.region_bytes,
                              .begin = was_kept ? kept_since_ : job.began_at,
                              .read = was_kept ? job.began_at : job.read_at,
                              .waited = times_of_[job.number].taken_at,
                              .sorted = times_of_[job.number].sorted_at,
                              .written = Clock::now(),
                              .grows = was_kept});
  }

  // ---- writing

  Status write() {
    size_t left = reader_.jobs().size();
    BucketJob* job = nullptr;
    uint64_t done_bytes = 0;
    while (left > 0) {
      if (auto status = context_.pulse(); !status) return status;
      if (job == nullptr) {
        job = take_sorted(writes_.idle());
        if (job != nullptr && job->kind == Kind::make) {
          // One at a time: there is one buffer.
          while (fills_in_flight_ > 0) {
            if (auto status = finish_write(left); !status) return status;
          }
          fill(*job);
          ++fills_in_flight_;
        }
      }
      if (job != nullptr && !writes_.full()) {
        submit_write(*job, done_bytes);
        if (done_bytes < job->bytes) continue;
        job->submitted = true;
        job = nullptr;
        done_bytes = 0;
        continue;
      }
      if (writes_.idle()) continue;
      if (auto status = finish_write(left); !status) return status;
    }
    return {};
  }

  Status finish_write(size_t& left) EXCLUDES_LOCK(mutex_) {
    auto job = writes_.wait();
    if (!job) return std::unexpected(job.error());
    if (*job == nullptr) return {};
    --left;
    if ((*job)->kind == Kind::make) --fills_in_flight_;
    stored(**job);
    return {};
  }

  // The least that was sorted, so that the output is written about in order.
  BucketJob* take_sorted(bool wait) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    while (wait && sorted_.empty() && !context_.failed()) changed_.wait(mutex_);
    if (sorted_.empty()) return nullptr;
    auto least = std::min_element(sorted_.begin(), sorted_.end());
    BucketJob* job = *least;
    sorted_.erase(least);
    job->submitted = false;
    return job;
  }

  // Requests end at multiples of their size in the output.
  void submit_write(BucketJob& job, uint64_t& done_bytes) {
    uint64_t offset = job.offset + done_bytes;
    uint64_t bytes =
        std::min<uint64_t>(piece_bytes(job) - offset % piece_bytes(job), job.bytes - done_bytes);
    std::byte* data = job.kind == Kind::make ? filled_.get() + offset % file::sector_bytes
                                             : job.region + lead_bytes(job) + done_bytes;
    writes_.submit(job, {.operation = file::Operation::write,
                         .file = target_.file,
                         .offset = offset,
                         .data = data,
                         .bytes = bytes});
    done_bytes += bytes;
  }

  static size_t piece_bytes(const BucketJob& job) {
    return job.kind == Kind::make ? filled_bytes : request_bytes;
  }

  // Makes items of the bucket's one key, which has no values.
  void fill(const BucketJob& job) {
    constexpr size_t bytes = filled_bytes + file::sector_bytes;
    if (!filled_) filled_.reset(new (std::align_val_t{file::sector_bytes}) std::byte[bytes]);
    T* items = reinterpret_cast<T*>(filled_.get());
    std::fill_n(items, bytes / sizeof(T), item_with_key(buckets_[job.bucket].keys.low));
    record::decode_keys(context_.options.format.type, filled_.get(), bytes / sizeof(T),
                        context_.options.descending);
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
  const BucketPlan& plan_;
  const std::span<const SplitBucket> buckets_;
  BlockArena& arena_;
  SpillSet& spills_;  // releasing is the reader's, or his who records
  const Target target_;
  OrderedOutput* const ordered_;  // whose turn it is
  Resume* const resume_;
  BucketReader reader_;
  std::vector<BucketProgress> progress_;  // `stored` and `jobs_left` under the mutex
  std::vector<SortTimes> times_of_;       // of a job: theirs who have it
  // Of buckets that were appended and not recorded; theirs whose turn it is.
  std::vector<uint32_t> appended_;
  uint64_t appended_bytes_ = 0;
  uint64_t appended_to_;
  Clock::time_point kept_since_ = {};
  std::unique_ptr<std::byte[], Free> filled_;  // the writer's, or his whose turn it is
  unsigned fills_in_flight_ = 0;
  JobRequests writes_;

  Mutex mutex_;
  Condition changed_;
  size_t turn_ GUARDED_BY(mutex_) = 0;
  std::vector<BucketJob*> sorted_ GUARDED_BY(mutex_);
  std::vector<uint32_t> finished_ GUARDED_BY(mutex_);  // buckets that are stored, not recorded
  Stored stored_ GUARDED_BY(mutex_);
  PipelineTimes times_ GUARDED_BY(mutex_);
};

template <class T>
Result<Stored> run(Context& context, std::span<const SplitBucket> buckets, const BucketPlan& plan,
                   BlockArena& arena, SpillSet& spills, const Target& target,
                   OrderedOutput* ordered, Resume* resume, PipelineTimes& times) {
  return Pipeline<T>(context, buckets, plan, arena, spills, target, ordered, resume).run(times);
}

}  // namespace

Result<std::unique_ptr<OrderedOutput>> OrderedOutput::open(const SortOptions& options,
                                                           const Target& target, uint64_t bytes_max,
                                                           size_t block_bytes, uint32_t blocks) {
  auto output = std::make_unique<OrderedOutput>();
  auto files = FileIo::open(options, block_bytes, blocks);
  if (!files) return std::unexpected(files.error());
  output->files_ = std::move(*files);
  output->target_ = target;
  output->bytes_max_ = bytes_max;
  if (auto status = output->open_writer(); !status) return std::unexpected(status.error());
  return output;
}

Status OrderedOutput::open_writer() {
  auto writer = stream::FileWriterCore::open(files_.io(), *target_.file, target_.offset,
                                             {.bytes_max = bytes_max_ + 1});
  if (!writer) return std::unexpected(writer.error());
  writer_ = std::move(*writer);
  at_ = writer_->begin();
  return {};
}

Status OrderedOutput::flush() {
  auto bytes = static_cast<uint64_t>(at_ - writer_->begin());
  if (bytes == 0) return {};
  if (auto status = writer_->finish(at_); !status) return status;
  writer_.reset();
  target_.offset += bytes;
  bytes_max_ -= bytes;
  return open_writer();
}

Status OrderedOutput::append(const std::byte* data, uint64_t bytes) {
  at_ = stream::copy_forward(at_, data, bytes);
  return writer_->status();
}

Result<Stored> sort_number_buckets(Context& context, std::span<const SplitBucket> buckets,
                                   const BucketPlan& plan, BlockArena& arena, SpillSet& spills,
                                   const Target& target, OrderedOutput* ordered, Resume* resume,
                                   PipelineTimes& times) {
  return with_number_type(context.options.format.type, [&]<class T>() {
    return run<T>(context, buckets, plan, arena, spills, target, ordered, resume, times);
  });
}

}  // namespace penstock::external
