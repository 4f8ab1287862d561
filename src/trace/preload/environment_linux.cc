#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/stat.h>

#include "trace/preload/library.h"
#include "trace/preload/raw_calls.h"

// How the library comes into a program, and into the next one.
//
// The capture names the library in LD_PRELOAD, and the channel in PENSTOCK_TRACE (channel.h). A
// program that prints its environment, or hands a part of it to its children, would show them, or
// lose them. So they are taken out before the program sees them, and put back at each exec(): a
// program is followed whatever environment it gives to the next one. But not where the next one
// would not find the library (the capture was killed, the user is another, /proc is): the loader
// would complain of that on the program's standard error. Such a program runs untraced.
//
// No descriptor stays open: the channel is mapped, and found again by way of the capture's own. So
// a program that closes all of its descriptors, or counts them, notices nothing.
//
// What the new program inherits, we know; it would not. Its open file descriptions go with it in
// the environment, so that a position that it shares with other processes stays shared in the
// trace.

namespace penstock::trace::preload {
namespace {

constexpr size_t path_bytes = 64;
char channel_path[path_bytes];
char library_path[path_bytes];

// Which files those paths led to.
struct Which {
  uint64_t device, inode;
};
Which channel_file, library_file;

size_t length_of(const char* text) {
  size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

bool starts_with(const char* text, const char* with) {
  for (; *with != 0; ++text, ++with) {
    if (*text != *with) return false;
  }
  return true;
}

bool take_word(const char*& from, char* into) {
  size_t length = 0;
  for (; *from != 0 && *from != ' '; ++from) {
    if (length + 1 == path_bytes) return false;
    into[length++] = *from;
  }
  into[length] = 0;
  if (*from == ' ') ++from;
  return length > 0;
}

uint64_t take_number(const char*& from) {
  uint64_t value = 0;
  while (*from >= '0' && *from <= '9') value = value * 10 + static_cast<uint64_t>(*from++ - '0');
  return value;
}

bool find_file(const char* path, Which& which) {
  struct statx found = {};
  if (raw_call(__NR_statx, static_cast<uint64_t>(int64_t{AT_FDCWD}), address_of(path), 0,
               STATX_BASIC_STATS, address_of(&found)) < 0) {
    return false;
  }
  which = {.device = uint64_t{found.stx_dev_major} << 32 | found.stx_dev_minor,
           .inode = found.stx_ino};
  return true;
}

bool leads_to(const char* path, const Which& file, uint64_t rights) {
  Which found = {};
  if (!find_file(path, found) || found.device != file.device || found.inode != file.inode) {
    return false;
  }
  // access() asks for the user without what the program may do beyond a user (capabilities): so
  // will the next program stand there.
  return raw_call(__NR_access, address_of(path), rights) == 0;
}

// Whether the next program will find both: the capture may be gone, the user another, or /proc.
bool can_be_found() {
  constexpr uint64_t read = 4, read_write = 6;
  // With two users the next program counts as set-user-id, and is given no library.
  return raw_call(__NR_getuid) == raw_call(__NR_geteuid) &&
         raw_call(__NR_getgid) == raw_call(__NR_getegid) &&
         leads_to(library_path, library_file, read) &&
         leads_to(channel_path, channel_file, read_write);
}

bool map_channel() {
  constexpr uint64_t read_write_cloexec = 02 | 02000000;
  const int64_t descriptor = raw_call(__NR_openat, static_cast<uint64_t>(int64_t{AT_FDCWD}),
                                      address_of(channel_path), read_write_cloexec);
  if (descriptor < 0) return false;
  const auto fd = static_cast<uint64_t>(descriptor);
  const auto map = [&](size_t bytes) {
    return raw_call(__NR_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  };
  int64_t at = map(control_bytes);
  if (at > 0) {
    const auto* head = reinterpret_cast<const Control*>(at);
    const uint64_t bytes = slots_at + uint64_t{head->slots} * sizeof(Slot);
    const bool fits = head->version == channel_version && head->is_over == 0;
    raw_call(__NR_munmap, static_cast<uint64_t>(at), control_bytes);
    at = fits ? map(bytes) : -1;
    if (at > 0) control = reinterpret_cast<Control*>(at);
  }
  raw_call(__NR_close, fd);
  return control != nullptr;
}

// "DESCRIPTOR=PLACE," and so on.
void inherit(const char* list) {
  constexpr uint64_t get_descriptor_flags = 1;
  while (*list >= '0' && *list <= '9') {
    const auto descriptor = static_cast<int32_t>(take_number(list));
    if (*list++ != '=') return;
    const uint64_t place = take_number(list);
    if (*list++ != ',') return;
    Entry* entry = entry_of(descriptor);
    if (entry != nullptr &&
        raw_call(__NR_fcntl, static_cast<uint64_t>(descriptor), get_descriptor_flags) >= 0) {
      entry->place = place;
    }
  }
}

class Text {
 public:
  Text(char* begin, size_t bytes) : begin_(begin), end_(begin + bytes - 1), at_(begin) {}
  bool is_full() const { return is_full_; }
  size_t length() const { return static_cast<size_t>(at_ - begin_); }
  void cut(size_t length) {
    at_ = begin_ + length;
    is_full_ = false;
  }
  Text& put(const char* text) {
    for (; *text != 0; ++text) put(*text);
    return *this;
  }
  Text& put(char character) {
    if (at_ == end_) {
      is_full_ = true;
    } else {
      *at_++ = character;
    }
    return *this;
  }
  Text& put(uint64_t number) {
    char digits[20];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    while (count > 0) put(digits[--count]);
    return *this;
  }
  const char* close() {
    *at_ = 0;
    return begin_;
  }

 private:
  char* begin_;
  char* end_;
  char* at_;
  bool is_full_ = false;
};

void put_inherited(Text& text) {
  for (int32_t i = 0; i < entries_end(); ++i) {
    const Entry* entry = entry_of(i);
    if (entry->place == 0 || (entry->knowledge != not_looked && entry->is_storage == 0)) continue;
    const size_t before = text.length();
    text.put(static_cast<uint64_t>(i)).put('=').put(entry->place).put(',');
    if (text.is_full()) {
      text.cut(before);
      return;
    }
  }
}

// Of a list that ends with nullptr; false: the kernel will say that it cannot be read, and so
// should not be read by us.
[[gnu::noinline]] bool count_strings(const char* const* list, size_t& count) {
  count = 0;
  if (list == nullptr) return true;
  struct Part {
    uint64_t at, bytes;
  };
  const auto self = static_cast<uint64_t>(raw_call(__NR_getpid));
  const auto copy = [&](const Part* from, size_t parts, void* into, size_t bytes) {
    const Part to = {address_of(into), bytes};
    return raw_call(__NR_process_vm_readv, self, address_of(&to), 1, address_of(from), parts, 0);
  };
  // Up to the end of a page at once: what lies behind may not be there.
  constexpr uint64_t strings_at_once = 64, page_bytes = 4096;
  const char* strings[strings_at_once];
  char first_bytes[strings_at_once];
  while (true) {
    const uint64_t at = address_of(list + count);
    uint64_t bytes = page_bytes - at % page_bytes;
    if (bytes > sizeof strings) bytes = sizeof strings;
    if (bytes < sizeof(char*)) bytes = sizeof(char*);
    bytes &= ~uint64_t{sizeof(char*) - 1};
    const Part whole = {at, bytes};
    const int64_t got = copy(&whole, 1, strings, bytes);
    if (got == -1 || got == -38) {  // forbidden (seccomp), or not there: then as the program says
      while (list[count] != nullptr) ++count;
      return true;
    }
    if (got != static_cast<int64_t>(bytes)) return false;
    Part parts[strings_at_once];
    size_t found = 0;
    while (found < bytes / sizeof(char*) && strings[found] != nullptr) {
      parts[found] = {address_of(strings[found]), 1};
      ++found;
    }
    if (found > 0 && copy(parts, found, first_bytes, found) != static_cast<int64_t>(found)) {
      return false;
    }
    count += found;
    if (found < bytes / sizeof(char*)) return true;
  }
}

}  // namespace

void forget_exec_list() {
  ThreadState& thread = this_thread;
  if (thread.exec_list == 0) return;
  raw_call(__NR_munmap, thread.exec_list, thread.exec_list_bytes);
  thread.exec_list = 0;
}

bool join_capture(char** environment) {
  const char* ours = nullptr;
  char** to = environment;
  for (char** from = environment; *from != nullptr; ++from) {
    if (starts_with(*from, environment_name)) {
      ours = *from + sizeof environment_name - 1;
    } else {
      *to++ = *from;
    }
  }
  *to = nullptr;
  if (ours == nullptr || !take_word(ours, channel_path) || !take_word(ours, library_path)) {
    return false;
  }
  to = environment;
  for (char** from = environment; *from != nullptr; ++from) {
    if (starts_with(*from, preload_name)) {
      char* value = *from + sizeof preload_name - 1;
      if (starts_with(value, library_path)) {
        // The user's own libraries stay.
        const char* rest = value + length_of(library_path);
        if (*rest == 0) continue;
        for (++rest; (*value++ = *rest) != 0; ++rest) {
        }
      }
    }
    *to++ = *from;
  }
  *to = nullptr;
  if (!map_channel() || !start_state()) return false;
  find_file(channel_path, channel_file);
  find_file(library_path, library_file);
  inherit(ours);
  return true;
}

int64_t run_program(Asked& asked) {
  const auto run = [&] {
    const uint64_t* a = asked.arguments;
    return raw_call(asked.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  };
  uint64_t& argument = asked.arguments[asked.number == __NR_execve ? 2 : 3];
  if (!can_be_found()) return run();
  constexpr size_t strings_on_stack = 256;
  const uint64_t given = argument;
  const auto* old = reinterpret_cast<const char* const*>(given);
  size_t count = 0;
  if (!count_strings(old, count)) return run();
  // On the stack where it is not long: between vfork() and here all other memory is our parent's,
  // and the stack may be one of 32 KiB, which posix_spawn() made.
  const char* few[strings_on_stack + 3];
  const char** strings = few;
  const size_t list_bytes = (count + 3) * sizeof(char*);
  if (count > strings_on_stack) {
    const int64_t made = raw_call(__NR_mmap, 0, list_bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0);
    if (made < 0) return run();
    strings = reinterpret_cast<const char**>(made);
    // Where it succeeds, our parent's memory still has it.
    this_thread.exec_list = static_cast<uint64_t>(made);
    this_thread.exec_list_bytes = list_bytes;
  }
  char ours[2048], preload[1024];
  Text value(ours, sizeof ours);
  value.put(environment_name).put(channel_path).put(' ').put(library_path).put(' ');
  put_inherited(value);
  Text libraries(preload, sizeof preload);
  libraries.put(preload_name).put(library_path);
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    if (starts_with(old[i], environment_name)) continue;
    if (starts_with(old[i], preload_name)) {
      const char* theirs = old[i] + sizeof preload_name - 1;
      const size_t before = libraries.length();
      if (*theirs != 0) libraries.put(':').put(theirs);
      if (libraries.is_full()) libraries.cut(before);
      continue;
    }
    strings[kept++] = old[i];
  }
  strings[kept++] = value.close();
  strings[kept++] = libraries.close();
  strings[kept] = nullptr;
  argument = address_of(strings);
  const int64_t result = run();
  argument = given;
  forget_exec_list();
  return result;
}

}  // namespace penstock::trace::preload
