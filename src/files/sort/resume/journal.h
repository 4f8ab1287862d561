#pragma once

// An append-only file of entries whose reader can tell how far the file is valid.
//
//   file      8 bytes     "penstokJ"
//             then entries, one behind the other
//   entry     0   u32     kind, the user's
//             4   u32     bytes of the payload
//             8   u32     check of the entry before it (0 in the first entry)
//            12   u32     check: CRC-32 of the 12 bytes before, followed by the payload
//            16           payload
//
// All numbers are little-endian. The checks form a chain: entries that an earlier writer left
// behind the end do not continue it. An entry that is torn, and everything behind it, is invalid.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "io/file.h"
#include "penstock/base.h"

namespace penstock::external {

// Thread safety: one thread at a time. Invariant: committed entries are on the disk.
class Journal {
 public:
  struct Entry {
    uint32_t kind = 0;
    std::string payload;
  };
  static constexpr size_t payload_bytes_max = 4 << 20;

  Journal() = default;
  // Opens or creates the file, and locks it until it is closed. Errors: in_use() tells whether
  // another process has it.
  static Result<Journal> open(const std::string& path);
  static bool in_use(const Error& error);

  // Reads the next valid entry. Returns false at the end.
  Result<bool> next(Entry& entry);
  // Position behind the last entry that next() returned.
  struct Position {
    uint64_t offset = 0;
    uint32_t check = 0;
  };
  Position position() const { return end_; }
  static Position beginning() { return {.offset = sizeof magic}; }
  // Drops everything behind the position. New entries are appended there.
  Status cut(const Position& position);

  // REQUIRES for both: cut() was called, or next() was not. `payload`: at most payload_bytes_max.
  Status append(uint32_t kind, std::string_view payload);
  Status commit();

  const std::string& path() const { return file_.path(); }

 private:
  static constexpr uint64_t magic = 0x4a6b6f74736e6570;  // "penstokJ"

  Status write_out();

  io::File file_;
  uint64_t size_bytes_ = 0;  // when it was opened
  Position end_;
  uint64_t written_ = 0;   // bytes that are in the file
  std::string unwritten_;  // bytes behind these
};

// Writer of payloads: numbers as in memory, texts with their length.
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
  // A PayloadReader's fields() takes the same arguments: one description of an entry serves both.
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

// Reader of payloads. Returns zeros if a payload is too short, and reports that.
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
  // Whether the payload had exactly the bytes that were read.
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
