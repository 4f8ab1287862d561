// Two measurements decide what `automatic` stands for, each with all mechanisms in the same run (2
// virtual cores, Linux 6.18, gcc 12; the machine was shared, so only lines can be compared).
//
// One thread: a write fault takes a block and maps it, and eight blocks later it is unmapped and
// given. Microseconds a block, with the other core idle / busy with the same address space:
//
//     block        mremap        uffd_move      shared, batches of 32
//     4 KiB      14.8 / 29.6     6.6 / 12.8       8.2 / 15.4
//     64 KiB     15.9 / 33.2     9.6 / 18.6      12.3 / 24.5
//     256 KiB    16.1 / 31.3    14.8 / 30.5      27.0 / 54.5
//     1 MiB      19.8 / 38.1    38.6 / 78.3      86.5 / 174.9
//     2 MiB      15.0 / 29.1   [54.7 / 76.2]      8.7 / 17.8
//
// (In brackets: from a later, slower run, after ranges were made to allow huge pages; mremap
// had 31.8 / 59.4 and shared 11.8 / 19.2 in that run. In ranges that do not allow them, uffd_move
// takes 309 us: it splits the huge page at each fault.)
//
// Two threads: one writes blocks with non-temporal stores and hands them on, the other sums them
// up. GB/s; the ceiling hands over the same blocks without any mapping. 4 to 8 blocks:
//
//     block       ceiling   mremap   uffd_move   shared, 32
//     64 KiB        5.9       1.4       2.3         1.4
//     256 KiB       5.5       2.9       3.6         2.4
//     1 MiB        10.5       6.1       7.3         4.0
//     2 MiB        10.2       8.4      13.5        12.7
//     4 MiB        15.1      13.7      14.3        13.9
//
// If blocks are moved ahead of its faults, as in this test, uffd_move keeps up with shared at 2
// MiB; but a reader that runs ahead faults, and then pays for clearing a huge page. In the lab
// notes' pipe, with faults, shared reaches 95 % of the ceiling, mremap 65 to 70 %.
//
// Hence: blocks up to 256 KiB by uffd_move; larger ones by mremap, except that huge blocks between
// threads are shared. For one thread shared would save 6 us of the 200 us that filling a block of 2
// MiB takes, at the price of old views that stay: it is used only on request. A pool from which
// more blocks may be out at once than there are mappings for uses uffd_move if it can, whatever it
// costs, rather than fail. If mremap() moves no pages (gVisor), shared serves.

#include "memory/pool/pool.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "memory/pool/arena_pool.h"
#include "os/limits.h"

namespace penstock::pool {
namespace {

constexpr size_t block_bytes_max = 1 * GiB;
constexpr size_t uffd_block_bytes_max = 256 * KiB;
// A block in a range and the gap beside it are two mappings; vm.max_map_count is 65530 by default,
// and other code needs some.
constexpr uint32_t scattered_blocks_max = 25'000;

}  // namespace

const char* name_of(Mechanism mechanism) {
  switch (mechanism) {
    case Mechanism::automatic:
      return "automatic";
    case Mechanism::mremap:
      return "mremap";
    case Mechanism::uffd_move:
      return "uffd_move";
    case Mechanism::shared:
      return "shared";
  }
  return "unknown";
}

int Pool::free_page_tables(std::span<std::byte> piece) noexcept {
  if (is_inherited()) return 0;
  return os::decommit(piece.data(), piece.size());
}

Status check_block_bytes(size_t block_bytes, const char* attempted, const std::string& subject) {
  if (std::has_single_bit(block_bytes) && block_bytes >= os::page_bytes &&
      block_bytes <= block_bytes_max)
    return {};
  return failure(ErrorCode::invalid_argument, attempted, subject,
                 "block_bytes: a power of two from 4096 (4 KiB) to 1073741824 (1 GiB), not " +
                     std::to_string(block_bytes));
}

void write_reason(int error, char* text, size_t text_bytes) noexcept {
  const char* const hint =
      error == EBUSY
          ? " (a page of the block is in use by I/O that bypasses the page cache, or is a "
            "registered buffer: such pages do not move)"
      : error == ENOMEM ? " (try larger blocks, or a larger vm.max_map_count)"
                        : "";
  std::snprintf(text, text_bytes, "%s%s", strerrordesc_np(error), hint);
}

Result<std::unique_ptr<Pool>> Pool::open(const PoolOptions& options) {
  if (Status valid = check_block_bytes(options.block_bytes, "open", "pool"); !valid)
    return std::unexpected(std::move(valid.error()));
  if (options.blocks_max == 0 || options.blocks_max == no_block)
    return failure(ErrorCode::invalid_argument,
                   "open a pool of " + std::to_string(options.blocks_max) + " blocks", "pool");
  if (options.pages == PageKind::hugetlb && options.mechanism != Mechanism::shared)
    return failure(ErrorCode::invalid_argument, "use reserved huge pages in a moving pool", "pool",
                   "the mechanism shared");
  if (options.system_calls && options.mechanism != Mechanism::uffd_move &&
      options.mechanism != Mechanism::automatic)
    return failure(ErrorCode::invalid_argument, "serve system calls by another mechanism", "pool",
                   "the mechanism uffd_move");
  Mechanism mechanism = options.mechanism;
  if (mechanism == Mechanism::automatic) {
    mechanism = options.system_calls
                    ? Mechanism::uffd_move
                    : preferred(options.use, options.block_bytes, options.blocks_max);
  }
  switch (mechanism) {
    case Mechanism::uffd_move:
      return open_uffd_pool(options);
    case Mechanism::shared:
      return open_shared_pool(options);
    default:
      return open_mremap_pool(options);
  }
}

namespace {

constexpr size_t probe_block_bytes = 2 * MiB;

// Moves one block to a range, on and back, and checks that its contents moved along.
Status try_mechanism(Mechanism mechanism, size_t block_bytes, PageKind& pages) {
  auto pool = Pool::open({.block_bytes = block_bytes, .blocks_max = 1, .mechanism = mechanism});
  if (!pool) return std::unexpected(pool.error());
  pages = (*pool)->pages();
  auto range = (*pool)->reserve(2 * (*pool)->block_bytes());
  if (!range) return std::unexpected(range.error());
  const BlockId block = (*pool)->take();
  if (block == no_block)
    return failure(ErrorCode::out_of_memory, "commit a block", name_of(mechanism));
  std::memset((*pool)->home(block), 0x5a, (*pool)->block_bytes());
  std::byte* const second = range->begin() + (*pool)->block_bytes();
  int error = (*pool)->map(block, range->begin());
  if (error == 0) error = (*pool)->remap(block, range->begin(), second);
  if (error == 0 && second[12345] != std::byte{0x5a})
    return failure(ErrorCode::unsupported, "move a block with its contents", name_of(mechanism));
  if (error == 0) error = (*pool)->unmap(block, second);
  if (error != 0) return system_error(error, "move a block", name_of(mechanism));
  (*pool)->release(*range);
  return {};
}

}  // namespace

std::vector<MechanismReport> probe() {
  std::vector<MechanismReport> reports;
  for (const Mechanism mechanism : {Mechanism::mremap, Mechanism::uffd_move, Mechanism::shared}) {
    MechanismReport report{mechanism, true, PageKind::small, {}};
    if (const Status status = try_mechanism(mechanism, probe_block_bytes, report.pages); !status) {
      report.works = false;
      report.detail = status.error().message();
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

namespace {

// Tried once, and only if it matters: programs that run for milliseconds call this, too.
bool uffd_move_works() {
  // Small pages suffice: clearing a huge one takes longer than everything else.
  static const bool works = [] {
    constexpr size_t block_bytes = 16 * KiB;
    PageKind pages = PageKind::small;
    return try_mechanism(Mechanism::uffd_move, block_bytes, pages).has_value();
  }();
  return works;
}

bool shared_blocks_are_huge() {
  static const bool huge = [] {
    PageKind pages = PageKind::small;
    return try_mechanism(Mechanism::shared, probe_block_bytes, pages).has_value() &&
           pages != PageKind::small;
  }();
  return huge;
}

// Returns whether large ranges of uffd_move would be charged against the commit limit.
bool charges_reservations() {
  static const bool charges = os::overcommit_memory() == 2;
  return charges;
}

}  // namespace

Mechanism preferred(Use use, size_t block_bytes, uint32_t blocks_max) {
  const bool is_small = block_bytes <= uffd_block_bytes_max;
  const bool is_scattered = use == Use::same_thread && blocks_max > scattered_blocks_max;
  if ((is_small || is_scattered) && !charges_reservations() && uffd_move_works())
    return Mechanism::uffd_move;
  if (use == Use::between_threads && block_bytes >= os::huge_page_bytes && shared_blocks_are_huge())
    return Mechanism::shared;
  return mremap_or_shared();
}

Mechanism mremap_or_shared() {
  if (mremap_error() == 0) return Mechanism::mremap;
  static const bool shared_works = [] {
    PageKind pages = PageKind::small;
    return try_mechanism(Mechanism::shared, 16 * KiB, pages).has_value();
  }();
  return shared_works || !uffd_move_works() ? Mechanism::shared : Mechanism::uffd_move;
}

}  // namespace penstock::pool
