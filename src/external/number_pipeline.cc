#include "external/number_pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "base/bits.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/thread.h"
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
//   this thread   reads buckets in order, each into a region of the arena     (loading)
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
// Buckets of one key are not sorted. Pairs are copied, in pieces of a size that does not hold up
// the others. Numbers are nowhere: the writer makes them.
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
// will be sorted, and will be written: never for itself. A bucket has room when it is alone.
// Sorters take buckets in order, so the one whose turn it is to append is being sorted, or appends.
//
// Invariant: a job's region is touched by one thread at a time: the reader's requests until it is
// loaded, its sorter until it is sorted, the writer's requests until it is stored.

namespace penstock::external {
namespace {

constexpr size_t request_bytes = 2 * MiB;
constexpr unsigned depth = 32;
// Of buckets that are appended, before they are recorded; less with little memory.
constexpr uint64_t recorded_bytes_max = 64 * MiB;
static_assert(request_bytes % file::sector_bytes == 0);

using Clock = OccupancyRecord::Clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A bucket, or a piece of one whose keys are all equal.
struct Job {
  enum class Kind { sort, copy, fill } kind = Kind::sort;
  enum class State { waiting, loading, loaded, sorting } state = State::waiting;
  std::span<const uint32_t> spilled = {};  // to be read; none: it is there, or is made
  uint32_t bucket = 0;
  uint64_t bytes = 0;
  uint64_t region_bytes = 0;
  sorting::KeyRange keys = {};
  uint32_t spill = 0;
  uint64_t offset = 0;      // in the output
  uint64_t lead_bytes = 0;  // of the output's sector, in front of it
  std::byte* region = nullptr;
  uint64_t stored_bytes = 0;
  // Requests: the reader's, then the writer's.
  unsigned requests_left = 0;
  bool submitted = false;  // all of them
  // For the picture of what held the memory: it had room, was read, taken by a sorter, sorted.
  Clock::time_point began_at = {}, read_at = {}, taken_at = {}, sorted_at = {};
};

// A bucket, of one job or several.
struct Progress {
  BucketId id;
  uint32_t spill = 0;
  bool spilled = false;
  uint32_t loads_left = 0;  // the reader's
  uint32_t stores_left = 0;
  uint64_t offset = 0;
  Stored stored = {};
};

// Cuts jobs into requests and waits for them. One thread.
class Requests {
 public:
  Status open(const SortOptions& options) {
    auto engine = file::Engine::open({.depth = depth, .kind = options.engine});
    if (!engine) return std::unexpected(engine.error());
    engine_ = std::move(*engine);
    for (file::Request& slot : slots_) free_.push_back(&slot);
    return {};
  }

  bool full() const { return free_.empty(); }
  bool idle() const { return free_.size() == depth; }

  void submit(Job& job, const file::Request& request) {
    file::Request& slot = *free_.back();
    free_.pop_back();
    slot = request;
    slot.owner = &job;
    ++job.requests_left;
    engine_->submit(slot);
  }

  // The job of a request that has ended.
  Result<Job*> wait() {
    file::Request* request = engine_->wait_any();
    PENSTOCK_CHECK(request != nullptr, "a request in flight ends");
    free_.push_back(request);
    auto* job = static_cast<Job*>(request->owner);
    --job->requests_left;
    bool reads = request->operation == file::Operation::read;
    if (request->error != 0) {
      return system_error(request->error, reads ? "read" : "write", request->file->path());
    }
    if (request->done_bytes != request->bytes) {
      return failure(ErrorCode::corrupt, reads ? "read back what was written" : "write all of it",
                     request->file->path());
    }
    return job;
  }

 private:
  file::Request slots_[depth];
  std::vector<file::Request*> free_;
  std::unique_ptr<file::Engine> engine_;  // goes first: it waits for what is in flight
};

template <class T>
class Pipeline {
 public:
  Pipeline(Context& context, std::span<const NumberBucket> buckets, const NumberPlan& plan,
           BlockArena& arena, SpillSet& spills, const Target& target, OrderedOutput* ordered,
           Resume* resume)
      : context_(context),
        plan_(plan),
        arena_(arena),
        spills_(spills),
        target_(target),
        ordered_(ordered),
        resume_(resume),
        appended_to_(target.offset),
        ring_(arena.bytes()) {
    for (const NumberBucket& bucket : buckets) add_jobs(bucket);
    if (!kept_.empty()) arena_.arrange(kept_);
  }

  Result<Stored> run(PipelineTimes& times) {
    if (auto status = reads_.open(context_.options); !status)
      return std::unexpected(status.error());
    if (auto status = writes_.open(context_.options); !status)
      return std::unexpected(status.error());
    kept_since_ = context_.occupancy().expect_buckets(arena_.bytes());
    {
      std::vector<std::jthread> threads;
      auto guard = [this](Status (Pipeline::*work)()) {
        if (auto status = (this->*work)(); !status) fail(status.error());
      };
      auto start = [&](Status (Pipeline::*work)()) {
        threads.emplace_back();
        auto status = start_thread(threads.back(), [=] { guard(work); });
        if (!status) fail(status.error());
      };
      if (ordered_ == nullptr) start(&Pipeline::write);
      if (ordered_ == nullptr && resume_ != nullptr) start(&Pipeline::record);
      for (unsigned i = 0; i < plan_.sorters; ++i) start(&Pipeline::sort_all);
      guard(&Pipeline::read);
    }
    MutexLock lock(mutex_);
    times.sort_s += times_.sort_s;
    times.wait_read_s += times_.wait_read_s;
    times.wait_room_s += times_.wait_room_s;
    if (context_.failed()) return std::unexpected(context_.error());
    return stored_;
  }

 private:
  using Kind = Job::Kind;
  using State = Job::State;

  bool drops_repeats() const { return context_.options.unique; }

  // ---- what is to be done

  void add_jobs(const NumberBucket& bucket) {
    Job job = {.spilled = bucket.spilled,
               .bucket = static_cast<uint32_t>(progress_.size()),
               .bytes = bucket.bytes,
               .keys = bucket.keys,
               .spill = bucket.spill};
    progress_.push_back({.id = bucket.id,
                         .spill = bucket.spill,
                         .spilled = !bucket.spilled.empty(),
                         .offset = target_.offset + planned_bytes_});
    if (!bucket.constant) return add(job, bucket);
    bool made = bucket.spilled.empty() && bucket.kept.empty();
    job.kind = made ? Kind::fill : Kind::copy;
    if (drops_repeats()) {
      job.bytes = sizeof(T);
      job.spilled = job.spilled.first(std::min<size_t>(1, job.spilled.size()));
    }
    if (drops_repeats() || job.spilled.empty()) return add(job, bucket);
    size_t blocks = std::max<size_t>(1, arena_.bytes() / 8 / spills_.block_bytes());
    for (size_t first = 0; first < bucket.spilled.size(); first += blocks) {
      uint64_t start = first * spills_.block_bytes();
      job.spilled =
          std::span(bucket.spilled).subspan(first, std::min(blocks, bucket.spilled.size() - first));
      job.bytes = std::min<uint64_t>(bucket.bytes - start, blocks * spills_.block_bytes());
      add(job, bucket);
    }
  }

  void add(Job job, const NumberBucket& bucket) {
    job.offset = target_.offset + planned_bytes_;
    if (ordered_ == nullptr) job.lead_bytes = job.offset % file::sector_bytes;
    planned_bytes_ += job.bytes;
    if (job.kind != Kind::fill) job.region_bytes = region_bytes(job.bytes);
    if (!bucket.kept.empty()) {
      // At the arena's start, where the ring begins to give out regions.
      size_t blocks = ceil_div(region_bytes(bucket.bytes), arena_.block_bytes());
      job.region_bytes = blocks * arena_.block_bytes();
      kept_.insert(kept_.end(), bucket.kept.begin(), bucket.kept.end());
      kept_.resize(kept_.size() + blocks - bucket.kept.size(), BlockArena::no_block);
    }
    ++progress_.back().loads_left;
    ++progress_.back().stores_left;
    jobs_.push_back(job);
  }

  // ---- reading

  Status read() {
    size_t next = 0;        // the job to be given a region
    size_t submitting = 0;  // the job whose reads are being submitted
    uint64_t done_bytes = 0;
    size_t block = 0;
    for (;;) {
      if (auto status = context_.pulse(); !status) return status;
      while (next < jobs_.size() && allocate(next)) ++next;
      while (submitting < next && !reads_.full()) {
        Job& job = jobs_[submitting];
        if (block == job.spilled.size()) {
          job.submitted = true;
          if (job.requests_left == 0) loaded(job);
          ++submitting;
          block = 0;
          done_bytes = 0;
        } else {
          submit_read(job, block, done_bytes);
        }
      }
      if (!reads_.idle()) {
        auto job = reads_.wait();
        if (!job) return std::unexpected(job.error());
        if ((*job)->submitted && (*job)->requests_left == 0) loaded(**job);
      } else if (submitting == jobs_.size()) {
        return {};
      } else if (submitting == next) {
        wait_for_room(next);
      }
    }
  }

  // Blocks that lie one behind the other are read at once.
  void submit_read(Job& job, size_t& block, uint64_t& done_bytes) {
    const Spill& spill = spills_.part(job.spill);
    const auto block_bytes = static_cast<uint32_t>(spills_.block_bytes());
    const stream::Extent first = spill.numbered(job.spilled[block], block_bytes);
    uint64_t bytes = 0;
    uint64_t wanted = round_up(job.bytes, file::sector_bytes) - done_bytes;
    while (block < job.spilled.size()) {
      const stream::Extent next = spill.numbered(job.spilled[block], block_bytes);
      bool follows = next.file == first.file && next.offset == first.offset + bytes;
      if (!follows || bytes + block_bytes > request_bytes) break;
      bytes += block_bytes;
      ++block;
    }
    bytes = std::min(bytes, wanted);
    reads_.submit(job, {.operation = file::Operation::read,
                        .file = first.file,
                        .offset = first.offset,
                        .data = job.region + done_bytes,
                        .bytes = bytes});
    done_bytes += bytes;
  }

  bool allocate(size_t index) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    jobs_[index].state = State::loading;
    if (jobs_[index].kind == Kind::fill) return true;
    auto begin = ring_.allocate(jobs_[index].region_bytes);
    if (!begin) return false;
    jobs_[index].region = arena_.begin() + *begin;
    jobs_[index].began_at = Clock::now();
    return true;
  }

  void wait_for_room(size_t index) EXCLUDES_LOCK(mutex_) {
    auto start = Clock::now();
    MutexLock lock(mutex_);
    while (!ring_.has_room(jobs_[index].region_bytes) && !context_.failed()) changed_.wait(mutex_);
    times_.wait_room_s += seconds_since(start);
  }

  void loaded(Job& job) EXCLUDES_LOCK(mutex_) {
    Progress& bucket = progress_[job.bucket];
    if (--bucket.loads_left == 0 && bucket.spilled && resume_ == nullptr)
      spills_.release(bucket.spill);
    MutexLock lock(mutex_);
    job.state = State::loaded;
    // What was kept is there since before.
    job.read_at = job.spilled.empty() ? job.began_at : Clock::now();
    if (job.spilled.empty()) job.began_at = kept_since_;
    changed_.notify_all();
  }

  // ---- sorting

  Status sort_all() {
    for (;;) {
      Job* job = take_loaded();
      if (job == nullptr) return {};
      job->taken_at = Clock::now();
      if (auto status = sort(*job); !status) return status;
      job->sorted_at = Clock::now();
      {
        MutexLock lock(mutex_);
        times_.sort_s += std::chrono::duration<double>(job->sorted_at - job->taken_at).count();
      }
      if (ordered_ != nullptr) {
        if (auto status = append(*job); !status) return status;
      } else {
        MutexLock lock(mutex_);
        sorted_.push_back(job);
        changed_.notify_all();
      }
    }
  }

  Job* take_loaded() EXCLUDES_LOCK(mutex_) {
    auto start = Clock::now();
    MutexLock lock(mutex_);
    while (!context_.failed() && next_sort_ < jobs_.size() &&
           jobs_[next_sort_].state != State::loaded)
      changed_.wait(mutex_);
    times_.wait_read_s += seconds_since(start);
    if (context_.failed() || next_sort_ == jobs_.size()) return nullptr;
    Job& job = jobs_[next_sort_++];
    job.state = State::sorting;
    changed_.notify_all();
    return &job;
  }

  Status sort(Job& job) {
    if (auto status = context_.pulse(); !status) return status;
    const SortOptions& options = context_.options;
    T* items = reinterpret_cast<T*>(job.region);
    size_t count = job.bytes / sizeof(T);
    size_t lead = job.lead_bytes / sizeof(T);
    job.stored_bytes = job.bytes;
    switch (job.kind) {
      case Kind::fill:
        return {};
      case Kind::copy:
        if (lead != 0) std::memmove(static_cast<void*>(items + lead), items, job.bytes);
        break;
      case Kind::sort:
        if (lead != 0) {
          // The first bucket begins where the output does, so there is a key below.
          PENSTOCK_CHECK(job.keys.low > 0, "a bucket that is not the first has keys above 0");
          std::fill_n(items + count, lead, item_with_key(job.keys.low - 1));
        }
        // Pairs keep the order of equal keys, whether asked to or not.
        if (auto status = sorting::sort_in_place(items, count + lead,
                                                 {.order = {},
                                                  .stable = std::is_same_v<T, sorting::KeyValue>,
                                                  .threads = plan_.sorter_threads});
            !status)
          return status;
        if (drops_repeats()) count = drop_repeats(items, count);
        break;
    }
    job.stored_bytes = count * sizeof(T);
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

  Status append(Job& job) EXCLUDES_LOCK(mutex_) {
    auto index = static_cast<size_t>(&job - jobs_.data());
    {
      MutexLock lock(mutex_);
      while (turn_ != index && !context_.failed()) changed_.wait(mutex_);
      if (context_.failed()) return {};
    }
    if (job.kind == Kind::fill) fill(job.keys.low);
    for (uint64_t done = 0; done < job.stored_bytes;) {
      if (auto status = context_.pulse(); !status) return status;
      uint64_t bytes = std::min<uint64_t>(piece_bytes(job), job.stored_bytes - done);
      const std::byte* from = job.kind == Kind::fill ? filled_.get() : job.region + done;
      if (auto status = ordered_->append(from, bytes); !status) return status;
      done += bytes;
    }
    if (resume_ != nullptr) {
      if (auto status = record_appended(job, index + 1 == jobs_.size()); !status) return status;
    }
    MutexLock lock(mutex_);
    ++turn_;
    stored(job);
    return {};
  }

  // REQUIRES: it is this thread's turn.
  Status record_appended(const Job& job, bool last) {
    const uint64_t recorded_bytes = std::min(recorded_bytes_max, arena_.bytes() / 4);
    // Repeats are dropped here, so a bucket is one job.
    appended_.push_back(job.bucket);
    progress_[job.bucket].offset = appended_to_;
    appended_to_ += job.stored_bytes;
    appended_bytes_ += job.stored_bytes;
    if (!last && appended_bytes_ < recorded_bytes) return {};
    if (auto status = ordered_->flush(); !status) return status;
    std::vector<ResumeDone> done;
    for (uint32_t number : appended_) {
      const Progress& bucket = progress_[number];
      done.push_back({bucket.id, bucket.offset, bucket.stored});
    }
    // This one is not counted as stored before the next may append.
    done.back().stored = {job.stored_bytes, job.stored_bytes / sizeof(T)};
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
        for (uint32_t number : numbers) {
          const Progress& bucket = progress_[number];
          done.push_back({bucket.id, bucket.offset, bucket.stored});
        }
      }
      left -= numbers.size();
      if (auto status = write_down(done, numbers); !status) return status;
    }
    return {};
  }

  Status write_down(const std::vector<ResumeDone>& done, const std::vector<uint32_t>& numbers) {
    if (auto status = resume_->finished(done, *target_.file); !status) return status;
    for (uint32_t number : numbers) {
      if (progress_[number].spilled) spills_.release(progress_[number].spill);
    }
    return {};
  }

  void stored(const Job& job) REQUIRES_LOCK(mutex_) {
    stored_.bytes += job.stored_bytes;
    stored_.items += job.stored_bytes / sizeof(T);
    Progress& bucket = progress_[job.bucket];
    bucket.stored.bytes += job.stored_bytes;
    bucket.stored.items += job.stored_bytes / sizeof(T);
    if (--bucket.stores_left == 0 && ordered_ == nullptr && resume_ != nullptr)
      finished_.push_back(job.bucket);
    if (job.region != nullptr) ring_.release(static_cast<uint64_t>(job.region - arena_.begin()));
    changed_.notify_all();
    if (job.region == nullptr) return;
    context_.occupancy().add({.offset_bytes = job.offset,
                              .bytes = job.stored_bytes,
                              .region_bytes = job.region_bytes,
                              .begin = job.began_at,
                              .read = job.read_at,
                              .waited = job.taken_at,
                              .sorted = job.sorted_at,
                              .written = Clock::now(),
                              .grows = job.spilled.empty()});
  }

  // ---- writing

  Status write() {
    size_t left = jobs_.size();
    Job* job = nullptr;
    uint64_t done_bytes = 0;
    while (left > 0) {
      if (auto status = context_.pulse(); !status) return status;
      if (job == nullptr) {
        job = take_sorted(writes_.idle());
        if (job != nullptr && job->kind == Kind::fill) {
          // One at a time: there is one buffer.
          while (fills_in_flight_ > 0) {
            if (auto status = finish_write(left); !status) return status;
          }
          fill(job->keys.low);
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
    if (!(*job)->submitted || (*job)->requests_left != 0) return {};
    --left;
    if ((*job)->kind == Kind::fill) --fills_in_flight_;
    MutexLock lock(mutex_);
    stored(**job);
    return {};
  }

  // The least that was sorted, so that the output is written about in order.
  Job* take_sorted(bool wait) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    while (wait && sorted_.empty() && !context_.failed()) changed_.wait(mutex_);
    if (sorted_.empty()) return nullptr;
    auto least = std::min_element(sorted_.begin(), sorted_.end());
    Job* job = *least;
    sorted_.erase(least);
    job->submitted = false;
    return job;
  }

  // Requests end at multiples of their size in the output.
  void submit_write(Job& job, uint64_t& done_bytes) {
    uint64_t offset = job.offset + done_bytes;
    uint64_t bytes =
        std::min<uint64_t>(piece_bytes(job) - offset % piece_bytes(job), job.bytes - done_bytes);
    std::byte* data = job.kind == Kind::fill ? filled_.get() + offset % file::sector_bytes
                                             : job.region + job.lead_bytes + done_bytes;
    writes_.submit(job, {.operation = file::Operation::write,
                         .file = target_.file,
                         .offset = offset,
                         .data = data,
                         .bytes = bytes});
    done_bytes += bytes;
  }

  static size_t piece_bytes(const Job& job) {
    return job.kind == Kind::fill ? filled_bytes : request_bytes;
  }

  // Makes items of one key, which has no values.
  void fill(uint64_t key) {
    constexpr size_t bytes = filled_bytes + file::sector_bytes;
    if (!filled_) filled_.reset(new (std::align_val_t{file::sector_bytes}) std::byte[bytes]);
    T* items = reinterpret_cast<T*>(filled_.get());
    std::fill_n(items, bytes / sizeof(T), item_with_key(key));
    record::decode_keys(context_.options.format.type, filled_.get(), bytes / sizeof(T),
                        context_.options.descending);
  }

  void fail(Error error) EXCLUDES_LOCK(mutex_) {
    context_.fail(std::move(error));
    MutexLock lock(mutex_);
    changed_.notify_all();
  }

  Context& context_;
  const NumberPlan& plan_;
  BlockArena& arena_;
  SpillSet& spills_;  // releasing is the reader's, or his who records
  const Target target_;
  OrderedOutput* const ordered_;  // whose turn it is
  Resume* const resume_;
  std::vector<Job> jobs_;           // never moves once the threads run
  std::vector<Progress> progress_;  // the same; `stored` and `stores_left` under the mutex
  // Of buckets that were appended and not recorded; theirs whose turn it is.
  std::vector<uint32_t> appended_;
  uint64_t appended_bytes_ = 0;
  uint64_t appended_to_;
  std::vector<uint32_t> kept_;  // blocks, in the order in which the ring begins
  uint64_t planned_bytes_ = 0;
  Clock::time_point kept_since_ = {};
  std::unique_ptr<std::byte[], Free> filled_;  // the writer's, or his whose turn it is
  unsigned fills_in_flight_ = 0;
  Requests reads_;
  Requests writes_;

  Mutex mutex_;
  Condition changed_;
  RegionRing ring_ GUARDED_BY(mutex_);
  size_t next_sort_ GUARDED_BY(mutex_) = 0;
  size_t turn_ GUARDED_BY(mutex_) = 0;
  std::vector<Job*> sorted_ GUARDED_BY(mutex_);
  std::vector<uint32_t> finished_ GUARDED_BY(mutex_);  // buckets that are stored, not recorded
  Stored stored_ GUARDED_BY(mutex_);
  PipelineTimes times_ GUARDED_BY(mutex_);
};

template <class T>
Result<Stored> run(Context& context, std::span<const NumberBucket> buckets, const NumberPlan& plan,
                   BlockArena& arena, SpillSet& spills, const Target& target,
                   OrderedOutput* ordered, Resume* resume, PipelineTimes& times) {
  return Pipeline<T>(context, buckets, plan, arena, spills, target, ordered, resume).run(times);
}

}  // namespace

Result<std::unique_ptr<OrderedOutput>> OrderedOutput::open(const SortOptions& options,
                                                           const Target& target, uint64_t bytes_max,
                                                           size_t block_bytes) {
  auto output = std::make_unique<OrderedOutput>();
  auto files = FileIo::open(options, block_bytes, ordered_blocks);
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

Result<Stored> sort_number_buckets(Context& context, std::span<const NumberBucket> buckets,
                                   const NumberPlan& plan, BlockArena& arena, SpillSet& spills,
                                   const Target& target, OrderedOutput* ordered, Resume* resume,
                                   PipelineTimes& times) {
  return with_number_type(context.options.format.type, [&]<class T>() {
    return run<T>(context, buckets, plan, arena, spills, target, ordered, resume, times);
  });
}

}  // namespace penstock::external
