#include <linux/fcntl.h>
#include <linux/mman.h>

#include "trace/preload/library.h"
#include "trace/preload/raw_calls.h"

// How the library comes into a program, and into the next one.
//
// The capture names the library in LD_PRELOAD, and the channel in PENSTOCK_TRACE (channel.h). A
// program that prints its environment, or hands a part of it to its children, would show them, or
// lose them. So they are taken out before the program sees them, and put back at each exec(): a
// program is followed whatever environment it gives to the next one.
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

}  // namespace

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
  inherit(ours);
  return true;
}

int64_t run_program(Asked& asked) {
  const auto run = [&] {
    const uint64_t* a = asked.arguments;
    return raw_call(asked.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  };
  uint64_t& argument = asked.arguments[asked.number == __NR_execve ? 2 : 3];
  constexpr size_t strings_max = 16384;
  const uint64_t given = argument;
  const auto* old = reinterpret_cast<const char* const*>(given);
  size_t count = 0;
  while (old != nullptr && old[count] != nullptr) ++count;
  if (count > strings_max) return run();  // (not followed)
  // On the stack: between vfork() and here all other memory is our parent's.
  auto** strings = static_cast<const char**>(__builtin_alloca((count + 3) * sizeof(char*)));
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
  return result;
}

}  // namespace penstock::trace::preload
