// How one stream lives in two processes, either of which may die between any two instructions: the
// mechanism of ProcessStream. (Heads, windows, waiting and the end: two_sided.cc.)
//
// A lock in shared memory would sooner or later be held by a dead process, a queue of blocks would
// be half changed, and a block handed over by its number would be lost between the two. So nothing
// is handed over: block x always lives in slot x mod S of a memory file that both processes have
// mapped, and the shared state is a few numbers that only grow:
//
//   Sides              heads, released, phases, as between threads
//   slot_positions()   position for which the producer last mapped each slot: by this the consumer
//                      recognizes a block that the producer skipped, and clears it
//
// After whatever instruction a process dies, these numbers say how far it had come, and nothing has
// to be undone. Each process maps the slots at its own addresses and keeps its own record of them,
// under its own lock.
//
// Waiting. A side that must wait sleeps on a counter in the shared memory, which every change of
// the numbers raises, at most death_ms at a time. If nothing has changed by then, it checks whether
// the other process still runs (by a pidfd: process ids are reused, a pidfd is not). If not, it
// sets that side's phase to failed, and from then on everything goes as if the dead process had
// called fail(). The blocks that it had released can still be read. A side that no process has
// taken yet is waited for.
//
// Trust. The geometry is copied and checked when joining, the file's size is sealed, texts are
// copied with a terminator, and this side's own head is never read back. Nonsense in the other
// process's numbers can stop or starve this side, or show wrong bytes, as its bytes can; it cannot
// lead to an address outside of the stream.
//
// Costs: as RemapStream's shared pool, without the interruptions: an unmapping in one process does
// not concern the other one's core.

#include "memory/stream/process_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/access.h"
#include "base/bits.h"

namespace penstock::stream {

namespace {

constexpr uint64_t magic_value = 0x32'6d616572'7473'70;  // "pstream2", stored after all the rest
constexpr uint32_t death_ms = 50;

// A process in one word, so that a side is taken in one atomic step.
constexpr int pid_bits = 22;
uint64_t identity_of(const os::ProcessId& process) {
  return process.start_ticks << pid_bits | static_cast<uint64_t>(process.pid);
}
os::ProcessId process_of(uint64_t identity) {
  return {.pid = static_cast<int32_t>(identity & ((1u << pid_bits) - 1)),
          .start_ticks = identity >> pid_bits};
}

}  // namespace

// The start of the memory file. Members that are not atomic are written before magic, or between
// two phases, and are constant afterwards.
struct SharedStream {
  std::atomic<uint64_t> magic = 0;
  uint64_t bytes = 0;
  uint64_t block_bytes = 0;
  uint32_t read_ahead_blocks = 0, producer_comeback_blocks = 0, consumer_comeback_blocks = 0;
  char name[64] = {};
  std::array<std::atomic<uint64_t>, 2> identity{};  // process of each side; 0: not taken
  Sides sides;

  // Array behind the struct: for each slot, the position for which the producer mapped it.
  std::atomic<Position>* slot_positions() {
    return reinterpret_cast<std::atomic<Position>*>(this + 1);
  }
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<Phase>::is_always_lock_free,
              "atomics must work between processes");

namespace {

// Reads each number once: any process with the descriptor can change it at any moment, and the
// checked value must be the one used.
StreamGeometry geometry_in(SharedStream& shared) {
  auto read = [](auto& number) { return std::atomic_ref(number).load(std::memory_order_relaxed); };
  return {.bytes = read(shared.bytes),
          .block_bytes = read(shared.block_bytes),
          .read_ahead_blocks = read(shared.read_ahead_blocks),
          .producer_comeback_blocks = read(shared.producer_comeback_blocks),
          .consumer_comeback_blocks = read(shared.consumer_comeback_blocks)};
}

// Copies the name once, and terminates the copy, which the other process may not have done.
std::string name_in(const SharedStream& shared) {
  char name[sizeof shared.name];
  std::memcpy(name, shared.name, sizeof name);
  return std::string(name, strnlen(name, sizeof name));
}

// Offset of the blocks: a multiple at which they can be huge pages.
uint64_t header_bytes(const StreamGeometry& geometry) {
  return round_up(sizeof(SharedStream) + geometry.live_blocks() * sizeof(std::atomic<Position>),
                  std::min(geometry.block_bytes, os::huge_page_bytes));
}

Result<os::Reservation> map_header(const os::MemoryFile& file, uint64_t bytes) {
  auto header = os::Reservation::reserve(bytes);
  if (!header) return header;
  if (int error = file.map(header->begin(), bytes, 0, false); error != 0)
    return system_error(error, "map the head of a stream", "memfd");
  return header;
}

// Gives the blocks their memory now, in huge pages if possible, so that no fault waits for it.
int populate_blocks(const os::MemoryFile& file, uint64_t offset, const StreamGeometry& geometry) {
  const uint64_t bytes = geometry.live_blocks() * geometry.block_bytes;
  auto view = os::Reservation::reserve(bytes);
  if (!view) return ENOMEM;
  if (int error = file.map(view->begin(), bytes, offset, false); error != 0) return error;
  for (uint64_t at = 0; geometry.block_bytes >= os::huge_page_bytes && at < bytes;
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
  const StreamGeometry geometry = StreamGeometry::of(options);
  if (auto valid = geometry.check(options.name); !valid) return std::unexpected(valid.error());
  const uint64_t head_bytes = header_bytes(geometry);
  auto file = os::MemoryFile::create(head_bytes + geometry.live_blocks() * geometry.block_bytes);
  if (!file) return std::unexpected(file.error());
  if (auto sealed = file->seal_size(); !sealed) return std::unexpected(sealed.error());
  auto header = map_header(*file, head_bytes);
  if (!header) return std::unexpected(header.error());
  if (int error = populate_blocks(*file, head_bytes, geometry); error != 0) {
    return system_error(
        error,
        fmt::format("get {} blocks of {} bytes", geometry.live_blocks(), geometry.block_bytes),
        options.name, "smaller or fewer blocks");
  }

  auto* shared = new (header->begin()) SharedStream;
  shared->bytes = geometry.bytes;
  shared->block_bytes = geometry.block_bytes;
  shared->read_ahead_blocks = geometry.read_ahead_blocks;
  shared->producer_comeback_blocks = geometry.producer_comeback_blocks;
  shared->consumer_comeback_blocks = geometry.consumer_comeback_blocks;
  std::snprintf(shared->name, sizeof shared->name, "%s", options.name.c_str());
  for (size_t slot = 0; slot < geometry.live_blocks(); ++slot) {
    new (shared->slot_positions() + slot) std::atomic<Position>(-1);
  }
  shared->magic.store(magic_value, std::memory_order_release);

  std::unique_ptr<ProcessStreamCore> core(new ProcessStreamCore(
      std::move(*file), std::move(*header), geometry, side,
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
  if (file->bytes() < sizeof(SharedStream)) return refuse("what ProcessStream::open() made");
  auto header = map_header(*file, round_up(sizeof(SharedStream), os::page_bytes));
  if (!header) return std::unexpected(header.error());
  auto* shared = reinterpret_cast<SharedStream*>(header->begin());
  if (shared->magic.load(std::memory_order_acquire) != magic_value)
    return refuse("what ProcessStream::open() of this version made");
  const StreamGeometry geometry = geometry_in(*shared);
  if (auto valid = geometry.check("the other process's stream"); !valid)
    return std::unexpected(valid.error());
  if (file->bytes() != header_bytes(geometry) + geometry.live_blocks() * geometry.block_bytes)
    return refuse("a stream whose size is what its head says");
  header = map_header(*file, header_bytes(geometry));
  if (!header) return std::unexpected(header.error());

  std::unique_ptr<ProcessStreamCore> core(
      new ProcessStreamCore(std::move(*file), std::move(*header), geometry, side, options, 0));
  if (auto joined = core->join(); !joined) return std::unexpected(joined.error());
  return core;
}

namespace {

SharedStream& stream_in(const os::Reservation& header) {
  return *std::launder(reinterpret_cast<SharedStream*>(header.begin()));
}

}  // namespace

ProcessStreamCore::ProcessStreamCore(os::MemoryFile file, os::Reservation header,
                                     const StreamGeometry& geometry, Side side,
                                     const AttachOptions& options, uint32_t attach_ms_max)
    : TwoSidedCore({.geometry = geometry,
                    .name = name_in(stream_in(header)),
                    .policy = options.policy,
                    .strict = options.strict,
                    .shared = &stream_in(header).sides}),
      file_(std::move(file)),
      header_(std::move(header)),
      shared_(stream_in(header_)),
      side_(side),
      attach_ms_max_(attach_ms_max),
      blocks_offset_(header_bytes(geometry)),
      late_(geometry.block_bytes, options.strict ? 1 : late_views) {}

// Takes the side, after everything else that could fail.
Status ProcessStreamCore::join() {
  auto self = os::ProcessId::self();
  if (!self) return std::unexpected(self.error());
  auto range = os::Reservation::reserve(range_bytes(), std::max(block_bytes_, os::huge_page_bytes));
  if (!range) return std::unexpected(range.error());
  ranges_[index_of(side_)] = std::move(*range);
  if (auto watched = watch(side_); !watched) return watched;

  auto become = [&](std::string why) {
    return fmt::format("become the {}{}", name_of(side_), why);
  };
  uint64_t free = 0;
  // relaxed, as the load is: the word alone is the message.
  if (!shared_.identity[index_of(side_)].compare_exchange_strong(free, identity_of(*self),
                                                                 std::memory_order_relaxed)) {
    return failure(ErrorCode::invalid_argument, become(""), rules_.name,
                   fmt::format("process {} is it", process_of(free).pid));
  }
  joined_ = true;
  announce_change();
  // Too late if the other side has stopped waiting for this one, or has ended with nothing left.
  if (phase(side_) == Phase::failed) {
    char reason[sizeof Sides::Reason::text];
    const ErrorCode code = read_failure(side_, reason);
    return failure(code, become(fmt::format(": {}", reason)), rules_.name);
  }
  notice_death();
  const bool useless = side_ == Side::producer || released() == 0;
  if (!useless || phase(other(side_)) != Phase::failed) return {};
  MutexLock lock(mutex_);
  return std::unexpected(error_of(Verdict::other_failed, side_, 0));
}

ProcessStreamCore::~ProcessStreamCore() {
  stop_watching();
  // A forked child's copy speaks for neither side.
  if (joined_ && !is_inherited() && phase(Side::producer) != Phase::finished)
    cancel(side_, "go on: its stream was closed");
}

// ---- how a block appears and goes

// Maps the position's slot, and unmaps the view that this process had of it.
int ProcessStreamCore::show(Slot& slot, Side, Position position, bool cleared) noexcept {
  const size_t index = slot_index(position);
  std::byte* const at = address(side_, position);
  auto map = [&] {
    return file_.map(at, block_bytes_, blocks_offset_ + index * block_bytes_, true);
  };
  int error = map();
  if (error == ENOMEM && late_.flush() == 0) error = map();
  if (error != 0) return error;
  (void)os::exclude_from_fork(at, block_bytes_);  // if refused, a forked child sees the block
  std::atomic<Position>& written = shared_.slot_positions()[index];
  if (side_ == Side::producer) {
    written.store(position, std::memory_order_relaxed);
  } else if (cleared || written.load(std::memory_order_relaxed) != position) {
    std::memset(at, 0, block_bytes_);
  }
  // The new view stays, whether or not the old one can be unmapped.
  const Slot before = std::exchange(slot, {.position = position, .state = state_of(side_)});
  return before.state == BlockState::nowhere ? 0 : late_.add(address(side_, before.position));
}

int ProcessStreamCore::hide(Slot& slot) noexcept {
  return os::decommit(address(side_, slot.position), block_bytes_);
}

// If the system refuses, the tables stay, which only costs memory.
void ProcessStreamCore::free_page_tables(std::span<std::byte> piece) noexcept {
  late_.forget(piece.data(), piece.data() + piece.size());
  (void)os::decommit(piece.data(), piece.size());
}

// ---- the other process

void ProcessStreamCore::wait_for_process(uint32_t seen) noexcept {
  if (!sides_.changes.wait_shared(seen, death_ms)) notice_death();
}

// Sets the other side to failed if its process has ended without saying so.
void ProcessStreamCore::notice_death() noexcept {
  MutexLock lock(mutex_);
  const size_t others = index_of(other(side_));
  // The phase before the identity: a process that is failing has an identity.
  Phase now = phase(other(side_));
  if (now == Phase::finished || now == Phase::failed) return;
  const os::ProcessId process =
      process_of(shared_.identity[others].load(std::memory_order_relaxed));
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
  // The process may have died while it wrote its reason, or finished just before. relaxed: the dead
  // process stores nothing more, and write_failure() publishes what is stored here.
  if (sides_.phase[others].compare_exchange_strong(now, Phase::failing, std::memory_order_relaxed))
    write_failure(other(side_), ErrorCode::cancelled, reason);
}

// ---- calls

Status ProcessStreamCore::finish(uint64_t bytes) {
  if (side_ == Side::producer || is_inherited()) return TwoSidedCore::finish(bytes);
  return failure(ErrorCode::invalid_argument, fmt::format("finish at {} bytes", bytes), rules_.name,
                 "the producer finishes");
}

Result<uint64_t> ProcessStreamCore::wait_ready(uint64_t offset) {
  if (side_ == Side::consumer || is_inherited()) return TwoSidedCore::wait_ready(offset);
  return failure(ErrorCode::invalid_argument, "wait for data", rules_.name, "the consumer waits");
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

namespace {

const stream::ProcessStreamCore& process_core(const stream::TwoSidedCore& core) {
  return static_cast<const stream::ProcessStreamCore&>(core);
}

}  // namespace

Result<ProcessStream> ProcessStream::open(const Options& options, Side side) {
  return internal::opened<ProcessStream>(
      [&] { return stream::ProcessStreamCore::create(options, side); });
}
Result<ProcessStream> ProcessStream::attach(int fd, Side side, const AttachOptions& options) {
  return internal::opened<ProcessStream>(
      [&] { return stream::ProcessStreamCore::attach(fd, side, options); });
}

int ProcessStream::fd() const {
  return process_core(*core_).fd();
}
Side ProcessStream::side() const {
  return process_core(*core_).side();
}
void ProcessStream::fail(Error error) {
  TwoSidedStream::fail(side(), std::move(error));
}
void ProcessStream::cancel() {
  TwoSidedStream::cancel(side());
}

}  // namespace penstock
