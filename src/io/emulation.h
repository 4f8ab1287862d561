#pragma once

// An emulated device slower than the real one, for experiments with schedules: an array of hard
// disks on a machine that has none.
//
// While it is on, the data of all requests on files, of all engines and of read_exactly() and
// write_exactly(), really move, but each request is reported only when the emulated device would
// have ended it. There is one device for the whole process, with one arm: it serves requests one
// after the other in the order of submission, at its speed of reading or writing, and a request
// that does not continue the one before it (same open file, next offset) pays the switch delay
// first. Pipes and terminals are no devices and are left alone. Work of the page cache, of other
// processes or on the file system's metadata costs nothing here.
//
// It can only be slower than the disk below it: if the disk is slower, the clock runs ahead of the
// emulated times (`busy_seconds`), and the measurement is that of the disk.
//
// It is never on unnoticed: `penstock replay --emulate` turns it on, and in tests and benches the
// environment (test/support); code that prints times checks emulated().
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

  // Parses the argument of --emulate: "read=3.55e9,write=3.55e9,switch=0.009". Fails if a speed is
  // missing or not positive, or anything else is there.
  static Result<EmulatedDevice> parse(const std::string& text);
  // Returns "emulated device: 3550 MB/s read, 3550 MB/s write, 9 ms a switch".
  std::string describe() const;

  bool operator==(const EmulatedDevice&) const = default;
};

// Turns the emulation on or off, and resets its counts. It is off at the start.
void emulate(const std::optional<EmulatedDevice>& device);
std::optional<EmulatedDevice> emulated();

// The emulated device's work since it was turned on.
struct EmulatedTraffic {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t requests = 0;
  uint64_t switches = 0;
  double busy_seconds = 0;  // transfers and switches
};
EmulatedTraffic emulated_traffic();

// ---- for the engines

// The queue of the device, which computes the end of each request without a clock or a lock.
class EmulatedQueue {
 public:
  explicit EmulatedQueue(const EmulatedDevice& device) : device_(device) {}

  struct Transfer {
    int file = -1;  // a descriptor
    uint64_t offset = 0;
    uint64_t bytes = 0;
    bool write = false;
  };
  // Enters a request that is submitted at `now_ns`, and returns its end.
  uint64_t end_ns(const Transfer& transfer, uint64_t now_ns);

  const EmulatedDevice& device() const { return device_; }
  EmulatedTraffic traffic;

 private:
  EmulatedDevice device_;
  double free_at_ns_ = 0;
  int file_ = -1;  // position of the arm
  uint64_t offset_ = 0;
};

// Returns the monotonic time at which the emulated device will have ended this request; 0 if no
// device is on, or the request does not concern it. Called once for each request, when it is
// submitted. May stand on the fault path.
uint64_t emulated_end_ns(const Request& request) noexcept;
// Sleeps until about that time. A request that is reported a little early gains nothing, because
// the device's queue still counts its time; sleeps that last too long lose nothing.
void wait_for_emulated(uint64_t end_ns) noexcept;

}  // namespace penstock::io
