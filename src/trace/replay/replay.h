#pragma once

// The replay of a trace: the same requests, in the same order, on files of our own.
//
// The time of a program depends on its computation, on the state of the page cache, and on the
// positions of its requests. To compare programs by the last alone, Tuxedo (section VI) replays their
// requests on one device, under one layout, past the page cache. There are these devices:
//
//   a region (replay_region.h)   a real disk, or an emulated one (io/emulation.h): requests are
//                                really made, by an engine of src/io;
//   a profile                    a model without a disk: one arm that serves requests in the order of
//                                the trace, at the speeds of the profile, and pays the switch delay
//                                for each that does not begin where the last one ended.
//
// The trace is read twice: once for the sizes of its files, and once for the replay. The files that
// it names are never opened: a replay has extents in the region for them.
//
// Requests become transfers (the bytes that are really moved), in the order of the trace:
//
//   join    optional: a request that begins where the last one of all ended, in the same direction,
//           becomes one with it, up to transfer_bytes_max. A page cache would have joined them
//           (read-ahead, write-behind), so that a program which reads 4 KiB at a time is not slow.
//           Without it each request is one transfer, as in the trace.
//   widen   past the page cache only whole sectors move: a transfer begins and ends at multiples of
//           4096. A request that begins where its file's last one ended, in the same direction,
//           shares a sector with it, which is moved once. So 40 requests of 100 bytes in a row move
//           one sector, as they did through the program's own buffer. Bytes moved beyond the
//           requested ones are counted. Not with `buffered`.
//
// replay_queue.h decides when transfers start. A transfer longer than transfer_bytes_max is split,
// and its parts are made in a row.
//
// Memory: 128 MiB of buffers at most, of which those in use are touched; per file some hundred
// bytes; 256 waiting transfers. Nothing per request.
//
// A sync (fsync, fdatasync) has its place in the order of requests. When all earlier writes of the
// trace to its file are done, the whole region is synced, since it is one file. Later requests of the
// same thread wait for its end, with any concurrency. One call serves syncs of several threads that
// wait at the same time, as in the kernel. After a sync, a file's last sector is written again if
// more of it is written. On a profile a sync costs one switch: the arm moves to where the disk writes
// its cache.
//
// A replay leaves out truncation, allocation, renaming and all other metadata of the file system,
// which move no bytes of a file, and the program's computation (whose time passes at the original
// pace).

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
  // The part to replay. Numbers count requests to the files of `under`.
  std::vector<std::string> under;  // files whose path at first sight begins with one of these
  uint64_t first_request = 0;
  uint64_t requests = ~uint64_t{0};
  Room room = Room::peak;

  // The way of replaying.
  Pace pace = Pace::fast;
  Concurrency concurrency = Concurrency::original;
  unsigned depth = 16;  // requests in flight with Concurrency::ahead, at most replay_depth_max
  bool join = false;
  bool sync = true;       // replay syncs, too
  bool buffered = false;  // equals ReplayRegionOptions::buffered
  io::EngineKind engine = io::EngineKind::automatic;

  const std::atomic<bool>* cancel = nullptr;
  ReplayProgress progress;  // counts bytes of requests
};

// The needs of a replay, before anything is written.
struct ReplayPlan {
  Conversion conversion;  // conversion of the whole trace
  ReplayLayout layout;
  uint64_t touched_bytes = 0;  // size of the region with Room::touched
  uint64_t requests = 0;       // requests to replay
  uint64_t bytes = 0;
  uint64_t syncs = 0;  // syncs to replay, of files that have requests
  // [file]: end of its replayed requests, in the numbers of `first_request`; 0 if it has none.
  std::vector<uint64_t> last_request_end;
  // Numbers of files read and written: n and m of a profile's table of delays.
  uint32_t files_read = 0, files_written = 0;
};

// Reads the trace once and plans its replay. Errors: those of the conversion; unsupported for a trace
// that cannot be read twice (a pipe), or whose files need more than 2^63 bytes; invalid_argument if
// options contradict each other, or select no request.
Result<ReplayPlan> plan_replay(const std::string& trace, const ReplayOptions& options);

// Adds without overflow. The numbers of a hostile trace may sum up to more than 64 bits.
constexpr uint64_t saturating_sum(uint64_t a, uint64_t b) {
  return a > ~uint64_t{0} - b ? ~uint64_t{0} : a + b;
}

struct ReplayFigures {
  uint64_t reads = 0, writes = 0;  // numbers of requests
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t trace_seeks = 0;  // requests that do not begin where the last of all ended
  // Figures of transfers:
  uint64_t transfers = 0;
  uint64_t moved_read_bytes = 0, moved_written_bytes = 0;
  uint64_t seeks = 0;       // transfers that do not begin where the last started one ended
  double busy_seconds = 0;  // sum of the times from start to end of each
  double slowest_seconds = 0;
  uint64_t syncs = 0;
  double sync_seconds = 0;  // sum of the times from start to end of each
  double slowest_sync_seconds = 0;

  uint64_t requests() const { return reads + writes; }
  uint64_t bytes() const { return saturating_sum(read_bytes, written_bytes); }
  uint64_t moved_bytes() const { return saturating_sum(moved_read_bytes, moved_written_bytes); }
  double mean_run_bytes() const {  // mean of the bytes moved between two seeks
    return seeks == 0 ? 0 : static_cast<double>(moved_bytes()) / static_cast<double>(seeks);
  }
};

struct ReplayResult {
  ReplayFigures totals;
  RunHistogram runs{};               // bytes moved between seeks
  std::vector<ReplayFigures> files;  // [index into the plan's Conversion::files]
  double seconds = 0;                // from the first transfer to the end of the last sync
  uint64_t joined = 0;               // requests that were joined to the previous one
  uint64_t widened = 0;              // transfers of more bytes than requested
  uint64_t shared_sector = 0;        // requests within a sector that was just moved
  double late_seconds_max = 0;       // largest delay of a transfer's start, at the original pace
  double late_seconds_end = 0;       // delay of the last transfer's start
  unsigned in_flight_max = 0;
  uint64_t sync_calls = 0;  // calls that served all syncs
  std::string device;       // "io_uring, direct", or the name of the emulated device or profile
  // Busy time of an emulated device. If it is far less than `seconds` at the fast pace, the real
  // disk or the processor was slower.
  std::optional<double> emulated_busy_seconds;

  double bytes_per_s() const {  // rate of requested bytes
    return seconds > 0 ? static_cast<double>(totals.bytes()) / seconds : 0;
  }
  double moved_bytes_per_s() const {
    return seconds > 0 ? static_cast<double>(totals.moved_bytes()) / seconds : 0;
  }
};

// Replays a trace. REQUIRES: `plan` was made for this trace and these options; the region has the
// plan's size. Errors: those of reading, writing and of the trace; corrupt if the trace has changed
// since the plan; interrupted.
Result<ReplayResult> replay(const std::string& trace, const ReplayPlan& plan, ReplayRegion& region,
                            const ReplayOptions& options);

// Replays a trace on a model of a device. Concurrency has no effect: there is one arm, and the order
// is the trace's.
Result<ReplayResult> simulate_replay(const std::string& trace, const ReplayPlan& plan,
                                     const bowtie::DeviceProfile& device,
                                     const ReplayOptions& options);

}  // namespace penstock::trace
