#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/stat.h>

#include "trace/preload/functions.h"
#include "trace/preload/instructions.h"
#include "trace/preload/library.h"
#include "trace/preload/raw_calls.h"

// Taking over the system calls in the code of a program.
//
// The naive way puts functions of our own before libc's: open(), read(), write(). But libc's stdio
// calls its own inner read(), which no preloaded function stands before: GNU sort would be
// invisible. The way that misses nothing lets the kernel send a signal at each call (Syscall User
// Dispatch): 2 to 4 us a call. So we change the code itself. `syscall` has two bytes, a jump to
// code of ours needs five: some of its neighbours have to go with it, and are done in our code.
//
//     mov $17,%eax                   jump ---------------> mov $17,%eax
//     syscall              becomes   (syscall: not reached)  ... what we do ...
//     cmp $-4096,%rax                cmp $-4096,%rax <------ jump
//
// Most often (436 of 526 in Debian 12's libc) the number of the call is set right before it, as
// here: seven bytes that are no accident inside of something else. Then only numbers that are of
// interest are taken over; all others stay as they are and cost nothing.
//
// Elsewhere we have to know where instructions begin, and who jumps where. The tables for
// exceptions say where functions begin and end (functions.h); from its beginning a function is
// followed instruction by instruction (instructions.h). The neighbours must be such that do the
// same at any place, and nothing may jump between them. Where there is no such table, only a
// comparison with the errors' first number behind the call is trusted.
//
// What cannot be taken over stays untraced: in Debian 12's libc and loader there is nothing of
// that.
//
// For each place there is a piece of our own code, within 2 GiB of it:
//
//     neighbours before it
//     r11 = the place behind         free: the kernel overwrites rcx and r11
//     rsp -= 128, push r11           over what the program may use below its stack
//     call entry                     -> rcx
//     rsp += 136
//     rcx == 0 ?  go to done
//     rcx == 1 ?  syscall, go to done        with all registers and the stack as they were: clone()
//     syscall, call after                    may come back on another stack, vfork() twice
//   done:
//     neighbours behind it
//     jump back

namespace penstock::trace::preload {
namespace {

constexpr uint64_t page_bytes = 4096;
constexpr size_t jump_bytes = 5;
constexpr size_t neighbours_max = 32;  // bytes, before and behind
constexpr size_t piece_bytes = 112;    // of code of ours for one place: 67 and its neighbours
constexpr size_t sites_at_once = 1024;

// Code of a file as it lies in memory: at address `begin`. `bytes` is what the file has.
struct Code {
  const uint8_t* bytes;
  uint64_t begin;
  uint64_t size;
  Functions functions;
};

// As offsets into the code: begin <= call < call + 2 <= back.
struct Site {
  uint64_t begin;     // of what is replaced
  uint64_t call;      // the syscall
  uint64_t back;      // where the program goes on
  bool needs_search;  // for jumps from other functions
};

uint32_t number_at(const uint8_t* at) {
  uint32_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

uint64_t eight_at(const uint8_t* at) {
  uint64_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

// Most code is passed over eight bytes at a time. The lowest bit that is set belongs to the first
// byte that is this one (others may be wrong).
uint64_t bytes_that_are(uint64_t eight, uint8_t byte) {
  constexpr uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
  const uint64_t differs = eight ^ ones * byte;
  return (differs - ones) & ~differs & tops;
}

// The number that is set right before a call: how many bytes that takes; 0: it is not.
size_t number_before(const Code& code, uint64_t call, uint32_t& number) {
  constexpr uint32_t numbers_max = 1024;
  const uint8_t* at = code.bytes + call;
  if (call < 7) return 0;
  number = number_at(at - 4);
  if (number >= numbers_max) return 0;
  if (at[-7] == 0x48 && at[-6] == 0xc7 && at[-5] == 0xc0) return 7;
  // With a byte 4x before it, it may be a mov to another register.
  return at[-5] == 0xb8 && (at[-6] & 0xf0) != 0x40 ? 5 : 0;
}

// The comparison of an answer with the errors' first number: its length, or 0.
size_t comparison_bytes(const Code& code, uint64_t from) {
  if (from + 6 > code.size) return 0;
  const uint8_t* at = code.bytes + from;
  const size_t ahead = at[0] == 0x48 ? 1 : 0;  // of 64 bits
  if (at[ahead] != 0x3d) return 0;
  const uint32_t value = number_at(at + ahead + 1);
  return value == 0xfffff000 || value == 0xfffff001 ? ahead + 5 : 0;
}

// What a function has around one of its system calls.
struct Surroundings {
  struct Neighbour {
    uint64_t at;
    Instruction instruction;
  };
  Neighbour before[3];  // the nearest first
  size_t before_found = 0;
  Neighbour behind[4];
  size_t behind_found = 0;
  uint64_t targets[64];  // of jumps that lead near it
  size_t targets_found = 0;
  bool is_call = false;  // it is an instruction of the function
};

bool follow_function(const Code& code, uint64_t begin, uint64_t end, uint64_t call,
                     Surroundings& found) {
  for (uint64_t at = begin; at < end;) {
    const Instruction instruction = decode(code.bytes + at, end - at);
    if (instruction.bytes == 0) return false;
    const uint64_t next = at + instruction.bytes;
    if (instruction.has_target) {
      const uint64_t target = next + static_cast<uint64_t>(instruction.target);
      if (target + neighbours_max > call && target < call + neighbours_max) {
        if (found.targets_found == 64) return false;
        found.targets[found.targets_found++] = target;
      }
    }
    if (at == call) {
      found.is_call = true;
    } else if (at < call) {
      found.before[2] = found.before[1];
      found.before[1] = found.before[0];
      found.before[0] = {at, instruction};
      if (found.before_found < 3) ++found.before_found;
    } else if (found.behind_found < 4) {
      found.behind[found.behind_found++] = {at, instruction};
    }
    at = next;
  }
  return found.is_call;
}

bool is_jumped_into(const Surroundings& found, const Site& site) {
  for (size_t i = 0; i < found.targets_found; ++i) {
    if (found.targets[i] > site.begin && found.targets[i] < site.back) return true;
  }
  return false;
}

// Of a call in a function: as few neighbours as will do, those before it first.
bool choose_neighbours(const Surroundings& found, uint64_t call, Site& site) {
  for (size_t before = 0; before <= found.before_found; ++before) {
    for (size_t behind = 0; behind <= found.behind_found; ++behind) {
      site = {call, call, call + 2, true};
      bool is_possible = true;
      for (size_t i = 0; i < before; ++i) {
        is_possible &= found.before[i].instruction.is_movable;
        site.begin = found.before[i].at;
      }
      for (size_t i = 0; i < behind; ++i) {
        is_possible &= found.behind[i].instruction.is_movable;
        site.back += found.behind[i].instruction.bytes;
      }
      if (is_possible && site.back - site.begin >= jump_bytes &&
          site.back - site.begin <= neighbours_max && !is_jumped_into(found, site)) {
        return true;
      }
    }
  }
  return false;
}

// Where there is no table of functions: whether anything, instruction or not, looks like a jump
// from nearby.
bool seems_jumped_into(const Code& code, const Site& site) {
  const uint64_t first = site.begin < 130 ? 0 : site.begin - 130;
  const uint64_t last = site.back + 130 < code.size ? site.back + 130 : code.size - 2;
  for (uint64_t at = first; at < last; ++at) {
    const uint8_t byte = code.bytes[at];
    if ((byte & 0xf0) != 0x70 && byte != 0xeb && (byte & 0xfc) != 0xe0) continue;
    const uint64_t target = at + 2 + static_cast<uint64_t>(static_cast<int8_t>(code.bytes[at + 1]));
    if (target > site.begin && target < site.back) return true;
  }
  return false;
}

// Whether `syscall` at this offset can be taken over, and is of interest.
bool find_site(const Code& code, uint64_t call, Site& site) {
  uint32_t number = 0;
  if (const size_t bytes = number_before(code, call, number); bytes > 0) {
    site = {call - bytes, call, call + 2, false};
    return is_of_interest(number);
  }
  uint64_t begin = 0, end = 0;
  if (code.functions.find(call, begin, end) && end <= code.size) {
    Surroundings found;
    return follow_function(code, begin, end, call, found) && choose_neighbours(found, call, site);
  }
  const size_t comparison = comparison_bytes(code, call + 2);
  site = {call, call, call + 2 + comparison, true};
  return comparison > 0 && !seems_jumped_into(code, site);
}

// Takes those sites out into which something jumps from afar: functions have pieces elsewhere. All
// of the code is looked through, instruction or not; a table with a bit for each place where a site
// may be lets nearly all jumps pass.
void drop_targets(const Code& code, Site* sites, size_t& sites_found) {
  constexpr uint64_t bits = 8192, place_bytes = 16;
  uint64_t places[bits / 64] = {};
  const auto bit_of = [](uint64_t offset) { return offset / place_bytes % bits; };
  bool is_needed = false;
  for (size_t i = 0; i < sites_found; ++i) {
    if (!sites[i].needs_search) continue;
    is_needed = true;
    for (uint64_t at = sites[i].begin; at < sites[i].back + place_bytes; at += place_bytes) {
      places[bit_of(at) / 64] |= uint64_t{1} << bit_of(at) % 64;
    }
  }
  if (!is_needed) return;
  for (uint64_t at = 1; at + 5 <= code.size; ++at) {
    const uint8_t* byte = code.bytes + at;
    if (at + 8 <= code.size) {
      const uint64_t found =
          bytes_that_are(eight_at(byte), 0xe9) | bytes_that_are(eight_at(byte - 1), 0x0f);
      if (found == 0) {
        at += 7;
        continue;
      }
      at += static_cast<uint64_t>(__builtin_ctzll(found) / 8);
      if (at + 5 > code.size) break;
      byte = code.bytes + at;
    }
    const bool is_jump = *byte == 0xe9 || ((*byte & 0xf0) == 0x80 && byte[-1] == 0x0f);
    if (!is_jump) continue;
    const uint64_t target =
        at + 5 + static_cast<uint64_t>(static_cast<int32_t>(number_at(byte + 1)));
    if ((places[bit_of(target) / 64] >> bit_of(target) % 64 & 1) == 0) continue;
    for (size_t i = 0; i < sites_found; ++i) {
      if (sites[i].needs_search && target > sites[i].begin && target < sites[i].back) {
        sites[i] = sites[--sites_found];
        break;
      }
    }
  }
}

// Memory from which a jump reaches all of it, and back.
uint64_t map_near(uint64_t begin, uint64_t end, size_t bytes) {
  constexpr uint64_t reach = uint64_t{15} << 27;  // a little less than 2 GiB
  constexpr uint64_t step = uint64_t{1} << 20;
  const auto map_at = [&](uint64_t address) {
    const int64_t got = raw_call(__NR_mmap, address, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, ~uint64_t{0});
    if (got < 0) return uint64_t{0};
    if (static_cast<uint64_t>(got) == address) return address;
    raw_call(__NR_munmap, static_cast<uint64_t>(got), bytes);  // a kernel without that flag
    return uint64_t{0};
  };
  const uint64_t low = end > reach ? end - reach : step, high = begin + reach;
  for (uint64_t at = begin & ~(step - 1); at > low + step; at -= step) {
    if (const uint64_t got = map_at(at - step)) return got;
  }
  for (uint64_t at = (end + step - 1) & ~(step - 1); at + bytes < high; at += step) {
    if (const uint64_t got = map_at(at)) return got;
  }
  return 0;
}

class Writer {
 public:
  explicit Writer(uint64_t at) : at_(at) {}
  uint64_t at() const { return at_; }
  template <class... Bytes>
  void put(Bytes... bytes) {
    ((*reinterpret_cast<uint8_t*>(at_++) = static_cast<uint8_t>(bytes)), ...);
  }
  void put4(uint64_t value) { put_copy(&value, 4); }
  void put8(uint64_t value) { put_copy(&value, 8); }
  void put_copy(const void* from, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) put(static_cast<const uint8_t*>(from)[i]);
  }
  void jump(uint64_t to) {
    put(0xe9);
    put4(to - (at_ + 4));
  }
  void call_by(uint64_t pointer_at) {
    put(0xff, 0x15);
    put4(pointer_at - (at_ + 4));
  }

 private:
  uint64_t at_;
};

// `pointers`: where the addresses of entry and after stand.
void write_piece(uint64_t at, const Code& from, const Site& site, uint64_t pointers) {
  Writer code(at);
  code.put_copy(from.bytes + site.begin, site.call - site.begin);
  code.put(0x49, 0xbb);  // movabs $behind,%r11
  code.put8(from.begin + site.call + 2);
  code.put(0x48, 0x8d, 0x64, 0x24, 0x80);  // lea -128(%rsp),%rsp
  code.put(0x41, 0x53);                    // push %r11
  code.call_by(pointers);
  code.put(0x48, 0x8d, 0xa4, 0x24);  // lea 136(%rsp),%rsp
  code.put4(136);
  code.put(0xe3, 2 + 2 + 2 + 5 + 6 + 8 + 2 + 2);  // jrcxz done
  code.put(0xff, 0xc9);                           // dec %ecx
  code.put(0x74, 2 + 5 + 6 + 8 + 2);              // jz call
  code.put(0x0f, 0x05);
  code.put(0x48, 0x8d, 0x64, 0x24, 0x80);
  code.call_by(pointers + 8);
  code.put(0x48, 0x8d, 0xa4, 0x24);  // lea 128(%rsp),%rsp
  code.put4(128);
  code.put(0xeb, 2);                                                       // jmp done
  code.put(0x0f, 0x05);                                                    // call:
  code.put_copy(from.bytes + site.call + 2, site.back - (site.call + 2));  // done:
  code.jump(from.begin + site.back);
}

// Where calls are, from `from` on: as many as there is room for. Moves `from` to where the next
// ones are.
size_t find_sites(const Code& code, uint64_t& from, Site* sites) {
  size_t found = 0;
  uint64_t at = from;
  for (; at + 2 <= code.size && found < sites_at_once; ++at) {
    if (at + 8 <= code.size) {
      const uint64_t first_bytes = bytes_that_are(eight_at(code.bytes + at), 0x0f);
      if (first_bytes == 0) {
        at += 7;
        continue;
      }
      at += static_cast<uint64_t>(__builtin_ctzll(first_bytes) / 8);
      if (at + 2 > code.size) break;
    }
    if (code.bytes[at] == 0x0f && code.bytes[at + 1] == 0x05 && find_site(code, at, sites[found])) {
      // Two calls in a row may want the same neighbour.
      if (found > 0 && sites[found].begin < sites[found - 1].back) continue;
      ++found;
    }
  }
  from = at;
  drop_targets(code, sites, found);
  return found;
}

bool equal(const CodeKey& a, const CodeKey& b) {
  return a.device == b.device && a.inode == b.inode && a.bytes == b.bytes &&
         a.changed_ns == b.changed_ns && a.offset == b.offset && a.size == b.size;
}

// The pieces for some code. Those of a file that is mapped again at the same address (a plugin that
// comes and goes) are there already; what was unmapped is otherwise never known, and stays.
struct Pieces {
  CodeKey key;
  uint64_t begin;  // of the code
  uint64_t first_site;
  uint64_t at;
};

uint64_t pieces_of(const Code& code, const CodeKey& key, const Site* sites, size_t found) {
  static Pieces made[256];
  static size_t next = 0;
  for (const Pieces& old : made) {
    if (old.at != 0 && old.begin == code.begin && old.first_site == sites[0].begin &&
        equal(old.key, key)) {
      return old.at;
    }
  }
  const size_t bytes = (16 + found * piece_bytes + page_bytes - 1) & ~(page_bytes - 1);
  const uint64_t pieces = map_near(code.begin, code.begin + code.size, bytes);
  if (pieces == 0) return 0;
  Writer pointers(pieces);
  pointers.put8(address_of(reinterpret_cast<const void*>(&penstock_trace_entry)));
  pointers.put8(address_of(reinterpret_cast<const void*>(&penstock_trace_after)));
  for (size_t i = 0; i < found; ++i) {
    write_piece(pointers.at() + i * piece_bytes, code, sites[i], pieces);
  }
  if (raw_call(__NR_mprotect, pieces, bytes, PROT_READ | PROT_EXEC) < 0) return 0;
  made[next++ % (sizeof made / sizeof made[0])] = {key, code.begin, sites[0].begin, pieces};
  return pieces;
}

void change_code(const Code& code, const CodeKey& key, const Site* sites, size_t found) {
  if (found == 0) return;
  // All pieces first: they must be code before somebody jumps to them.
  const uint64_t pieces = pieces_of(code, key, sites, found);
  if (pieces == 0 ||
      raw_call(__NR_mprotect, code.begin, code.size, PROT_READ | PROT_WRITE | PROT_EXEC) < 0) {
    return;
  }
  for (size_t i = 0; i < found; ++i) {
    Writer(code.begin + sites[i].begin).jump(pieces + 16 + i * piece_bytes);
  }
  raw_call(__NR_mprotect, code.begin, code.size, PROT_READ | PROT_EXEC);
}

// ---- what other processes have found

SharedSites& shared_sites() {
  return *reinterpret_cast<SharedSites*>(address_of(control) + control_bytes);
}

// Whether somebody has looked through it. A site must still look like one.
bool find_shared(const Code& code, const CodeKey& key, Site* sites, size_t& found) {
  const SharedSites& shared = shared_sites();
  const uint32_t used = __atomic_load_n(&shared.files_used, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < used && i < sizeof shared.files / sizeof shared.files[0]; ++i) {
    const CodeSites& file = shared.files[i];
    if (__atomic_load_n(&file.is_ready, __ATOMIC_ACQUIRE) == 0 || !equal(file.key, key)) continue;
    constexpr uint32_t sites_max = sizeof shared.sites / sizeof shared.sites[0];
    if (file.count > sites_at_once || file.first > sites_max - file.count) return false;
    for (uint32_t k = 0; k < file.count; ++k) {
      const CodeSite& site = shared.sites[file.first + k];
      const uint64_t call = uint64_t{site.begin} + site.call,
                     back = uint64_t{site.begin} + site.back;
      if (call + 2 > back || back > code.size || code.bytes[call] != 0x0f ||
          code.bytes[call + 1] != 0x05) {
        return false;
      }
      sites[k] = {site.begin, call, back, false};
    }
    found = file.count;
    return true;
  }
  return false;
}

void share(const CodeKey& key, const Site* sites, size_t found) {
  SharedSites& shared = shared_sites();
  const auto count = static_cast<uint32_t>(found);
  const uint32_t first = __atomic_fetch_add(&shared.sites_used, count, __ATOMIC_RELAXED);
  constexpr uint32_t sites_max = sizeof shared.sites / sizeof shared.sites[0];
  if (first > sites_max || sites_max - first < count) return;
  const uint32_t index = __atomic_fetch_add(&shared.files_used, 1, __ATOMIC_RELAXED);
  if (index >= sizeof shared.files / sizeof shared.files[0]) return;
  for (uint32_t i = 0; i < count; ++i) {
    shared.sites[first + i] = {.begin = static_cast<uint32_t>(sites[i].begin),
                               .call = static_cast<uint8_t>(sites[i].call - sites[i].begin),
                               .back = static_cast<uint8_t>(sites[i].back - sites[i].begin),
                               .padding = {}};
  }
  shared.files[index].key = key;
  shared.files[index].first = first;
  shared.files[index].count = count;
  __atomic_store_n(&shared.files[index].is_ready, 1, __ATOMIC_RELEASE);
}

// Lines of /proc/self/maps, one after the other.
class Maps {
 public:
  Maps() : descriptor_(raw_call(__NR_open, address_of("/proc/self/maps"), 02000000)) {}
  ~Maps() {
    if (descriptor_ >= 0) raw_call(__NR_close, static_cast<uint64_t>(descriptor_));
  }
  Maps(const Maps&) = delete;
  Maps& operator=(const Maps&) = delete;

  // Without the newline; longer ones are cut. nullptr: there are no more.
  const char* next() {
    size_t length = 0;
    for (int character; (character = get()) >= 0 && character != '\n';) {
      if (length + 1 < sizeof line_) line_[length++] = static_cast<char>(character);
    }
    line_[length] = 0;
    return length == 0 ? nullptr : line_;
  }

 private:
  int get() {
    if (at_ == got_) {
      if (descriptor_ < 0) return -1;
      got_ =
          raw_call(__NR_read, static_cast<uint64_t>(descriptor_), address_of(text_), sizeof text_);
      at_ = 0;
      if (got_ <= 0) {
        got_ = 0;
        return -1;
      }
    }
    return static_cast<unsigned char>(text_[at_++]);
  }

  int64_t descriptor_;
  int64_t at_ = 0, got_ = 0;
  char line_[4200];
  char text_[1024];
};

uint64_t read_hex(const char*& text) {
  uint64_t value = 0;
  for (;; ++text) {
    const char c = *text;
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<uint64_t>(c - 'a' + 10);
    } else {
      return value;
    }
  }
}

}  // namespace

void take_over(int32_t descriptor, uint64_t begin, uint64_t size, uint64_t offset) {
  struct statx found = {};
  if (raw_call(__NR_statx, static_cast<uint64_t>(int64_t{descriptor}), address_of(""),
               AT_EMPTY_PATH, STATX_BASIC_STATS, address_of(&found)) < 0 ||
      offset >= found.stx_size) {
    return;
  }
  // Behind the end of the file nothing can be read.
  const uint64_t file_bytes = found.stx_size;
  if (size > file_bytes - offset) size = file_bytes - offset;
  const CodeKey key = {
      .device = uint64_t{found.stx_dev_major} << 32 | found.stx_dev_minor,
      .inode = found.stx_ino,
      .bytes = file_bytes,
      .changed_ns =
          static_cast<uint64_t>(found.stx_ctime.tv_sec) * 1'000'000'000u + found.stx_ctime.tv_nsec,
      .offset = offset,
      .size = size};
  Code code = {.bytes = reinterpret_cast<const uint8_t*>(begin),
               .begin = begin,
               .size = size,
               .functions = {}};
  // A thread that maps another file at the same time waits; but not for one that is not there any
  // more, after a fork.
  static Site sites[sites_at_once];
  static uint32_t is_taken = 0;
  for (int tries = 0; __atomic_exchange_n(&is_taken, 1, __ATOMIC_ACQUIRE) != 0; ++tries) {
    if (tries == 10000) return;
    raw_call(__NR_sched_yield);
  }
  size_t sites_found = 0;
  if (find_shared(code, key, sites, sites_found)) {
    change_code(code, key, sites, sites_found);
  } else {
    // The file as it is: in memory, one part may already stand over another.
    const int64_t image = raw_call(__NR_mmap, 0, file_bytes, PROT_READ, MAP_PRIVATE,
                                   static_cast<uint64_t>(int64_t{descriptor}), 0);
    if (image > 0) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(image);
      code.bytes = bytes + offset;
      code.functions.open(bytes, file_bytes, offset);
      for (uint64_t at = 0; at + 2 <= size;) {
        const bool is_first = at == 0;
        sites_found = find_sites(code, at, sites);
        if (is_first && at + 2 > size && size <= ~uint32_t{0}) share(key, sites, sites_found);
        change_code(code, key, sites, sites_found);
      }
      raw_call(__NR_munmap, static_cast<uint64_t>(image), file_bytes);
    }
  }
  __atomic_store_n(&is_taken, 0, __ATOMIC_RELEASE);
}

void take_over_program() {
  Maps maps;
  while (const char* line = maps.next()) {
    // begin-end r-xp offset device inode path
    const uint64_t begin = read_hex(line);
    if (*line != '-') continue;
    const uint64_t end = read_hex(++line);
    if (line[0] != ' ' || line[1] != 'r' || line[3] != 'x') continue;
    line += 6;
    const uint64_t offset = read_hex(line);
    while (*line != 0 && *line != '/') ++line;
    const uint64_t own = address_of(reinterpret_cast<const void*>(&penstock_trace_entry));
    if (*line == 0 || (own >= begin && own < end)) continue;
    constexpr uint64_t close_on_exec = 02000000;
    const int64_t descriptor = raw_call(__NR_open, address_of(line), close_on_exec);
    if (descriptor < 0) continue;
    take_over(static_cast<int32_t>(descriptor), begin, end - begin, offset);
    raw_call(__NR_close, static_cast<uint64_t>(descriptor));
  }
}

}  // namespace penstock::trace::preload
