// The extension module penstock._penstock: the C++ part of the package, not called by users.

#include "errors.h"

namespace penstock::python {
namespace {

// Messages may contain paths, which may hold any bytes.
nb::object text(const std::string& bytes) {
  return nb::steal<nb::object>(
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

}  // namespace

void raise(const Error& error) {
  const nb::object exception =
      nb::module_::import_("penstock._errors")
          .attr("exception")(static_cast<int>(error.code), text(error.message()),
                             text(error.attempted), text(error.subject), error.system_errno,
                             text(error.hint), error.is_fault);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

}  // namespace penstock::python

NB_MODULE(_penstock, module) {
  module.attr("version") = PENSTOCK_VERSION_STRING;
  penstock::python::bind_memory(module);
  penstock::python::bind_sources(module);
  penstock::python::bind_files(module);
  penstock::python::bind_stream(module);
  penstock::python::bind_rewire(module);
  penstock::python::bind_tables(module);
}
