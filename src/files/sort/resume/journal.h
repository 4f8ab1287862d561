#pragma once

// A file of entries that grows at its end, of which every reader knows how far it is to be
// believed.
//
//   file      8 bytes     "penstokJ"
//             then entries, one behind the other
//   entry     0   u32     kind, the user's
//             4   u32     bytes of the payload
//             8   u32     check of the entry before it (of the first: 0)
//            12   u32     check: CRC-32 of the 12 bytes before, followed by the payload
//            16           payload
//
// All numbers are little-endian. The checks are a chain: what an earlier writer left behind the end
// is no continuation of it. An entry that is torn, and whatever stands behind it, is no entry.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "io/file.h"
#include "penstock/base.h"

namespace penstock::external {

// Thread safety: one thread at a time. Invariant: what commit() has returned for is on the disk.
class Journal {
 public:
  struct Entry {
    uint32_t kind = 0;
    std::string payload;
  };
  static constexpr size_t payload_bytes_max = 4 << 20;

  Journal() = default;
  // Opens it, or makes it. It is this process's alone until it is closed. Errors: in_use() tells
  // whether another one has it.
  static Result<Journal> open(const std::string& path);
  static bool in_use(const Error& error);

  // The next whole entry. False: the end.
  Result<bool> next(Entry& entry);
  // Behind the last entry that next() gave.
  struct Position {
    uint64_t offset = 0;
    uint32_t check = 0;
  };
  Position position() const { return end_; }
  static Position beginning() { return {.offset = sizeof magic}; }
  // Forgets what stands behind that place. What is appended goes there.
  Status cut(const Position& position);

  // REQUIRES of both: cut(), or no next() so far. At most payload_bytes_max.
  Status append(uint32_t kind, std::string_view payload);
  Status commit();

  const std::string& path() const { return file_.path(); }

 private:
  static constexpr uint64_t magic = 0x4a6b6f74736e6570;  // "penstokJ"

  Status write_out();

  io::File file_;
  uint64_t size_bytes_ = 0;  // when it was opened
  Position end_;
  uint64_t written_ = 0;   // up to here the file has it
  std::string unwritten_;  // behind that
};

// Payloads: numbers as they lie in memory, texts with their length.
class PayloadWriter {
 public:
  template <class T>
  void put(T number) {
    static_assert(std::is_arithmetic_v<T>);
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void put_text(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    text_.append(text);
  }
  // A reader's fields() takes the same: so one description of an entry writes and reads it.
  template <class... T>
  void fields(const T&... each) {
    (put_one(each), ...);
  }
  const std::string& text() const { return text_; }

 private:
  template <class T>
  void put_one(const T& field) {
    if constexpr (std::is_arithmetic_v<T>) {
      put(field);
    } else {
      put_text(field);
    }
  }

  std::string text_;
};

// Reads zeros where a payload is too short, and tells.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view text) : left_(text) {}

  template <class T>
  T get() {
    static_assert(std::is_arithmetic_v<T>);
    T number{};
    std::string_view bytes = take(sizeof number);
    if (!bytes.empty()) std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }
  std::string get_text() { return std::string(take(get<uint32_t>())); }
  template <class... T>
  void fields(T&... each) {
    (get_one(each), ...);
  }
  // Everything was there, and nothing else is.
  bool ended_well() const { return whole_ && left_.empty(); }
  bool whole() const { return whole_; }
  size_t left_bytes() const { return left_.size(); }

 private:
  template <class T>
  void get_one(T& field) {
    if constexpr (std::is_arithmetic_v<T>) {
      field = get<T>();
    } else {
      field = get_text();
    }
  }
  std::string_view take(size_t bytes) {
    whole_ = whole_ && bytes <= left_.size();
    if (!whole_) return {};
    std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

  std::string_view left_;
  bool whole_ = true;
};

}  // namespace penstock::external
