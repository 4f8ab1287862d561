// Items in memory: sorting, ordering, partitioning.

#include <memory>
#include <span>

#include "interfaces/c/guard.h"
#include "penstock/partition.h"
#include "penstock/sort.h"

using namespace penstock;
using c_api::guarded;
using c_api::opened;
using c_api::options_of;
using c_api::set;

namespace {

// Buckets of any item type.
struct Buckets {
  virtual ~Buckets() = default;
  virtual uint32_t count() const = 0;
  virtual std::pair<void*, size_t> bucket(uint32_t index) const = 0;
};
template <class T>
struct BucketsOf final : Buckets {
  explicit BucketsOf(Partitions<T> made) : parts(std::move(made)) {}
  uint32_t count() const override { return parts.buckets(); }
  std::pair<void*, size_t> bucket(uint32_t index) const override {
    const auto items = parts.bucket(index);
    return {items.data(), items.size()};
  }
  Partitions<T> parts;
};

// The item types of with_type(), which calls work(items) for one of them.
template <class... Types>
struct OneOf {};
using All = OneOf<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, float,
                  double, KeyValue32, KeyValue64, Key128>;

template <class Work, class... Types>
Status with_type(int type, OneOf<Types...> /*types*/, Work&& work) {
  Status status = failure(ErrorCode::invalid_argument, "take items of the type",
                          std::to_string(type), "one of enum penstock_type");
  int number = 0;  // enum penstock_type counts from 1 in the order of the types
  (void)((++number == type && (status = work(static_cast<Types*>(nullptr)), true)) || ...);
  return status;
}

template <class T>
std::span<T> items_of(const void* items, size_t count) {
  return {static_cast<T*>(const_cast<void*>(items)), count};
}

Result<SortOptions> sort_options(const penstock_sort_options* given) {
  const auto from = options_of(given);
  if (!from) return std::unexpected(from.error());
  SortOptions options;
  set(options.threads, from->threads);
  options.descending = from->descending != 0;
  options.stable = from->stable != 0;
  return options;
}

// Calls work(items, options), and returns a code.
template <class Work>
int sorted(int type, const penstock_sort_options* given, Work&& work) {
  return guarded([&]() -> Status {
    const auto options = sort_options(given);
    if (!options) return std::unexpected(options.error());
    return with_type(type, All{}, [&](auto* of) { return work(of, *options); });
  });
}

Result<PartitionBy> partition_by(const penstock_partition_options& options) {
  const unsigned bits = options.bits != 0 ? options.bits : 8;
  switch (options.by) {
    case PENSTOCK_BY_LOW_BITS:
      return ByLowBits{.bits = bits};
    case PENSTOCK_BY_HIGH_BITS:
      return ByHighBits{.bits = bits};
    case PENSTOCK_BY_HASH:
      return ByHash{.bits = bits, .seed = options.seed};
    case PENSTOCK_BY_RANGE:
      return ByRange{.first = options.first,
                     .last = options.last,
                     .buckets = options.buckets != 0 ? options.buckets : 256};
    case PENSTOCK_BY_SPLITTERS:
      if (options.splitters == nullptr && options.splitters_count != 0)
        return failure(ErrorCode::invalid_argument, "read the options", "splitters",
                       "as many as their count says");
      return BySplitters{{options.splitters, options.splitters + options.splitters_count}};
    default:
      return failure(ErrorCode::invalid_argument, "partition by", std::to_string(options.by),
                     "one of enum penstock_partition_by");
  }
}

template <class T>
Result<std::unique_ptr<Buckets>> partitioned(const void* items, size_t count,
                                             const PartitionOptions& options) {
  auto parts = partition<T>(items_of<const T>(items, count), options);
  if (!parts) return std::unexpected(parts.error());
  return std::make_unique<BucketsOf<T>>(std::move(*parts));
}

}  // namespace

struct penstock_partitions {
  std::unique_ptr<Buckets> buckets;
};

int penstock_sort(void* items, size_t count, int type, const penstock_sort_options* options) {
  return sorted(type, options, [&]<class T>(T*, const SortOptions& how) {
    return penstock::sort(items_of<T>(items, count), how);
  });
}

int penstock_partial_sort(void* items, size_t count, size_t first, int type,
                          const penstock_sort_options* options) {
  return sorted(type, options, [&]<class T>(T*, const SortOptions& how) {
    return penstock::partial_sort(items_of<T>(items, count), first, how);
  });
}

int penstock_top_k(const void* items, size_t count, void* least, size_t wanted, int type,
                   const penstock_sort_options* options) {
  return sorted(type, options, [&]<class T>(T*, const SortOptions& how) {
    return penstock::top_k<T>(items_of<const T>(items, count), items_of<T>(least, wanted), how);
  });
}

int penstock_argsort(const void* keys, size_t count, uint64_t* order, int type,
                     const penstock_sort_options* options) {
  return sorted(type, options, [&]<class T>(T*, const SortOptions& how) {
    return penstock::argsort<T>(items_of<const T>(keys, count), {order, count}, how);
  });
}

int penstock_sort_records(void* records, size_t count,
                          const penstock_sort_records_options* options) {
  return guarded([&]() -> Status {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    RecordLayout layout{.record_bytes = from->record_bytes,
                        .key_offset = from->key_offset,
                        .key_bytes = from->key_bytes};
    if (layout.key_bytes == 0 && layout.key_offset < layout.record_bytes)
      layout.key_bytes = layout.record_bytes - layout.key_offset;
    SortOptions how{.descending = from->descending != 0, .stable = from->stable != 0};
    set(how.threads, from->threads);
    return sort_records(records, count, layout, how);
  });
}

int penstock_rank(const void* item, int type, uint64_t* rank) {
  return guarded([&] {
    return with_type(type, All{}, [&]<class T>(T*) -> Status {
      *rank = rank_of(*static_cast<const T*>(item));
      return {};
    });
  });
}

int penstock_partition(const void* items, size_t count, int type,
                       const penstock_partition_options* options,
                       penstock_partitions** partitions) {
  return opened(partitions, [&]() -> Result<std::unique_ptr<Buckets>> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    const auto by = partition_by(*from);
    if (!by) return std::unexpected(by.error());
    PartitionOptions made{.by = *by, .stable = from->stable != 0};
    set(made.threads, from->threads);
    Result<std::unique_ptr<Buckets>> parts = nullptr;
    const Status done = with_type(type, All{}, [&]<class T>(T*) -> Status {
      parts = partitioned<T>(items, count, made);
      return parts ? Status() : std::unexpected(parts.error());
    });
    if (!done) return std::unexpected(done.error());
    return parts;
  });
}
uint32_t penstock_partitions_buckets(const penstock_partitions* partitions) {
  return partitions->buckets->count();
}
void* penstock_partitions_bucket(const penstock_partitions* partitions, uint32_t index,
                                 size_t* count) {
  *count = 0;
  if (index >= partitions->buckets->count()) return nullptr;
  const auto [items, items_count] = partitions->buckets->bucket(index);
  *count = items_count;
  return items_count == 0 ? nullptr : items;
}
void penstock_partitions_close(penstock_partitions* partitions) {
  delete partitions;
}
