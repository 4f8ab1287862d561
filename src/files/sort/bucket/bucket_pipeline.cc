#include "files/sort/bucket/bucket_pipeline.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/mutex.h"
#include "base/seconds.h"
#include "base/thread.h"
#include "files/sort/bucket/bucket_sorter.h"
#include "files/sort/plan/sort_prediction.h"
#include "files/sort/resume/resume.h"

// If one thread read a bucket, sorted it and wrote it, the disk would rest during the sort. Stages
// that run at their own pace, each as far ahead as memory allows, keep disk and processors busy:
//
//   this thread   reads buckets in order, each into a region of the arena     (loaded)
//                 (bucket_reader.cc)
//   sorters       sort them there, in order                                   (loaded -> sorted)
//   output        in one of three ways; then the region is free               (sorted -> stored)
//   the recorder  if the sort can be resumed (resume.h): takes all stored buckets at a time,
//                 flushes the output to the disk, records in the journal that the buckets are
//                 done, and only then releases their temporaries
//
// The three ways of a sorted bucket to the output:
//
//   from the arena  numbers, each bucket at its place: another thread, the writer, writes them
//                   without a copy (number_sorter.cc)
//   by its sorter   records and lines, each bucket at its place: gathered into the blocks of the
//                   sorter's own output (string_sorter.cc)
//   in order        outputs whose repeats are dropped, so that a bucket's place is known only when
//                   the bucket before is stored; pipes; and records and lines on a disk that is
//                   known to seek slowly, because sorters that write at several places would make
//                   it seek for every block. All sorters share one output, and fill it in turn
//
// On such a disk reading and writing take turns (bucket_reader.cc): the reader fills the arena,
// then all of that is written, one bucket behind the other, numbers, too. Numbers are sorted
// meanwhile; a sorter of records and lines has one bucket that waits to be written.
//
// A bucket is stored when its region is not needed any more, that is, when it is written, or copied
// to the blocks of an output; with `resume`, when it is written.
//
// Waiting. The recorder waits for stored buckets, and no thread waits for it. The reader waits for
// room, that is, for buckets to be stored; sorters wait for the reader, and in order for the
// sorters of earlier buckets; the writer waits for sorters; and the thread that is to write waits
// until the reader rests, which it does before it waits for room. Regions are allocated, and
// buckets taken, in the order of the buckets, so the bucket that the reader waits for has been read
// in full, and will be sorted and stored: the reader never waits for itself. The bucket whose turn
// it is is being sorted, or appended.
//
// Errors. The context keeps the first error of any thread, which wakes all threads; each ends at
// its next check. Buckets that were stored by then are still recorded.
//
// Invariant: a job's region is touched by one thread at a time: the reader's requests until it is
// loaded, its sorter until it is sorted, the writer's requests until it is stored.

namespace penstock::external {
namespace {

using Clock = OccupancyRecord::Clock;

class Pipeline {
 public:
  Pipeline(Context& context, const PipelineInput& input)
      : context_(context),
        input_(input),
        numeric_(context.options.format.numeric()),
        in_turns_(seeks_slowly(known_device(context.options)) && input.target.file->seekable()),
        in_order_(in_order(context.options, input.target) || (!numeric_ && in_turns_)),
        from_arena_(numeric_ && !in_order_),
        reader_(context, input.buckets, input.arena, input.spills, input.target,
                {.releases = input.resume == nullptr, .in_turns = in_turns_}),
        progress_(input.buckets.size()) {
    for (const BucketJob& job : reader_.jobs()) ++progress_[job.bucket].jobs_left;
  }

  Result<Stored> run(PipelineTimes& times) {
    if (auto status = open(); !status) return std::unexpected(status.error());
    if (is_one_in_memory()) {
      check(reader_.read());
      check(sort());
      if (from_arena_) check(write());
    } else {
      std::vector<std::jthread> threads;
      auto start = [&](Status (Pipeline::*work)()) {
        threads.emplace_back();
        return start_thread(threads.back(), [=, this] { check((this->*work)()); });
      };
      auto start_another_sorter = [&] {
        threads.emplace_back();
        return try_start_thread(threads.back(), [this] { check(sort()); });
      };
      if (from_arena_) check(start(&Pipeline::write));
      if (input_.resume != nullptr) check(start(&Pipeline::record));
      // One sorter is enough if the system has no more threads to give.
      check(start(&Pipeline::sort));
      const auto sorters = std::min<size_t>(input_.plan.sorters, reader_.jobs().size());
      for (size_t i = 1; i < sorters && start_another_sorter(); ++i) {
      }
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
  // The part of a bucket that is stored, by one or several jobs.
  struct Progress {
    uint32_t jobs_left = 0;
    uint64_t offset = 0;  // in the output
    Stored stored = {};
  };

  // Nothing has to be read, and no stage waits for another: one thread does it all.
  bool is_one_in_memory() const {
    return input_.resume == nullptr && reader_.jobs().size() == 1 &&
           reader_.jobs().front().spilled.empty();
  }

  Status open() {
    if (auto status = reader_.open(); !status) return status;
    if (from_arena_) {
      if (auto status = writes_.open(output_bytes()); !status) return status;
    }
    if (in_order_) {
      // One output has the blocks of all outputs that the sorters would have.
      if (auto status = open(output_, numeric_ ? 1 : input_.plan.sorters); !status) return status;
      output_.begin(input_.target);
    }
    if (numeric_) kept_since_ = context_.occupancy().expect_buckets(input_.arena.bytes());
    return {};
  }
  Status open(OutputBlocks& output, unsigned outputs) {
    return output.open(input_.plan.output_block_bytes, outputs * input_.plan.output_blocks,
                       output_bytes());
  }
  // Most bytes of the output.
  uint64_t output_bytes() const {
    uint64_t bytes = 0;
    for (const BucketJob& job : reader_.jobs()) bytes += job.bytes;
    return bytes;
  }

  std::unique_ptr<BucketSorter> sorter() {
    return numeric_ ? number_sorter(context_, input_, from_arena_)
                    : string_sorter(context_, input_);
  }

  // ---- sorting

  Status sort() {
    const auto sorter = this->sorter();
    OutputBlocks own;
    for (;;) {
      const auto asked_at = Clock::now();
      BucketJob* job = reader_.take();
      const auto taken_at = Clock::now();
      if (job != nullptr) {
        if (auto status = context_.pulse(); !status) return status;
        if (auto status = sorter->sort(*job); !status) return status;
        job->taken_at = taken_at;
        job->sorted_at = Clock::now();
      }
      {
        MutexLock lock(mutex_);
        times_.wait_read_s += seconds_between(asked_at, taken_at);
        if (job != nullptr) times_.sort_s += seconds_between(taken_at, job->sorted_at);
      }
      if (job == nullptr) return own.wait();
      if (from_arena_) {
        MutexLock lock(mutex_);
        sorted_.push_back(job);
        changed_.notify_all();
      } else if (in_order_) {
        if (auto status = emit_in_order(*job, *sorter); !status) return status;
      } else {
        if (!own.is_open()) {
          if (auto status = open(own, 1); !status) return status;
        }
        own.begin({input_.target.file, job->offset});
        if (auto status = emit(*job, *sorter, own, input_.resume != nullptr); !status)
          return status;
      }
    }
  }

  Status emit_in_order(BucketJob& job, BucketSorter& sorter) EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(mutex_);
      while (turn_ != job.number && !context_.failed()) changed_.wait(mutex_);
    }
    reader_.wait_for_turn();
    if (context_.failed()) return {};
    job.offset = output_.offset();
    const bool is_last = job.number + 1 == reader_.jobs().size();
    return emit(job, sorter, output_, is_last || input_.resume != nullptr);
  }

  // `waits`: waits until the job is written.
  Status emit(BucketJob& job, BucketSorter& sorter, OutputBlocks& output, bool waits) {
    if (auto status = sorter.emit(job, output); !status) return status;
    job.stored.bytes = output.offset() - job.offset;
    if (waits || !in_order_) output.flush();
    if (auto status = waits ? output.wait() : output.status(); !status) return status;
    stored(job);
    return {};
  }

  // Releases the job's region, and gives the turn to the next job.
  void stored(const BucketJob& job) EXCLUDES_LOCK(mutex_) {
    reader_.release(job);
    {
      MutexLock lock(mutex_);
      ++turn_;
      stored_ += job.stored;
      Progress& bucket = progress_[job.bucket];
      bucket.offset = job.offset - job.start;
      bucket.stored += job.stored;
      if (--bucket.jobs_left == 0 && input_.resume != nullptr) finished_.push_back(job.bucket);
      changed_.notify_all();
    }
    if (!numeric_ || job.region == nullptr) return;
    // Kept buckets have been in memory since the distribution.
    const bool was_kept = job.spilled.empty();
    context_.occupancy().add({.offset_bytes = job.offset,
                              .bytes = job.bytes,
                              .region_bytes = job.region_bytes,
                              .begin = was_kept ? kept_since_ : job.began_at,
                              .read = was_kept ? job.began_at : job.read_at,
                              .waited = job.taken_at,
                              .sorted = job.sorted_at,
                              .written = Clock::now(),
                              .grows = was_kept});
  }

  // ---- recording

  Status record() EXCLUDES_LOCK(mutex_) {
    for (size_t left = input_.buckets.size(); left > 0;) {
      std::vector<uint32_t> numbers;
      std::vector<ResumeDone> done;
      {
        MutexLock lock(mutex_);
        while (finished_.empty() && !context_.failed()) changed_.wait(mutex_);
        // Buckets that were stored before the run failed are recorded before it ends.
        if (finished_.empty()) return {};
        numbers = std::exchange(finished_, {});
        for (uint32_t number : numbers)
          done.push_back(
              {input_.buckets[number].id, progress_[number].offset, progress_[number].stored});
      }
      left -= numbers.size();
      if (auto status = input_.resume->finished(done, *input_.target.file); !status) return status;
      for (uint32_t number : numbers) {
        const SplitBucket& bucket = input_.buckets[number];
        if (!bucket.spilled.empty()) input_.spills.release(bucket.spill);
      }
    }
    return {};
  }

  // ---- writing from the arena

  Status write() {
    const auto maker = sorter();
    size_t left = reader_.jobs().size();
    BucketJob* job = nullptr;
    std::span<std::byte> made;
    uint64_t done_bytes = 0;
    while (left > 0) {
      if (auto status = context_.pulse(); !status) return status;
      if (job == nullptr) {
        job = take_sorted(writes_.idle());
        if (job != nullptr) reader_.wait_for_turn();
        if (job != nullptr && job->kind == Kind::make) {
          // One job at a time: there is one buffer.
          while (makes_in_flight_ > 0) {
            if (auto status = finish_write(left); !status) return status;
          }
          made = maker->make(*job);
          ++makes_in_flight_;
        }
      }
      if (job != nullptr && !writes_.full()) {
        submit_write(*job, made, done_bytes);
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
    if ((*job)->kind == Kind::make) --makes_in_flight_;
    stored(**job);
    return {};
  }

  // Takes the first sorted job: the output is written about in order, with turns exactly in order.
  BucketJob* take_sorted(bool wait) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    auto least = next_sorted();
    for (; wait && least == sorted_.end() && !context_.failed(); least = next_sorted())
      changed_.wait(mutex_);
    if (least == sorted_.end()) return nullptr;
    BucketJob* job = *least;
    sorted_.erase(least);
    ++taken_to_write_;
    job->submitted = false;
    return job;
  }

  std::vector<BucketJob*>::iterator next_sorted() REQUIRES_LOCK(mutex_) {
    const auto least = std::min_element(sorted_.begin(), sorted_.end());
    const bool waits = in_turns_ && least != sorted_.end() && (*least)->number != taken_to_write_;
    return waits ? sorted_.end() : least;
  }

  // Requests end at multiples of their size in the output. A part of a sector is a request of its
  // own, for the reason in output_blocks.cc.
  void submit_write(BucketJob& job, std::span<std::byte> made, uint64_t& done_bytes) {
    const bool is_made = job.kind == Kind::make;
    const uint64_t request_bytes =
        is_made ? made.size() - io::sector_bytes : input_.plan.output_block_bytes;
    const uint64_t offset = job.offset + done_bytes;
    uint64_t bytes =
        std::min<uint64_t>(request_bytes - offset % request_bytes, job.bytes - done_bytes);
    const uint64_t to_sector = round_up(offset, io::sector_bytes) - offset;
    if (to_sector > 0) {
      bytes = std::min(bytes, to_sector);
    } else if (bytes > io::sector_bytes) {
      bytes = round_down(bytes, io::sector_bytes);
    }
    std::byte* data = is_made ? made.data() + offset % io::sector_bytes
                              : job.region + job.lead_bytes + done_bytes;
    writes_.submit(job, {.operation = io::Operation::write,
                         .file = input_.target.file,
                         .offset = offset,
                         .data = data,
                         .bytes = bytes});
    done_bytes += bytes;
  }

  // Receives a thread's status. An error ends all threads.
  void check(const Status& status) EXCLUDES_LOCK(mutex_) {
    if (status) return;
    context_.fail(status.error());
    input_.target.file->cancel_writes();
    reader_.wake();
    MutexLock lock(mutex_);
    changed_.notify_all();
  }

  Context& context_;
  const PipelineInput& input_;  // the reader or the recorder releases its spills
  const bool numeric_;
  const bool in_turns_;
  const bool in_order_;
  const bool from_arena_;
  BucketReader reader_;
  OutputBlocks output_;  // in order: used by the sorter whose turn it is
  JobRequests writes_;   // from the arena: used by the writer
  unsigned makes_in_flight_ = 0;
  Clock::time_point kept_since_ = {};

  Mutex mutex_;
  Condition changed_;
  size_t turn_ GUARDED_BY(mutex_) = 0;
  std::vector<BucketJob*> sorted_ GUARDED_BY(mutex_);
  size_t taken_to_write_ GUARDED_BY(mutex_) = 0;  // taken out of sorted_
  std::vector<Progress> progress_ GUARDED_BY(mutex_);
  std::vector<uint32_t> finished_ GUARDED_BY(mutex_);  // stored, not yet recorded buckets
  Stored stored_ GUARDED_BY(mutex_);
  PipelineTimes times_ GUARDED_BY(mutex_);
};

}  // namespace

Result<Stored> sort_in_pipeline(Context& context, const PipelineInput& input,
                                PipelineTimes& times) {
  return Pipeline(context, input).run(times);
}

}  // namespace penstock::external
