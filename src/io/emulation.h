#pragma once

// A slower device than the real one, for experiments with schedules: an array of hard disks on a
// machine that has none.
//
// While it is on, the data of all requests on files, of all engines and of read_exactly() and
// write_exactly(), really move, but each request is reported only when the emulated device would
// have ended it. There is one device for the whole process, with one arm: it serves requests one
// after the other in the order in which they were submitted, at its speed of reading or writing,
// and a request that does not go on where the one before it ended (same open file, next offset)
// pays the switch delay first. Pipes and terminals are no devices and are left alone. What the page
// cache, other processes or the metadata of the file system do costs nothing here.
//
// It can only be slower than the disk below it: where that is the slower one, the clock runs ahead
// of the emulated times (`busy_seconds`), and what was measured is the disk.
//
// It is never on unnoticed: `penstock replay --emulate` turns it on, and in tests and benches the
// environment (test/support); code that prints times asks emulated().
//
// Thread safety: emulate() while no request is under way; everything else from any thread.

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/base.h"

namespace penstock::io {

struct Request;

struct EmulatedDevice {
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  double switch_seconds = 0;

  // "read=3.55e9,write=3.55e9,switch=0.009": what --emulate takes. Fails where a speed is
  // missing or not positive, or anything else is there.
  static Result<EmulatedDevice> parse(const std::string& text);
  // "emulated device: 3550 MB/s read, 3550 MB/s write, 9 ms a switch".
  std::string describe() const;

  bool operator==(const EmulatedDevice&) const = default;
};

// Turns it on or off, and forgets what was counted. Off at the start.
void emulate(const std::optional<EmulatedDevice>& device);
std::optional<EmulatedDevice> emulated();

// What the emulated device has done since it was turned on.
struct EmulatedTraffic {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t requests = 0;
  uint64_t switches = 0;
  double busy_seconds = 0;  // transfers and switches
};
EmulatedTraffic emulated_traffic();

// ---- for the engines

// Where the device will have ended a request, as it stands in its queue; the arithmetic without any
// clock, and without a lock.
class EmulatedQueue {
 public:
  explicit EmulatedQueue(const EmulatedDevice& device) : device_(device) {}

  struct Transfer {
    int file = -1;  // a descriptor
    uint64_t offset = 0;
    uint64_t bytes = 0;
    bool write = false;
  };
  // Submitted at `now_ns`: when it ends.
  uint64_t end_ns(const Transfer& transfer, uint64_t now_ns);

  const EmulatedDevice& device() const { return device_; }
  EmulatedTraffic traffic;

 private:
  EmulatedDevice device_;
  double free_at_ns_ = 0;
  int file_ = -1;  // where the arm is
  uint64_t offset_ = 0;
};

// The monotonic time at which the emulated device will have ended this request; 0: none is on, or
// the request is none of its business. Called once for each request, when it is submitted. May
// stand on the fault path.
uint64_t emulated_end_ns(const Request& request) noexcept;
// Sleeps until that time, or nearly: what is reported a little early is still owed by the device's
// queue, so that nothing is gained, and sleeps that last too long lose nothing.
void wait_for_emulated(uint64_t end_ns) noexcept;

}  // namespace penstock::io
