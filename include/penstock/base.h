#pragma once

// Declarations that all parts of Penstock share: units, errors, results and common option types.

#include <version>

#ifndef __cpp_lib_expected
#error "Penstock needs C++23 with std::expected: -std=c++23 and gcc 12, clang 19 or later"
#include "penstock/needs C++23"  // a missing file ends the compilation after this one error
#endif

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "penstock/version.h"

namespace penstock {

namespace internal {
struct Access;  // the library's own access to the cores behind its handles

// Owns a handle's core, whose type the handle's users do not know. A move-only value.
template <class Core>
class Owner {
 public:
  // Only the library constructs an Owner, because only it knows the type.
  template <class Made>
  Owner(std::unique_ptr<Made> made) noexcept
      : core_(made.release(), [](Core* core) { delete static_cast<Made*>(core); }) {}

  Core* get() const noexcept { return core_.get(); }
  Core* operator->() const noexcept { return core_.get(); }
  Core& operator*() const noexcept { return *core_; }

 private:
  std::unique_ptr<Core, void (*)(Core*)> core_;
};
}  // namespace internal

inline constexpr uint64_t KiB = uint64_t{1} << 10;
inline constexpr uint64_t MiB = uint64_t{1} << 20;
inline constexpr uint64_t GiB = uint64_t{1} << 30;
inline constexpr uint64_t TiB = uint64_t{1} << 40;

// ---- Errors.

enum class ErrorCode {
  invalid_argument,  // the request is impossible
  unsupported,       // this kernel or machine cannot do it
  not_found,         // no such file
  permission,        // the system refuses it to this user
  out_of_memory,     // memory or the memory budget does not suffice
  out_of_space,      // a disk is full, or would become full
  out_of_mappings,   // vm.max_map_count is reached
  io,                // a device or file system reported an error
  corrupt,           // data do not match their format
  cancelled,         // the other side of a stream gave up
  interrupted,       // the run was asked to stop
  unsorted,          // input that had to be sorted is not
};

// The ABI version, which is part of the symbol name of every function that returns Result or
// Status. Headers of one version do not link with an archive of another. It changes with every
// change that may break the C++ interface.
inline namespace v0_1 __attribute__((abi_tag("v0_1"))) {}
inline namespace v0_1 {

static_assert(PENSTOCK_VERSION_MAJOR == 0 && PENSTOCK_VERSION_MINOR == 1, "rename v0_1");

// A failure, described for a person: what was attempted, on what, what the system reported, what to
// try. Thread safety: a value.
struct Error {
  ErrorCode code;
  // "open", "write 2097152 bytes at offset 0"; of faulty data their place and the fault: "row 3: a
  // quote that nothing closes".
  std::string attempted;
  std::string subject = {};  // a path, a stream, an option
  int system_errno = 0;      // 0 if the system reported nothing
  std::string hint = {};     // advice
  bool is_fault = false;     // `attempted` is no action, but a place in data and its fault
  // The longest item that fits, of an error of a longer one, and the longer one's number in its
  // input if known, 1-based; 0 otherwise.
  uint64_t item_bytes_max = 0;
  uint64_t item = 0;

  // Returns "FILE: cannot open: No such file or directory (try: ...)", or "FILE: row 3: a quote that
  // nothing closes (try: ...)".
  std::string message() const;
};

// The value of a call, or its error: a std::expected that the caller has to use.
//
// Memory: when an allocation fails, a function that returns Result or Status and opens something or
// does work returns out_of_memory and does not throw std::bad_alloc. Functions that only report an
// earlier error (status(), a second finish()) or reject their arguments build a message and may
// throw std::bad_alloc; so may compress(), the library's Sinks and the readers of traces.
//
// and_then(), or_else(), transform() and transform_error() work as in std::expected, but return a
// Result. Those of std::expected do not accept a function that returns a Result.
template <class T>
class [[nodiscard("it may hold an error")]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
  template <class Expected>
    requires std::is_same_v<std::remove_cvref_t<Expected>, std::expected<T, Error>>
  Result(Expected&& expected) : std::expected<T, Error>(std::forward<Expected>(expected)) {}

  template <class Function>
  auto and_then(Function&& function) & {
    return with_value(*this, std::forward<Function>(function));
  }
  template <class Function>
  auto and_then(Function&& function) const& {
    return with_value(*this, std::forward<Function>(function));
  }
  template <class Function>
  auto and_then(Function&& function) && {
    return with_value(std::move(*this), std::forward<Function>(function));
  }

  template <class Function>
  auto or_else(Function&& function) & {
    return with_error(*this, std::forward<Function>(function));
  }
  template <class Function>
  auto or_else(Function&& function) const& {
    return with_error(*this, std::forward<Function>(function));
  }
  template <class Function>
  auto or_else(Function&& function) && {
    return with_error(std::move(*this), std::forward<Function>(function));
  }

  template <class Function>
  auto transform(Function&& function) & {
    return with_value(*this, value_of<Function>(function));
  }
  template <class Function>
  auto transform(Function&& function) const& {
    return with_value(*this, value_of<Function>(function));
  }
  template <class Function>
  auto transform(Function&& function) && {
    return with_value(std::move(*this), value_of<Function>(function));
  }

  template <class Function>
  auto transform_error(Function&& function) & {
    return with_error(*this, error_of<Function>(function));
  }
  template <class Function>
  auto transform_error(Function&& function) const& {
    return with_error(*this, error_of<Function>(function));
  }
  template <class Function>
  auto transform_error(Function&& function) && {
    return with_error(std::move(*this), error_of<Function>(function));
  }

 private:
  template <class Self, class Function>
  static auto with_value(Self&& self, Function&& function) {
    if constexpr (std::is_void_v<T>) {
      using Next = std::remove_cvref_t<std::invoke_result_t<Function>>;
      if (self.has_value()) return Next(std::invoke(std::forward<Function>(function)));
      return Next(std::unexpect, std::forward<Self>(self).error());
    } else {
      using Next =
          std::remove_cvref_t<std::invoke_result_t<Function, decltype(*std::forward<Self>(self))>>;
      if (self.has_value())
        return Next(std::invoke(std::forward<Function>(function), *std::forward<Self>(self)));
      return Next(std::unexpect, std::forward<Self>(self).error());
    }
  }

  template <class Self, class Function>
  static auto with_error(Self&& self, Function&& function) {
    using Next = std::remove_cvref_t<
        std::invoke_result_t<Function, decltype(std::forward<Self>(self).error())>>;
    if (!self.has_value())
      return Next(std::invoke(std::forward<Function>(function), std::forward<Self>(self).error()));
    if constexpr (std::is_void_v<T>) {
      return Next();
    } else {
      return Next(std::in_place, *std::forward<Self>(self));
    }
  }

  // Turns a function that returns a value into one for with_value().
  template <class Function>
  static auto value_of(std::remove_reference_t<Function>& function) {
    return [&function]<class... Value>(Value&&... value) {
      using Next = std::remove_cv_t<std::invoke_result_t<Function, Value...>>;
      if constexpr (std::is_void_v<Next>) {
        std::invoke(std::forward<Function>(function), std::forward<Value>(value)...);
        return Result<void>();
      } else {
        return Result<Next>(std::in_place, std::invoke(std::forward<Function>(function),
                                                       std::forward<Value>(value)...));
      }
    };
  }

  // Turns a function that returns an error into one for with_error().
  template <class Function>
  static auto error_of(std::remove_reference_t<Function>& function) {
    return [&function]<class Failed>(Failed&& failed) {
      using Words = std::remove_cv_t<std::invoke_result_t<Function, Failed>>;
      using Next =
          std::conditional_t<std::is_same_v<Words, Error>, Result<T>, std::expected<T, Words>>;
      return Next(std::unexpect,
                  std::invoke(std::forward<Function>(function), std::forward<Failed>(failed)));
    };
  }
};

using Status = Result<void>;

}  // namespace v0_1

// Returns the error code that fits an errno.
ErrorCode code_of_errno(int system_errno);

// Returns an error that the system reported; its code follows from `system_errno`.
std::unexpected<Error> system_error(int system_errno, std::string attempted, std::string subject,
                                    std::string hint = {});

// Returns an error that the library detected itself.
std::unexpected<Error> failure(ErrorCode code, std::string attempted, std::string subject = {},
                               std::string hint = {});

// Returns the error of faulty data: "row 3" and "a quote that nothing closes" are "FILE: row 3: a
// quote that nothing closes".
std::unexpected<Error> fault_at(ErrorCode code, std::string_view place, std::string_view fault,
                                std::string subject = {}, std::string hint = {});

// ---- Types that many options share.

// The accesses that code may make to a piece of memory.
enum class Protection : uint8_t { none, read, read_write };

// The reaction to a fault that cannot be served: a consumer waits for data that will never come, or
// a producer's data have nowhere to go. A load or store cannot return an error.
enum class ErrorPolicy {
  stop,  // ends the process with a clear message: the default for raw pointers
  // Jumps from the user's code to its recovery point (penstock/stream.h), which gets the error.
  recover,
  // Reads the rest as zeros and drops writes; status() or finish() reports the error at the end.
  zeros,
};

// The way to bring a block of memory to another address. src/memory/pool/README.md and `penstock
// doctor` tell what each costs and needs.
enum class Mechanism : uint8_t {
  automatic,  // the fastest measured on this kernel
  mremap,     // moves page table entries; works everywhere
  uffd_move,  // moves them by userfaultfd (Linux 6.8); faults with SIGBUS
  shared,     // maps pages of a memory file at one more address
};

// ---- Items that sorts and partitions move, besides plain numbers.

// A key with a value of the same size.
struct KeyValue32 {
  uint32_t key;
  uint32_t value;
  bool operator==(const KeyValue32&) const = default;
};
struct KeyValue64 {
  uint64_t key;
  uint64_t value;
  bool operator==(const KeyValue64&) const = default;
};

// A 128-bit number as in little-endian memory: the low word first.
struct Key128 {
  uint64_t low;
  uint64_t high;
  bool operator==(const Key128&) const = default;
};

}  // namespace penstock
