#include "trace/preload_watch.h"

#if PENSTOCK_HAS_PRELOAD

#include <elf.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/call_shapes.h"
#include "trace/preload/channel.h"
#include "trace/preload/functions.h"

// The library, as the build linked it, lies in this program's own file: one file to install, and
// never one of another version.
asm(R"(
.pushsection .rodata, "a"
.balign 16
.global penstock_preload_library
.hidden penstock_preload_library
penstock_preload_library:
.incbin ")" PENSTOCK_PRELOAD_LIBRARY R"("
.global penstock_preload_library_end
.hidden penstock_preload_library_end
penstock_preload_library_end:
.byte 0
.popsection
)");
extern "C" const std::byte penstock_preload_library[];
extern "C" const std::byte penstock_preload_library_end[];

namespace penstock::trace {

using namespace preload;

namespace {

using Clock = std::chrono::steady_clock;

// A thread that has claimed a slot is looked for after the first. One that has not claimed what it
// took is given up after the second. One that has, and is there, after the third: it has left its
// record by longjmp() from a signal handler. (Or was given no processor for so long: then it still
// writes, into a slot that another thread may have by now. That is why this is long.) One that is
// stopped comes back.
constexpr auto looked_for_after = std::chrono::milliseconds(20);
constexpr auto given_up_after = std::chrono::seconds(1);
constexpr auto left_after = std::chrono::seconds(10);

constexpr size_t record_bytes_max = sizeof(kernel::NameRecord);

// What a record of this kind has at least; 0: no such kind.
size_t bytes_of_kind(uint32_t kind) {
  using namespace kernel;
  switch (kind) {
    case record_file:
      return offsetof(FileRecord, names);
    case record_name:
      return offsetof(NameRecord, path);
    case record_call:
      return slot_payload_bytes;
    case record_exec:
      return sizeof(ExecRecord);
    case record_exit:
    case record_exec_begin:
    case record_exec_failed:
      return sizeof(EndRecord);
    case record_fork_begin:
    case record_fork_child:
    case record_fork_end:
      return sizeof(ForkPartRecord);
    case record_look:
      return sizeof(LookRecord);
    case record_ring_asked:
      return sizeof(RingAskedRecord);
    case record_ring_told:
      return sizeof(RingToldRecord);
    case record_ring_file:
      return sizeof(RingFileRecord);
    default:
      return 0;
  }
}

// Whether a record is what it says: it comes from a program that may have written anywhere.
bool is_whole(std::span<const std::byte> record) {
  kernel::RecordHead head;
  if (record.size() < sizeof head) return false;
  std::memcpy(&head, record.data(), sizeof head);
  const size_t least = bytes_of_kind(head.kind);
  if (least == 0 || record.size() < least) return false;
  // With its second file, or without.
  if (head.kind == kernel::record_call && record.size() != least) {
    return record.size() >= sizeof(kernel::CallRecord);
  }
  if (head.kind == kernel::record_file) {
    const auto& file = *reinterpret_cast<const kernel::FileRecord*>(record.data());
    return record.size() >= least + file.length;
  }
  if (head.kind == kernel::record_name) {
    const auto& name = *reinterpret_cast<const kernel::NameRecord*>(record.data());
    return record.size() >= least + name.length + name.folder_bytes;
  }
  return true;
}

// Of /proc/ID/stat, what stands behind the program's name; empty: there is no such thread.
std::string stat_of(int32_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return {};
  const size_t at = text.rfind(") ");
  return at == std::string::npos ? "" : text.substr(at + 2);
}

enum class ThreadIs { gone, stopped, there };
ThreadIs look_for(int32_t thread) {
  const std::string stat = stat_of(thread);
  if (stat.empty()) return ThreadIs::gone;
  const char state = stat[0];
  if (state == 'Z' || state == 'X') return ThreadIs::gone;
  return state == 'T' || state == 't' ? ThreadIs::stopped : ThreadIs::there;
}

// Where execvp() finds a program; empty: nowhere, which it will say itself.
std::string find_program(const std::string& name) {
  if (name.contains('/')) return name;
  const char* path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "/bin:/usr/bin" : path;
  while (true) {
    const std::string_view folder = left.substr(0, left.find(':'));
    const std::string found = (folder.empty() ? "." : std::string(folder)) + "/" + name;
    struct stat status = {};
    if (::access(found.c_str(), X_OK) == 0 && ::stat(found.c_str(), &status) == 0 &&
        S_ISREG(status.st_mode)) {
      return found;
    }
    if (folder.size() == left.size()) return {};
    left.remove_prefix(folder.size() + 1);
  }
}

// A program that runs with more rights than ours finds no LD_PRELOAD.
bool has_other_rights(const std::string& path, const struct stat& status) {
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::geteuid()) return true;
  // (Without the right to be run by the group, the bit means something else.)
  if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 &&
      status.st_gid != ::getegid()) {
    return true;
  }
  return ::geteuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// Why a program cannot carry the library; empty: it can, or it cannot run at all.
std::string why_not(const std::string& path, int links = 0) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4096> start{};
  file.read(start.data(), start.size());
  const auto bytes = static_cast<size_t>(file.gcount());
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && has_other_rights(path, status)) {
    return "run with another user's rights";
  }
  if (bytes > 2 && start[0] == '#' && start[1] == '!') {
    std::string_view line(start.data() + 2, bytes - 2);
    line = line.substr(0, line.find('\n'));
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos || links > 4) return {};
    line.remove_prefix(begin);
    return why_not(std::string(line.substr(0, line.find_first_of(" \t"))), links + 1);
  }
  if (bytes < sizeof(Elf64_Ehdr) || std::memcmp(start.data(), ELFMAG, SELFMAG) != 0) return {};
  Elf64_Ehdr header;
  std::memcpy(&header, start.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) {
    return "of another kind of machine";
  }
  bool is_static = true, is_go = false, is_musl = false;
  const auto text_of = [&](const Elf64_Phdr& segment) {
    std::string text(std::min<uint64_t>(segment.p_filesz, 65536), '\0');
    file.clear();
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    return text;
  };
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const size_t at = header.e_phoff + i * sizeof segment;
    if (at + sizeof segment > bytes) return {};
    std::memcpy(&segment, start.data() + at, sizeof segment);
    if (segment.p_type == PT_INTERP) {
      is_static = false;
      is_musl = text_of(segment).contains("/ld-musl");
    } else if (segment.p_type == PT_NOTE) {
      const std::string notes = text_of(segment);
      is_go |= has_note_of_go(reinterpret_cast<const uint8_t*>(notes.data()), notes.size());
    }
  }
  if (is_static) return "static";
  return is_go ? "of Go" : is_musl ? "of musl libc" : "";
}

// Memory by a descriptor, which others find in our /proc.
struct Memory {
  int descriptor = -1;
  ~Memory() {
    if (descriptor >= 0) ::close(descriptor);
  }
  Status make(const char* name, uint64_t bytes) {
    descriptor = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    // Nobody may cut it off under us: to touch what is gone would be our end (SIGBUS).
    if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 ||
        ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
      return system_error(errno, "make memory for a trace", std::to_string(bytes) + " bytes",
                          "a smaller --ring");
    }
    return {};
  }
  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor);
  }
};

}  // namespace

struct PreloadWatch::State {
  Memory channel, library;
  std::byte* mapped = nullptr;
  size_t mapped_bytes = 0;
  uint64_t head = 0;  // the next number to be read
  Clock::time_point stuck_since{};
  bool is_stuck = false;
  uint64_t stuck_end = 0;  // numbers before it were taken, and had a slot, when we got stuck
  uint64_t skipped = 0;
  std::unordered_map<uint64_t, std::vector<std::byte>> parts;  // by the number of the first slot
  alignas(8) std::array<std::byte, sizeof(kernel::CallRecord)> record{};

  Control& control() const { return *reinterpret_cast<Control*>(mapped); }
  Slot& slot(uint64_t number) const {
    return reinterpret_cast<Slot*>(mapped + slots_at)[number & (slots - 1)];
  }
  uint64_t slots = 0;

  ~State() {
    if (mapped == nullptr) return;
    __atomic_store_n(&control().is_over, 1, __ATOMIC_RELEASE);
    wake_writers();
    ::munmap(mapped, mapped_bytes);
  }

  Status open(uint64_t ring_bytes) {
    slots = std::bit_floor(std::max<uint64_t>(ring_bytes / sizeof(Slot), 16));
    mapped_bytes = slots_at + slots * sizeof(Slot);
    if (Status made = channel.make("penstock-trace", mapped_bytes); !made) return made;
    const auto library_bytes =
        static_cast<size_t>(penstock_preload_library_end - penstock_preload_library);
    if (Status made = library.make("libpenstock-trace.so", library_bytes); !made) return made;
    if (::pwrite(library.descriptor, penstock_preload_library, library_bytes, 0) !=
        static_cast<ssize_t>(library_bytes)) {
      return system_error(errno, "make memory for the library", "preload");
    }
    void* at =
        ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, channel.descriptor, 0);
    if (at == MAP_FAILED) return system_error(errno, "map the memory of a trace", "preload");
    mapped = static_cast<std::byte*>(at);
    Control& c = control();
    c.version = channel_version;
    c.slots = static_cast<uint32_t>(slots);
    c.capture = ::getpid();
    c.identities = 1;  // 1 stands for "known, but no descriptor"
    fill_settings(c.settings, true);
    // What the kernel's programs see of io_urings from inside, the library sees at these calls.
    for (const auto number : {SYS_io_uring_enter, SYS_io_uring_register}) {
      c.settings.calls[number].what = kernel::call_watched;
    }
    return {};
  }

  void wake_writers() {
    Control& c = control();
    __atomic_fetch_add(&c.freed, 1, __ATOMIC_SEQ_CST);
    ::syscall(SYS_futex, &c.freed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  // The slot is free for the number that is one round later.
  bool free_slot(Slot& freed, uint64_t word) {
    const uint64_t next = slot_word(head + slots, 0, slot_free);
    if (!__atomic_compare_exchange_n(&freed.word, &word, next, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_RELAXED)) {
      return false;
    }
    ++head;
    // Many may have been killed at once, while they waited for room: they are waited for together.
    is_stuck = is_stuck && head < stuck_end;
    constexpr uint64_t woken_at_once = 256;
    if (head % std::min(woken_at_once, slots) == 0) wake_if_waited_for();
    return true;
  }
  // The partner is a writer, which says that it waits before it looks at its slot again.
  void wake_if_waited_for() {
    if (__atomic_load_n(&control().waiting, __ATOMIC_SEQ_CST) != 0) wake_writers();
  }

  // The slot at the head is not full, though its number was taken. Whether it is skipped.
  bool skip(Slot& hole, uint64_t word) {
    const auto now = Clock::now();
    if (!is_stuck) {
      is_stuck = true;
      stuck_since = now;
      stuck_end = std::min(__atomic_load_n(&control().tail, __ATOMIC_RELAXED), head + slots);
      return false;
    }
    const auto waited = now - stuck_since;
    if (waited < looked_for_after) return false;
    if (state_of_word(word) != slot_claimed) {
      if (waited < given_up_after) return false;
    } else {
      const ThreadIs found = look_for(thread_of_word(word));
      if (found == ThreadIs::stopped || (found == ThreadIs::there && waited < left_after)) {
        return false;
      }
    }
    if (!free_slot(hole, word)) return false;
    ++skipped;
    // A record with a hole is never whole. (Whose writer was only slow, is so after some rounds.)
    constexpr uint64_t rounds = 64;
    std::erase_if(parts, [&](const auto& part) { return part.first + rounds * slots < head; });
    return true;
  }

  void read(const Slot& full, const std::function<void(std::span<const std::byte>)>& take) {
    // Read once: it is the program's memory as well.
    const uint64_t first = __atomic_load_n(&full.first, __ATOMIC_RELAXED);
    const size_t bytes = __atomic_load_n(&full.bytes, __ATOMIC_RELAXED);
    if (bytes <= slot_payload_bytes) {
      std::memcpy(record.data(), full.payload, slot_payload_bytes);
      const std::span<const std::byte> whole(record.data(), bytes);
      if (is_whole(whole)) take(whole);
      return;
    }
    if (bytes > record_bytes_max || first > head) return;
    std::vector<std::byte>& part = parts[first];
    const size_t more = std::min(bytes - std::min(bytes, part.size()), slot_payload_bytes);
    const auto* from = reinterpret_cast<const std::byte*>(full.payload);
    part.insert(part.end(), from, from + more);
    if (part.size() < bytes) return;
    if (is_whole(part)) take(part);
    parts.erase(first);
  }
};

PreloadWatch::PreloadWatch(std::unique_ptr<State> state) : state_(std::move(state)) {}
PreloadWatch::~PreloadWatch() = default;

Result<std::unique_ptr<PreloadWatch>> PreloadWatch::open(uint64_t ring_bytes) {
  auto state = std::make_unique<State>();
  if (Status opened = state->open(ring_bytes); !opened) return std::unexpected(opened.error());
  return std::unique_ptr<PreloadWatch>(new PreloadWatch(std::move(state)));
}

Status PreloadWatch::check(const std::string& program) {
  const std::string path = find_program(program);
  const std::string why = path.empty() ? "" : why_not(path);
  if (why.empty()) return {};
  return failure(ErrorCode::unsupported, "put a library into a program that is " + why, program,
                 "the ptrace backend");
}

uint64_t PreloadWatch::begin_of(int32_t process) {
  std::istringstream words(stat_of(process));
  std::string word;
  constexpr int words_before = 19;
  for (int i = 0; i < words_before; ++i) words >> word;
  uint64_t ticks = 0;
  return words >> ticks ? ticks : 0;
}

PreloadWatch::Environment::Environment(const PreloadWatch& watch) {
  const State& state = *watch.state_;
  const char* before = std::getenv("LD_PRELOAD");
  had_preload_ = before != nullptr;
  if (had_preload_) preload_before_ = before;
  const std::string library = state.library.path();
  ::setenv("LD_PRELOAD",
           (preload_before_.empty() ? library : library + ":" + preload_before_).c_str(), 1);
  const std::string name(environment_name, sizeof environment_name - 2);  // without the "="
  ::setenv(name.c_str(), (state.channel.path() + " " + library + " ").c_str(), 1);
}

PreloadWatch::Environment::~Environment() {
  if (had_preload_) {
    ::setenv("LD_PRELOAD", preload_before_.c_str(), 1);
  } else {
    ::unsetenv("LD_PRELOAD");
  }
  ::unsetenv(std::string(environment_name, sizeof environment_name - 2).c_str());
}

PreloadWatch::Drained PreloadWatch::drain(
    const std::function<void(std::span<const std::byte>)>& take) {
  constexpr uint64_t drained_at_once = uint64_t{1} << 17;
  State& s = *state_;
  const uint64_t head_before = s.head;
  Drained drained = Drained::some;
  for (uint64_t i = 0; i < drained_at_once; ++i) {
    Slot& next = s.slot(s.head);
    // The acquire is the partner of publish()'s release: what it holds is there.
    const uint64_t word = __atomic_load_n(&next.word, __ATOMIC_ACQUIRE);
    if (number_of_word(word) == s.head && state_of_word(word) == slot_full) {
      s.read(next, take);
      s.free_slot(next, word);
      continue;
    }
    if (s.head == __atomic_load_n(&s.control().tail, __ATOMIC_ACQUIRE)) {
      drained = Drained::all;
      s.is_stuck = false;
      break;
    }
    if (!s.skip(next, word)) {
      drained = Drained::waits;
      break;
    }
  }
  s.wake_if_waited_for();
  // Who fills a quarter of the ring while we look elsewhere will fill all of it while we sleep.
  if (drained == Drained::all && (s.head - head_before) * 4 >= s.slots) drained = Drained::some;
  return drained;
}

void PreloadWatch::give_up() {
  State& s = *state_;
  const uint64_t tail = __atomic_load_n(&s.control().tail, __ATOMIC_ACQUIRE);
  s.skipped += tail - s.head;
  s.head = tail;
}

PreloadWatch::Counted PreloadWatch::counted() const {
  const auto read = [](const uint64_t& counter) {
    return __atomic_load_n(&counter, __ATOMIC_RELAXED);
  };
  const Control& c = state_->control();
  return {.calls = {.lost = read(c.counters.lost) + state_->skipped,
                    .failed_calls = read(c.counters.failed_calls),
                    .stream_calls = read(c.counters.stream_calls),
                    .other_requests = read(c.counters.other_requests)},
          .unknown_sharing = read(c.unknown_sharing),
          .untaken_images = read(c.untaken_images),
          .unseen_rings = read(c.unseen_rings)};
}

}  // namespace penstock::trace

#else  // PENSTOCK_HAS_PRELOAD

namespace penstock::trace {

struct PreloadWatch::State {};
PreloadWatch::PreloadWatch(std::unique_ptr<State> state) : state_(std::move(state)) {}
PreloadWatch::~PreloadWatch() = default;
Result<std::unique_ptr<PreloadWatch>> PreloadWatch::open(uint64_t) {
  return failure(ErrorCode::unsupported, "put a library into programs of this kind of machine",
                 "preload", "x86-64, or the ptrace backend");
}
Status PreloadWatch::check(const std::string&) {
  return {};
}
uint64_t PreloadWatch::begin_of(int32_t) {
  return 0;
}
PreloadWatch::Environment::Environment(const PreloadWatch&) : had_preload_(false) {}
PreloadWatch::Environment::~Environment() = default;
PreloadWatch::Drained PreloadWatch::drain(const std::function<void(std::span<const std::byte>)>&) {
  return Drained::all;
}
void PreloadWatch::give_up() {}
PreloadWatch::Counted PreloadWatch::counted() const {
  return {};
}

}  // namespace penstock::trace

#endif  // PENSTOCK_HAS_PRELOAD
