#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/stat.h>

#include "trace/preload/library.h"
#include "trace/preload/raw_calls.h"
#include "trace/preload/site_search.h"

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
// Which neighbours, site_search.cc decides. What cannot be taken over stays untraced: in Debian
// 12's libc and loader there is nothing of that.
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
constexpr size_t piece_bytes = 112;  // of code of ours for one place: 67 and its neighbours

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
    count(control->untaken_images);  // there is no room, or the system forbids it (SELinux)
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

uint32_t is_taking_over = 0;

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
  // A thread that maps another file at the same time waits; but not for ever (a signal may have
  // come while this one was here).
  static Site sites[sites_at_once];
  for (int tries = 0; __atomic_exchange_n(&is_taking_over, 1, __ATOMIC_ACQUIRE) != 0; ++tries) {
    if (tries == 10000) {
      count(control->untaken_images);
      return;
    }
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
      if (code.functions.is_of_go()) {
        count(control->untaken_images);
        size = 0;
      }
      for (uint64_t at = 0; at + 2 <= size;) {
        const bool is_first = at == 0;
        sites_found = find_sites(code, at, sites);
        if (is_first && at + 2 > size && size <= ~uint32_t{0}) share(key, sites, sites_found);
        change_code(code, key, sites, sites_found);
      }
      raw_call(__NR_munmap, static_cast<uint64_t>(image), file_bytes);
    }
  }
  __atomic_store_n(&is_taking_over, 0, __ATOMIC_RELEASE);
}

void forget_sites() {
  is_taking_over = 0;
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
