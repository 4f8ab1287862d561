#include "stream/process_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "os/futex.h"
#include "stream/recovery.h"

// How one stream lives in two processes, of which either may die between any two instructions.
//
// The rules of heads, windows and slots are RemapStream's (see the essay in remap_stream.cc). What
// differs is who may hold what. A lock in shared memory would be held by a dead process sooner or
// later, a queue of blocks would be half changed, and a block that is handed over by its number
// would be lost between two hands. So nothing is handed over here: block x lives in slot x mod S of
// a memory file that both processes have mapped, always, and the shared state is a few numbers that
// only grow:
//
//   heads      w and c, each written by its side: the last block that it came to
//   released   written by the producer: blocks below are full, and the consumer's
//   phases     active -> finished | failed, each written by its side, or by the survivor when its
//              process has ended
//   slots      which position each slot was last mapped for by the producer: a block that it
//              skipped is known by that, and is cleared by the consumer
//
// Whatever the instruction after which a process dies, these numbers say how far it had come, and
// nobody has to be undone. Each process maps the slots at its own addresses and keeps its own
// record of them (shown_), under a lock of its own.
//
// Waiting. A side that must wait sleeps on a counter in the shared memory, which every change of
// the numbers raises; never longer than death_ms at a time. When nothing has changed by then it
// asks whether the other process still runs (a pidfd: numbers of processes are used again, a pidfd
// is not), and if not, sets that side's phase to failed: from there on everything goes as if the
// dead had called fail(). What it had released can still be read. A side that nobody has taken yet
// is waited for.
//
// Memory order. Bytes of a block are stored before `released` is (release), which the consumer
// loads (acquire) before it touches them; the way back goes by the consumer's head in the same
// manner. The phases are stored after what they vouch for: who sees `finished` sees the final
// `released` and `end_bytes`, who sees `failed` sees the reason.
//
// What the other process may do to us. The shape is copied and checked when joining, the file's
// size is sealed, texts are copied with an end. Numbers that make no sense can stop or starve us,
// or show wrong bytes, as the bytes themselves can; they cannot lead us to an address outside of
// the stream.
//
// Costs: as RemapStream's shared pool, without the interruptions: what one process unmaps does not
// concern the other one's core.

namespace penstock::stream {

namespace {

constexpr uint64_t magic_value = 0x31'6d616572'7473'70;  // "pstream1", once the rest is written
constexpr uint32_t death_ms = 50;
const int spins_max = std::thread::hardware_concurrency() > 1 ? 1000 : 0;

enum class Phase : uint32_t {
  active,
  failing,  // the reason is being written
  finished,
  failed,
};

// A process, in one word, so that a side is taken in one step.
constexpr int pid_bits = 22;
uint64_t identity_of(const os::ProcessId& process) {
  return process.start_ticks << pid_bits | static_cast<uint64_t>(process.pid);
}
os::ProcessId process_of(uint64_t identity) {
  return {.pid = static_cast<int32_t>(identity & ((1u << pid_bits) - 1)),
          .start_ticks = identity >> pid_bits};
}

}  // namespace

struct alignas(128) SharedSide {
  std::atomic<uint64_t> identity = 0;  // 0: not taken
  std::atomic<Position> head = -1;
  std::atomic<Phase> phase = Phase::active;
  // Written between `failing` and `failed`.
  uint32_t error_code = 0;
  char reason[256] = {};
};

// The beginning of the memory file. What is not atomic is written before magic, or between two
// phases, and constant from then on.
struct SharedStream {
  std::atomic<uint64_t> magic = 0;
  uint64_t bytes = 0;
  uint64_t block_bytes = 0;
  uint32_t read_ahead_blocks = 0, producer_comeback_blocks = 0, consumer_comeback_blocks = 0;
  char name[64] = {};

  std::array<SharedSide, 2> sides;

  alignas(128) std::atomic<Position> released = 0;
  std::atomic<uint64_t> end_bytes = 0;

  alignas(128) std::atomic<uint32_t> changes = 0;  // how often anything above has changed
  std::atomic<uint32_t> sleeping = 0;  // those who sleep on it; too many where a sleeper was killed

  // Behind the struct: of each slot, the position for which the producer mapped it.
  std::atomic<Position>* slot_positions() {
    return reinterpret_cast<std::atomic<Position>*>(this + 1);
  }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<Phase>::is_always_lock_free,
              "atomics must work between processes");

namespace {

// Reads each number once: whoever has the descriptor can change them at any moment, and what was
// checked is what must be used.
Shape shape_in(SharedStream& shared) {
  auto read = [](auto& number) { return std::atomic_ref(number).load(std::memory_order_relaxed); };
  return {.bytes = read(shared.bytes),
          .block_bytes = read(shared.block_bytes),
          .read_ahead_blocks = read(shared.read_ahead_blocks),
          .producer_comeback_blocks = read(shared.producer_comeback_blocks),
          .consumer_comeback_blocks = read(shared.consumer_comeback_blocks)};
}

// The same for a text, which need not have an end.
std::string name_in(const SharedStream& shared) {
  char name[sizeof shared.name];
  std::memcpy(name, shared.name, sizeof name);
  return std::string(name, strnlen(name, sizeof name));
}

// Where the blocks begin: at a multiple that lets them be huge pages.
uint64_t header_bytes(const Shape& shape) {
  return round_up(sizeof(SharedStream) + shape.live_blocks() * sizeof(std::atomic<Position>),
                  std::min(shape.block_bytes, os::huge_page_bytes));
}

Result<os::Reservation> map_header(const os::MemoryFile& file, uint64_t bytes) {
  auto header = os::Reservation::reserve(bytes);
  if (!header) return header;
  if (int error = file.map(header->begin(), bytes, 0, false); error != 0)
    return system_error(error, "map the head of a stream", "memfd");
  return header;
}

// Gives the blocks their memory, in huge pages where that goes, so that no fault waits for it
// later.
int populate_blocks(const os::MemoryFile& file, uint64_t offset, const Shape& shape) {
  const uint64_t bytes = shape.live_blocks() * shape.block_bytes;
  auto view = os::Reservation::reserve(bytes);
  if (!view) return ENOMEM;
  if (int error = file.map(view->begin(), bytes, offset, false); error != 0) return error;
  for (uint64_t at = 0; shape.block_bytes >= os::huge_page_bytes && at < bytes;
       at += os::huge_page_bytes) {
    // A piece of a file without any page is not collapsed.
    if (int error = os::populate(view->begin() + at, os::page_bytes); error != 0) return error;
    (void)os::collapse(view->begin() + at, os::huge_page_bytes);
  }
  return os::populate(view->begin(), bytes);
}

}  // namespace

// ---- opening, joining and closing

Result<std::unique_ptr<ProcessStreamCore>> ProcessStreamCore::create(const Options& options,
                                                                     Side side) {
  const Shape shape = Shape::of(options);
  if (auto valid = shape.check(options.name); !valid) return std::unexpected(valid.error());
  const uint64_t head_bytes = header_bytes(shape);
  auto file = os::MemoryFile::create(head_bytes + shape.live_blocks() * shape.block_bytes);
  if (!file) return std::unexpected(file.error());
  if (auto sealed = file->seal_size(); !sealed) return std::unexpected(sealed.error());
  auto header = map_header(*file, head_bytes);
  if (!header) return std::unexpected(header.error());
  if (int error = populate_blocks(*file, head_bytes, shape); error != 0) {
    return system_error(
        error, fmt::format("get {} blocks of {} bytes", shape.live_blocks(), shape.block_bytes),
        options.name, "smaller or fewer blocks");
  }

  auto* shared = new (header->begin()) SharedStream;
  shared->bytes = shape.bytes;
  shared->block_bytes = shape.block_bytes;
  shared->read_ahead_blocks = shape.read_ahead_blocks;
  shared->producer_comeback_blocks = shape.producer_comeback_blocks;
  shared->consumer_comeback_blocks = shape.consumer_comeback_blocks;
  std::snprintf(shared->name, sizeof shared->name, "%s", options.name.c_str());
  for (size_t slot = 0; slot < shape.live_blocks(); ++slot) {
    new (shared->slot_positions() + slot) std::atomic<Position>(-1);
  }
  shared->magic.store(magic_value, std::memory_order_release);

  std::unique_ptr<ProcessStreamCore> core(new ProcessStreamCore(
      std::move(*file), std::move(*header), shape, side,
      {.policy = options.policy, .strict = options.strict}, options.attach_ms_max));
  if (auto joined = core->join(); !joined) return std::unexpected(joined.error());
  return core;
}

Result<std::unique_ptr<ProcessStreamCore>> ProcessStreamCore::attach(int fd, Side side,
                                                                     const AttachOptions& options) {
  auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, "attach to a stream",
                   fmt::format("descriptor {}", fd), std::move(hint));
  };
  auto file = os::MemoryFile::adopt(fd);
  if (!file) return std::unexpected(file.error());
  if (file->bytes() < sizeof(SharedStream)) return refuse("what ProcessStream::create() made");
  auto header = map_header(*file, round_up(sizeof(SharedStream), os::page_bytes));
  if (!header) return std::unexpected(header.error());
  auto* shared = reinterpret_cast<SharedStream*>(header->begin());
  if (shared->magic.load(std::memory_order_acquire) != magic_value)
    return refuse("what ProcessStream::create() of this version made");
  const Shape shape = shape_in(*shared);
  if (auto valid = shape.check("the other process's stream"); !valid)
    return std::unexpected(valid.error());
  if (file->bytes() != header_bytes(shape) + shape.live_blocks() * shape.block_bytes)
    return refuse("a stream whose size is what its head says");
  header = map_header(*file, header_bytes(shape));
  if (!header) return std::unexpected(header.error());

  std::unique_ptr<ProcessStreamCore> core(
      new ProcessStreamCore(std::move(*file), std::move(*header), shape, side, options, 0));
  if (auto joined = core->join(); !joined) return std::unexpected(joined.error());
  return core;
}

ProcessStreamCore::ProcessStreamCore(os::MemoryFile file, os::Reservation header,
                                     const Shape& shape, Side side, const AttachOptions& options,
                                     uint32_t attach_ms_max)
    : file_(std::move(file)),
      header_(std::move(header)),
      shared_(*std::launder(reinterpret_cast<SharedStream*>(header_.begin()))),
      side_(side),
      options_(options),
      attach_ms_max_(attach_ms_max),
      shape_(shape),
      ahead_(shape_.read_ahead_blocks),
      producer_comeback_(shape_.producer_comeback_blocks),
      consumer_comeback_(shape_.consumer_comeback_blocks),
      blocks_max_(shape_.blocks()),
      slots_(shape_.live_blocks()),
      blocks_offset_(header_bytes(shape_)),
      name_(name_in(shared_)),
      shown_(slots_, -1),
      late_(shape_.block_bytes, options.strict ? 1 : late_views) {}

// Takes the side, once all else that could fail has been done.
Status ProcessStreamCore::join() {
  auto self = os::ProcessId::self();
  if (!self) return std::unexpected(self.error());
  self_ = *self;
  auto range = os::Reservation::reserve(static_cast<uint64_t>(blocks_max_ + 1) * shape_.block_bytes,
                                        std::max(shape_.block_bytes, os::huge_page_bytes));
  if (!range) return std::unexpected(range.error());
  range_ = std::move(*range);
  auto registration = fault::Registration::add(range_.begin(), range_.bytes(), *this);
  if (!registration) return std::unexpected(registration.error());
  registration_ = std::move(*registration);

  uint64_t free = 0;
  if (!mine().identity.compare_exchange_strong(free, identity_of(self_))) {
    return failure(ErrorCode::invalid_argument, fmt::format("become the {}", name_of(side_)), name_,
                   fmt::format("process {} is it", process_of(free).pid));
  }
  joined_ = true;
  changed();
  // Too late, if the other side has stopped waiting for this one, or has ended with nothing left.
  if (mine().phase.load() == Phase::failed) {
    char reason[sizeof mine().reason];
    const ErrorCode code = read_failure(mine(), reason);
    return failure(code, fmt::format("become the {}: {}", name_of(side_), reason), name_);
  }
  notice_death();
  const bool useless = side_ == Side::producer || shared_.released.load() == 0;
  if (useless && others().phase.load() == Phase::failed)
    return std::unexpected(error_of(Verdict::other_failed, 0));
  return {};
}

ProcessStreamCore::~ProcessStreamCore() {
  if (!joined_ || is_inherited()) return;  // a forked child's copy speaks for nobody
  const bool complete = shared_.sides[index_of(Side::producer)].phase.load() == Phase::finished;
  if (!complete) fail(Error{ErrorCode::cancelled, "go on: its stream was closed"});
}

// ---- serving an access

// Fault path.
fault::Outcome ProcessStreamCore::on_fault(const fault::Fault& fault) noexcept {
  const auto position = static_cast<Position>(static_cast<size_t>(fault.address - range_.begin()) /
                                              shape_.block_bytes);
  const Verdict verdict = serve(position);
  if (verdict != Verdict::present) give_up(verdict, position, fault.context);
  return fault::Outcome::retry;
}

// Waits for the block and maps it: `present`, or why that cannot be.
Verdict ProcessStreamCore::serve(Position position) noexcept {
  mutex_.lock();
  int error = retire(position);
  announce(position);
  Verdict verdict = Verdict::unmapped;
  while (error == 0) {
    const uint32_t seen = shared_.changes.load(std::memory_order_seq_cst);
    verdict = judge(position);
    if (verdict != Verdict::wait) break;
    mutex_.unlock();
    wait_for_change(seen);
    mutex_.lock();
  }
  if (verdict == Verdict::take || verdict == Verdict::take_cleared) {
    error = show(position, verdict == Verdict::take_cleared);
    verdict = error == 0 ? Verdict::present : Verdict::unmapped;
  }
  if (error != 0) map_errno_ = error;
  free_page_tables();
  mutex_.unlock();
  return verdict;
}

// Of what nobody in this process will touch any more: no slot is there, and the side is past it.
void ProcessStreamCore::free_page_tables() noexcept {
  Position lowest = std::clamp<Position>(head_ - comeback(), 0, blocks_max_);
  if (!passed_.reaches(range_.begin(), address(lowest))) return;
  for (Position shown : shown_) {
    if (shown >= 0) lowest = std::min(lowest, shown);
  }
  const std::span<std::byte> tables = passed_.pass(range_.begin(), address(lowest));
  if (tables.empty()) return;
  late_.forget(tables.data(), tables.data() + tables.size());
  (void)os::decommit(tables.data(), tables.size());  // refused, they cost memory and nothing else
}

// Strict: takes away what this side must no longer touch, before the other one is told. 0 or an
// errno.
int ProcessStreamCore::retire(Position position) noexcept {
  if (side_ == Side::producer && position >= blocks_max_) return 0;  // it will not get there
  return retire_below(position - comeback());
}

int ProcessStreamCore::retire_below(Position kept) noexcept {
  if (!options_.strict) return 0;
  for (Position& shown : shown_) {
    if (shown < 0 || shown >= kept) continue;
    if (int error = os::decommit(address(shown), shape_.block_bytes); error != 0) return error;
    shown = -1;
  }
  return 0;
}

void ProcessStreamCore::announce(Position position) noexcept {
  if (mine().phase.load(std::memory_order_relaxed) != Phase::active) return;
  if (position <= head_) return;
  if (side_ == Side::producer) {
    if (position >= blocks_max_) return;
    const Position complete = position - producer_comeback_;
    if (complete > shared_.released.load(std::memory_order_relaxed))
      shared_.released.store(complete, std::memory_order_release);
  }
  head_ = position;
  mine().head.store(position, std::memory_order_release);
  changed();
}

// As the other process has it, if it makes sense.
Position ProcessStreamCore::others_head() const noexcept {
  return std::clamp<Position>(others().head.load(std::memory_order_acquire), -1, blocks_max_);
}

Verdict ProcessStreamCore::judge(Position position) const noexcept {
  if (shown_[slot_of(position)] == position) return Verdict::present;
  if (mine().phase.load(std::memory_order_relaxed) != Phase::active) return Verdict::side_ended;
  return side_ == Side::producer ? judge_writer(position) : judge_reader(position);
}

Verdict ProcessStreamCore::judge_writer(Position position) const noexcept {
  if (position >= blocks_max_) return Verdict::past_capacity;
  if (position < head_ - producer_comeback_) return Verdict::behind_window;
  if (others().phase.load(std::memory_order_acquire) == Phase::failed)
    return options_.policy == ErrorPolicy::zeros ? Verdict::take : Verdict::other_failed;
  return position <= others_head() + ahead_ + producer_comeback_ ? Verdict::take : Verdict::wait;
}

Verdict ProcessStreamCore::judge_reader(Position position) const noexcept {
  if (position < head_ - consumer_comeback_) return Verdict::behind_window;
  // The phase first: who sees the end also sees what was released before it.
  const Phase phase = others().phase.load(std::memory_order_acquire);
  const Position released = shared_.released.load(std::memory_order_acquire);
  if (position < released) {
    const auto& written = shared_.slot_positions()[slot_of(position)];
    return written.load(std::memory_order_relaxed) == position ? Verdict::take
                                                               : Verdict::take_cleared;
  }
  const bool zeros = options_.policy == ErrorPolicy::zeros;
  switch (phase) {
    case Phase::active:
    case Phase::failing:
      return Verdict::wait;
    case Phase::failed:
      return zeros ? Verdict::take_cleared : Verdict::other_failed;
    case Phase::finished:
      break;
  }
  return zeros || position == released ? Verdict::take_cleared : Verdict::past_end;
}

// Maps the position's slot, and gives up the view that this process had of it. 0 or an errno.
int ProcessStreamCore::show(Position position, bool cleared) noexcept {
  const size_t slot = slot_of(position);
  std::byte* const at = address(position);
  auto map = [&] {
    return file_.map(at, shape_.block_bytes, blocks_offset_ + slot * shape_.block_bytes, true);
  };
  int error = map();
  if (error == ENOMEM && late_.flush() == 0) error = map();
  if (error != 0) return error;
  (void)os::exclude_from_fork(at, shape_.block_bytes);  // refused, a child sees what is not its own
  if (cleared) std::memset(at, 0, shape_.block_bytes);
  if (side_ == Side::producer)
    shared_.slot_positions()[slot].store(position, std::memory_order_relaxed);
  const Position before = std::exchange(shown_[slot], position);
  return before < 0 ? 0 : late_.add(address(before));
}

// Sleeps until the shared state has changed since `seen`, or for a while.
void ProcessStreamCore::wait_for_change(uint32_t seen) noexcept {
  for (int spins = 0; spins < spins_max && shared_.changes.load(std::memory_order_acquire) == seen;
       ++spins) {
    os::spin_pause();
  }
  // seq_cst, the partner of changed(): either it sees this sleeper, or the futex call sees the
  // change.
  shared_.sleeping.fetch_add(1, std::memory_order_seq_cst);
  if (shared_.changes.load(std::memory_order_seq_cst) == seen)
    os::futex_wait_shared(shared_.changes, seen, death_ms);
  shared_.sleeping.fetch_sub(1, std::memory_order_relaxed);
  if (shared_.changes.load(std::memory_order_relaxed) == seen) notice_death();
}

void ProcessStreamCore::changed() noexcept {
  shared_.changes.fetch_add(1, std::memory_order_seq_cst);
  if (shared_.sleeping.load(std::memory_order_seq_cst) != 0)
    os::futex_wake_all_shared(shared_.changes);
}

// Speaks for the other process when it has ended without a word.
void ProcessStreamCore::notice_death() noexcept {
  MutexLock lock(mutex_);
  SharedSide& others = this->others();
  const os::ProcessId process = process_of(others.identity.load(std::memory_order_acquire));
  Phase phase = others.phase.load(std::memory_order_acquire);
  if (phase == Phase::finished || phase == Phase::failed) return;
  char reason[64];
  if (process.pid == 0) {
    if (attach_ms_max_ == 0 ||
        std::chrono::steady_clock::now() - opened_ < std::chrono::milliseconds(attach_ms_max_))
      return;
    std::snprintf(reason, sizeof reason, "no process has attached within %u ms", attach_ms_max_);
  } else {
    const int error = watch_.is_watching() ? 0 : watch_.watch(process);
    const bool ended = error == 0 ? !watch_.is_running() : error == ESRCH;
    if (!ended) return;
    std::snprintf(reason, sizeof reason, "process %d has ended", process.pid);
  }
  // It may have ended while it was saying why; or it finished just before.
  if (others.phase.compare_exchange_strong(phase, Phase::failing))
    write_failure(others, ErrorCode::cancelled, reason);
}

// ---- what cannot be served

void ProcessStreamCore::give_up(Verdict verdict, Position position, void* context) const noexcept {
  char text[400];
  const ErrorCode code = write_reason(text, sizeof text, verdict, position);
  // What zeros can mend, judge() has let pass.
  const ErrorPolicy policy =
      options_.policy == ErrorPolicy::recover ? ErrorPolicy::recover : ErrorPolicy::stop;
  const Failure failure{
      .code = code, .attempted = text, .subject = name_.c_str(), .system_errno = 0};
  [[maybe_unused]] const bool recovered = stream::fail(policy, failure, context);
}

Error ProcessStreamCore::error_of(Verdict verdict, Position position) const {
  char text[400];
  const ErrorCode code = write_reason(text, sizeof text, verdict, position);
  return Error{code, text, name_};
}

// May stand on the fault path: the text goes to the caller's stack.
ErrorCode ProcessStreamCore::write_reason(char* text, size_t text_bytes, Verdict verdict,
                                          Position position) const noexcept {
  char reason[sizeof others().reason];
  const ErrorCode code = read_failure(others(), reason);
  MutexLock lock(mutex_);
  return write_refusal({.verdict = verdict,
                        .side = side_,
                        .position = position,
                        .head = head_,
                        .comeback = comeback(),
                        .capacity_bytes = shape_.bytes,
                        .end_bytes = shared_.end_bytes.load(),
                        .map_errno = map_errno_,
                        .other_reason = reason,
                        .other_code = code},
                       text, text_bytes);
}

// Completes the step to `failed`. REQUIRES: the phase is `failing`, and this thread made it so.
void ProcessStreamCore::write_failure(SharedSide& side, ErrorCode code,
                                      const char* reason) noexcept {
  side.error_code = static_cast<uint32_t>(code);
  std::snprintf(side.reason, sizeof side.reason, "%s", reason);
  side.phase.store(Phase::failed, std::memory_order_release);
  changed();
}

// The reason is as the other process wrote it: it need not have an end.
ErrorCode ProcessStreamCore::read_failure(const SharedSide& side, char (&reason)[256]) noexcept {
  std::memcpy(reason, side.reason, sizeof reason);
  reason[sizeof reason - 1] = 0;
  const uint32_t code = side.error_code;
  return code <= static_cast<uint32_t>(ErrorCode::unsorted) ? static_cast<ErrorCode>(code)
                                                            : ErrorCode::cancelled;
}

// ---- calls of the user

Status ProcessStreamCore::prepare(const void* address, size_t bytes) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  if (bytes == 0) return {};
  auto blocks =
      BlockRange::of(address, bytes, range_, shape_.block_bytes, side_, comeback(), name_);
  if (!blocks) return std::unexpected(std::move(blocks.error()));
  for (Position position = blocks->first; position <= blocks->last; ++position) {
    const Verdict verdict = serve(position);
    if (verdict != Verdict::present) return std::unexpected(error_of(verdict, position));
  }
  return {};
}

Result<size_t> ProcessStreamCore::prepare(std::byte* address, size_t bytes, fault::Access) {
  const size_t fits = bytes_in_window(address, bytes, range_, shape_.block_bytes, comeback());
  if (auto prepared = prepare(address, fits); !prepared)
    return std::unexpected(std::move(prepared.error()));
  return fits;
}

Status ProcessStreamCore::finish(uint64_t bytes) {
  if (auto owned = check_owned("finish"); !owned) return std::unexpected(owned.error());
  auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, fmt::format("finish at {} bytes", bytes), name_,
                   std::move(hint));
  };
  {
    MutexLock lock(mutex_);
    if (side_ != Side::producer) return refuse("the producer finishes");
    if (mine().phase.load() != Phase::active) return refuse("finish once, and not after fail()");
    const uint64_t handed_over =
        static_cast<uint64_t>(shared_.released.load()) * shape_.block_bytes;
    if (bytes > shape_.bytes || bytes < handed_over) {
      return refuse(fmt::format("{} bytes are with the consumer, {} is the capacity", handed_over,
                                shape_.bytes));
    }
    // The block that holds the end may carry bytes of an older position behind it.
    const auto last = static_cast<Position>(bytes / shape_.block_bytes);
    const size_t used = bytes % shape_.block_bytes;
    if (used != 0 && shown_[slot_of(last)] == last)
      std::memset(address(last) + used, 0, shape_.block_bytes - used);
    (void)retire_below(blocks_max_ + 1);
  }
  shared_.end_bytes.store(bytes, std::memory_order_relaxed);
  shared_.released.store(static_cast<Position>(ceil_div(bytes, shape_.block_bytes)),
                         std::memory_order_release);
  Phase active = Phase::active;
  if (!mine().phase.compare_exchange_strong(active, Phase::finished))
    return refuse("finish once, and not after fail()");
  changed();
  if (others().phase.load(std::memory_order_acquire) == Phase::failed)
    return std::unexpected(
        error_of(Verdict::other_failed, static_cast<Position>(bytes / shape_.block_bytes)));
  return {};
}

Result<uint64_t> ProcessStreamCore::wait_ready(uint64_t offset) {
  if (auto owned = check_owned("wait for data"); !owned) return std::unexpected(owned.error());
  if (side_ != Side::consumer)
    return failure(ErrorCode::invalid_argument, "wait for data", name_, "the consumer waits");
  // Beyond the capacity nothing comes but the end.
  const auto position = static_cast<Position>(
      std::min<uint64_t>(offset / shape_.block_bytes, static_cast<uint64_t>(blocks_max_)));
  mutex_.lock();
  const int error = retire(position);
  if (error != 0) map_errno_ = error;
  if (error == 0) announce(position);
  mutex_.unlock();
  if (error != 0) return std::unexpected(error_of(Verdict::unmapped, position));
  for (;;) {
    const uint32_t seen = shared_.changes.load(std::memory_order_seq_cst);
    const Phase phase = others().phase.load(std::memory_order_acquire);
    if (phase == Phase::finished) return shared_.end_bytes.load();
    const Position released = shared_.released.load(std::memory_order_acquire);
    if (position < released) return static_cast<uint64_t>(released) * shape_.block_bytes;
    if (phase == Phase::failed) return std::unexpected(error_of(Verdict::other_failed, position));
    if (mine().phase.load(std::memory_order_relaxed) != Phase::active)
      return std::unexpected(error_of(Verdict::side_ended, position));
    wait_for_change(seen);
  }
}

void ProcessStreamCore::fail(const Error& error) {
  if (is_inherited()) return;
  const std::string reason = error.message();
  {
    MutexLock lock(mutex_);
    Phase active = Phase::active;
    if (!mine().phase.compare_exchange_strong(active, Phase::failing)) return;
    (void)retire_below(blocks_max_ + 1);
  }
  write_failure(mine(), error.code, reason.c_str());
}

Status ProcessStreamCore::status() const {
  for (Side side : {Side::producer, Side::consumer}) {
    const SharedSide& shared = shared_.sides[index_of(side)];
    if (shared.phase.load(std::memory_order_acquire) != Phase::failed) continue;
    char reason[sizeof shared.reason];
    const ErrorCode code = read_failure(shared, reason);
    return failure(code, fmt::format("go on: the {} gave up: {}", name_of(side), reason), name_);
  }
  return {};
}

SharedSide& ProcessStreamCore::mine() const {
  return shared_.sides[index_of(side_)];
}
SharedSide& ProcessStreamCore::others() const {
  return shared_.sides[index_of(other(side_))];
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

ProcessStream::ProcessStream(std::unique_ptr<stream::ProcessStreamCore> core)
    : core_(std::move(core)) {}
ProcessStream::ProcessStream(ProcessStream&&) noexcept = default;
ProcessStream& ProcessStream::operator=(ProcessStream&&) noexcept = default;
ProcessStream::~ProcessStream() = default;

Result<ProcessStream> ProcessStream::create(const Options& options, Side side) {
  auto core = stream::ProcessStreamCore::create(options, side);
  if (!core) return std::unexpected(std::move(core.error()));
  return ProcessStream(std::move(*core));
}
Result<ProcessStream> ProcessStream::attach(int fd, Side side, const AttachOptions& options) {
  auto core = stream::ProcessStreamCore::attach(fd, side, options);
  if (!core) return std::unexpected(std::move(core.error()));
  return ProcessStream(std::move(*core));
}

int ProcessStream::fd() const {
  return core_->fd();
}
ProcessStream::Side ProcessStream::side() const {
  return core_->side();
}
Status ProcessStream::prepare_write(const void* address, size_t bytes) {
  return core_->prepare(address, bytes);
}
Status ProcessStream::prepare_read(const void* address, size_t bytes) {
  return core_->prepare(address, bytes);
}
Status ProcessStream::finish(uint64_t bytes) {
  return core_->finish(bytes);
}
Result<uint64_t> ProcessStream::wait_ready(uint64_t offset) {
  return core_->wait_ready(offset);
}
void ProcessStream::fail(Error error) {
  core_->fail(error);
}
void ProcessStream::cancel() {
  fail(Error{.code = ErrorCode::cancelled, .attempted = "go on: the other side cancelled"});
}
Status ProcessStream::status() const {
  return core_->status();
}
uint64_t ProcessStream::memory_bytes() const {
  return core_->memory_bytes();
}
std::byte* ProcessStream::address() const {
  return core_->begin();
}

}  // namespace penstock
