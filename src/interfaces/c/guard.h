#pragma once

// Common parts of the functions of penstock/penstock.h: errors become codes and messages,
// exceptions are caught, and options are read up to their size.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "penstock/base.h"
#include "penstock/penstock.h"

namespace penstock::c_api {

// Stores the error for penstock_error_message() of this thread, and returns the code.
int fail(const Error& error) noexcept;
int fail(int code, const char* message) noexcept;

inline int code_of(const Status& status) noexcept {
  return status ? PENSTOCK_OK : fail(status.error());
}

// Calls `work`, which returns a Status or a code, and returns a code.
template <class Work>
int guarded(Work&& work) noexcept {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<Work>, int>) {
      return work();
    } else {
      return code_of(work());
    }
  } catch (const std::bad_alloc&) {
    return fail(PENSTOCK_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& exception) {
    return fail(PENSTOCK_INTERNAL, exception.what());
  } catch (...) {
    return fail(PENSTOCK_INTERNAL, "an exception of no known type");
  }
}

// Sets *handle to a new Handle made from the value of open(), or to nullptr after an error.
template <class Handle, class Open>
int opened(Handle** handle, Open&& open) noexcept {
  return guarded([&]() -> Status {
    if (handle == nullptr)
      return failure(ErrorCode::invalid_argument, "open", "a handle", "where it is to be stored");
    *handle = nullptr;
    auto made = open();
    if (!made) return std::unexpected(made.error());
    *handle = new Handle{std::move(*made)};
    return {};
  });
}

// Far more than any options will have: a larger size is uninitialized memory.
inline constexpr size_t options_bytes_max = 64 * 1024;

// The options in this version's layout; fields that the caller's version lacks are 0.
template <class Options>
Result<Options> options_of(const Options* given) {
  Options options = {};
  if (given != nullptr) {
    const size_t size = given->size;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
    if (size < sizeof(size_t) || size > options_bytes_max)
      return failure(ErrorCode::invalid_argument, "read the options", "size", "sizeof of them");
    // Fields of a later version that are not 0.
    if (size > sizeof options &&
        std::any_of(bytes + sizeof options, bytes + size, [](unsigned char b) { return b != 0; }))
      return failure(ErrorCode::unsupported, "read the options", "fields of a later version");
    std::memcpy(&options, given, std::min(size, sizeof options));
  }
  options.size = sizeof options;
  return options;
}

// Sets `to`, unless `from` is 0, which keeps the default.
template <class To, class From>
void set(To& to, From from) {
  if (from != 0) to = static_cast<To>(from);
}

inline std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

}  // namespace penstock::c_api
