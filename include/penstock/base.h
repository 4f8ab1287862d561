#pragma once

// What all parts of Penstock share: units, errors and results, and the few words that many options use.

#include <version>

#ifndef __cpp_lib_expected
#error "Penstock needs C++23 with std::expected: -std=c++23 and gcc 12, clang 19 or later"
#include "penstock/needs C++23"  // a file that is missing ends the compilation after this one error
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
struct Access;  // the library's own way to what stands behind its handles

// The one owner of a handle's core, of which the handle's users do not know the type. A move-only value.
template <class Core>
class Owner {
 public:
  // The library alone makes one: there the type is known.
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
  invalid_argument,  // the caller asked for something that cannot be
  unsupported,       // this kernel or machine cannot do it
  not_found,         // no such file
  permission,        // the system refuses it to this user
  out_of_memory,     // memory or the memory budget does not suffice
  out_of_space,      // a disk is full, or would be
  out_of_mappings,   // vm.max_map_count is reached
  io,                // a device or file system reported an error
  corrupt,           // data are not what their format says
  cancelled,         // the other side of a stream gave up
  interrupted,       // the run was asked to stop
  unsorted,          // input that had to be sorted is not
};

// The version in the linker's name of every function that returns Result or Status: headers of one
// version and an archive of another do not link. It changes with what may break the C++ interface.
inline namespace v0_1 __attribute__((abi_tag("v0_1"))) {}
inline namespace v0_1 {

static_assert(PENSTOCK_VERSION_MAJOR == 0 && PENSTOCK_VERSION_MINOR == 1, "rename v0_1");

// What failed, told to a person: what was attempted, on what, what the system said, what to try.
// Thread safety: a value.
struct Error {
  ErrorCode code;
  std::string attempted;     // "open", "write 2097152 bytes at offset 0"
  std::string subject = {};  // a path, a stream, an option
  int system_errno = 0;      // 0 where the system said nothing
  std::string hint = {};     // what to try

  // "FILE: cannot open: No such file or directory (try: ...)".
  std::string message() const;
};

// The value of a call, or the error that it failed with: a std::expected that the caller has to use.
//
// Memory: where an allocation fails, a function that returns Result or Status and opens something or does
// work returns out_of_memory, and throws no std::bad_alloc. One that only reports an error of before
// (status(), a second finish()), or refuses what it is given, puts its words together, and may throw it; so may
// compress(), a Sink of the library and what reads traces.
//
// and_then(), or_else(), transform() and transform_error() are those of std::expected, with Result where it has
// std::expected. Its own take no function that returns a Result.
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

  // A function for with_value(), from one that returns a value.
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

  // A function for with_error(), from one that returns an error.
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

// The error code that fits an errno.
ErrorCode code_of_errno(int system_errno);

// An error that the system reported, ready to return: the code follows from `system_errno`.
std::unexpected<Error> system_error(int system_errno, std::string attempted, std::string subject,
                                    std::string hint = {});

// An error that we found ourselves, ready to return.
std::unexpected<Error> failure(ErrorCode code, std::string attempted, std::string subject = {},
                               std::string hint = {});

// ---- Words of many options.

// What code may do with memory.
enum class Protection : uint8_t { none, read, read_write };

// What happens to a consumer that waits in a fault for data that will never come, or to a producer
// whose data have nowhere to go. Neither can be handed a return value.
enum class ErrorPolicy {
  stop,  // end the process with a clear message: the default for raw pointers
  recover,  // leave the user's code by a jump to its recovery point (penstock/stream.h), which gets the
            // error
  zeros,  // the rest reads as zeros (writes go nowhere); the error is reported at the end by
          // status() or finish()
};

// How a block of memory is brought to another address. What each costs and needs:
// src/memory/pool/README.md and `penstock doctor`.
enum class Mechanism : uint8_t {
  automatic,  // what measures best on this kernel
  mremap,     // page table entries move; everywhere
  uffd_move,  // the same by userfaultfd, Linux 6.8; faults with SIGBUS
  shared,     // pages of a memory file, mapped at one more address
};

// ---- Items that sorts and partitions move, beside plain numbers.

// A key, and as many bytes that travel with it.
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

// A number of 128 bits, as little-endian memory holds it: the low word first.
struct Key128 {
  uint64_t low;
  uint64_t high;
  bool operator==(const Key128&) const = default;
};

}  // namespace penstock
