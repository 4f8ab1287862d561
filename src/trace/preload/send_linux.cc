#include <linux/futex.h>

#include "trace/preload/library.h"
#include "trace/preload/raw_calls.h"

// Writing to the ring: see channel.h.

namespace penstock::trace::preload {
namespace {

Slot* slots = nullptr;
uint64_t slots_mask = 0;

constexpr int64_t no_such_process = -3;    // -ESRCH
constexpr uint64_t dead_after_waits = 40;  // of 50 ms, in which nothing was freed

bool has(const uint32_t& value) {
  return __atomic_load_n(&value, __ATOMIC_RELAXED) != 0;
}

// Waits until the capture has freed slots. One that is gone (killed) frees none any more: the
// program then goes on without it. Its number is looked for only after a while, in which it did
// nothing: a process in a container of its own may see other numbers.
void wait_for_room(const Slot& slot, uint64_t word, uint64_t& waits) {
  struct {
    int64_t seconds = 0, nanoseconds = 50'000'000;
  } timeout;
  __atomic_fetch_add(&control->waiting, 1, __ATOMIC_SEQ_CST);
  const uint32_t freed = __atomic_load_n(&control->freed, __ATOMIC_SEQ_CST);
  // The partner is the capture, which frees slots before it looks at `waiting`.
  if (__atomic_load_n(&slot.word, __ATOMIC_SEQ_CST) == word) {
    raw_call(__NR_futex, address_of(&control->freed), FUTEX_WAIT, freed, address_of(&timeout));
  }
  __atomic_fetch_sub(&control->waiting, 1, __ATOMIC_RELAXED);
  if (__atomic_load_n(&control->freed, __ATOMIC_RELAXED) != freed) {
    waits = 0;
  } else if (++waits >= dead_after_waits &&
             raw_call(__NR_kill, static_cast<uint64_t>(control->capture), 0) == no_such_process) {
    __atomic_store_n(&control->is_over, 1, __ATOMIC_RELAXED);
  }
}

}  // namespace

void start_sending() {
  slots = reinterpret_cast<Slot*>(address_of(control) + slots_at);
  slots_mask = control->slots - 1;
}

bool is_over() {
  return has(control->is_over);
}

kernel::RecordHead head_of(kernel::RecordKind kind) {
  const int32_t process = process_id();  // (which may find that the thread is another)
  return {.kind = kind, .lost = 0, .process = process, .thread = thread_id()};
}

Slot* claim(uint64_t& number) {
  if (is_over()) return nullptr;
  number = __atomic_fetch_add(&control->tail, 1, __ATOMIC_RELAXED);
  Slot& slot = slots[number & slots_mask];
  uint64_t free = slot_word(number, 0, slot_free), waits = 0;
  if (number <= slots_mask) free = slot_never_used;
  while (true) {
    const uint64_t word = __atomic_load_n(&slot.word, __ATOMIC_ACQUIRE);
    if (word == free) break;
    if (number_of_word(word) > number) break;  // we were given up
    wait_for_room(slot, word, waits);
    if (is_over()) return nullptr;
  }
  // The acquire is the partner of the capture's release: it has read what was there.
  if (!__atomic_compare_exchange_n(
          &slot.word, &free, slot_word(number, static_cast<uint64_t>(thread_id()), slot_claimed),
          false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    return nullptr;  // it has counted us as lost
  }
  return &slot;
}

void publish(Slot& slot, uint64_t number) {
  uint64_t claimed = slot_word(number, static_cast<uint64_t>(thread_id()), slot_claimed);
  const uint64_t full = claimed ^ slot_claimed ^ slot_full;
  // (It fails for one that was taken for dead, which only happens in containers of their own.)
  (void)__atomic_compare_exchange_n(&slot.word, &claimed, full, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
}

void send(const void* record, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(record);
  uint64_t first = 0;
  for (size_t at = 0; at < bytes; at += slot_payload_bytes) {
    uint64_t number = 0;
    Slot* slot = claim(number);
    if (slot == nullptr) return;
    if (at == 0) first = number;
    const size_t left = bytes - at;
    const size_t part = left < slot_payload_bytes ? left : slot_payload_bytes;
    __builtin_memcpy(slot->payload, from + at, part);
    slot->first = first;
    slot->bytes = static_cast<uint32_t>(bytes);
    publish(*slot, number);
  }
}

}  // namespace penstock::trace::preload
