#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "trace/one_processor.h"

namespace penstock::trace {
namespace {

// As many as a kernel can be built for; it tells how many of them it means.
using Mask = std::array<unsigned long, 8192 / (CHAR_BIT * sizeof(unsigned long))>;
constexpr size_t word_bits = CHAR_BIT * sizeof(unsigned long);

bool read_mask(int32_t thread, Mask& mask) {
  mask = {};
  return ::syscall(SYS_sched_getaffinity, thread, sizeof mask, mask.data()) > 0;
}
bool write_mask(int32_t thread, const Mask& mask) {
  return ::syscall(SYS_sched_setaffinity, thread, sizeof mask, mask.data()) == 0;
}
bool holds(const Mask& mask, size_t processor) {
  return (mask[processor / word_bits] >> (processor % word_bits) & 1) != 0;
}

// Where we are, if the thread may be there, too; otherwise the first for both.
int common_processor(const Mask& ours, const Mask& theirs) {
  const int here = ::sched_getcpu();
  if (here >= 0 && holds(theirs, static_cast<size_t>(here))) return here;
  for (size_t processor = 0; processor < ours.size() * word_bits; ++processor) {
    if (holds(ours, processor) && holds(theirs, processor)) return static_cast<int>(processor);
  }
  return -1;
}

}  // namespace

struct OneProcessor::Places {
  Mask ours, theirs;  // before
  Mask one;
};

OneProcessor::OneProcessor() : places_(std::make_unique<Places>()) {}

OneProcessor::~OneProcessor() {
  let_go();
}

void OneProcessor::keep(int32_t thread) {
  if (thread_ == thread) return;
  let_go();
  auto& [ours, theirs, one] = *places_;
  if (!read_mask(0, ours) || !read_mask(thread, theirs)) return;
  const int processor = common_processor(ours, theirs);
  if (processor < 0) return;
  one = {};
  one[static_cast<size_t>(processor) / word_bits] = 1UL << (processor % word_bits);
  if (!write_mask(thread, one)) return;
  thread_ = thread;
  if (!write_mask(0, one)) let_go();
}

void OneProcessor::let_go() {
  if (thread_ == 0) return;
  Mask now;
  if (read_mask(thread_, now) && now == places_->one) (void)write_mask(thread_, places_->theirs);
  (void)write_mask(0, places_->ours);
  thread_ = 0;
}

void OneProcessor::executed(int32_t number_before, int32_t number) {
  if (keeps(number_before)) {
    thread_ = number;
  } else {
    let_go();
  }
}

std::span<const uint32_t> OneProcessor::about_processors() {
  static constexpr auto numbers = std::to_array<uint32_t>({
      SYS_sched_getaffinity,
      SYS_sched_setaffinity,
      SYS_clone,
      SYS_clone3,
#ifdef SYS_fork
      SYS_fork,
      SYS_vfork,
#endif
  });
  return numbers;
}

}  // namespace penstock::trace
