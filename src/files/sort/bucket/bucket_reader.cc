#include "files/sort/bucket/bucket_reader.h"

#include <algorithm>

#include "base/bits.h"
#include "base/check.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/spill/spill_codec.h"
#include "io/test_seam.h"

// Reading a bucket when the one before is stored would let the disk rest meanwhile. Instead,
// requests are sent for as many buckets as have room in the arena, which is a ring of regions in
// the order of the buckets:
//
//   read()        allocates the next job's region, when there is room; requests its blocks; marks
//                 it as loaded when all have arrived
//   take()        waits for the next job to be loaded
//   release()     makes room, once all jobs before it are released, too
//
// Kept buckets come first, and their regions lie where the ring begins: their blocks are put in
// order there (BlockArena::arrange), with a gap behind each for the additional memory of its sort.
// They can be sorted at once, and while that makes room the disk reads the spilled buckets.
//
// Buckets of one key are not sorted, and may be larger than all of memory: they are copied piece by
// piece, and the pieces are small enough not to hold up other buckets. If repeats are dropped only
// the first item is read.
//
// Turns. On a disk that seeks slowly a read beside a write costs two seeks. There read() fills the
// arena, and rests until all of that has been released; the writers wait until it rests. So the
// disk switches from reading to writing once for each filling of memory. But the disk rests while
// the last buckets are sorted: one of numbers, or most of a turn's records and lines.
//
// Waiting. read() waits for room, that is, for the takers of jobs to release them; these wait for
// read(). Regions are allocated, and jobs are taken, in one order: so the job that read() waits for
// has been read in full and can be taken. A job has room when it is alone.

namespace penstock::external {

Status restore_blocks(const BucketJob& job, const items::Format& format, const SpillSet& spills,
                      std::vector<std::byte>& spare) {
  for (size_t block = 0; block < job.stored_blocks.size(); ++block) {
    const uint64_t place = block * spills.block_bytes();
    const auto bytes =
        static_cast<size_t>(std::min<uint64_t>(spills.block_bytes(), job.read_bytes - place));
    if (auto status = restore_block(format, job.region + place, job.stored_blocks[block], bytes,
                                    spare, spills.location_of(job.spilled[block]));
        !status)
      return status;
  }
  return {};
}

// ---- requests

static_assert(JobRequests::bytes_max % io::sector_bytes == 0);

void JobRequests::submit(BucketJob& job, io::Request request) {
  request.owner = &job;
  ++job.requests_left;
  ring_.submit(request);
}

Result<BucketJob*> JobRequests::wait() {
  const io::Request& request = ring_.wait_any();
  if (auto status = ring_.status(); !status) return std::unexpected(status.error());
  auto* job = static_cast<BucketJob*>(request.owner);
  uint64_t needed = request.bytes;
  if (request.operation == io::Operation::read && job->stored_blocks.empty()) {
    // Less than a sector may follow the last item: an ended run cuts its temporaries.
    const auto place = static_cast<uint64_t>(request.data - job->region);
    needed = std::min(needed, job->read_bytes - place);
  }
  if (request.done_bytes < needed)
    return failure(ErrorCode::corrupt, "read back what was written", request.file->path());
  return --job->requests_left == 0 && job->submitted ? job : nullptr;
}

// ---- jobs

BucketReader::BucketReader(Context& context, std::span<const SplitBucket> buckets,
                           BlockArena& arena, SpillSet& spills, const Target& target,
                           const BucketReaderOptions& options)
    : context_(context),
      buckets_(buckets),
      arena_(arena),
      spills_(spills),
      options_(options),
      planned_offset_(target.offset),
      ring_(arena.bytes()),
      reads_(options.in_turns) {
  for (const SplitBucket& bucket : buckets) add_jobs(bucket);
  if (!kept_.empty()) arena_.arrange(kept_);
}

void BucketReader::add_jobs(const SplitBucket& bucket) {
  BucketJob job{.bucket = static_cast<uint32_t>(loads_left_.size()),
                .spilled = bucket.spilled,
                .stored_blocks = bucket.stored_blocks,
                .read_bytes = bucket.bytes,
                .bytes = bucket.bytes,
                .items = bucket.items};
  loads_left_.push_back(0);
  if (!bucket.constant) return add(job, bucket);
  const bool made = bucket.spilled.empty() && bucket.kept.empty();
  job.kind = made ? BucketJob::Kind::make : BucketJob::Kind::copy;
  if (context_.options.unique) {
    // All items have one length, or only the first one was kept.
    job.bytes = bucket.bytes / bucket.items;
    job.items = 1;
    // Whole blocks are read, because only these have checks.
    if (!job.spilled.empty()) cut(job, bucket, 0, ceil_div(job.bytes, spills_.block_bytes()));
    return add(job, bucket);
  }
  if (job.spilled.empty()) return add(job, bucket);
  const size_t blocks = std::max<size_t>(1, arena_.bytes() / 8 / spills_.block_bytes());
  const uint64_t piece_bytes = blocks * spills_.block_bytes();
  const uint64_t item_bytes = bucket.bytes / bucket.items;
  const bool sums_items = context_.options.format.equal_keys_are_equally_long();
  for (size_t first = 0; first < bucket.spilled.size(); first += blocks) {
    job.start = first * spills_.block_bytes();
    job.bytes = std::min(bucket.bytes - job.start, piece_bytes);
    // The last item that begins here may end in the next piece. It is read here to be summed up.
    const uint64_t rest_bytes =
        sums_items ? ceil_div(job.start + job.bytes, item_bytes) * item_bytes - job.start
                   : job.bytes;
    cut(job, bucket, first, ceil_div(rest_bytes, spills_.block_bytes()));
    job.items = first == 0 ? bucket.items : 0;
    add(job, bucket);
  }
}

void BucketReader::cut(BucketJob& job, const SplitBucket& bucket, size_t first,
                       size_t blocks) const {
  blocks = std::min(blocks, bucket.spilled.size() - first);
  const uint64_t start = first * spills_.block_bytes();
  job.read_bytes = std::min<uint64_t>(bucket.bytes - start, blocks * spills_.block_bytes());
  job.spilled = std::span(bucket.spilled).subspan(first, blocks);
  if (!bucket.stored_blocks.empty())
    job.stored_blocks = std::span(bucket.stored_blocks).subspan(first, blocks);
}

void BucketReader::add(BucketJob job, const SplitBucket& bucket) {
  job.number = jobs_.size();
  job.offset = planned_offset_;
  planned_offset_ += job.bytes;
  if (job.kind != BucketJob::Kind::make) {
    const uint64_t items = job.kind == BucketJob::Kind::sort ? job.items : 0;
    job.region_bytes = region_bytes_of(context_.options.format, job.read_bytes, items);
  }
  if (!bucket.kept.empty()) {
    // Kept buckets lie at the arena's start, where the ring allocates its first regions.
    const size_t blocks =
        std::max<size_t>(ceil_div(job.region_bytes, arena_.block_bytes()), bucket.kept.size());
    job.region_bytes = blocks * arena_.block_bytes();
    kept_.insert(kept_.end(), bucket.kept.begin(), bucket.kept.end());
    kept_.resize(kept_.size() + blocks - bucket.kept.size(), BlockArena::no_block);
  }
  ++loads_left_.back();
  jobs_.push_back(job);
}

// ---- reading

Status BucketReader::open() {
  uint64_t bytes = 0;
  for (const BucketJob& job : jobs_) bytes += job.spilled.empty() ? 0 : job.read_bytes;
  return bytes > 0 ? requests_.open(bytes) : Status{};
}

Status BucketReader::read() {
  size_t next = 0;        // the next job to get a region
  size_t submitting = 0;  // the job whose reads are being submitted
  size_t block = 0;       // the next block of that job
  for (;;) {
    if (auto status = context_.pulse(); !status) return status;
    while (next < jobs_.size() && allocate(jobs_[next])) ++next;
    while (submitting < next && !requests_.full()) {
      BucketJob& job = jobs_[submitting];
      if (block < job.spilled.size()) {
        submit(job, block);
        continue;
      }
      job.submitted = true;
      if (job.requests_left == 0) loaded(job);
      ++submitting;
      block = 0;
    }
    if (!requests_.idle()) {
      auto job = requests_.wait();
      if (!job) return std::unexpected(job.error());
      if (*job != nullptr) loaded(**job);
    } else if (submitting == jobs_.size()) {
      end_turn();
      return {};
    } else if (submitting == next) {
      wait_for_room(jobs_[next]);
    }
  }
}

// Submits a read of adjacent blocks. A compressed block is read alone, to its decompressed place.
void BucketReader::submit(BucketJob& job, size_t& block) {
  const Spill& spill = spills_.part(buckets_[job.bucket].spill);
  const auto block_bytes = static_cast<uint32_t>(spills_.block_bytes());
  const stream::Extent first = spill.numbered(job.spilled[block], block_bytes);
  const uint64_t place = uint64_t{block} * block_bytes;
  uint64_t bytes = 0;
  if (!job.stored_blocks.empty()) {
    bytes = round_up(job.stored_blocks[block++].bytes, io::sector_bytes);
  } else {
    while (block < job.spilled.size()) {
      const stream::Extent next = spill.numbered(job.spilled[block], block_bytes);
      const bool follows = next.file == first.file && next.offset == first.offset + bytes;
      if (!follows || bytes + block_bytes > std::max<size_t>(JobRequests::bytes_max, block_bytes))
        break;
      bytes += block_bytes;
      ++block;
    }
    bytes = std::min(bytes, round_up(job.read_bytes, io::sector_bytes) - place);
  }
  requests_.submit(job, {.operation = io::Operation::read,
                         .file = first.file,
                         .offset = first.offset,
                         .data = job.region + place,
                         .bytes = bytes});
}

bool BucketReader::allocate(BucketJob& job) {
  if (job.kind == BucketJob::Kind::make) return true;
  MutexLock lock(mutex_);
  const auto begin = ring_.allocate(job.region_bytes);
  if (!begin) return false;
  job.region = arena_.begin() + *begin;
  job.began_at = BucketJob::Clock::now();
  return true;
}

void BucketReader::wait_for_room(const BucketJob& job) {
  const auto start = BucketJob::Clock::now();
  end_turn();
  {
    MutexLock lock(mutex_);
    while (!(options_.in_turns ? ring_.empty() : ring_.has_room(job.region_bytes)) &&
           !context_.failed())
      changed_.wait(mutex_);
    reads_ = options_.in_turns;
  }
  wait_room_s_ += std::chrono::duration<double>(BucketJob::Clock::now() - start).count();
}

void BucketReader::end_turn() {
  MutexLock lock(mutex_);
  reads_ = false;
  changed_.notify_all();
}

void BucketReader::loaded(BucketJob& job) {
  const SplitBucket& bucket = buckets_[job.bucket];
  const bool is_last = --loads_left_[job.bucket] == 0;
  job.read_at = BucketJob::Clock::now();
  if (job.region != nullptr && io::test_seam != nullptr)
    io::test_seam->damage_bucket(job.region, job.bytes);
  {
    MutexLock lock(mutex_);
    job.loaded = true;
    changed_.notify_all();
  }
  if (is_last && options_.releases && !bucket.spilled.empty()) spills_.release(bucket.spill);
}

// ---- jobs that are loaded

BucketJob* BucketReader::take() {
  MutexLock lock(mutex_);
  while (!context_.failed() && next_ < jobs_.size() && !jobs_[next_].loaded) changed_.wait(mutex_);
  if (context_.failed() || next_ == jobs_.size()) return nullptr;
  return &jobs_[next_++];
}

void BucketReader::wait_for_turn() {
  MutexLock lock(mutex_);
  while (reads_ && !context_.failed()) changed_.wait(mutex_);
}

void BucketReader::release(const BucketJob& job) {
  if (job.region == nullptr) return;
  MutexLock lock(mutex_);
  ring_.release(static_cast<uint64_t>(job.region - arena_.begin()));
  changed_.notify_all();
}

void BucketReader::wake() {
  MutexLock lock(mutex_);
  changed_.notify_all();
}

}  // namespace penstock::external
