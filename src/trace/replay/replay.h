#pragma once

// Playing a trace again: the same requests, in the same order, on files of our own.
//
// What a program takes for its work is a mixture of computing, of what the page cache knew, and of
// where its requests went. To compare programs by the last alone, Tuxedo (section VI) replays what
// they asked for on one device, under one layout, past the page cache. Three devices here:
//
//   a region (replay_region.h)   a real disk, or an emulated one (io/emulation.h): requests are
//                                really made, by an engine of src/io;
//   a profile                    a model: one arm that serves requests in the order of the trace,
//                                at the speeds of the profile, and pays the switch delay for each
//                                that does not go on where the last one ended. No disk at all.
//
// The trace is read twice: once for how much room its files need, and once to play. The files that
// it names are never opened: a replay knows them as places in the region.
//
// From requests to transfers (what is really moved), in the order of the trace:
//
//   join    asked for: a request that goes on where the last one of all ended, in the same
//           direction, becomes one with it, up to transfer_bytes_max. That is what a page cache
//           would have made of them (read-ahead, write-behind), and why a program that reads 4 KiB
//           at a time is not slow. Without it each request is one transfer, as in the trace.
//   widen   past the page cache only whole sectors move: a transfer begins and ends at multiples of
//           4096. A request that goes on where its file's last one ended, in the same direction,
//           shares a sector with it; that one moved it, and it is not moved again. So 40 requests
//           of 100 bytes in a row move one sector, once, as they did through the program's own
//           buffer. What is moved beyond what was asked is counted. Not with `buffered`.
//
// When transfers start is decided by replay_queue.h. A transfer longer than transfer_bytes_max is
// cut, and its parts are made in a row.
//
// Memory: 128 MiB of buffers at most, of which those in use are touched; per file some hundred
// bytes; 256 waiting transfers. Nothing per request.
//
// A sync (fsync, fdatasync) stands in the order of requests. When what the trace wrote to its file
// before it is done, the region is brought to the disk, whole: it is one file. What the same thread
// asked after it waits until it has ended, whatever the concurrency. Syncs of several threads that
// wait at the same time are served by one call, as the kernel serves a program's. After a sync a
// file's last sector is written again if more of it is. On a profile a sync costs one switch: the
// arm goes to where the disk writes down what it has.
//
// What is not replayed: truncation, allocation, renaming and all other metadata of the file system,
// which move no bytes of a file, and the time that the program computed (but at the original pace
// it passes).

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "files/bowtie/device_profile.h"
#include "io/engine.h"
#include "penstock/base.h"
#include "penstock/trace.h"
#include "trace/replay/replay_layout.h"
#include "trace/replay/replay_queue.h"
#include "trace/replay/replay_region.h"

namespace penstock::trace {

inline constexpr size_t transfer_bytes_max = 2 * MiB;
inline constexpr unsigned replay_depth_max = 64;

struct ReplayOptions {
  // Which requests. Numbers count those that `under` leaves.
  std::vector<std::string> under;  // files whose path at first sight begins with one of these
  uint64_t first_request = 0;
  uint64_t requests = ~uint64_t{0};
  Room room = Room::peak;

  // How.
  Pace pace = Pace::fast;
  Concurrency concurrency = Concurrency::original;
  unsigned depth = 16;  // of Concurrency::ahead, at most replay_depth_max
  bool join = false;
  bool sync = true;       // syncs, too
  bool buffered = false;  // as the region was opened
  io::EngineKind engine = io::EngineKind::automatic;

  const std::atomic<bool>* cancel = nullptr;
  ReplayProgress progress;  // in bytes of requests
};

// What a trace needs, before anything is written.
struct ReplayPlan {
  Conversion conversion;  // of all of the trace
  ReplayLayout layout;
  uint64_t touched_bytes = 0;  // the region that Room::touched would need
  uint64_t requests = 0;       // that are replayed
  uint64_t bytes = 0;
  uint64_t syncs = 0;  // that are replayed: of files that have requests
  // By file: behind the number of its last request that is replayed, as `first_request` counts; 0:
  // it has none.
  std::vector<uint64_t> last_request_end;
  // Files that are read, and written: the n and m of a profile's table of delays.
  uint32_t files_read = 0, files_written = 0;
};

// Reads the trace once. Errors: those of the conversion; unsupported for a trace that cannot be
// read twice (a pipe) or whose files have no room in 2^63 bytes; invalid_argument where options
// contradict each other, or leave no request.
Result<ReplayPlan> plan_replay(const std::string& trace, const ReplayOptions& options);

// A trace may be made to have more bytes than a number holds.
constexpr uint64_t saturating_sum(uint64_t a, uint64_t b) {
  return a > ~uint64_t{0} - b ? ~uint64_t{0} : a + b;
}

struct ReplayFigures {
  uint64_t reads = 0, writes = 0;  // requests
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t trace_seeks = 0;  // requests that do not begin where the last of all ended
  // Of transfers:
  uint64_t transfers = 0;
  uint64_t moved_read_bytes = 0, moved_written_bytes = 0;
  uint64_t seeks = 0;       // that do not begin where the last one to be started ended
  double busy_seconds = 0;  // of each from its start to its end, added up
  double slowest_seconds = 0;
  uint64_t syncs = 0;
  double sync_seconds = 0;  // of each from its start to its end, added up
  double slowest_sync_seconds = 0;

  uint64_t requests() const { return reads + writes; }
  uint64_t bytes() const { return saturating_sum(read_bytes, written_bytes); }
  uint64_t moved_bytes() const { return saturating_sum(moved_read_bytes, moved_written_bytes); }
  double mean_run_bytes() const {  // moved between two seeks
    return seeks == 0 ? 0 : static_cast<double>(moved_bytes()) / static_cast<double>(seeks);
  }
};

struct ReplayResult {
  ReplayFigures totals;
  RunHistogram runs{};               // bytes moved between seeks
  std::vector<ReplayFigures> files;  // by index into the plan's Conversion::files
  double seconds = 0;                // from the first transfer to the last, brought to the disk
  uint64_t joined = 0;               // requests that were joined to the one before
  uint64_t widened = 0;              // transfers that move more than was asked
  uint64_t shared_sector = 0;        // requests that lie in a sector just moved: nothing to move
  double late_seconds_max = 0;       // at the original pace: how far behind a transfer started
  double late_seconds_end = 0;       // and the last one
  unsigned in_flight_max = 0;
  uint64_t sync_calls = 0;  // that served all syncs
  std::string device;  // what it was: "io_uring, direct", the emulated device's or profile's name
  // Of an emulated device: how long it was busy. Far less than `seconds` at the fast pace: the real
  // disk, or the processor, was slower.
  std::optional<double> emulated_busy_seconds;

  double bytes_per_s() const {  // of what was asked
    return seconds > 0 ? static_cast<double>(totals.bytes()) / seconds : 0;
  }
  double moved_bytes_per_s() const {
    return seconds > 0 ? static_cast<double>(totals.moved_bytes()) / seconds : 0;
  }
};

// REQUIRES: `plan` is of this trace and these options; the region has the plan's room.
// Errors: those of reading, writing and of the trace; corrupt when the trace has changed since it
// was planned; interrupted.
Result<ReplayResult> replay(const std::string& trace, const ReplayPlan& plan, ReplayRegion& region,
                            const ReplayOptions& options);

// The same on a device that is only imagined. Concurrency does not matter: there is one arm, and
// the order is the trace's.
Result<ReplayResult> simulate_replay(const std::string& trace, const ReplayPlan& plan,
                                     const bowtie::DeviceProfile& device,
                                     const ReplayOptions& options);

}  // namespace penstock::trace
