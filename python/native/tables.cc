// Arrow's record batches through the operations on files, as rows. penstock/_tables.py reads and
// writes the batches, and converts their types to those that column_of() supports.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "errors.h"
#include "penstock/files.h"
#include "row_run.h"
#include "sources.h"

namespace penstock::python {
namespace {

template <class T>
T* pointer_of(const nb::object& capsule, const char* name) {
  void* const pointer = PyCapsule_GetPointer(capsule.ptr(), name);
  if (pointer == nullptr) throw nb::python_error();
  return static_cast<T*>(pointer);
}

// Takes ownership of the array of `__arrow_c_array__`.
Batch batch_of(const nb::object& capsule) {
  auto* const array = pointer_of<ArrowArray>(capsule, "arrow_array");
  if (array->release == nullptr) throw nb::value_error("the batch was given away already");
  Batch batch(*array);
  array->release = nullptr;
  return batch;
}

// Column, descending, nulls first.
using Keys = std::vector<std::tuple<size_t, bool, bool>>;

struct Rows {
  Column table;
  std::vector<SortKey> keys;
  BatchLimits limits;
};

Rows rows_of(const nb::object& schema, const Keys& keys, const BatchLimits& limits) {
  Rows rows{.table = value_of(column_of(*pointer_of<ArrowSchema>(schema, "arrow_schema"))),
            .keys = {},
            .limits = limits};
  for (const auto& [column, descending, nulls_first] : keys) {
    // If a column is named again, its values are equal.
    if (std::ranges::count(rows.keys, column, &SortKey::column) == 0)
      rows.keys.push_back({column, descending, nulls_first});
  }
  return rows;
}

// The rows of a batch with only their keys: cuts or bounds of rows.
nb::list keys_of_rows(const Rows& rows, const nb::object& capsule) {
  const Batch batch = batch_of(capsule);
  RowEncoder encoder = value_of(RowEncoder::make(rows.table, rows.keys));
  nb::list keys;
  std::vector<std::byte> room(MiB);
  for (size_t row = 0; row < static_cast<size_t>(batch.array().length);) {
    const RowEncoder::Encoded encoded = value_of(encoder.encode(batch.array(), row, room));
    if (encoded.rows == 0) room.resize(encoded.bytes);
    std::byte* at = room.data();
    for (const size_t end = row + encoded.rows; row < end; ++row) {
      const RowHead head = RowHead::at(at);
      const uint32_t bytes = RowHead::bytes + head.key_bytes;
      RowHead{bytes, head.key_bytes}.store(at);
      keys.append(nb::bytes(at, bytes));
      at += head.row_bytes;
    }
  }
  return keys;
}

// Defines a Python function of the files, the operation's own options, the rows, and the number of
// tables. `sink`: it returns batches; `checks`: it checks them.
template <class Statistics, class Options>
void bind_table_operation(nb::module_& module, const char* name,
                          Result<Statistics> (*operation)(const FilesOptions&, const Options&),
                          bool sink, bool checks = false) {
  module.def(
      name,
      [=](const FilesOptions& files, const Options& options, const Rows& rows, size_t sources) {
        return new RowRun(files, rows.table, rows.keys, sources, sink, rows.limits,
                          [=](const FilesOptions& all) {
                            auto run_as_json = [&](const FilesOptions& each) {
                              return json_of(operation(each, options));
                            };
                            return checks ? checked(all, run_as_json) : run_as_json(all);
                          });
      },
      nb::arg("files"), nb::arg("options"), nb::arg("rows"), nb::arg("sources"));
}

}  // namespace

void bind_tables(nb::module_& module) {
  nb::class_<BatchLimits>(module, "BatchLimits")
      .def(
          "__init__",
          [](BatchLimits* limits, size_t rows, size_t bytes) {
            new (limits) BatchLimits{rows, bytes};
          },
          nb::arg("rows"), nb::arg("bytes"));
  nb::class_<Rows>(module, "Rows")
      .def(
          "__init__",
          [](Rows* rows, const nb::object& schema, const Keys& keys, const BatchLimits& limits) {
            new (rows) Rows(rows_of(schema, keys, limits));
          },
          nb::arg("schema"), nb::arg("keys"), nb::arg("limits"));
  nb::class_<RowRun>(module, "RowRun")
      .def("next", &RowRun::next, nb::arg("progress").none())
      .def(
          "feed",
          [](RowRun& run, size_t source, const nb::object& batch) {
            run.feed(source, batch.is_none() ? std::nullopt : std::optional(batch_of(batch)));
          },
          nb::arg("source"), nb::arg("batch").none())
      .def("cancel", &RowRun::cancel)
      .def_prop_ro("report", &RowRun::report);
  module.def("keys_of_rows", keys_of_rows, nb::arg("rows"), nb::arg("batch"));
  bind_table_operation(module, "sort_rows", sort_files, true);
  bind_table_operation(module, "sort_rows_checked", sort_files, true, true);
  bind_table_operation(module, "merge_rows", merge_files, true);
  bind_table_operation(module, "partition_rows", partition_files, false);
  bind_table_operation(module, "slice_rows", slice_files, false);
  module.def(
      "read_rows",
      [](const FilesOptions& files, const Rows& rows) {
        return new RowRun(files, rows.table, rows.keys, 0, true, rows.limits, pass_on);
      },
      nb::arg("files"), nb::arg("rows"));
}

}  // namespace penstock::python
