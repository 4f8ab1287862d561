#include <linux/mman.h>

#include "trace/preload/library.h"
#include "trace/preload/raw_calls.h"

// What the process and its threads know. Plain memory: a child by fork() has a copy, as it has one
// of the descriptors. A child by vfork() has its own descriptors and its parent's memory; it gets a
// table of its own, until its parent goes on.

namespace penstock::trace::preload {

Control* control = nullptr;
__thread ThreadState this_thread;

// The entry (entry_linux.cc) looks here.
extern "C" {
extern bool penstock_trace_interest[kernel::calls_max] __attribute__((visibility("hidden")));
bool penstock_trace_interest[kernel::calls_max];
}

namespace {

Entry entries[entries_max];
int32_t entries_used = 0;  // all behind are clear

// Emptied by the kernel in a child by fork(), however it was made: so we see that we are another
// process, without asking each time.
int32_t* process_page = nullptr;

template <class Item, size_t items_max>
class Pool {
 public:
  Item* take() {
    for (size_t i = 0; i < items_max; ++i) {
      if (__atomic_exchange_n(&is_taken_[i], true, __ATOMIC_ACQUIRE)) continue;
      return &items_[i];
    }
    return nullptr;
  }
  void give_back(Item* item) {
    __atomic_store_n(&is_taken_[item - items_], false, __ATOMIC_RELEASE);
  }
  void forget() {
    for (bool& is_taken : is_taken_) is_taken = false;
  }

 private:
  bool is_taken_[items_max];
  Item items_[items_max];
};

struct VforkEntries {
  Entry entries[entries_of_vfork_child];
};
Pool<VforkEntries, 8> vfork_pool;
Pool<Scratch, 8> scratch_pool;

using ClockCall = int (*)(int, void*);
ClockCall clock_call = nullptr;

// The function of that name in the code that the kernel maps into each process.
ClockCall find_in_vdso(const uint8_t* image, const char* name) {
  const auto u64 = [](const uint8_t* at) {
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
  };
  const auto u16 = [](const uint8_t* at) { return static_cast<uint32_t>(at[0] | at[1] << 8); };
  const auto u32 = [&](const uint8_t* at) { return u16(at) | u16(at + 2) << 16; };
  // An ELF file of 64 bits: its segments, then its dynamic section.
  const uint8_t* header = image + u64(image + 32);
  const uint8_t* dynamic = nullptr;
  uint64_t base = 0;
  bool has_base = false;
  for (uint32_t i = 0; i < u16(image + 56); ++i, header += 56) {
    if (u32(header) == 1 && !has_base) {  // PT_LOAD
      base = address_of(image) + u64(header + 8) - u64(header + 16);
      has_base = true;
    } else if (u32(header) == 2) {  // PT_DYNAMIC
      dynamic = image + u64(header + 8);
    }
  }
  if (!has_base || dynamic == nullptr) return nullptr;
  uint64_t names = 0, symbols = 0;
  for (; u64(dynamic) != 0; dynamic += 16) {
    if (u64(dynamic) == 5) names = base + u64(dynamic + 8);    // DT_STRTAB
    if (u64(dynamic) == 6) symbols = base + u64(dynamic + 8);  // DT_SYMTAB
  }
  // The names stand behind the symbols: so many there are.
  for (uint64_t at = symbols; symbols != 0 && at + 24 <= names; at += 24) {
    const auto* symbol = reinterpret_cast<const uint8_t*>(at);
    const auto* found = reinterpret_cast<const char*>(names + u32(symbol));
    const char* wanted = name;
    while (*wanted != 0 && *wanted == *found) {
      ++wanted;
      ++found;
    }
    if (*wanted == 0 && *found == 0 && u64(symbol + 8) != 0) {
      return reinterpret_cast<ClockCall>(base + u64(symbol + 8));
    }
  }
  return nullptr;
}

}  // namespace

bool start_state() {
  const int64_t page = raw_call(__NR_mmap, 0, 4096, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0);
  if (page < 0) return false;
  constexpr uint64_t wipe_on_fork = 18;  // MADV_WIPEONFORK, Linux 4.14
  if (raw_call(__NR_madvise, static_cast<uint64_t>(page), 4096, wipe_on_fork) < 0) return false;
  process_page = reinterpret_cast<int32_t*>(page);
  for (uint32_t i = 0; i < kernel::calls_max; ++i) {
    penstock_trace_interest[i] = control->settings.calls[i].what != 0;
  }
  constexpr int of_processes[] = {__NR_clone,  __NR_fork,     __NR_vfork,     __NR_clone3,
                                  __NR_execve, __NR_execveat, __NR_exit_group};
  for (const int number : of_processes) penstock_trace_interest[number] = true;
  return true;
}

bool is_of_interest(uint32_t number) {
  return number < kernel::calls_max && penstock_trace_interest[number];
}

int32_t process_id() {
  if (this_thread.vfork_process != 0) return this_thread.vfork_process;
  int32_t id = __atomic_load_n(process_page, __ATOMIC_RELAXED);
  if (id != 0) return id;
  id = static_cast<int32_t>(raw_call(__NR_getpid));
  this_thread.thread = 0;
  __atomic_store_n(process_page, id, __ATOMIC_RELAXED);
  return id;
}

int32_t thread_id() {
  if (this_thread.thread == 0) this_thread.thread = static_cast<int32_t>(raw_call(__NR_gettid));
  return this_thread.thread;
}

void forget_ids() {
  this_thread.thread = 0;
  if (this_thread.vfork_process == 0) *process_page = 0;
}

Entry* entry_of(int32_t descriptor) {
  if (this_thread.vfork_entries != nullptr) {
    return descriptor >= 0 && descriptor < entries_of_vfork_child
               ? &this_thread.vfork_entries[descriptor]
               : nullptr;
  }
  if (descriptor < 0 || descriptor >= entries_max) return nullptr;
  // Another thread may make it larger than this at the same time: then the larger number stays.
  int32_t used = __atomic_load_n(&entries_used, __ATOMIC_RELAXED);
  while (descriptor >= used &&
         !__atomic_compare_exchange_n(&entries_used, &used, descriptor + 1, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return &entries[descriptor];
}

int32_t entries_end() {
  return this_thread.vfork_entries != nullptr ? entries_of_vfork_child
                                              : __atomic_load_n(&entries_used, __ATOMIC_RELAXED);
}

void clear_entries(int32_t first, int32_t last) {
  const int32_t end = entries_end();
  for (int32_t i = first < 0 ? 0 : first; i <= last && i < end; ++i) {
    Entry* entry = entry_of(i);
    __atomic_store_n(&entry->knowledge, uint32_t{not_looked}, __ATOMIC_RELAXED);
    entry->place = 0;
  }
}

Entry* take_vfork_entries() {
  VforkEntries* made = vfork_pool.take();
  if (made == nullptr) return nullptr;
  const int32_t end = entries_used < entries_of_vfork_child ? entries_used : entries_of_vfork_child;
  for (int32_t i = 0; i < entries_of_vfork_child; ++i) {
    made->entries[i] = i < end ? entries[i] : Entry{};
  }
  return made->entries;
}

void give_back_vfork_entries(Entry* given) {
  if (given != nullptr) vfork_pool.give_back(reinterpret_cast<VforkEntries*>(given));
}

Scratch* take_scratch() {
  // All are taken where many threads open files at once, each for some microseconds; or for as long
  // as the ring is full. So it is waited for seconds, but not for ever: who left one by longjmp()
  // from a signal handler does not give it back. Nor in a signal handler whose own thread has one.
  constexpr int quick_tries = 1000, tries = 10000;
  struct {
    int64_t seconds = 0, nanoseconds = 1'000'000;
  } pause;
  for (int i = 0; i < tries && !is_over(); ++i) {
    if (Scratch* scratch = scratch_pool.take()) {
      ++this_thread.scratches;
      return scratch;
    }
    if (i < quick_tries) {
      raw_call(__NR_sched_yield);
    } else if (this_thread.scratches > 0) {
      break;
    } else {
      raw_call(__NR_nanosleep, address_of(&pause), 0);
    }
  }
  count(control->counters.lost);
  return nullptr;
}

void give_back_scratch(Scratch* scratch) {
  if (this_thread.scratches > 0) --this_thread.scratches;
  scratch_pool.give_back(scratch);
}

void forget_scratches() {
  this_thread.scratches = 0;
  scratch_pool.forget();
  vfork_pool.forget();
}

void find_clock(const uint64_t* auxiliary) {
  constexpr uint64_t end = 0, vdso = 33;  // AT_NULL, AT_SYSINFO_EHDR
  for (; auxiliary[0] != end; auxiliary += 2) {
    if (auxiliary[0] != vdso) continue;
    clock_call =
        find_in_vdso(reinterpret_cast<const uint8_t*>(auxiliary[1]), "__vdso_clock_gettime");
  }
}

uint64_t now_ns() {
  constexpr int monotonic = 1;
  struct {
    int64_t seconds, nanoseconds;
  } time = {};
  if (clock_call == nullptr || clock_call(monotonic, &time) != 0) {
    raw_call(__NR_clock_gettime, monotonic, address_of(&time));
  }
  return static_cast<uint64_t>(time.seconds) * 1'000'000'000u +
         static_cast<uint64_t>(time.nanoseconds);
}

}  // namespace penstock::trace::preload

// What compilers call where they copy or clear more than a little. (libc's own uses vector
// registers.)
extern "C" {
__attribute__((visibility("hidden"))) void* memcpy(void* to, const void* from, size_t bytes) {
  void* result = to;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return result;
}
__attribute__((visibility("hidden"))) void* memset(void* to, int value, size_t bytes) {
  void* result = to;
  asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
  return result;
}
}
