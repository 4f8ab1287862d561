#pragma once

// One run of run.h: the state that the computation's thread and the device's thread share, and the
// functions of both. execution.cc opens and ends it and has the essay; computation_side.cc
// implements the streams, device_side.cc carries out the scheduler's actions.

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/run_scope.h"
#include "files/bowtie/run.h"
#include "io/engine.h"
#include "memory/fault/registry.h"
#include "memory/pool/pool.h"
#include "memory/stream/block_io.h"
#include "memory/stream/recovery.h"
#include "memory/stream/sides.h"
#include "memory/stream/stream_handler.h"

namespace penstock::bowtie::internal {

// Blocks in a row, linked through an array with one link per block of the pool.
class BlockQueue {
 public:
  bool empty() const { return first_ == pool::no_block; }
  pool::BlockId front() const { return first_; }
  void push_back(std::vector<pool::BlockId>& links, pool::BlockId block) {
    links[block] = pool::no_block;
    (empty() ? first_ : links[last_]) = block;
    last_ = block;
  }
  pool::BlockId pop_front(const std::vector<pool::BlockId>& links) {
    const pool::BlockId block = first_;
    first_ = links[block];
    return block;
  }

 private:
  pool::BlockId first_ = pool::no_block;
  pool::BlockId last_ = pool::no_block;
};

// Full blocks of an input without offsets that may wait for the computation.
inline constexpr uint32_t in_order_ahead_blocks = 2;
// REQUIRES: both block sizes are set.
uint32_t in_order_comeback_blocks(const RunOptions& options);

// A run's division of its memory, decided before anything is opened.
struct Division {
  size_t block_bytes = 0;
  uint32_t input_blocks = 0;
  uint32_t output_blocks = 0;
  uint32_t ahead_blocks = 0;             // for overlapped reads, part of input_blocks
  std::unique_ptr<Scheduler> scheduler;  // null: the caller has one
  Schedule schedule;
};
Result<Division> divide(uint32_t inputs, uint32_t outputs, const RunOptions& options);

// Thread safety: two threads. The caller's thread calls the functions under "the computation's
// thread"; the device's thread is internal and lives within run(). Shared state is guarded by
// mutex_; nothing faults and no user code runs under it, so that a fault handler may take it.
//
// Invariants, all of them under mutex_:
// - Blocks of an input are, by number: released <= mapped <= arrived <= submitted; those from
//   released to submitted are held, in that order. Blocks of an output are: submitted <= handed <=
//   opened; those below submitted are written or being written, those up to handed are full and at
//   home, those up to opened are mapped.
// - inputs_reserved_ is the sum over the inputs of the blocks they hold or, if more, may still need
//   at once (reserve()); it never exceeds input_blocks. output_held_ never exceeds output_blocks.
// - A block is in one of: the pool; one input's queue; one output's queue; a write in flight.
class Execution final : public stream::StreamHandler {
 public:
  static Result<RunResult> run(std::vector<Input> inputs, std::vector<Output> outputs,
                               const Computation& computation, const RunOptions& options);
  ~Execution();

  // ---- Called by the streams: the computation's thread.
  void fetch(InputStream& stream, size_t bytes_min);
  void release(InputStream& stream);
  bool make_room(OutputStream& stream, size_t bytes_min);
  void release(OutputStream& stream);
  uint64_t bytes_of(const InputStream& stream) EXCLUDES_LOCK(mutex_);
  Status status() EXCLUDES_LOCK(mutex_);
  size_t block_bytes() const { return block_bytes_; }
  // Lends memory of so many blocks; false if there is none. (Loan)
  bool lend(uint64_t blocks) EXCLUDES_LOCK(mutex_);
  void take_back(uint64_t blocks) noexcept EXCLUDES_LOCK(mutex_);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;

 private:
  Label label() const noexcept override { return {"bowtie", stream::ErrorPolicy::stop}; }

  // Values that are constant while both threads run.
  struct InputPlace {
    std::byte* blocks = nullptr;  // the address of block 0
    uint64_t blocks_max = 0;      // blocks with addresses
    uint64_t head_bytes = 0;      // offset of the input's first byte in block 0
    uint64_t file_offset = 0;     // file offset of block 0, a multiple of the sector size
    const char* name = "";        // for messages
    bool in_order = false;
  };
  struct OutputPlace {
    std::byte* blocks = nullptr;
    uint64_t blocks_max = 0;
    uint64_t head_bytes = 0;
    uint64_t file_offset = 0;
    const io::File* file = nullptr;
    const char* name = "";
  };
  struct InputLevel {
    uint64_t released = 0, mapped = 0, arrived = 0, submitted = 0;  // blocks
    uint64_t end_bytes = 0;                                         // from the beginning of block 0
    BlockQueue held;
    pool::BlockId next_to_arrive = pool::no_block;
    uint64_t touched_bytes = 0;  // offset of the last block touched through a plain pointer
    bool is_gathered = false;    // its stream shows a Gathered window
  };
  // A window of more blocks than the comeback, copied to borrowed memory. Invariant: the block of
  // its last byte is not released.
  struct Gathered {
    Loan loan;
    os::Reservation room;
    uint64_t begin = 0;  // offset of its first byte, from the beginning of block 0
    uint64_t bytes = 0;

    uint64_t end() const { return begin + bytes; }
  };
  struct OutputLevel {
    uint64_t submitted = 0, handed = 0, opened = 0;  // blocks
    uint64_t handed_bytes = 0, submitted_bytes = 0;  // from the beginning of block 0
    BlockQueue held;
    pool::BlockId next_to_hand = pool::no_block;
  };
  struct Wait {
    enum class For { nothing, input, output, loan } what = For::nothing;
    uint32_t stream = 0;
  };
  // A stall, as the scheduler sees it.
  struct Stalled {
    Stall stall = Stall::none;
    uint32_t input = 0;
    bool for_loan = false;

    bool waits() const { return stall != Stall::none || for_loan; }
  };
  // An error found on the fault path.
  struct Failed {
    bool any = false;
    ErrorCode code = ErrorCode::io;
    const char* attempted = "";
    const char* subject = "";
    const char* hint = "";
    int system_errno = 0;
  };
  static Failed too_wide(const char* name);
  // A request in flight.
  struct Transfer {
    io::Request request;
    uint32_t stream = 0;
    pool::BlockId block = pool::no_block;
    uint32_t bytes_wanted = 0;  // bytes that a read must return
    bool busy = false;
  };
  // An input's file, as long as it is open.
  struct OpenInput {
    std::optional<io::File> file;
    uint64_t used_at = 0;
    uint32_t in_flight = 0;
  };
  // An input without offsets; empty for other inputs. The computation's thread opens and closes it,
  // the device's thread may cancel it.
  struct InOrder {
    std::optional<SourceStream> stream;
    uint64_t end_bytes = 0;  // unknown_bytes until the input has ended
  };

  Execution(std::vector<Input> inputs, std::vector<Output> outputs, const RunOptions& options);

  // ---- execution.cc
  Status open(Division division);
  Status open_inputs();
  Status open_outputs();
  Status reserve_addresses();
  Status publish();
  RunResult result();
  void fail(Error error) EXCLUDES_LOCK(mutex_);
  void fail_in_place(const Failed& failed) noexcept EXCLUDES_LOCK(mutex_);
  bool fail_to(const char* attempted, const char* name, int error) noexcept EXCLUDES_LOCK(mutex_);
  bool failed() const { return any_failed_.load(std::memory_order_acquire); }
  uint64_t blocks_of(const InputLevel& level) const;
  uint64_t reserve(uint32_t input) const REQUIRES_LOCK(mutex_);
  uint64_t held(uint32_t input) const REQUIRES_LOCK(mutex_);
  uint64_t position_of(uint32_t input) const REQUIRES_LOCK(mutex_);
  bool try_to_lend() REQUIRES_LOCK(mutex_);

  // ---- computation_side.cc: the computation's thread
  Status compute(const Computation& computation);
  Status hand_over_rest();
  bool is_cancelled() noexcept;
  void fetch_in_order(InputStream& stream, size_t bytes_min) EXCLUDES_LOCK(mutex_);
  SourceStream* open_in_order(InputStream& stream) EXCLUDES_LOCK(mutex_);
  void gather(InputStream& stream, uint64_t at, size_t bytes_min);
  void fetch_gathered(InputStream& stream, size_t bytes_min);
  std::span<const std::byte> next_piece(InputStream& stream, uint64_t at);
  const std::byte* linear_begin(const InputStream& stream) const;
  bool may_go_on(bool has_waited) REQUIRES_LOCK(mutex_);
  void wait_for_device(Wait wait) REQUIRES_LOCK(mutex_);
  bool map_next(uint32_t input) noexcept;
  void release_below(uint32_t input, uint64_t block) noexcept;
  bool open_next(uint32_t output) noexcept;
  void hand_over_below(uint32_t output, uint64_t block, uint64_t end_bytes = ~uint64_t{0}) noexcept;
  void refresh(InputStream& stream) noexcept;
  void refresh(OutputStream& stream) noexcept;
  void free_tables(std::byte* begin, std::byte* limit, uint64_t& freed_bytes) noexcept;
  fault::Outcome on_input_fault(uint32_t input, const fault::Fault& fault) noexcept;
  fault::Outcome on_output_fault(uint32_t output, const fault::Fault& fault) noexcept;
  bool touch(uint32_t input, uint64_t block) noexcept;
  fault::Outcome after_error(std::byte* block_address, const fault::Fault& fault) noexcept;
  stream::Failure first_failure() noexcept EXCLUDES_LOCK(mutex_);

  // ---- device_side.cc: the device's thread
  void work();
  void act_until_all_is_done();
  const View& look() EXCLUDES_LOCK(mutex_);
  bool in_steady_state() const;
  Stalled stalled() const REQUIRES_LOCK(mutex_);
  bool serve_loan();
  bool drop_read_ahead();
  void perform(const Action& action);
  void open_gate(bool open) EXCLUDES_LOCK(mutex_);
  void read(const Action& action);
  void stream_in(const Action& action);
  void write(const Action& action);
  void stream_out(const Action& action);
  void run_computation();
  void wait_for_computation() EXCLUDES_LOCK(mutex_);
  uint64_t room_blocks(uint32_t input) const REQUIRES_LOCK(mutex_);
  bool submit_read(uint32_t input);
  bool submit_write(uint32_t output);
  void finish_one();
  void finish_read(Transfer& transfer);
  void finish_write(Transfer& transfer);
  Transfer& free_transfer();
  const io::File* file_of(uint32_t input);
  void count(bool write, uint32_t stream, uint64_t bytes);
  void close_run();

  // Constant while the threads run.
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  const RunOptions& options_;
  Division division_;
  Scheduler* scheduler_ = nullptr;
  size_t block_bytes_ = 0;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<io::Engine> engine_;
  std::optional<stream::BlockIo> io_;  // used for map() only
  os::Reservation range_;
  std::vector<uint64_t> starts_;  // offsets in range_ of the inputs, then of the outputs
  std::vector<InputPlace> input_places_;
  std::vector<OutputPlace> output_places_;
  std::vector<std::optional<io::File>> output_files_;  // outputs created by the run
  Streams streams_;
  fault::Registration registration_;

  // Shared by both threads.
  Mutex mutex_;
  stream::EventCount for_computation_;  // under mutex_
  stream::EventCount for_device_;       // under mutex_
  std::vector<InputLevel> in_ GUARDED_BY(mutex_);
  std::vector<OutputLevel> out_ GUARDED_BY(mutex_);
  std::vector<InOrder> in_order_ GUARDED_BY(mutex_);
  std::vector<pool::BlockId> links_ GUARDED_BY(mutex_);
  std::vector<bool> has_arrived_ GUARDED_BY(mutex_);
  uint64_t inputs_reserved_ GUARDED_BY(mutex_) = 0;
  uint64_t input_held_ GUARDED_BY(mutex_) = 0;
  uint64_t output_held_ GUARDED_BY(mutex_) = 0;
  uint64_t writes_in_flight_ GUARDED_BY(mutex_) = 0;
  uint64_t held_peak_ GUARDED_BY(mutex_) = 0;
  uint64_t steps_ GUARDED_BY(mutex_) = 0;  // progress of the computation, for the device's thread
  Wait wait_ GUARDED_BY(mutex_);
  // Blocks of each side that do not exist for now because their memory is lent, and a loan that is
  // asked for: 0 if it was granted or refused.
  uint64_t inputs_lent_ GUARDED_BY(mutex_) = 0;
  uint64_t outputs_lent_ GUARDED_BY(mutex_) = 0;
  uint64_t loan_wanted_ GUARDED_BY(mutex_) = 0;
  bool loan_refused_ GUARDED_BY(mutex_) = false;
  bool gate_open_ GUARDED_BY(mutex_) = false;
  bool computed_ GUARDED_BY(mutex_) = false;
  bool device_ended_ GUARDED_BY(mutex_) = false;
  Failed failed_ GUARDED_BY(mutex_);
  std::optional<Error> error_ GUARDED_BY(mutex_);
  // Set together with failed_ or error_ (release), read with acquire.
  std::atomic<bool> any_failed_{false};

  // The computation's thread.
  std::vector<uint64_t> input_tables_freed_, output_tables_freed_;
  std::vector<std::unique_ptr<Gathered>> gathered_;  // nullptr: the input's window is its blocks
  MemoryCharge of_loans_;
  std::array<std::byte*, 16> zeros_{};  // after an error: the last blocks of zeros
  uint32_t zeros_shown_ = 0;

  // The device's thread.
  std::vector<Transfer> transfers_;
  MemoryCharge of_streams_, of_blocks_;  // bookkeeping of streams and blocks
  unsigned in_flight_ = 0;
  std::vector<OpenInput> open_inputs_;
  uint32_t inputs_open_ = 0;
  uint64_t uses_ = 0;
  std::vector<uint64_t> view_in_, view_left_, view_consumed_, view_out_;
  View view_;
  StaircaseRecord stairs_;
  uint64_t submitted_bytes_ = 0;
  bool at_write_ = false;
  uint32_t at_stream_ = ~uint32_t{0};
  uint64_t run_now_bytes_ = 0;
  RunResult result_;
};

}  // namespace penstock::bowtie::internal
