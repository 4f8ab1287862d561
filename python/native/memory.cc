// Sorts and partitions of NumPy arrays. penstock/_memory.py converts every array to rows of numbers
// in contiguous memory, or to records. The GIL is released while they are sorted.

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <memory>
#include <span>
#include <type_traits>
#include <variant>

#include "errors.h"
#include "items/keys/codec.h"

namespace penstock::python {
namespace {

using Rows = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Input = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Order = nb::ndarray<uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T, class Array>
auto row_of(Array& array, size_t row) {
  using Item = std::conditional_t<std::is_same_v<std::remove_const_t<Array>, Input>, const T, T>;
  return std::span<Item>(static_cast<Item*>(array.data()) + row * array.shape(1), array.shape(1));
}

// Calls work(T()) for the dtype's T.
template <class Work>
Status with_type(nb::dlpack::dtype type, Work work) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  if (code == Code::UInt && type.bits == 8) return work(uint8_t());
  if (code == Code::UInt && type.bits == 16) return work(uint16_t());
  if (code == Code::UInt && type.bits == 32) return work(uint32_t());
  if (code == Code::UInt && type.bits == 64) return work(uint64_t());
  if (code == Code::Int && type.bits == 8) return work(int8_t());
  if (code == Code::Int && type.bits == 16) return work(int16_t());
  if (code == Code::Int && type.bits == 32) return work(int32_t());
  if (code == Code::Int && type.bits == 64) return work(int64_t());
  if (code == Code::Float && type.bits == 32) return work(float());
  if (code == Code::Float && type.bits == 64) return work(double());
  return failure(ErrorCode::unsupported, "sort", "an array of this dtype");
}

// Runs work(T(), row) for each row.
template <class Array, class Work>
void for_rows(Array& array, Work work) {
  Status status;
  {
    const nb::gil_scoped_release released;
    status = with_type(array.dtype(), [&](auto type) -> Status {
      for (size_t row = 0; row < array.shape(0); ++row) {
        if (Status done = work(type, row); !done) return done;
      }
      return {};
    });
  }
  check(status);
}

void sort_rows(Rows items, const SortOptions& options) {
  for_rows(items, [&](auto type, size_t row) {
    return sort(row_of<decltype(type)>(items, row), options);
  });
}

void top_rows(Input items, Rows first, const SortOptions& options) {
  for_rows(items, [&](auto type, size_t row) {
    using T = decltype(type);
    return top_k<T>(row_of<T>(items, row), row_of<T>(first, row), options);
  });
}

void argsort_rows(Input keys, Order order, const SortOptions& options) {
  for_rows(keys, [&](auto type, size_t row) {
    using T = decltype(type);
    return argsort<T>(row_of<T>(keys, row), row_of<uint64_t>(order, row), options);
  });
}

void sort_record_array(Bytes records, size_t key_bytes, const SortOptions& options) {
  Status status;
  {
    const nb::gil_scoped_release released;
    status = sort_records(records.data(), records.shape(0),
                          {.record_bytes = records.shape(1), .key_bytes = key_bytes}, options);
  }
  check(status);
}

// ---- Pairs. Keys are unsigned numbers in the same order, encoded as in the library's files.

template <class Key>
using Bits = std::conditional_t<sizeof(Key) == 4, uint32_t, uint64_t>;
template <class Key>
using Codec =
    std::conditional_t<std::is_floating_point_v<Key>,
                       std::conditional_t<sizeof(Key) == 4, items::F32Codec, items::F64Codec>,
                       std::conditional_t<std::is_signed_v<Key>, items::SignedCodec<Bits<Key>>,
                                          items::UnsignedCodec<Bits<Key>>>>;

template <class Key>
Status sort_pairs_of(Key* keys, Bits<Key>* values, size_t count, const SortOptions& options) {
  using Pair = std::conditional_t<sizeof(Key) == 4, KeyValue32, KeyValue64>;
  const std::unique_ptr<Pair[]> pairs(new (std::nothrow) Pair[count]);
  if (!pairs)
    return failure(ErrorCode::out_of_memory, "sort", "pairs",
                   "they take as much memory as both arrays");
  for (size_t i = 0; i < count; ++i)
    pairs[i] = {Codec<Key>::encode(std::bit_cast<Bits<Key>>(keys[i])), values[i]};
  if (Status done = sort(std::span(pairs.get(), count), options); !done) return done;
  for (size_t i = 0; i < count; ++i) {
    keys[i] = std::bit_cast<Key>(Codec<Key>::decode(pairs[i].key));
    values[i] = pairs[i].value;
  }
  return {};
}

// REQUIRES: one row each, items of 4 or 8 bytes, values as wide as keys.
void sort_pairs(Rows keys, Rows values, const SortOptions& options) {
  for_rows(keys, [&](auto type, size_t) -> Status {
    using Key = decltype(type);
    if constexpr (sizeof(Key) >= 4)
      return sort_pairs_of(static_cast<Key*>(keys.data()), static_cast<Bits<Key>*>(values.data()),
                           keys.shape(1), options);
    return failure(ErrorCode::unsupported, "sort", "pairs of such keys");
  });
}

// ---- Partitions.

struct Buckets {
  std::variant<Partitions<uint32_t>, Partitions<uint64_t>> parts;

  uint32_t size() const {
    return std::visit([](const auto& all) { return all.buckets(); }, parts);
  }
  static nb::object bucket(nb::handle self, uint32_t index) {
    return std::visit(
        [&](const auto& all) -> nb::object {
          const auto items = all.bucket(index);
          using T = typename std::remove_reference_t<decltype(items)>::element_type;
          // An empty bucket has no address, which an array would take for "missing".
          static T nothing;
          return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(
              items.empty() ? &nothing : items.data(), {items.size()}, self));
        },
        nb::cast<const Buckets&>(self).parts);
  }
};

struct By {
  std::string by;
  unsigned bits = 8;
  uint64_t seed = 0;
  uint64_t first = 0, last = 0;
  uint32_t buckets = 256;
  std::vector<uint64_t> splitters;
};

PartitionBy rule_of(const By& by) {
  if (by.by == "low") return ByLowBits{by.bits};
  if (by.by == "high") return ByHighBits{.bits = by.bits};
  if (by.by == "hash") return ByHash{.bits = by.bits, .seed = by.seed};
  if (by.by == "range") return ByRange{by.first, by.last, by.buckets};
  return BySplitters{by.splitters};
}

template <class T>
Buckets partition_of(const Input& items, const PartitionOptions& options) {
  std::optional<Result<Partitions<T>>> parts;
  {
    const nb::gil_scoped_release released;
    parts = partition<T>(row_of<T>(items, 0), options);
  }
  return {value_of(std::move(*parts))};
}

Buckets partition_array(Input items, const By& by, unsigned threads, bool stable) {
  const PartitionOptions options{.by = rule_of(by), .threads = threads, .stable = stable};
  return items.itemsize() == 4 ? partition_of<uint32_t>(items, options)
                               : partition_of<uint64_t>(items, options);
}

}  // namespace

void bind_memory(nb::module_& module) {
  nb::class_<SortOptions>(module, "SortOptions")
      .def(
          "__init__",
          [](SortOptions* self, unsigned threads, bool descending, bool stable) {
            new (self) SortOptions{.threads = threads, .descending = descending, .stable = stable};
          },
          nb::arg("threads"), nb::arg("descending"), nb::arg("stable"));
  module.def("sort", sort_rows, nb::arg("items"), nb::arg("options"));
  module.def("top_k", top_rows, nb::arg("items"), nb::arg("first"), nb::arg("options"));
  module.def("argsort", argsort_rows, nb::arg("keys"), nb::arg("order"), nb::arg("options"));
  module.def("sort_pairs", sort_pairs, nb::arg("keys"), nb::arg("values"), nb::arg("options"));
  module.def("sort_records", sort_record_array, nb::arg("records"), nb::arg("key_bytes"),
             nb::arg("options"));

  nb::class_<By>(module, "By")
      .def(nb::init<>())
      .def_rw("by", &By::by)
      .def_rw("bits", &By::bits)
      .def_rw("seed", &By::seed)
      .def_rw("first", &By::first)
      .def_rw("last", &By::last)
      .def_rw("buckets", &By::buckets)
      .def_rw("splitters", &By::splitters);
  nb::class_<Buckets>(module, "Buckets")
      .def("__len__", &Buckets::size)
      .def(
          "bucket",
          [](nb::handle_t<Buckets> self, uint32_t index) { return Buckets::bucket(self, index); },
          nb::arg("index"));
  module.def("partition", partition_array, nb::arg("items"), nb::arg("by"), nb::arg("threads"),
             nb::arg("stable"));
}

}  // namespace penstock::python
