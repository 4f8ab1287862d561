#pragma once

// The library's errors as the exceptions of penstock/_errors.py.

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "penstock/penstock.hpp"

namespace penstock::python {

namespace nb = nanobind;

// REQUIRES: the GIL.
[[noreturn]] void raise(const Error& error);

inline void check(const Status& status) {
  if (!status) raise(status.error());
}

template <class T>
T value_of(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}

// Bytes that may not be UTF-8, such as paths and items.
inline std::string bytes_of(const nb::bytes& bytes) {
  return {bytes.c_str(), bytes.size()};
}

// The JSON of an operation's result.
template <class T>
Result<std::string> json_of(const Result<T>& result) {
  if (!result) return std::unexpected(result.error());
  return to_json(*result);
}

// Registers the functions of each file here.
void bind_memory(nb::module_& module);
void bind_sources(nb::module_& module);
void bind_files(nb::module_& module);
void bind_stream(nb::module_& module);
void bind_rewire(nb::module_& module);
void bind_tables(nb::module_& module);

}  // namespace penstock::python
