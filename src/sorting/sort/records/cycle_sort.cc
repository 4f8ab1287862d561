#include "sorting/sort/records/cycle_sort.h"

#include <cstring>
#include <memory>
#include <new>

#include "base/out_of_memory.h"
#include "sorting/sort/in_place/in_place_sort.h"

namespace penstock::sorting {

Status sort_by_cycles(std::byte* records, size_t count, const Keys& keys, size_t pos,
                      unsigned threads) {
  const size_t record_bytes = keys.layout().record_bytes;
  std::unique_ptr<KeyValue[]> pairs(new (std::nothrow) KeyValue[count]);
  std::unique_ptr<std::byte[]> kept(new (std::nothrow) std::byte[record_bytes]);
  if (pairs == nullptr || kept == nullptr) return out_of_memory();
  const PrefixLoad prefix(keys, pos);
  for (size_t i = 0; i < count; ++i) {
    const std::byte* record = records + i * record_bytes;
    pairs[i] = {prefix(record), value_of(record)};
  }
  auto sort_run = [threads](KeyValue* run, size_t run_count, const KeyRange&) {
    return sort_in_place(run, run_count, {.order = {}, .stable = true, .threads = threads});
  };
  if (auto status = sort_run(pairs.get(), count, {}); !status) return status;
  if (auto status = sort_ties(pairs.get(), count, keys, pos, sort_run); !status) return status;
  for (size_t i = 0; i < count; ++i) {
    std::byte* const first = records + i * record_bytes;
    if (record_of(pairs[i]) == first) continue;
    std::memcpy(kept.get(), first, record_bytes);
    for (size_t at = i;;) {
      std::byte* const to = records + at * record_bytes;
      const std::byte* const from = record_of(pairs[at]);
      pairs[at].value = value_of(to);
      if (from == first) {
        std::memcpy(to, kept.get(), record_bytes);
        break;
      }
      std::memcpy(to, from, record_bytes);
      at = static_cast<size_t>(from - records) / record_bytes;
    }
  }
  return {};
}

}  // namespace penstock::sorting
