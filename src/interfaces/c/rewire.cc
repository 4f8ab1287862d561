// Vectors, tables and snapshots whose pages are remapped.

#include "penstock/rewire.h"

#include <span>

#include "interfaces/c/guard.h"
#include "penstock/containers.h"

using namespace penstock;
using c_api::guarded;
using c_api::opened;
using c_api::options_of;

struct penstock_page_pool {
  PagePool pool;
};
struct penstock_vector {
  RewiredVector<std::byte> vector;
};
struct penstock_table {
  RewiredTable table;
};
struct penstock_snapshot {
  Snapshot snapshot;
};

int penstock_page_pool_open(const penstock_page_pool_options* options, penstock_page_pool** pool) {
  return opened(pool, [&]() -> Result<PagePool> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    PagePool::Options made{.bytes_max = from->bytes_max};
    c_api::set(made.page_bytes, from->page_bytes);
    return PagePool::open(made);
  });
}
void penstock_page_pool_close(penstock_page_pool* pool) {
  delete pool;
}

int penstock_vector_open(const penstock_page_pool* pool, const penstock_vector_options* options,
                         penstock_vector** vector) {
  return opened(vector, [&]() -> Result<RewiredVector<std::byte>> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    return RewiredVector<std::byte>::open(pool->pool, {.bytes_max = from->bytes_max});
  });
}
void* penstock_vector_data(const penstock_vector* vector) {
  return const_cast<std::byte*>(vector->vector.data());
}
uint64_t penstock_vector_bytes(const penstock_vector* vector) {
  return vector->vector.size();
}
int penstock_vector_resize(penstock_vector* vector, uint64_t bytes) {
  return guarded([&]() -> Status {
    if (Status status = vector->vector.try_reserve(bytes); !status) return status;
    vector->vector.resize(bytes);
    return {};
  });
}
int penstock_vector_append(penstock_vector* vector, const void* from, size_t bytes) {
  return guarded(
      [&] { return vector->vector.try_append({static_cast<const std::byte*>(from), bytes}); });
}
void penstock_vector_close(penstock_vector* vector) {
  delete vector;
}

int penstock_table_open(const penstock_page_pool* pool, const penstock_table_options* options,
                        penstock_table** table) {
  return opened(table, [&]() -> Result<RewiredTable> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    RewiredTable::Options made{.bytes = from->bytes,
                               .guarantee_copies = from->guarantee_copies != 0};
    if (from->policy == PENSTOCK_POLICY_RECOVER) {
      made.policy = ErrorPolicy::recover;
    } else if (from->policy != PENSTOCK_POLICY_DEFAULT && from->policy != PENSTOCK_POLICY_STOP) {
      return failure(ErrorCode::invalid_argument, "take the policy", std::to_string(from->policy),
                     "stop or recover");
    }
    return RewiredTable::open(pool->pool, made);
  });
}
void* penstock_table_data(const penstock_table* table) {
  return table->table.begin();
}
uint64_t penstock_table_bytes(const penstock_table* table) {
  return table->table.bytes();
}
int penstock_table_prepare_write(const penstock_table* table, void* address, size_t bytes) {
  return guarded([&] { return table->table.prepare_write(address, bytes); });
}
int penstock_table_snapshot(penstock_table* table, penstock_snapshot** snapshot) {
  return opened(snapshot, [&] { return table->table.snapshot(); });
}
void penstock_table_close(penstock_table* table) {
  delete table;
}
const void* penstock_snapshot_data(const penstock_snapshot* snapshot) {
  return snapshot->snapshot.begin();
}
void penstock_snapshot_close(penstock_snapshot* snapshot) {
  delete snapshot;
}
