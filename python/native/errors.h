#pragma once

// The library's errors as the exceptions of penstock/_errors.py.

#include <nanobind/nanobind.h>

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

// One for each file here.
void bind_memory(nb::module_& module);
void bind_sources(nb::module_& module);
void bind_files(nb::module_& module);
void bind_stream(nb::module_& module);
void bind_rewire(nb::module_& module);
void bind_tables(nb::module_& module);

}  // namespace penstock::python
