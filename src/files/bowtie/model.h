#pragma once

// The cost of a bowtie: n input streams, a computation, m output streams, one device, one memory.
//
// A device reads and writes a stream at full speed, but pays `switch_seconds` whenever it goes on
// to another stream (a seek). So the time is (1) the bytes over the speeds, plus the seeks, and all
// that a schedule can do is to make the average run between two seeks, L, long (2). The theorems
// say how long it becomes, with a memory of M bytes, for each of the paper's algorithms:
//
//   A1  distribute from memory        n = 0   write the largest bucket until it is empty
//   A2  distribute from a file        n = 1   write the c largest buckets, read until full again
//   A3  merge to memory               m = 0   read one input until another one is empty
//   A4  merge to a file               m = 1   write until an input is empty, read the c emptiest
//   A5  n to m, nothing overlapped            write c_w buckets, read c_r inputs
//   A6r n to m, reading overlapped            like A3 on the reading side, like A2 on the writing
//   A6w n to m, writing overlapped            like A4 on the reading side, like A1 on the writing
//
// One idea gives all of them. In the steady state the buckets of a side are a staircase: they are
// filled alike but were emptied one after the other (outputs), or are emptied alike but were filled
// one after the other (inputs). Between two visits of the device D bytes pass, a share alpha of
// them read and 1 - alpha written, and a staircase holds a number of "stairs" times the bytes that
// pass through its side in a step:
//
//   side                        switches k   stairs s (memory / bytes of the side per step)
//   one stream, overlapped      1            0             two blocks, which we neglect
//   j streams, overlapped       1            (j - 1) / 2
//   j streams, groups of c      c            (j / c + 1) / 2
//   no stream                   0            0
//
//   M = D (alpha s_r + (1 - alpha) s_w),   L = D / (k_r + k_w)
//
// which is every run length of theorems 2, 4, 7, 10 and 11, for every alpha. `run_bytes()` computes
// it so; the functions named after the theorems are the paper's closed forms, and the test holds
// the one against the others.
//
// Groups that do not divide. The paper asks that m / c be an integer. Here c may be any number from
// 1 to m: j streams form G = ceil(j / c) groups whose sizes differ by one at most (8 streams with
// c = 3: groups of 3, 3 and 2), which is better than groups of c and a small rest. With the shares
// R_g = size / j of the groups a round of all of them is 2 M / (1 + sum R_g^2), so that
// s = G (1 + sum R_g^2) / 2, and a step has k = j / G switches in the mean.
//
// Prediction::beyond_model() says what the model does not cover.
//
// Source: "On High-Latency Bowtie Data Streaming" (Tuxedo), sections II to IV.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "files/bowtie/device_profile.h"

namespace penstock::bowtie {

// A number of bytes or seconds larger than any other.
inline constexpr double infinite = std::numeric_limits<double>::infinity();

enum class Algorithm { a1, a2, a3, a4, a5, a6r, a6w };
const char* name_of(Algorithm algorithm);
// Whether the computation runs while the device works on the streams of that side.
bool reads_overlap(Algorithm algorithm);
bool writes_overlap(Algorithm algorithm);

// The problem. REQUIRES of every function below: inputs + outputs > 0, input_share in [0, 1],
// memory_bytes > 0.
struct Bowtie {
  uint32_t inputs = 0;        // n
  uint32_t outputs = 0;       // m
  double input_share = 0.5;   // alpha: bytes read over bytes read and written
  uint64_t memory_bytes = 0;  // M
};

// The number of streams visited in a row: c_r and c_w. 1 on a side that overlaps.
struct Groups {
  uint32_t inputs = 1;
  uint32_t outputs = 1;
};

// --- Run lengths, as printed; all in bytes. Infinite if a stream never has to be left. The paper's
// other run lengths are in papers/bowtie/theorems.h. ---

// Theorem 2, equation 4: A1, n = 0.
double run_bytes_a1(const Bowtie& bowtie);
// Theorem 7, equation 9: A3, m = 0, from the preload of theorem 6.
double run_bytes_a3(const Bowtie& bowtie);

// The best groups of theorems 12 and 13 (equation 15): real numbers, at least 1.
double best_group_a6r(const Bowtie& bowtie);
double best_group_a6w(const Bowtie& bowtie);

// --- Any algorithm, any groups. ---

// Switches and stairs of one side, as in the table above.
struct Side {
  double switches = 0;  // k
  double stairs = 0;    // s
};
Side overlapped_side(uint32_t streams);
Side grouped_side(uint32_t streams, uint32_t group);
// The number of groups that streams form, and the size of the g-th.
uint32_t groups_of(uint32_t streams, uint32_t group);
uint32_t group_size(uint32_t streams, uint32_t groups, uint32_t g);

// All parameters that a scheduler needs before it starts.
struct Schedule {
  Algorithm algorithm = Algorithm::a1;
  Bowtie bowtie;
  Groups groups;
  double run_bytes = 0;              // L: of reads and writes together
  double step_bytes = 0;             // D: bytes between two visits of a side; N when infinite
  uint64_t input_memory_bytes = 0;   // M_r
  uint64_t output_memory_bytes = 0;  // M_w
};

// REQUIRES: the algorithm is for this number of inputs and outputs, and each group is from 1 to the
// number of its streams.
Schedule schedule_with(const Bowtie& bowtie, Algorithm algorithm, Groups groups);
// The best schedule: A1 and A3 if one side is empty, otherwise the better A6 (which is A2 for n = 1
// and A4 for m = 1) with its best whole group.
Schedule best_schedule(const Bowtie& bowtie);
// The staircase of each side, bytes of each stream, largest first: of the inputs when some were
// just filled, of the outputs when the first of a group is about to be written. If groups divide,
// this is theorems 1, 3, 6 and 8. Empty for a side without streams, and for one whose only stream
// passes through.
std::vector<double> input_staircase(const Schedule& schedule);
std::vector<double> output_staircase(const Schedule& schedule);
// That of a side that overlaps with the computation, in this much memory.
std::vector<double> overlapped_staircase(double memory_bytes, uint32_t streams);
// The run length of best_schedule(), without the vectors and with only two candidates for the
// group: planners call it millions of times.
double best_run_bytes(const Bowtie& bowtie);

// --- Time. ---

struct Traffic {
  double read_bytes = 0;
  double written_bytes = 0;
  double switches = 0;  // s_r + s_w
};

// Equation 1: seconds of `traffic` on a device, with n inputs and m outputs interleaved.
double seconds_of(const Traffic& traffic, const DeviceProfile& device, uint32_t inputs,
                  uint32_t outputs);
// Equation 2: bytes per second, reads and writes together. An infinite run is a run of everything.
double bytes_per_s(const Bowtie& bowtie, double run_bytes, const DeviceProfile& device);

struct Prediction {
  Schedule schedule;
  Traffic traffic;
  double seconds = 0;
  double throughput_bytes_per_s = 0;  // reads and writes together
  // (n + m) L: the bytes that the device moves in a round of all its streams. If its cache is
  // larger, it may hide switches, and be faster than predicted.
  double round_bytes = 0;
  bool cache_may_hide_switches = false;
  // The traffic is no more than a few steps: the steady state hardly begins, and the first fill and
  // the last flush weigh more than the theorems say.
  bool too_short_for_steady_state = false;
  // A run is shorter than a block could be: the memory does not suffice for this many streams.
  bool run_below_block = false;

  // Whether a cache of this many bytes hides switches, by the paper's condition (n + m) L < C.
  bool hides(uint64_t cache_bytes) const;
  // The flags above in words, one sentence each; empty if the model holds.
  std::vector<std::string> beyond_model() const;
};

// The cost of `bytes` (N: read and written) through the best schedule.
Prediction predict(const Bowtie& bowtie, double bytes, const DeviceProfile& device);
Prediction predict(const Schedule& schedule, double bytes, const DeviceProfile& device);

}  // namespace penstock::bowtie
