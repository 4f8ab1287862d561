// The streams of a run, as used by the computation's thread: windows and faults.
//
// The fault path begins at on_fault(): it allocates nothing, and the run's lock is the only one it
// takes; nothing faults under that lock.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "files/bowtie/addresses.h"
#include "files/bowtie/execution.h"
#include "files/source/in_order.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock::bowtie::internal {
namespace {

// Page tables behind a stream are freed in steps of this size. Until then they take a 512th of it.
constexpr uint64_t tables_step_bytes = 32 * MiB;

const std::byte* never_reached() {
  return reinterpret_cast<const std::byte*>(std::numeric_limits<uintptr_t>::max());
}

}  // namespace

Execution::Failed Execution::too_wide(const char* name) {
  return {.code = ErrorCode::invalid_argument,
          .attempted = "show a window across so many blocks",
          .subject = name,
          .hint = "more comeback_blocks, or larger blocks"};
}

Status Execution::compute(const Computation& computation) {
  auto end = [this] {
    MutexLock lock(mutex_);
    computed_ = true;
    for_device_.announce();
  };
  Status computed;
  try {
    computed = options_.on_error == ErrorPolicy::recover
                   ? RecoveryPoint::run([&] { return computation(streams_); })
                   : computation(streams_);
    if (computed && !failed()) computed = hand_over_rest();
  } catch (...) {
    fail({ErrorCode::cancelled, "go on after an exception", "the computation"});
    end();
    throw;
  }
  if (!computed) fail(computed.error());
  end();
  return computed;
}

// Hands over the rest of each output, up to its position.
Status Execution::hand_over_rest() {
  for (uint32_t j = 0; j < outputs_.size(); ++j) {
    const OutputPlace& place = output_places_[j];
    const auto at = static_cast<uint64_t>(streams_.outputs_[j].position() - place.blocks);
    uint64_t opened_bytes = 0;
    uint64_t handed_bytes = 0;
    {
      MutexLock lock(mutex_);
      opened_bytes = out_[j].opened * block_bytes_;
      handed_bytes = out_[j].handed_bytes;
    }
    if (at <= place.head_bytes && handed_bytes <= place.head_bytes) continue;
    if (at < handed_bytes || at > opened_bytes) {
      return failure(ErrorCode::invalid_argument, "find where an output ends", place.name,
                     "advance_to() with its end, before the computation returns");
    }
    hand_over_below(j, ceil_div(at, block_bytes_), at);
  }
  return {};
}

bool Execution::is_cancelled() noexcept {
  // Relaxed: the flag publishes no other data.
  if (options_.cancel == nullptr || !options_.cancel->load(std::memory_order_relaxed)) return false;
  fail_in_place({.code = ErrorCode::cancelled, .attempted = "go on", .subject = "run"});
  return true;
}

// Fails because the system did not map or unmap a block. Returns false.
bool Execution::fail_to(const char* attempted, const char* name, int error) noexcept {
  fail_in_place({.code = error == ENOMEM ? ErrorCode::out_of_mappings : ErrorCode::io,
                 .attempted = attempted,
                 .subject = name,
                 .hint = "larger blocks, or a larger vm.max_map_count",
                 .system_errno = error});
  return false;
}

bool Execution::may_go_on(bool has_waited) {
  return gate_open_ || !has_waited;
}

void Execution::wait_for_device(Wait wait) {
  wait_ = wait;
  for_device_.announce();
  for_computation_.wait(mutex_);
  wait_ = {};
}

// ---- Loans.

bool Execution::lend(uint64_t blocks) {
  {
    MutexLock lock(mutex_);
    loan_wanted_ = blocks;
    loan_refused_ = false;
    // (Only the device's thread lends: it may be about to submit a read for which it found room.)
    while (loan_wanted_ > 0 && !failed()) wait_for_device({.what = Wait::For::loan});
    ++steps_;
    if (std::exchange(loan_wanted_, 0) > 0 || loan_refused_) return false;
  }
  of_loans_.set(of_loans_.bytes() + blocks * block_bytes_);
  pool_->trim();
  return true;
}

void Execution::take_back(uint64_t blocks) noexcept {
  of_loans_.set(of_loans_.bytes() - blocks * block_bytes_);
  MutexLock lock(mutex_);
  const uint64_t to_outputs = std::min(blocks, outputs_lent_);
  outputs_lent_ -= to_outputs;
  inputs_lent_ -= blocks - to_outputs;
  ++steps_;
  for_device_.announce();
}

// ---- Inputs.

// Maps the input's next block. Returns false if the input has ended or the run has failed.
bool Execution::map_next(uint32_t input) noexcept {
  if (is_cancelled()) return false;
  const InputPlace& place = input_places_[input];
  pool::BlockId block = pool::no_block;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    const InputLevel& level = in_[input];
    for (bool has_waited = false;; has_waited = true) {
      if (failed() || level.mapped >= blocks_of(level)) return false;
      if (level.arrived > level.mapped && may_go_on(has_waited)) break;
      wait_for_device({Wait::For::input, input});
    }
    number = level.mapped;
    block = level.held.front();
    for (uint64_t k = level.released; k < level.mapped; ++k) block = links_[block];
    ++steps_;
  }
  const int error = io_->pool().map(block, place.blocks + number * block_bytes_);
  if (error != 0) return fail_to("map a block", place.name, error);
  MutexLock lock(mutex_);
  ++in_[input].mapped;
  return true;
}

// Returns the mapped blocks below `block` to the pool.
void Execution::release_below(uint32_t input, uint64_t block) noexcept {
  const InputPlace& place = input_places_[input];
  uint64_t number = 0;
  for (;;) {
    pool::BlockId id = pool::no_block;
    {
      MutexLock lock(mutex_);
      InputLevel& level = in_[input];
      number = level.released;
      if (number >= std::min(block, level.mapped)) break;
      id = level.held.pop_front(links_);
    }
    const int error = pool_->unmap(id, place.blocks + number * block_bytes_);
    if (error != 0) return (void)fail_to("take a block back", place.name, error);
    pool_->give(id);
    MutexLock lock(mutex_);
    const uint64_t before = reserve(input);
    ++in_[input].released;
    --input_held_;
    inputs_reserved_ -= before - reserve(input);
    ++steps_;
    for_device_.announce();
  }
  free_tables(place.blocks, place.blocks + number * block_bytes_, input_tables_freed_[input]);
}

void Execution::refresh(InputStream& stream) noexcept {
  const InputPlace& place = input_places_[stream.index_];
  MutexLock lock(mutex_);
  const InputLevel& level = in_[stream.index_];
  const std::byte* const position = stream.position();
  const uint64_t end = level.end_bytes;
  const std::byte* visible = place.blocks + std::min(level.mapped * block_bytes_, end);
  if (failed()) visible = position;
  stream.visible_end_ = std::max(visible, position);
  if (level.released >= blocks_of(level)) {
    stream.release_at_ = never_reached();
  } else {
    stream.release_at_ = place.blocks + std::min((level.released + 1) * block_bytes_, end);
  }
}

void Execution::fetch(InputStream& stream, size_t bytes_min) {
  const uint32_t input = stream.index_;
  const InputPlace& place = input_places_[input];
  if (gathered_[input] != nullptr) return fetch_gathered(stream, bytes_min);
  if (place.in_order) return fetch_in_order(stream, bytes_min);
  const auto at = static_cast<uint64_t>(stream.position() - place.blocks);
  uint64_t last = (at + std::max<size_t>(1, bytes_min) - 1) / block_bytes_;
  uint64_t mapped = 0;
  {
    MutexLock lock(mutex_);
    const uint64_t blocks = blocks_of(in_[input]);
    if (blocks > 0) last = std::min(last, blocks - 1);
    mapped = in_[input].mapped;
  }
  if (last > at / block_bytes_ + options_.comeback_blocks) {
    if (options_.wide_windows) return gather(stream, at, bytes_min);
    fail_in_place(too_wide(place.name));
  }
  while (mapped <= last && map_next(input)) ++mapped;
  refresh(stream);
}

// Fetches from an input without offsets. The window ends at a block's border, so that the
// computation never touches more of the input than its comeback covers.
void Execution::fetch_in_order(InputStream& stream, size_t bytes_min) {
  SourceStream* const source = open_in_order(stream);
  stream.visible_end_ = stream.position();
  if (source == nullptr) return;
  const auto at = static_cast<uint64_t>(stream.position() - stream.begin_);
  const uint64_t wanted = at + std::max<size_t>(1, bytes_min);
  if ((wanted - 1) / block_bytes_ > at / block_bytes_ + options_.comeback_blocks) {
    if (options_.wide_windows) return gather(stream, at, bytes_min);
    return fail_in_place(too_wide(input_places_[stream.index_].name));
  }
  const Result<uint64_t> ready = source->wait_ready(wanted - 1);
  if (!ready) return fail(ready.error());
  const uint64_t visible = std::min(*ready, round_up(wanted, source->block_bytes()));
  if (visible > at) {
    auto prepared = source->prepare_read(stream.position(), visible - at);
    if (!prepared) return fail(prepared.error());
    stream.visible_end_ = stream.begin_ + visible;
    return;
  }
  // The input has ended: close the stream and free its memory.
  MutexLock lock(mutex_);
  in_order_[stream.index_] = {.stream = std::nullopt, .end_bytes = at};
}

// Shows a window of more blocks than the comeback as a copy in borrowed memory, from the offset `at`
// on. It is shorter than `bytes_min` if no more can be borrowed.
void Execution::gather(InputStream& stream, uint64_t at, size_t bytes_min) {
  std::unique_ptr<Gathered>& held = gathered_[stream.index_];
  if (held == nullptr) {
    auto room = os::Reservation::reserve(streams_.item_bytes_max_ + block_bytes_);
    if (!room) return fail(room.error());
    held = std::make_unique<Gathered>(Gathered{Loan(*this), std::move(*room), at});
    MutexLock lock(mutex_);
    in_[stream.index_].is_gathered = true;
  }
  Gathered& gathered = *held;
  std::byte* const begin = gathered.room.begin();
  if (at > gathered.begin) {
    gathered.bytes = gathered.end() - at;
    std::memmove(begin, begin + (at - gathered.begin), gathered.bytes);
    gathered.begin = at;
  }
  stream.is_full_ = false;
  while (gathered.bytes < bytes_min) {
    const auto piece = next_piece(stream, gathered.end());
    if (piece.empty()) break;
    const uint64_t bytes = gathered.bytes + piece.size();
    if (const uint64_t lent = gathered.loan.bytes(); bytes > lent) {
      // A little more than is needed, so that not every piece needs a loan.
      const bool granted = gathered.loan.set(bytes + bytes / 8) || gathered.loan.set(bytes);
      stream.is_full_ = !granted;
      if (!granted) break;
      const int error = os::commit(begin + lent, gathered.loan.bytes() - lent);
      if (error != 0) {
        (void)fail_to("get memory for an item", input_places_[stream.index_].name, error);
        break;
      }
    }
    std::memcpy(begin + gathered.bytes, piece.data(), piece.size());
    gathered.bytes = bytes;
  }
  stream.visible_end_ = begin + (failed() ? 0 : gathered.bytes);
  stream.release_at_ = never_reached();
  stream.position_.store(begin, std::memory_order_relaxed);
}

// Shows the input's blocks again if the position is in the last one that was copied.
void Execution::fetch_gathered(InputStream& stream, size_t bytes_min) {
  std::unique_ptr<Gathered>& gathered = gathered_[stream.index_];
  if (failed()) {
    stream.visible_end_ = stream.position();
    return;
  }
  const uint64_t at =
      gathered->begin + static_cast<uint64_t>(stream.position() - gathered->room.begin());
  SourceStream* const source =
      input_places_[stream.index_].in_order ? open_in_order(stream) : nullptr;
  const size_t block_bytes = source != nullptr ? source->block_bytes() : block_bytes_;
  if (at < round_down(gathered->end() - 1, block_bytes)) return gather(stream, at, bytes_min);
  const std::byte* const position = linear_begin(stream) + at;
  stream.position_.store(position, std::memory_order_relaxed);
  stream.visible_end_ = position;
  stream.is_full_ = false;
  gathered.reset();
  {
    MutexLock lock(mutex_);
    in_[stream.index_].is_gathered = false;
  }
  if (!input_places_[stream.index_].in_order) release(stream);
  fetch(stream, bytes_min);
}

// The address of offset 0 in an input's own addresses.
const std::byte* Execution::linear_begin(const InputStream& stream) const {
  const InputPlace& place = input_places_[stream.index_];
  return place.in_order ? stream.begin_ : place.blocks;
}

// Returns the bytes from the offset `at` to the end of its block, and releases the blocks before the
// one in front of it; empty at the end of the input, or after an error.
std::span<const std::byte> Execution::next_piece(InputStream& stream, uint64_t at) {
  const uint32_t input = stream.index_;
  uint64_t end = 0;
  if (input_places_[input].in_order) {
    SourceStream* const source = open_in_order(stream);
    if (source == nullptr) return {};
    const Result<uint64_t> ready = source->wait_ready(at);
    if (!ready) return fail(ready.error()), std::span<const std::byte>();
    end = std::min(*ready, round_up(at + 1, source->block_bytes()));
    if (end <= at) return {};
    auto prepared = source->prepare_read(stream.begin_ + at, end - at);
    if (!prepared) return fail(prepared.error()), std::span<const std::byte>();
  } else {
    const uint64_t block = at / block_bytes_;
    uint64_t mapped = 0;
    {
      MutexLock lock(mutex_);
      end = std::min((block + 1) * block_bytes_, in_[input].end_bytes);
      mapped = in_[input].mapped;
    }
    if (end <= at) return {};
    release_below(input, block - std::min<uint64_t>(block, 1));
    while (mapped <= block && map_next(input)) ++mapped;
    if (mapped <= block) return {};
  }
  return {linear_begin(stream) + at, end - at};
}

// Returns nullptr if the input has ended or the run has failed.
SourceStream* Execution::open_in_order(InputStream& stream) {
  if (is_cancelled()) return nullptr;
  const uint32_t number = stream.index_;
  {
    MutexLock lock(mutex_);
    InOrder& input = in_order_[number];
    if (failed() || input.end_bytes != unknown_bytes) return nullptr;
    if (input.stream) return &*input.stream;
  }
  const io::File* file = inputs_[number].file;
  std::optional<io::File> opened;
  if (file == nullptr) {
    auto again = io::File::open_input(inputs_[number].path, io::Caching::buffered);
    if (!again) {
      fail(again.error());
      return nullptr;
    }
    file = &opened.emplace(std::move(*again));
  }
  const Input& input_of = inputs_[number];
  auto source = input_of.source_of ? input_of.source_of(*file)
                                   : source::source_of(*file, input_of.source, options_.cancel);
  if (!source) {
    fail(source.error());
    return nullptr;
  }
  RunOptions shape{.block_bytes = block_bytes_,
                   .comeback_blocks = options_.comeback_blocks,
                   .in_order_block_bytes = std::max(block_bytes_, options_.in_order_block_bytes)};
  auto source_stream = SourceStream::open(
      std::move(*source), file->path(),
      {.block_bytes = shape.in_order_block_bytes,
       .read_ahead_blocks = in_order_ahead_blocks,
       .comeback_blocks = in_order_comeback_blocks(shape),
       .bytes_max = stream_address_bytes() / (options_.inputs_in_turn ? 1 : inputs_.size()),
       .policy = ErrorPolicy::recover,
       .strict = false});
  if (!source_stream) {
    fail(source_stream.error());
    return nullptr;
  }
  stream.begin_ = source_stream->begin();
  stream.position_.store(stream.begin_, std::memory_order_relaxed);
  stream.release_at_ = never_reached();
  MutexLock lock(mutex_);
  InOrder& input = in_order_[number];
  if (failed()) return nullptr;
  return &input.stream.emplace(std::move(*source_stream));
}

void Execution::release(InputStream& stream) {
  const uint32_t input = stream.index_;
  const auto at = static_cast<uint64_t>(stream.position() - input_places_[input].blocks);
  uint64_t below = at / block_bytes_;
  {
    MutexLock lock(mutex_);
    if (at >= in_[input].end_bytes) below = ceil_div(at, block_bytes_);
  }
  release_below(input, below);
  refresh(stream);
}

uint64_t Execution::bytes_of(const InputStream& stream) {
  const InputPlace& place = input_places_[stream.index_];
  MutexLock lock(mutex_);
  if (place.in_order) return in_order_[stream.index_].end_bytes;
  const uint64_t end = in_[stream.index_].end_bytes;
  return end - std::min(end, place.head_bytes);
}

// ---- Outputs.

// Maps a free block at the end of the open ones. Returns false if the run has failed.
bool Execution::open_next(uint32_t output) noexcept {
  if (is_cancelled()) return false;
  const OutputPlace& place = output_places_[output];
  uint64_t number = 0;
  bool too_long = false;
  {
    MutexLock lock(mutex_);
    number = out_[output].opened;
    too_long = number >= place.blocks_max;
    for (bool has_waited = false; !too_long; has_waited = true) {
      if (failed()) return false;
      if (output_held_ < division_.output_blocks - outputs_lent_ && may_go_on(has_waited)) break;
      wait_for_device({Wait::For::output, output});
    }
    if (!too_long) {
      ++output_held_;
      held_peak_ = std::max(held_peak_, input_held_ + output_held_);
    }
    ++steps_;
  }
  if (too_long) {
    fail_in_place({.code = ErrorCode::invalid_argument,
                   .attempted = "write so much to an output",
                   .subject = place.name,
                   .hint = "more addresses for it: bytes_max"});
    return false;
  }
  const pool::BlockId block = pool_->take();
  if (block == pool::no_block) {
    fail_in_place({.code = ErrorCode::out_of_memory,
                   .attempted = "find a free block",
                   .subject = place.name,
                   .hint = "less memory for the run",
                   .system_errno = ENOMEM});
    return false;
  }
  const int error = io_->pool().map(block, place.blocks + number * block_bytes_);
  if (error != 0) return fail_to("map a block", place.name, error);
  MutexLock lock(mutex_);
  OutputLevel& level = out_[output];
  level.held.push_back(links_, block);
  if (level.opened == level.handed) level.next_to_hand = block;
  ++level.opened;
  return true;
}

// Unmaps the open blocks below `block`, which makes them ready to write; the last one is written
// only up to `end_bytes`.
void Execution::hand_over_below(uint32_t output, uint64_t block, uint64_t end_bytes) noexcept {
  const OutputPlace& place = output_places_[output];
  uint64_t number = 0;
  for (;;) {
    pool::BlockId id = pool::no_block;
    {
      MutexLock lock(mutex_);
      const OutputLevel& level = out_[output];
      number = level.handed;
      if (number >= std::min(block, level.opened)) break;
      id = level.next_to_hand;
    }
    const int error = pool_->unmap(id, place.blocks + number * block_bytes_);
    if (error != 0) return (void)fail_to("take a block back", place.name, error);
    MutexLock lock(mutex_);
    OutputLevel& level = out_[output];
    level.next_to_hand = links_[id];
    ++level.handed;
    level.handed_bytes = std::min(level.handed * block_bytes_, end_bytes);
    ++steps_;
    for_device_.announce();
  }
  free_tables(place.blocks, place.blocks + number * block_bytes_, output_tables_freed_[output]);
}

void Execution::refresh(OutputStream& stream) noexcept {
  const OutputPlace& place = output_places_[stream.index_];
  MutexLock lock(mutex_);
  const OutputLevel& level = out_[stream.index_];
  stream.visible_end_ = std::max(place.blocks + level.opened * block_bytes_, stream.position());
  stream.release_at_ = place.blocks + (level.handed + 1) * block_bytes_;
}

bool Execution::make_room(OutputStream& stream, size_t bytes_min) {
  const uint32_t output = stream.index_;
  const OutputPlace& place = output_places_[output];
  const auto at = static_cast<uint64_t>(stream.position() - place.blocks);
  const uint64_t last = (at + std::max<size_t>(1, bytes_min) - 1) / block_bytes_;
  if (last > at / block_bytes_ + options_.comeback_blocks) {
    fail_in_place({.code = ErrorCode::invalid_argument,
                   .attempted = "make room across so many blocks",
                   .subject = place.name,
                   .hint = "more comeback_blocks, or larger blocks"});
  }
  uint64_t opened = 0;
  {
    MutexLock lock(mutex_);
    opened = out_[output].opened;
  }
  while (opened <= last && open_next(output)) ++opened;
  refresh(stream);
  return !failed() && opened > last;
}

void Execution::release(OutputStream& stream) {
  const auto at = static_cast<uint64_t>(stream.position() - output_places_[stream.index_].blocks);
  hand_over_below(stream.index_, at / block_bytes_);
  refresh(stream);
}

// REQUIRES: nothing is mapped between `begin` and `limit`, and nothing ever will be.
void Execution::free_tables(std::byte* begin, std::byte* limit, uint64_t& freed_bytes) noexcept {
  const uint64_t passed = round_down(static_cast<uint64_t>(limit - begin), tables_step_bytes);
  if (passed <= freed_bytes) return;
  (void)pool_->free_page_tables({begin + freed_bytes, passed - freed_bytes});
  freed_bytes = passed;
}

// ---- Faults.

fault::Outcome Execution::on_fault(const fault::Fault& fault) noexcept {
  const auto offset = static_cast<uint64_t>(fault.address - range_.begin());
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  const auto stream = static_cast<uint32_t>(after - starts_.begin() - 1);
  const auto inputs = static_cast<uint32_t>(inputs_.size());
  return stream < inputs ? on_input_fault(stream, fault) : on_output_fault(stream - inputs, fault);
}

// Maps the blocks up to `block`, and releases those that are further behind than the comeback.
bool Execution::touch(uint32_t input, uint64_t block) noexcept {
  const uint64_t comeback = options_.comeback_blocks;
  uint64_t mapped = 0;
  {
    MutexLock lock(mutex_);
    InputLevel& level = in_[input];
    level.touched_bytes = std::max(level.touched_bytes, block * block_bytes_);
    mapped = level.mapped;
  }
  for (; mapped <= block; ++mapped) {
    release_below(input, mapped - std::min(mapped, comeback));
    if (!map_next(input)) return false;
  }
  return true;
}

fault::Outcome Execution::on_input_fault(uint32_t input, const fault::Fault& fault) noexcept {
  const InputPlace& place = input_places_[input];
  const auto offset = static_cast<uint64_t>(fault.address - place.blocks);
  const uint64_t block = offset / block_bytes_;
  std::byte* const address = place.blocks + block * block_bytes_;
  uint64_t released = 0;
  uint64_t mapped = 0;
  {
    MutexLock lock(mutex_);
    released = in_[input].released;
    mapped = in_[input].mapped;
  }
  if (block >= released && block < mapped) return fault::Outcome::decline;
  if (failed()) return after_error(address, fault);
  if (block < released) {
    stream::stop({ErrorCode::invalid_argument,
                  "read a block that was given back (comeback_blocks is too small)", place.name});
  }
  const bool served = touch(input, block);
  refresh(streams_.inputs_[input]);
  if (served) return fault::Outcome::retry;
  if (failed()) return after_error(address, fault);
  // The page behind the end reads as zeros, for code that reads a little ahead.
  uint64_t blocks = 0;
  {
    MutexLock lock(mutex_);
    blocks = blocks_of(in_[input]);
  }
  std::byte* const behind = place.blocks + blocks * block_bytes_;
  if (fault.address < behind || fault.address >= behind + os::page_bytes)
    return fault::Outcome::decline;
  return os::commit(behind, os::page_bytes) == 0 ? fault::Outcome::retry : fault::Outcome::decline;
}

fault::Outcome Execution::on_output_fault(uint32_t output, const fault::Fault& fault) noexcept {
  const OutputPlace& place = output_places_[output];
  const uint64_t block = static_cast<uint64_t>(fault.address - place.blocks) / block_bytes_;
  std::byte* const address = place.blocks + block * block_bytes_;
  uint64_t handed = 0;
  uint64_t opened = 0;
  {
    MutexLock lock(mutex_);
    handed = out_[output].handed;
    opened = out_[output].opened;
  }
  if (block >= handed && block < opened) return fault::Outcome::decline;
  if (failed()) return after_error(address, fault);
  if (block < handed) {
    stream::stop({ErrorCode::invalid_argument,
                  "write to a block that was handed over (comeback_blocks is too small)",
                  place.name});
  }
  const uint64_t comeback = options_.comeback_blocks;
  for (; opened <= block; ++opened) {
    hand_over_below(output, opened - std::min(opened, comeback));
    if (!open_next(output)) return after_error(address, fault);
    // The pointer skipped this block.
    if (opened < block) std::memset(place.blocks + opened * block_bytes_, 0, block_bytes_);
  }
  refresh(streams_.outputs_[output]);
  return fault::Outcome::retry;
}

stream::Failure Execution::first_failure() noexcept {
  MutexLock lock(mutex_);
  if (error_)
    return {error_->code, error_->attempted.c_str(), error_->subject.c_str(), error_->system_errno};
  return {failed_.code, failed_.attempted, failed_.subject, failed_.system_errno};
}

// After an error, ErrorPolicy::zeros shows the last few blocks as zeros: enough for any
// instruction.
fault::Outcome Execution::after_error(std::byte* block_address,
                                      const fault::Fault& fault) noexcept {
  if (stream::fail(options_.on_error, first_failure(), fault.context)) return fault::Outcome::retry;
  std::byte*& oldest = zeros_[zeros_shown_++ % zeros_.size()];
  if (oldest != nullptr) (void)os::decommit(oldest, block_bytes_);
  oldest = block_address;
  if (os::commit(block_address, block_bytes_) == 0) return fault::Outcome::retry;
  stream::stop({ErrorCode::out_of_memory, "show zeros after an error", "run"});
}

}  // namespace penstock::bowtie::internal

namespace penstock::bowtie {

void InputStream::fetch(size_t bytes_min) {
  execution_->fetch(*this, bytes_min);
}
void InputStream::release() {
  execution_->release(*this);
}
uint64_t InputStream::bytes() const {
  return execution_->bytes_of(*this);
}
Status InputStream::status() const {
  return execution_->status();
}

bool OutputStream::make_room(size_t bytes_min) {
  return execution_->make_room(*this, bytes_min);
}
void OutputStream::release() {
  execution_->release(*this);
}
Status OutputStream::status() const {
  return execution_->status();
}
bool OutputStream::append(const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const std::span<std::byte> to = room();
    if (to.empty()) return false;
    const size_t piece = std::min(bytes, to.size());
    std::memcpy(to.data(), from, piece);
    advance(piece);
    from += piece;
    bytes -= piece;
  }
  return true;
}

Status Streams::status() const {
  return execution_->status();
}

bool Loan::set(uint64_t bytes) {
  const uint64_t blocks = ceil_div(bytes, uint64_t{execution_->block_bytes()});
  if (blocks > blocks_ && !execution_->lend(blocks - blocks_)) return false;
  if (blocks < blocks_) execution_->take_back(blocks_ - blocks);
  blocks_ = blocks;
  return true;
}

uint64_t Loan::bytes() const {
  return blocks_ * execution_->block_bytes();
}

}  // namespace penstock::bowtie
