// The scheduler: orders of steps, the memory that threads see of each other, and the calls of the instrumented code.
//
// Threads are contexts on one system thread, and one runs at a time. The compiler instruments the code under test as
// for the thread sanitizer (-fsanitize=thread), and this file replaces the sanitizer's library: each atomic operation
// calls it with its memory order, each other load and store with its address. Locks, futex calls, yields and pauses are
// redirected here at link time (CMakeLists.txt).
//
// Orders. Before each of these operations there is a choice: this thread continues, or another one does. The choices
// of one order, as numbers, suffice to repeat it. The search is depth-first over them, and counts an order's deviations
// from the plain one (choice 0); choices that exceed the bound are not offered.
//
// Memory. All stores to an atomic variable are kept, with the vector clocks of their threads. A load may return any
// store that the language allows: none that was overwritten before an event that the thread has seen, none older than
// one it saw before, and, if it is seq_cst itself, none older than the last seq_cst store. So a too weak memory order
// shows as an old value, or as a race: two unordered accesses to non-atomic memory, one of them a store. Freeing memory
// counts as a store to all of it, and it is not reused in this order. The check of a futex call, before it sleeps, is a
// seq_cst load, and sees everything that threads did before they woke this futex.
//
// Differences from the language: a seq_cst fence joins the thread's clock with those of earlier fences,
// compare_exchange_weak does not fail spuriously, and consume is acquire.

#include "scheduler.h"

#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "os/futex.h"

extern "C" const char __executable_start;  // the program's first address, from the linker

namespace penstock::schedules {
namespace {

// ---------------------------------------------------------------- state

// Allocates the scheduler's own memory, which no order sees.
template <class T>
struct Own {
  using value_type = T;
  Own() = default;
  template <class U>
  Own(const Own<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(std::malloc(n * sizeof(T))); }
  void deallocate(T* at, size_t) { std::free(at); }
  bool operator==(const Own&) const { return true; }
};
template <class T>
using Vector = std::vector<T, Own<T>>;
template <class K, class V>
using HashMap =
    std::unordered_map<K, V, std::hash<K>, std::equal_to<K>, Own<std::pair<const K, V>>>;
template <class K, class V>
using OrderedMap = std::map<K, V, std::less<K>, Own<std::pair<const K, V>>>;

// 0 is the scenario itself, before and after go().
constexpr int threads_max = 5;

struct Clock {
  std::array<uint32_t, threads_max> at{};
  void join(const Clock& other) {
    for (int t = 0; t < threads_max; ++t) at[t] = std::max(at[t], other.at[t]);
  }
  bool has_seen(int thread, uint32_t time) const { return time <= at[thread]; }
};

struct Store {
  uint64_t value;
  Clock release;  // clock that an acquire of this store joins
  int thread;
  uint32_t time;
};
struct Glance {  // a thread's first sight of a store
  int thread;
  uint32_t time;
  size_t store;
};
struct Location {
  Vector<Store> stores;
  Vector<Glance> glances;
  size_t last_seq_cst = 0;
};

// The last non-atomic accesses to eight bytes.
struct Bytes {
  std::array<uint32_t, threads_max> stored{}, loaded{};
  std::array<uint8_t, threads_max> stored_mask{}, loaded_mask{};
};

struct Lock {
  bool is_held = false;
  Clock released;
};

enum class State { ready, blocked, ended, dead };

using Locals = std::array<std::byte, 256>;

struct Thread {
  ucontext_t context{};
  std::byte* stack = nullptr;
  std::function<void()> body;
  State state = State::ready;
  uint64_t awaits = 0;  // the key of a futex or lock
  bool is_timed = false;
  int waits = 0;  // number of its waits so far
  bool is_killed = false;
  Locals locals{};
  Clock clock, pending, fenced,
      visible;  // pending: for an acquire fence; fenced: by a release fence
  uint32_t time_of_seq_cst = 0;
};
constexpr size_t stack_bytes = 256 * 1024;

// The thread_local variables of the program: their place in this system thread, and their initial values. Each
// Thread has its own copy, which is swapped in while it runs.
struct ThreadLocals {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  Locals when_new{};

  bool have(const volatile void* address) const {
    const auto* const at = static_cast<const volatile std::byte*>(address);
    return at >= begin && at < begin + bytes;
  }
};

struct Mapping {
  uint64_t begin, end, file, offset;
};

// The results that the child process leaves for its parent.
struct Report {
  uint64_t orders;
  bool is_complete, is_random, does_not_repeat;
  uint32_t choices;
  uint8_t chosen[1 << 16], options[1 << 16];
  char failure[1000];
};
Report* report = nullptr;

struct Choice {
  uint8_t chosen, options;
};
constexpr uint8_t of_any = 255;  // options of a repeated line

// ---------------------------------------------------------------- the state of one order

bool is_running = false;  // go() is on
bool is_quiet = false;    // bury() is on
bool is_telling = false;  // the steps are printed
int current = 0;
int threads = 0;
std::array<Thread, threads_max> all;
ucontext_t scenario_context;
ThreadLocals locals;
HashMap<uint64_t, Location>* locations;
HashMap<uint64_t, Bytes>* bytes_of;
HashMap<uint64_t, Lock>* locks;
HashMap<uint64_t, Clock>* wakes;        // by futex: joined clocks of the threads that woke it
OrderedMap<uint64_t, uint64_t>* freed;  // begin to end
Vector<void*>* to_free;
Vector<Mapping>* mappings;
Clock fences;                      // joined clocks of seq_cst fences
Clock seq_cst_at;                  // last seq_cst store of each thread
uint64_t steps, steps_of_current;  // in all, and since the last switch of threads

Vector<Choice>* choices;
size_t depth;
int spent, deviations_max;
bool is_random;
std::mt19937_64 random_choice;

int planted_fault = 0;

[[noreturn]] void fail(const char* what, const void* address = nullptr) {
  if (report == nullptr) std::abort();
  if (address != nullptr) {
    std::snprintf(report->failure, sizeof report->failure, "%s, at %p, thread %d", what, address,
                  current - 1);
  } else {
    std::snprintf(report->failure, sizeof report->failure, "%s", what);
  }
  std::fflush(nullptr);
  _exit(1);
}

uint64_t key_of(const volatile void* address) {
  const auto at = reinterpret_cast<uint64_t>(address);
  for (const Mapping& mapping : *mappings)
    if (at >= mapping.begin && at < mapping.end)
      return (mapping.file | uint64_t{1} << 15) << 48 | (mapping.offset + (at - mapping.begin));
  return at;
}

// ---------------------------------------------------------------- choices

// Chooses one of the options; the first is the plain one and costs nothing. costs[i] is 1 for a deviation.
size_t choose(const uint8_t* costs, size_t count) {
  if (is_quiet) return 0;
  uint8_t affordable[32];
  size_t options = 0;
  for (size_t i = 0; i < count && options < sizeof affordable; ++i)
    if (is_random || spent + costs[i] <= deviations_max)
      affordable[options++] = static_cast<uint8_t>(i);
  if (options <= 1) return options == 0 ? 0 : affordable[0];
  if (depth == choices->size()) {
    uint8_t chosen = 0;
    if (is_random) {
      const bool plain = costs[1] != 0 && random_choice() % 8 != 0;
      chosen = plain ? 0 : static_cast<uint8_t>(random_choice() % options);
    }
    choices->push_back({chosen, static_cast<uint8_t>(options)});
  }
  Choice& choice = (*choices)[depth];
  if (choice.options == of_any) choice.options = static_cast<uint8_t>(options);
  if (choice.options != options || choice.chosen >= options) {
    report->does_not_repeat = true;
    fail("the scenario is not the same each time");
  }
  if (depth < sizeof report->chosen) {
    report->chosen[depth] = choice.chosen;
    report->options[depth] = choice.options;
    report->choices = static_cast<uint32_t>(depth + 1);
  }
  ++depth;
  const size_t chosen = affordable[choice.chosen];
  spent += costs[chosen];
  return chosen;
}

void switch_to(int next) {
  if (next == current) return;
  steps_of_current = 0;
  const int before = current;
  current = next;
  if (is_telling) std::fprintf(stderr, "-- thread %d\n", next - 1);
  std::memcpy(all[before].locals.data(), locals.begin, locals.bytes);
  std::memcpy(locals.begin, all[next].locals.data(), locals.bytes);
  const int kept = errno;  // each thread has its own
  ucontext_t* const from = before == 0 ? &scenario_context : &all[before].context;
  swapcontext(from, next == 0 ? &scenario_context : &all[next].context);
  errno = kept;
}

// Switches to another thread, or stays if `may_stay`. `costs_leaving`: leaving a thread that could continue is a deviation.
void pick(bool may_stay, bool costs_leaving) {
  if (++steps > 30'000) fail("it does not come to an end");
  int options[2 * threads_max];
  uint8_t costs[2 * threads_max];
  size_t count = 0;
  const auto offer = [&](int thread, uint8_t cost) {
    options[count] = thread, costs[count++] = cost;
  };
  // A thread that spins without a pause must not keep the others from running.
  const bool is_looping = ++steps_of_current > 2000;
  if (may_stay && !is_looping) offer(current, 0);
  for (int i = 1; i <= threads; ++i) {
    const int other = 1 + (std::max(current, 1) - 1 + i) % threads;
    if (other != current && all[other].state == State::ready)
      offer(other, costs_leaving && count > 0 ? 1 : 0);
  }
  if (may_stay && is_looping && count == 0) offer(current, 0);
  const bool has_ready = count > 0;
  for (int other = 1; other <= threads; ++other)
    if (other != current || !may_stay)
      if (all[other].state == State::blocked && all[other].is_timed)
        offer(other, has_ready ? 1 : 0);
  if (count == 0) {
    for (int other = 1; other <= threads; ++other)
      if (all[other].state == State::blocked) fail("all threads wait, and nobody wakes them");
    return switch_to(0);
  }
  const auto is_dead = [](const Thread& thread) { return thread.is_killed; };
  if (!has_ready && std::none_of(all.begin() + 1, all.begin() + 1 + threads, is_dead))
    fail("all threads wait, and nothing but time wakes them");
  const int next = options[choose(costs, count)];
  if (all[next].state == State::blocked) all[next].state = State::ready;  // its wait times out
  switch_to(next);
}

bool in_thread() {
  return is_running && current != 0;
}

void step() {
  if (in_thread()) pick(true, true);
}
// Runs other threads first, if there are any: this thread spins until they act.
void yield() {
  if (!in_thread()) return;
  for (int other = 1; other <= threads; ++other)
    if (other != current && all[other].state == State::ready) {
      if (++steps > 30'000) fail("it does not come to an end");
      int options[threads_max];
      uint8_t costs[threads_max];
      size_t count = 0;
      for (int i = 1; i <= threads; ++i) {
        const int next = 1 + (current - 1 + i) % threads;
        if (next != current && all[next].state == State::ready)
          options[count] = next, costs[count] = count > 0, ++count;
      }
      options[count] = current, costs[count++] = 1;
      return switch_to(options[choose(costs, count)]);
    }
  // Only threads in timed waits are left.
  for (int other = 1; other <= threads; ++other)
    if (other != current && all[other].state == State::blocked && all[other].is_timed)
      return pick(true, true);
  if (++steps > 30'000) fail("it does not come to an end");
}

void block(uint64_t key, bool is_timed) {
  Thread& self = all[current];
  self.state = State::blocked;
  self.awaits = key;
  self.is_timed = is_timed;
  ++self.waits;
  pick(false, false);
}
void wake(uint64_t key) {
  for (int t = 1; t <= threads; ++t)
    if (all[t].state == State::blocked && all[t].awaits == key) all[t].state = State::ready;
}

// ---------------------------------------------------------------- memory

uint32_t tick() {
  return ++all[current].clock.at[current];
}

bool on_own_stack(const volatile void* address) {
  const auto* const at = static_cast<const volatile std::byte*>(address);
  const std::byte* const stack = all[current].stack;
  return at >= stack && at < stack + stack_bytes;
}

bool is_acquire(int order) {
  return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
         order == __ATOMIC_SEQ_CST;
}
bool is_release(int order) {
  return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

void check_alive(const volatile void* address) {
  if (freed->empty()) return;
  const auto at = reinterpret_cast<uint64_t>(address);
  auto behind = freed->upper_bound(at);
  if (behind == freed->begin()) return;
  if (at < std::prev(behind)->second)
    fail("memory is used that was released", const_cast<const void*>(address));
}

void check_granule(const Bytes& bytes, uint8_t mask, bool is_store, const void* address) {
  const Clock& clock = all[current].clock;
  for (int t = 0; t < threads_max; ++t) {
    if (t == current) continue;
    if ((bytes.stored_mask[t] & mask) != 0 && !clock.has_seen(t, bytes.stored[t]))
      fail(is_store ? "two stores race" : "a load races with a store", address);
    if (is_store && (bytes.loaded_mask[t] & mask) != 0 && !clock.has_seen(t, bytes.loaded[t]))
      fail("a store races with a load", address);
  }
}
void access_granule(uint64_t key, uint8_t mask, bool is_store, const void* address) {
  Bytes& bytes = (*bytes_of)[key];
  check_granule(bytes, mask, is_store, address);
  const Clock& clock = all[current].clock;
  (is_store ? bytes.stored : bytes.loaded)[current] = clock.at[current];
  uint8_t& masks = (is_store ? bytes.stored_mask : bytes.loaded_mask)[current];
  masks = static_cast<uint8_t>(masks | mask);
}

void access(const void* address, size_t size, bool is_store) {
  if (!in_thread() || is_quiet || address == &errno || locals.have(address) ||
      on_own_stack(address))
    return;
  check_alive(address);
  uint64_t at = key_of(address);
  const uint64_t end = at + size;
  while (at < end) {
    const uint64_t granule = at / 8, last = std::min(end, (granule + 1) * 8);
    const auto mask = static_cast<uint8_t>(((1u << (last - at)) - 1) << at % 8);
    access_granule(granule, mask, is_store, address);
    at = last;
  }
}

// Checks an atomic load of at most eight bytes against non-atomic stores to the same memory. An acquire may precede
// initialization: its value shows that.
void check_atomic_load(const volatile void* address, size_t size, int order) {
  check_alive(address);
  if (is_quiet || is_acquire(order) || on_own_stack(address)) return;
  const uint64_t at = key_of(address);
  const auto mask = static_cast<uint8_t>(((1u << size) - 1) << at % 8);
  if (const auto plain = bytes_of->find(at / 8); plain != bytes_of->end())
    check_granule(plain->second, mask, false, const_cast<const void*>(address));
}

template <class T>
uint64_t bits_of(T value) {
  if constexpr (sizeof(T) > 8) {
    return static_cast<uint64_t>(value);
  } else {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
}

Location& location_of(const volatile void* address, uint64_t value_now) {
  Location& location = (*locations)[key_of(address)];
  if (location.stores.empty()) location.stores.push_back({value_now, all[0].clock, 0, 0});
  return location;
}

void see(Location& location, size_t store, int order) {
  Thread& self = all[current];
  location.glances.push_back({current, tick(), store});
  const Clock& release = location.stores[store].release;
  self.pending.join(release);
  if (is_acquire(order)) self.clock.join(release);
}

size_t choose_store(Location& location, int order) {
  const Thread& self = all[current];
  const size_t newest = location.stores.size() - 1;
  if (is_quiet) return newest;
  const auto must_have_seen = [&](int thread, uint32_t time) {
    return self.clock.has_seen(thread, time) || self.visible.has_seen(thread, time) ||
           (order == __ATOMIC_SEQ_CST && fences.has_seen(thread, time) && fences.at[thread] != 0);
  };
  size_t oldest = order == __ATOMIC_SEQ_CST ? location.last_seq_cst : 0;
  for (const Glance& glance : location.glances)
    if (glance.thread == current || self.clock.has_seen(glance.thread, glance.time))
      oldest = std::max(oldest, glance.store);
  for (size_t i = newest; i > oldest; --i)
    if (must_have_seen(location.stores[i].thread, location.stores[i].time)) oldest = i;
  uint8_t costs[4] = {0, 1, 1, 1};
  return newest - choose(costs, std::min<size_t>(newest - oldest + 1, 3));
}

void add_store(Location& location, uint64_t value, int order, bool continues) {
  Thread& self = all[current];
  const uint32_t time = tick();
  Store store{value, is_release(order) ? self.clock : self.fenced, current, time};
  // A read-modify-write continues the release sequence of the store that it changes.
  if (continues) store.release.join(location.stores.back().release);
  location.stores.push_back(store);
  if (order == __ATOMIC_SEQ_CST) {
    location.last_seq_cst = location.stores.size() - 1;
    seq_cst_at.at[current] = time;
  }
  tick();  // later events are not part of the release
}

void tell(const char* what, const volatile void* address, uint64_t value, int order, void* from) {
  if (is_telling && !is_quiet)
    std::fprintf(stderr, "thread %d: %s %p = %llu, order %d, at %#tx\n", current - 1, what,
                 const_cast<const void*>(address), static_cast<unsigned long long>(value), order,
                 static_cast<const char*>(from) - &__executable_start);
}

template <class T>
T load(const volatile T* address, int order, void* from) {
  if (!in_thread()) return __atomic_load_n(address, __ATOMIC_SEQ_CST);
  step();
  check_atomic_load(address, sizeof *address, order);
  Location& location = location_of(address, bits_of(__atomic_load_n(address, __ATOMIC_RELAXED)));
  const size_t store = choose_store(location, order);
  const uint64_t bits = location.stores[store].value;
  see(location, store, order);
  tell(store + 1 == location.stores.size() ? "load" : "load (old)", address, bits, order, from);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
void store(volatile T* address, T value, int order, void* from) {
  if (!in_thread()) return __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
  step();
  check_alive(address);
  Location& location = location_of(address, bits_of(__atomic_load_n(address, __ATOMIC_RELAXED)));
  add_store(location, bits_of(value), order, false);
  __atomic_store_n(address, value, __ATOMIC_RELAXED);
  tell("store", address, bits_of(value), order, from);
}

// Replaces the newest value by the result of `change`, unless that asks for no store.
template <class T, class Change>
T modify(volatile T* address, int order, int failure_order, void* from, Change change) {
  if (in_thread()) step();
  if (in_thread()) check_alive(address);
  const T before = __atomic_load_n(address, __ATOMIC_RELAXED);
  T after = before;
  const bool stores = change(after);
  if (in_thread()) {
    Location& location = location_of(address, bits_of(before));
    see(location, location.stores.size() - 1, stores ? order : failure_order);
    if (stores) add_store(location, bits_of(after), order, true);
    tell(stores ? "change" : "no change", address, bits_of(after), order, from);
  }
  if (stores) __atomic_store_n(address, after, __ATOMIC_RELAXED);
  return before;
}

// Whether the word is `expected`, for a futex call.
bool holds(const volatile uint32_t* word, uint32_t expected) {
  Location& location = location_of(word, *word);
  const size_t store = choose_store(location, __ATOMIC_SEQ_CST);
  see(location, store, __ATOMIC_RELAXED);
  return location.stores[store].value == expected;
}

void fence(int order) {
  if (!in_thread()) return;
  step();
  Thread& self = all[current];
  tick();
  if (is_acquire(order)) self.clock.join(self.pending);
  if (order == __ATOMIC_SEQ_CST) {
    self.clock.join(fences);
    self.visible.join(seq_cst_at);
    fences.join(self.clock);
  }
  if (is_release(order)) self.fenced = self.clock;
  tick();
}

// ---------------------------------------------------------------- freed memory

void release_memory(void* block) {
  if (block == nullptr) return;
  if (!in_thread()) return std::free(block);
  const size_t size = malloc_usable_size(block);
  access(block, size, true);
  const auto begin = reinterpret_cast<uint64_t>(block);
  for (const auto& [key, location] : *locations)
    if (key >= begin && key < begin + size)
      for (const Store& one : location.stores)
        if (!is_quiet && !all[current].clock.has_seen(one.thread, one.time))
          fail("memory is released that another thread may use", block);
  freed->emplace(begin, begin + size);
  to_free->push_back(block);
}

// ---------------------------------------------------------------- one order

// Finds the variables of the program, which is the first object of the list.
int find_locals(dl_phdr_info* program, size_t, void*) {
  for (const ElfW(Phdr) & part : std::span(program->dlpi_phdr, program->dlpi_phnum)) {
    if (part.p_type != PT_TLS) continue;
    if (part.p_memsz > locals.when_new.size()) fail("too many thread_local variables");
    locals.begin = static_cast<std::byte*>(program->dlpi_tls_data);
    locals.bytes = part.p_memsz;
    const auto* const image = reinterpret_cast<const std::byte*>(program->dlpi_addr + part.p_vaddr);
    std::memcpy(locals.when_new.data(), image, part.p_filesz);
  }
  return 1;
}

void run_body() {
  all[current].body();
  all[current].state = State::ended;
  // A join sees everything that this thread did.
  all[0].clock.join(all[current].clock);
  pick(false, false);
}

void clear() {
  locations->clear();
  bytes_of->clear();
  locks->clear();
  wakes->clear();
  freed->clear();
  for (void* block : *to_free) std::free(block);
  to_free->clear();
  mappings->clear();
  fences = seq_cst_at = {};
  for (Thread& thread : all) {
    thread.clock = thread.pending = thread.fenced = thread.visible = {};
    thread.body = nullptr;
    thread.is_killed = false;
  }
  threads = 0;
  steps = 0;
  current = 0;
  is_quiet = false;
}

// Waits for a process, and returns its status.
int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) != process && errno == EINTR) {
  }
  return status;
}

void run_here(const std::function<void(Run&)>& scenario) {
  clear();
  depth = 0;
  spent = 0;
  report->choices = 0;
  Run run;
  scenario(run);
  ++report->orders;
}

// Runs one order in a child process, which leaves its choices in the report.
void run_apart(const std::function<void(Run&)>& scenario) {
  const pid_t child = fork();
  if (child == 0) {
    run_here(scenario);
    _exit(0);
  }
  const int status = wait_for(child);
  if (WIFSIGNALED(status)) fail(strsignal(WTERMSIG(status)));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) _exit(1);  // the report says why
  depth = report->choices;
  if (depth == sizeof report->chosen) fail("more choices than the report has room for");
  choices->clear();
  for (size_t i = 0; i < depth; ++i) choices->push_back({report->chosen[i], report->options[i]});
}

void run_once(const Bounds& bounds, const std::function<void(Run&)>& scenario) {
  (bounds.in_processes ? run_apart : run_here)(scenario);
}

// Advances to the next order of the search; returns false if there is none.
bool advance() {
  while (!choices->empty() && choices->back().chosen + 1 >= choices->back().options)
    choices->pop_back();
  if (choices->empty()) return false;
  ++choices->back().chosen;
  return true;
}

std::string line_of(const std::string& name) {
  std::string text = name + (report->is_random ? "=r" : "=");
  size_t end = report->choices;
  while (end > 0 && report->chosen[end - 1] == 0) --end;
  // Choices other than the plain one, each preceded by the number of plain ones before it.
  for (size_t i = 0, plain = 0; i < end; ++i) {
    if (report->chosen[i] == 0) {
      ++plain;
      continue;
    }
    text += std::to_string(plain) + "." + std::to_string(report->chosen[i]) + ",";
    plain = 0;
  }
  return text;
}

void repeat(const char* line, const std::function<void(Run&)>& scenario) {
  is_random = report->is_random = *line == 'r';
  if (is_random) ++line;
  for (char* end = nullptr; *line != 0; line = *end == ',' ? end + 1 : end) {
    for (unsigned long plain = std::strtoul(line, &end, 10); plain > 0; --plain)
      choices->push_back({0, of_any});
    const unsigned long chosen = std::strtoul(end + 1, &end, 10);
    choices->push_back({static_cast<uint8_t>(chosen), of_any});
  }
  // The plain order follows.
  is_random = report->is_random;
  is_telling = true;
  random_choice.seed(0);
  run_here(scenario);
}

void run_all(const Bounds& bounds, uint64_t seed, const std::function<void(Run&)>& scenario) {
  do {
    run_once(bounds, scenario);
    if (report->orders == bounds.orders_max) break;
    // After the last choice came the plain order.
    choices->resize(std::min(depth, choices->size()));
  } while (advance());
  report->is_complete = choices->empty();
  is_random = report->is_random = true;
  for (uint64_t i = 0; i < bounds.random; ++i) {
    choices->clear();
    random_choice.seed(seed + i);
    run_once(bounds, scenario);
  }
}

uint64_t seed_of_run() {
  const char* const given = std::getenv("PENSTOCK_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device()();
}

}  // namespace

// ---------------------------------------------------------------- the interface

void Run::thread(std::function<void()> body) {
  if (threads + 1 == threads_max) fail("too many threads");
  Thread& thread = all[++threads];
  thread.body = std::move(body);
  thread.state = State::ready;
  thread.waits = 0;
  thread.locals = locals.when_new;
  if (thread.stack == nullptr) {
    void* const stack =
        mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) fail("no memory for a stack");
    thread.stack = static_cast<std::byte*>(stack);
  }
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack;
  thread.context.uc_stack.ss_size = stack_bytes;
  thread.context.uc_link = &scenario_context;
  makecontext(&thread.context, run_body, 0);
}

void Run::go() {
  all[0].clock.at[0] = 1;
  for (int t = 1; t <= threads; ++t) {
    all[t].clock = all[0].clock;
    all[t].clock.at[t] = 1;
  }
  is_running = true;
  pick(false, false);
  is_running = false;
}

void Run::kill(int thread) {
  step();
  all[thread + 1].is_killed = true;
  if (all[thread + 1].state != State::ended) all[thread + 1].state = State::dead;
}

int Run::waits(int thread) const {
  return all[thread + 1].waits;
}
bool Run::is_dead(int thread) const {
  const Thread& other = all[thread + 1];
  if (!other.is_killed) return false;
  all[current].clock.join(other.clock);
  return true;
}

void Run::bury() {
  is_quiet = is_running = true;
  for (int t = 1; t <= threads; ++t)
    if (all[t].state == State::dead) all[t].state = State::ready;
  pick(false, false);
  is_running = false;
}

Found explore(const std::string& name, const Bounds& bounds,
              const std::function<void(Run&)>& scenario) {
  const char* repeated = std::getenv("PENSTOCK_SCHEDULE");
  if (repeated != nullptr) {
    if (std::strncmp(repeated, (name + "=").c_str(), name.size() + 1) != 0) return {};
    repeated += name.size() + 1;
  }
  const uint64_t seed = seed_of_run();
  void* const shared =
      mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  report = static_cast<Report*>(shared);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&none, nullptr);  // a handler runs on the stack of its thread
    locations = new HashMap<uint64_t, Location>;
    bytes_of = new HashMap<uint64_t, Bytes>;
    locks = new HashMap<uint64_t, Lock>;
    wakes = new HashMap<uint64_t, Clock>;
    freed = new OrderedMap<uint64_t, uint64_t>;
    to_free = new Vector<void*>;
    mappings = new Vector<Mapping>;
    choices = new Vector<Choice>;
    // Reserved completely, so that its growth does not change addresses of the code under test.
    choices->reserve(sizeof report->chosen);
    dl_iterate_phdr(find_locals, nullptr);
    deviations_max = bounds.deviations;
    if (repeated != nullptr) {
      repeat(repeated, scenario);
    } else {
      run_all(bounds, seed, scenario);
    }
    _exit(0);
  }
  const int status = wait_for(child);
  Found found{.orders = report->orders,
              .is_complete = report->is_complete,
              .repeats = !report->does_not_repeat};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::string what = report->failure;
    if (what.empty())
      what = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "the process has ended";
    found.failure = what + " in order " + std::to_string(report->orders + 1) +
                    "; to see it again: PENSTOCK_SCHEDULE='" + line_of(name) + "'";
    if (planted_fault != 0)
      *found.failure += " with the planted fault " + std::to_string(planted_fault);
  } else {
    std::printf("%s: %llu orders%s\n", name.c_str(), static_cast<unsigned long long>(found.orders),
                found.is_complete ? "" : ", of more");
  }
  report = nullptr;
  munmap(shared, sizeof(Report));
  return found;
}

void require(bool condition, const char* what) {
  if (!condition) fail(what);
}
void point() {
  step();
}
void same_memory(const void* at, uint64_t bytes, uint64_t file, uint64_t offset) {
  if (mappings == nullptr) return;
  const auto begin = reinterpret_cast<uint64_t>(at);
  std::erase_if(*mappings,
                [&](const Mapping& old) { return old.begin < begin + bytes && begin < old.end; });
  mappings->push_back({begin, begin + bytes, file % (1 << 15), offset});
}
void plant(int fault) {
  planted_fault = fault;
}

}  // namespace penstock::schedules

// ---------------------------------------------------------------- calls from the compiled code

using namespace penstock::schedules;  // NOLINT

void* operator new(size_t size) {
  void* const block = std::malloc(size);
  if (block == nullptr) std::abort();
  return block;
}
void operator delete(void* block) noexcept {
  release_memory(block);
}
void operator delete(void* block, size_t) noexcept {
  release_memory(block);
}

namespace penstock::os {

static void wait_for(const std::atomic<uint32_t>& word, uint32_t expected, bool is_timed) {
  if (!in_thread()) fail("the scenario itself would wait");
  step();
  const uint64_t key = key_of(&word);
  const Clock& woken = (*wakes)[key];
  Clock& visible = all[current].visible;
  visible.join(woken);
  if (!holds(reinterpret_cast<const volatile uint32_t*>(&word), expected)) return;
  block(key, is_timed);
  visible.join(woken);
}
static void wake_all(const std::atomic<uint32_t>& word) {
  if (!in_thread()) return;
  step();
  const uint64_t key = key_of(&word);
  (*wakes)[key].join(all[current].clock);
  wake(key);
}
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected) noexcept {
  wait_for(word, expected, false);
}
void futex_wake_all(const std::atomic<uint32_t>& word) noexcept {
  wake_all(word);
}
void futex_wait_shared(const std::atomic<uint32_t>& word, uint32_t expected, uint32_t) noexcept {
  wait_for(word, expected, true);
}
void futex_wake_all_shared(const std::atomic<uint32_t>& word) noexcept {
  wake_all(word);
}

}  // namespace penstock::os

extern "C" {

bool penstock_planted(int fault) {
  return planted_fault == fault;
}
void penstock_schedule_pause() {
  yield();
}

int __real_pthread_mutex_lock(pthread_mutex_t*);
int __real_pthread_mutex_trylock(pthread_mutex_t*);
int __real_pthread_mutex_unlock(pthread_mutex_t*);
int __real_sched_yield();

int __wrap_sched_yield() {
  if (!in_thread()) return __real_sched_yield();
  yield();
  return 0;
}
int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
  if (!in_thread()) return __real_pthread_mutex_trylock(mutex);
  step();
  Lock& lock = (*locks)[key_of(mutex)];
  if (lock.is_held) return EBUSY;
  lock.is_held = true;
  all[current].clock.join(lock.released);
  return 0;
}
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (!in_thread()) return __real_pthread_mutex_lock(mutex);
  while (__wrap_pthread_mutex_trylock(mutex) != 0) block(key_of(mutex), false);
  return 0;
}
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (!in_thread()) return __real_pthread_mutex_unlock(mutex);
  Lock& lock = (*locks)[key_of(mutex)];
  if (!lock.is_held) fail("a lock is given up that nobody has");
  lock.is_held = false;
  lock.released.join(all[current].clock);
  tick();
  wake(key_of(mutex));
  return 0;
}
// One processor, so that no code spins before it waits.
unsigned __wrap__ZNSt6thread20hardware_concurrencyEv() {
  return 1;
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** at, void*) {
  access(at, sizeof *at, true);
}
void __tsan_vptr_read(void** at) {
  access(at, sizeof *at, false);
}
void __tsan_read_range(void* at, unsigned long size) {
  access(at, size, false);
}
void __tsan_write_range(void* at, unsigned long size) {
  access(at, size, true);
}
void* __tsan_memcpy(void* to, const void* from, size_t size) {
  access(from, size, false), access(to, size, true);
  return std::memcpy(to, from, size);
}
void* __tsan_memmove(void* to, const void* from, size_t size) {
  access(from, size, false), access(to, size, true);
  return std::memmove(to, from, size);
}
void* __tsan_memset(void* at, int value, size_t size) {
  access(at, size, true);
  return std::memset(at, value, size);
}
void __tsan_atomic_thread_fence(int order) {
  fence(order);
}
void __tsan_atomic_signal_fence(int) {}

#define PENSTOCK_ACCESS(size)                        \
  void __tsan_read##size(void* at) {                 \
    access(at, size, false);                         \
  }                                                  \
  void __tsan_write##size(void* at) {                \
    access(at, size, true);                          \
  }                                                  \
  void __tsan_unaligned_read##size(void* at) {       \
    access(at, size, false);                         \
  }                                                  \
  void __tsan_unaligned_write##size(void* at) {      \
    access(at, size, true);                          \
  }                                                  \
  void __tsan_read_write##size(void* at) {           \
    access(at, size, true);                          \
  }                                                  \
  void __tsan_unaligned_read_write##size(void* at) { \
    access(at, size, true);                          \
  }
PENSTOCK_ACCESS(1)
PENSTOCK_ACCESS(2)
PENSTOCK_ACCESS(4)
PENSTOCK_ACCESS(8)
PENSTOCK_ACCESS(16)

#define PENSTOCK_CHANGE(bits, name, expression)                                                 \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t* at, uint##bits##_t with, \
                                              int order) {                                      \
    return modify(at, order, order, __builtin_return_address(0), [&](uint##bits##_t& value) {   \
      value = static_cast<uint##bits##_t>(expression);                                          \
      return true;                                                                              \
    });                                                                                         \
  }
#define PENSTOCK_ATOMIC(bits)                                                                      \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* at, int order) {        \
    return load(at, order, __builtin_return_address(0));                                           \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* at, uint##bits##_t value, int order) { \
    store(at, value, order, __builtin_return_address(0));                                          \
  }                                                                                                \
  PENSTOCK_CHANGE(bits, exchange, with)                                                            \
  PENSTOCK_CHANGE(bits, fetch_add, value + with)                                                   \
  PENSTOCK_CHANGE(bits, fetch_sub, value - with)                                                   \
  PENSTOCK_CHANGE(bits, fetch_and, value& with)                                                    \
  PENSTOCK_CHANGE(bits, fetch_or, value | with)                                                    \
  PENSTOCK_CHANGE(bits, fetch_xor, value ^ with)                                                   \
  bool __tsan_atomic##bits##_compare_exchange_strong(                                              \
      volatile uint##bits##_t* at, uint##bits##_t* expected, uint##bits##_t desired, int order,    \
      int failure) {                                                                               \
    const uint##bits##_t wanted = *expected;                                                       \
    *expected =                                                                                    \
        modify(at, order, failure, __builtin_return_address(0), [&](uint##bits##_t& value) {       \
          const bool is_equal = value == wanted;                                                   \
          if (is_equal) value = desired;                                                           \
          return is_equal;                                                                         \
        });                                                                                        \
    return *expected == wanted;                                                                    \
  }                                                                                                \
  bool __tsan_atomic##bits##_compare_exchange_weak(                                                \
      volatile uint##bits##_t* at, uint##bits##_t* expected, uint##bits##_t desired, int order,    \
      int failure) {                                                                               \
    return __tsan_atomic##bits##_compare_exchange_strong(at, expected, desired, order, failure);   \
  }
PENSTOCK_ATOMIC(8)
PENSTOCK_ATOMIC(16)
PENSTOCK_ATOMIC(32)
PENSTOCK_ATOMIC(64)

}  // extern "C"
