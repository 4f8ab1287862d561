// How a stream made on demand lives in M + 1 blocks.
//
// An iterator that calls the producer when its buffer is used up costs a comparison and a reload
// per item. Here (Vortex-A, Algorithm 6) only the last M + 1 blocks are mapped at the stream's
// addresses, and the load that runs past them faults:
//
//        gone   | y - M ... y - 1 |  y  |  nothing yet
//     ----------+-----------------+-----+---------------
//                  still mapped    fault: slot of y - (M+1) goes home, is filled, appears at y
//
// The paper decommits the block behind the window and commits a fresh one at y. Here the same block
// moves on: the kernel need not find a page and clear it, only for the producer to overwrite the
// zeros (`bench pull` measures both). The paper also fills the block in place; here it is filled at
// home, at an address that nobody else has, and appears when it is complete.
//
// Block p always uses slot p mod (M + 1), so that the block behind the window is found without a
// queue, and a block requested out of order (Options::random_access) displaces one to which the
// consumer may not come back. Random access has at least two slots: a load that straddles two
// blocks needs both.
//
// In order, the producer is called once per block. If a consumer jumps from h to y, blocks h + 1 to
// y are produced; the last M of those are mapped as well, since the consumer may come back to them.
//
// The end is where the producer returned less than requested; it is not called again. The end may
// lie before blocks that a random consumer has seen beyond an earlier end: the smallest end counts.
//
// Waiting: only the producer can block. Costs: a signal and two moves per block. Fault path:
// nothing is allocated or locked here; the producer's code is its author's responsibility.

#include "memory/stream/pull_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/access.h"
#include "base/bits.h"
#include "memory/stream/recovery.h"

namespace penstock::stream {

namespace {

Status check(const PullStream::Options& options) {
  const StreamGeometry geometry{.bytes = options.bytes,
                                .block_bytes = options.block_bytes,
                                .consumer_comeback_blocks = options.comeback_blocks};
  return geometry.check(options.name);
}

}  // namespace

// ---- opening and closing

PullStreamCore::PullStreamCore(const Options& options, Producer producer)
    : options_(options),
      block_bytes_(options.block_bytes),
      comeback_(options.comeback_blocks),
      producer_(std::move(producer)) {}

Result<std::unique_ptr<PullStreamCore>> PullStreamCore::open(const Options& options,
                                                             Producer producer) {
  if (auto valid = check(options); !valid) return std::unexpected(valid.error());
  if (!producer)
    return failure(ErrorCode::invalid_argument, "open a stream", options.name, "a producer");
  std::unique_ptr<PullStreamCore> core(new PullStreamCore(options, std::move(producer)));

  // At most the stream's blocks, and one of zeros behind the last.
  const uint64_t blocks_all = ceil_div(options.bytes, options.block_bytes) + 1;
  const uint64_t window =
      std::max<uint64_t>(uint64_t{options.comeback_blocks} + 1, options.random_access ? 2 : 1);
  const auto slots = static_cast<uint32_t>(std::min(window, blocks_all));
  // Strict: with random access an old view would hide that its block has to be produced again.
  auto pool = pool::Pool::open({.block_bytes = options.block_bytes,
                                .blocks_max = slots,
                                .mechanism = options.mechanism,
                                .strict = options.strict || options.random_access});
  if (!pool) return std::unexpected(pool.error());
  core->pool_ = std::move(*pool);

  auto range = core->pool_->reserve(blocks_all * options.block_bytes);
  if (!range) return std::unexpected(range.error());
  core->range_ = std::move(*range);

  core->slots_.resize(slots);
  for (Slot& slot : core->slots_) {
    slot.block = core->pool_->take();
    if (slot.block == pool::no_block)
      return failure(ErrorCode::out_of_memory,
                     fmt::format("get {} blocks of {} bytes", slots, options.block_bytes),
                     options.name, "smaller or fewer blocks");
  }
  if (auto watched = core->watch(core->range_.begin(), core->range_.bytes()); !watched)
    return std::unexpected(std::move(watched.error()));
  return core;
}

PullStreamCore::~PullStreamCore() {
  stop_watching();
  for (const Slot& slot : slots_) {
    if (slot.block == pool::no_block) continue;
    // A block that cannot be unmapped is lost with its range, and the pool after it.
    if (slot.position != none && pool_->unmap(slot.block, address_of(slot.position)) != 0) continue;
    pool_->give(slot.block);
  }
  if (range_.begin() != nullptr) pool_->release(range_);
}

// ---- serving the consumer

// Fault path.
fault::Outcome PullStreamCore::on_fault(const fault::Fault& fault) noexcept {
  const Position position = position_of(fault.address);
  if (slot_of(position).position == position)
    return fault::Outcome::decline;  // mapped and still a fault: not this handler's to mend
  const Verdict verdict = serve(position);
  if (verdict != Verdict::present) give_up(refusal_of(verdict, position), fault.context);
  return fault::Outcome::retry;
}

// Makes the block appear: returns `present`, or why it cannot.
Verdict PullStreamCore::serve(Position position) noexcept {
  if (slot_of(position).position == position) return Verdict::present;
  if (producing_)
    stop({ErrorCode::invalid_argument, "serve the producer: it touched a block of its own stream",
          options_.name.c_str(), 0});
  if (!options_.random_access && position < next_) return Verdict::behind_window;
  jump_.note(next_ - 1, position);
  for (Position at = options_.random_access ? position : next_; at <= position; ++at) {
    const Position window = position - comeback_;
    if (end_bytes_ && at < window) at = window;  // nothing to produce any more
    const Verdict verdict = pull(at, at >= window);
    if (verdict != Verdict::present) return verdict;
    next_ = std::max(next_, at + 1);
  }
  return Verdict::present;
}

// Whether a block can be served, given the end and the producer's error as known so far.
Verdict PullStreamCore::judge(Position position) const noexcept {
  if (options_.policy == ErrorPolicy::zeros) return Verdict::present;
  if (error_) return Verdict::other_failed;
  const bool past_end = offset_of(position) > round_up(limit_bytes(), block_bytes_);
  return past_end ? Verdict::past_end : Verdict::present;
}

// Produces a block in its slot and, if `shown`, maps it.
Verdict PullStreamCore::pull(Position position, bool shown) noexcept {
  if (const Verdict verdict = judge(position); verdict != Verdict::present) return verdict;
  Slot& slot = slot_of(position);
  if (slot.position != none) {
    map_errno_ = pool_->unmap(slot.block, address_of(slot.position));
    if (map_errno_ != 0) return Verdict::unmapped;
    slot.position = none;
  }
  std::byte* const block = pool_->home(slot.block);
  const size_t produced = produce(position, block);
  if (const Verdict verdict = judge(position); verdict != Verdict::present || !shown)
    return verdict;
  std::memset(block + produced, 0, block_bytes_ - produced);
  map_errno_ = pool_->map(slot.block, address_of(position));
  if (map_errno_ != 0) return Verdict::unmapped;
  slot.position = position;
  free_page_tables(position);
  return Verdict::present;
}

// Frees page tables in front of all mapped blocks. A consumer that comes back maps again.
void PullStreamCore::free_page_tables(Position position) noexcept {
  if (!passed_.reaches(range_.begin(), address_of(position))) return;
  for (const Slot& slot : slots_) {
    if (slot.position != none) position = std::min(position, slot.position);
  }
  const std::span<std::byte> tables = passed_.pass(range_.begin(), address_of(position));
  // If the system refuses, the tables stay, which only costs memory.
  if (!tables.empty()) (void)pool_->free_page_tables(tables);
}

// Calls the producer, unless the block lies past the end. Finds the end and errors.
size_t PullStreamCore::produce(Position position, std::byte* block) noexcept {
  const uint64_t offset = offset_of(position);
  if (error_ || offset >= limit_bytes()) return 0;
  const size_t wanted = std::min<uint64_t>(block_bytes_, limit_bytes() - offset);
  producing_ = true;
  Result<size_t> produced = producer_(std::span(block, wanted), offset);
  producing_ = false;
  if (!produced) {
    fail_at(position, std::move(produced.error()));
    return 0;
  }
  if (*produced > wanted) {
    fail_at(position, Error{ErrorCode::invalid_argument, "count its bytes"});
    return 0;
  }
  if (*produced < block_bytes_ || offset + *produced == options_.bytes) end_at(offset + *produced);
  return *produced;
}

void PullStreamCore::end_at(uint64_t bytes) noexcept {
  end_bytes_ = std::min(limit_bytes(), bytes);
}

void PullStreamCore::fail_at(Position position, Error error) noexcept {
  const char* const subject = error.subject.c_str();
  std::snprintf(reason_, sizeof reason_, "%s%scannot %s%s%s", subject, *subject != 0 ? ": " : "",
                error.attempted.c_str(), error.system_errno != 0 ? ": " : "",
                error.system_errno != 0 ? strerrordesc_np(error.system_errno) : "");
  error_ = std::move(error);
  end_at(offset_of(position));
}

// ---- accesses that cannot be served

WrittenFailure PullStreamCore::refusal_of(Verdict verdict, Position position) const noexcept {
  return written({.verdict = verdict,
                  .side = Side::consumer,
                  .position = position,
                  .head = next_ - 1,
                  .comeback = comeback_,
                  .jump = jump_,
                  .capacity_bytes = options_.bytes,
                  .end_bytes = limit_bytes(),
                  .map_errno = map_errno_,
                  .other_reason = reason_,
                  .other_code = error_ ? error_->code : ErrorCode::io},
                 options_.name.c_str());
}

Status PullStreamCore::serve_or_error(Position position) {
  const Verdict verdict = serve(position);
  if (verdict == Verdict::present) return {};
  if (verdict == Verdict::other_failed) return std::unexpected(*error_);
  return std::unexpected(refusal_of(verdict, position).error());
}

// ---- calls

bool PullStreamCore::at_end(const void* position) {
  if (is_inherited()) refuse_inherited(position);
  const auto at = static_cast<const std::byte*>(position);
  const auto offset = static_cast<uint64_t>(at - begin());
  if (!end_bytes_) {
    const Position block = position_of(std::min<const std::byte*>(at, range_.end() - 1));
    const Verdict verdict = serve(block);
    if (verdict != Verdict::present && verdict != Verdict::past_end)
      give_up(refusal_of(verdict, block), nullptr);
  }
  return offset >= limit_bytes();
}

Result<size_t> PullStreamCore::prepare(std::byte* address, size_t bytes, fault::Access) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  return window().serve_fitting(address, bytes,
                                [&](Position position) { return serve_or_error(position); });
}

Status PullStreamCore::prepare(const void* address, size_t bytes) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  if (bytes == 0) return {};
  const auto blocks = window().blocks(address, bytes, options_.name);
  if (!blocks) return std::unexpected(blocks.error());
  for (const Position position : blocks->each()) {
    if (Status served = serve_or_error(position); !served) return served;
  }
  return {};
}

Status PullStreamCore::status() const {
  if (error_) return std::unexpected(*error_);
  return {};
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

Result<PullStream> PullStream::open(const Options& options, Producer producer) {
  return internal::opened<PullStream>(
      [&] { return stream::PullStreamCore::open(options, std::move(producer)); });
}

bool PullStream::at_end(const void* position) {
  return core_->at_end(position);
}
std::optional<uint64_t> PullStream::bytes() const {
  return core_->bytes();
}
Status PullStream::prepare_read(const void* address, size_t bytes) {
  return core_->prepare(address, bytes);
}
Status PullStream::status() const {
  return core_->status();
}
Mechanism PullStream::mechanism() const {
  return core_->pool().mechanism();
}
uint64_t PullStream::memory_bytes() const {
  return core_->pool().memory_bytes();
}
std::byte* PullStream::address() const {
  return fault::for_this_thread(core_->begin());
}

}  // namespace penstock
