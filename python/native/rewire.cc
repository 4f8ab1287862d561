// Vectors that grow without a copy, tables with snapshots. penstock/_rewire.py adds dtypes.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <utility>

#include "errors.h"

namespace penstock::python {
namespace {

using Vector = RewiredVector<uint8_t>;
using NewBytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// An array of bytes that `owner` keeps alive. REQUIRES: bytes > 0.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> array_of(T* data, uint64_t bytes, nb::handle owner) {
  return {data, {static_cast<size_t>(bytes)}, owner};
}

PagePool pool_of(uint64_t bytes_max, size_t page_bytes) {
  return value_of(PagePool::open({.page_bytes = page_bytes, .bytes_max = bytes_max}));
}

}  // namespace

void bind_rewire(nb::module_& module) {
  nb::class_<Vector>(module, "Vector")
      .def_prop_ro("size", &Vector::size)
      .def("append",
           [](Vector& vector, NewBytes items) {
             Status status;
             {
               const nb::gil_scoped_release released;
               status = vector.try_append(std::span(items.data(), items.size()));
             }
             check(status);
           })
      .def("grow",
           [](Vector& vector, size_t size) {
             check(vector.try_reserve(size));
             vector.resize(size);
           })
      .def("bytes", [](nb::handle_t<Vector> self) {
        auto& vector = nb::cast<Vector&>(self);
        return array_of(vector.data(), vector.size(), self);
      });
  module.def("open_vector", [](uint64_t bytes_max, size_t page_bytes) {
    return value_of(Vector::open(pool_of(bytes_max, page_bytes)));
  });

  nb::class_<Snapshot>(module, "Snapshot")
      .def_prop_ro("epoch", &Snapshot::epoch)
      .def("bytes", [](nb::handle_t<Snapshot> self) {
        const auto& snapshot = nb::cast<const Snapshot&>(self);
        return array_of(snapshot.begin<const uint8_t>(), snapshot.bytes(), self);
      });
  nb::class_<RewiredTable>(module, "Table")
      .def("bytes",
           [](nb::handle_t<RewiredTable> self) {
             const auto& table = nb::cast<const RewiredTable&>(self);
             return array_of(table.begin<uint8_t>(), table.bytes(), self);
           })
      .def("snapshot", [](RewiredTable& table) {
        std::optional<Result<Snapshot>> snapshot;
        {
          // Threads that write meanwhile may hold the GIL while they wait for the snapshot.
          const nb::gil_scoped_release released;
          snapshot = table.snapshot();
        }
        return value_of(std::move(*snapshot));
      });
  // Memory for the table twice, and for the pages of snapshots: a write never finds the pool empty.
  module.def("open_table", [](uint64_t bytes, uint64_t bytes_max, size_t page_bytes) {
    return value_of(RewiredTable::open(pool_of(bytes_max, page_bytes),
                                       {.bytes = bytes, .guarantee_copies = true}));
  });
}

}  // namespace penstock::python
