// How fast can items be distributed to 2^b buckets of unknown sizes?
//
// One gibibyte of uniform keys, by their leading bits. The ceiling of every method is the same loop
// over buckets that were allocated in the right sizes beforehand, which takes an oracle; the
// physical limit is reading the input and writing it, without buckets. Rivals: two passes, of which
// the first counts; and blocks of 256 KiB in a chain, whose buckets are not contiguous. Sources:
// table 7 of the paper, tables 3.4 and 3.5 of the thesis.
//
// All memory was touched before. A method's time is the whole call, with its buckets in contiguous
// memory at the end.

#include <fmt/format.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "os/memory.h"
#include "papers/partition_methods.h"
#include "penstock/base.h"
#include "penstock/partition.h"
#include "sorting/partition/bucket_function.h"
#include "sorting/partition/pass.h"
#include "sorting/partition/shared_pieces.h"
#include "sorting/scatter/lines.h"

namespace penstock::bench {
namespace {

using scatter::LineScatter;
using scatter::Room;

constexpr size_t line_bytes = scatter::small_line_bytes;
constexpr size_t block_bytes = 2 * MiB;
constexpr size_t chained_block_bytes = 256 * KiB;
constexpr unsigned bits_max = 10;
constexpr unsigned threaded_bits = 8;  // for several threads

struct Method {
  const char* what;
  const partition_internal::Method* memory;
  bool stable = false;
};
const Method pieces = {"M3, shared pieces", &partition_internal::shared_pieces()};
const Method rings = {"1B, private rings, two blocks, mask", &papers::private_rings()};
const std::vector<Method> methods = {
    pieces,
    {"M3, shared pieces, stable", &partition_internal::shared_pieces(), true},
    {"1A, private streams", &papers::private_streams()},
    {"1A, private streams, stable", &papers::private_streams(), true},
    rings,
#if defined(__x86_64__)
    {"1B, private rings, one block, handler", &papers::private_rings(papers::Wrap::handler)},
#endif
    {"1B, private rings, one block, conditional",
     &papers::private_rings(papers::Wrap::conditional)},
    {"2A, shared rings", &papers::shared_rings()},
    {"2B, shared streams", &papers::shared_streams()},
};

// Properties of a bucket that do not depend on the order of its items.
struct Content {
  uint64_t items = 0;
  uint64_t sum = 0;
  bool operator==(const Content&) const = default;
};
template <class T>
Content content_of(std::span<const T> items) {
  Content content{.items = items.size()};
  for (const T item : items) content.sum += item;
  return content;
}

template <class T>
class Bench {
 public:
  static Result<Bench> open(uint64_t items) {
    Bench bench;
    auto input = anonymous_memory(items * sizeof(T), true, true);
    if (!input) return std::unexpected(input.error());
    // Every chain ends in a block that may not be full.
    auto memory =
        anonymous_memory(items * sizeof(T) + (chained_block_bytes << bits_max), true, true);
    if (!memory) return std::unexpected(memory.error());
    bench.input_memory_ = std::move(*input);
    bench.memory_ = std::move(*memory);
    T* const keys = reinterpret_cast<T*>(bench.input_memory_.begin());
    for (uint64_t i = 0; i < items; ++i) keys[i] = static_cast<T>(mix64(i));
    bench.input_ = {keys, items};
    return bench;
  }

  uint64_t items() const { return input_.size(); }

  void choose(unsigned bits) {
    bits_ = bits;
    map_ = partition_internal::make_buckets(ByHighBits{bits}, partition_internal::key_shape_of<T>(),
                                            "")
               ->map;
    expected_.assign(size_t{1} << bits, {});
    for (const T item : input_) {
      Content& content = expected_[item >> (8 * sizeof(T) - bits)];
      ++content.items;
      content.sum += item;
    }
  }
  // A hash over all checked buckets of ours.
  uint64_t hash() const { return hash_; }

  // Each returns seconds; the first call also checks every bucket.
  Result<double> copy() {
    T* const to = reinterpret_cast<T*>(memory_.begin());
    return seconds_of([&] { stream_copy(input_.data(), to, input_.size()); });
  }

  Result<double> preallocated(bool check) {
    const std::vector<std::byte*> starts = starts_of(expected_);
    LineScatter<T> lines(map_.buckets);
    const double seconds = seconds_of([&] { scatter_into(lines, starts); });
    if (check) return checked(seconds, starts);
    return seconds;
  }

  Result<double> two_passes(bool check) {
    std::vector<std::byte*> starts;
    LineScatter<T> lines(map_.buckets);
    const double seconds = seconds_of([&] {
      std::vector<Content> counted(expected_.size());
      // Four counters a bucket, so that equal keys in a row do not wait for each other.
      std::vector<uint64_t> counts(4 * expected_.size());
      const unsigned shift = 8 * sizeof(T) - bits_;
      for (size_t i = 0; i < input_.size(); i += 4) {
        for (size_t k = 0; k < 4; ++k) ++counts[4 * (input_[i + k] >> shift) + k];
      }
      for (size_t bucket = 0; bucket < counted.size(); ++bucket) {
        for (size_t k = 0; k < 4; ++k) counted[bucket].items += counts[4 * bucket + k];
      }
      starts = starts_of(counted);
      scatter_into(lines, starts);
    });
    if (check) return checked(seconds, starts);
    return seconds;
  }

  Result<double> chained(bool check) {
    Chains chains(memory_, expected_.size());
    LineScatter<T> lines(map_.buckets);
    lines.ask_for_room({Chains::make_room, &chains});
    const double seconds = seconds_of([&] {
      scatter_input(lines);
      for (uint32_t bucket = 0; bucket < expected_.size(); ++bucket) lines.flush(bucket);
      scatter::finish_stores();
    });
    for (uint32_t bucket = 0; check && bucket < expected_.size(); ++bucket) {
      Content content;
      for (std::byte* block : chains.blocks[bucket]) {
        const uint64_t left = expected_[bucket].items - content.items;
        const Content more =
            content_of(std::span(reinterpret_cast<const T*>(block),
                                 std::min<uint64_t>(left, chained_block_bytes / sizeof(T))));
        content.items += more.items;
        content.sum += more.sum;
      }
      if (content != expected_[bucket]) return wrong("chained blocks");
    }
    return seconds;
  }

  Result<double> method(const BlockPool& pool, const Method& method, unsigned threads, bool check,
                        PartitionStats* stats = nullptr) {
    const PartitionOptions options{
        .by = ByHighBits{bits_}, .threads = threads, .stable = method.stable};
    const double start = now_seconds();
    auto parts = partition_internal::partition_by<T>(*method.memory, &pool,
                                                     partition_internal::Input<T>(input_), options);
    const double seconds = now_seconds() - start;
    if (!parts) return std::unexpected(parts.error());
    for (uint32_t bucket = 0; check && bucket < parts->buckets(); ++bucket) {
      const Content content = content_of<T>(parts->bucket(bucket));
      if (content != expected_[bucket]) return wrong(method.what);
      hash_ = mix64(hash_ ^ mix64(content.items) ^ content.sum);
    }
    if (stats != nullptr) *stats = parts->stats();
    return seconds;
  }

 private:
  struct Chains {
    Chains(const os::Reservation& memory, size_t buckets) : next(memory.begin()), blocks(buckets) {}
    static void make_room(void* self, uint32_t bucket, Room& room, const std::byte*) {
      auto& chains = *static_cast<Chains*>(self);
      room = {chains.next, chains.next + chained_block_bytes};
      chains.next += chained_block_bytes;
      chains.blocks[bucket].push_back(room.next);
    }
    std::byte* next;
    std::vector<std::vector<std::byte*>> blocks;
  };

  static std::unexpected<Error> wrong(const std::string& what) {
    return failure(ErrorCode::corrupt, "check the buckets", what);
  }

  std::vector<std::byte*> starts_of(const std::vector<Content>& contents) const {
    std::vector<std::byte*> starts;
    std::byte* at = memory_.begin();
    for (const Content& content : contents) {
      starts.push_back(at);
      at += round_up(content.items * sizeof(T), line_bytes);
    }
    return starts;
  }

  void scatter_input(LineScatter<T>& lines) {
    lines.add(input_.data(), input_.size(), map_, {}, input_.data() + input_.size());
  }

  void scatter_into(LineScatter<T>& lines, const std::vector<std::byte*>& starts) {
    for (uint32_t bucket = 0; bucket < starts.size(); ++bucket)
      lines.begin(bucket, reinterpret_cast<T*>(starts[bucket]));
    scatter_input(lines);
    for (uint32_t bucket = 0; bucket < starts.size(); ++bucket) lines.flush(bucket);
    scatter::finish_stores();
  }

  Result<double> checked(double seconds, const std::vector<std::byte*>& starts) const {
    for (size_t bucket = 0; bucket < starts.size(); ++bucket) {
      const std::span items(reinterpret_cast<const T*>(starts[bucket]), expected_[bucket].items);
      if (content_of(items) != expected_[bucket]) return wrong("preallocated buckets");
    }
    return seconds;
  }

  [[gnu::noinline]] static void stream_copy(const T* from, T* to, uint64_t items) {
#if defined(__SSE2__)
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const uint64_t words = items * sizeof(T) / sizeof(__m128i);
    for (uint64_t i = 0; i < words; i += 16) {
      for (uint64_t k = 0; k < 16; k += 4) __builtin_prefetch(source + i + k + 256);
      for (uint64_t k = 0; k < 16; ++k)
        _mm_stream_si128(target + i + k, _mm_load_si128(source + i + k));
    }
    _mm_sfence();
#else
    std::memcpy(to, from, items * sizeof(T));
#endif
  }

  os::Reservation input_memory_;
  os::Reservation memory_;  // memory of the rivals
  std::span<const T> input_;
  unsigned bits_ = 0;
  scatter::BucketMap map_;
  std::vector<Content> expected_;
  uint64_t hash_ = 0;
};

struct Contender {
  std::string what;
  uint64_t items;
  std::function<Result<double>(bool check)> run;
  std::vector<double> ns_per_key = {};
};

// Measures the contenders in turns, so that a disturbance hits all. Returns ordered medians.
Result<std::vector<double>> measure(std::vector<Contender>& contenders, unsigned runs,
                                    const std::string& prefix, Report& report) {
  for (unsigned run = 0; run < runs; ++run) {
    for (Contender& contender : contenders) {
      const auto seconds = contender.run(run == 0);
      if (!seconds) return std::unexpected(seconds.error());
      contender.ns_per_key.push_back(*seconds * 1e9 / static_cast<double>(contender.items));
    }
  }
  std::vector<double> medians;
  for (Contender& contender : contenders)
    medians.push_back(report.add(prefix + contender.what, "ns/key", contender.ns_per_key));
  return medians;
}

template <class T>
Contender contender_of(Bench<T>& bench, const BlockPool& pool, const Method& method,
                       unsigned threads) {
  return {method.what, bench.items(), [&bench, &pool, method, threads](bool check) {
            return bench.method(pool, method, threads, check);
          }};
}

Result<BlockPool> touched_pool(uint64_t bytes, uint64_t ends) {
  auto pool = BlockPool::open(
      {.block_bytes = block_bytes,
       .blocks = static_cast<uint32_t>(bytes / block_bytes + ends + ends / 16 + 64)});
  if (!pool) return pool;
  std::vector<BlockPool::Block> touched;
  for (uint32_t i = 0; i < pool->blocks(); ++i) {
    touched.push_back(pool->take());
    if (!touched.back()) return failure(ErrorCode::out_of_memory, "touch blocks", "bench");
  }
  return pool;
}

Result<Report> run_partition(const Options& options) {
  const uint64_t items = options.quick ? 1 << 24 : 1 << 27;
  const unsigned runs = options.runs_or(9);
  Report report;
  // Each of several threads can end a block in every bucket.
  const uint64_t ends =
      std::max(uint64_t{1} << bits_max, uint64_t{thread_counts(options).back()} << threaded_bits);
  auto pool = touched_pool(items * sizeof(uint64_t), ends);
  if (!pool) return std::unexpected(pool.error());

  {
    auto bench = Bench<uint64_t>::open(items);
    if (!bench) return std::unexpected(bench.error());
    for (const unsigned bits : {8u, 10u}) {
      bench->choose(bits);
      std::vector<Contender> contenders = {
          {"copy (the limit of the memory)", items, [&](bool) { return bench->copy(); }},
          {"preallocated buckets (the ceiling)", items,
           [&](bool check) { return bench->preallocated(check); }},
          {"two passes", items, [&](bool check) { return bench->two_passes(check); }},
          {"chained blocks", items, [&](bool check) { return bench->chained(check); }},
      };
      const size_t ours = contenders.size();
      for (const Method& method : methods) {
        if (!method.stable)  // one thread always keeps the order
          contenders.push_back(contender_of(*bench, *pool, method, 1));
      }
      const auto medians =
          measure(contenders, runs, fmt::format("u64, b = {}, 1 thread: ", bits), report);
      if (!medians) return std::unexpected(medians.error());
      report.ratio(fmt::format("vs_preallocated_u64_b{}", bits), (*medians)[1] / (*medians)[ours]);
      // The loop with preallocated buckets relative to copying; and, as a row, M3.
      if (bits == 8) report.ratio("vs_bandwidth_u64_b8", (*medians)[0] / (*medians)[1]);
      report.add(fmt::format("u64, b = {}, 1 thread: copying's time / M3's", bits), "",
                 {(*medians)[0] / (*medians)[ours]});
    }

    bench->choose(threaded_bits);
    for (const unsigned threads : thread_counts(options)) {
      if (threads == 1) continue;
      std::vector<Contender> contenders;
      for (const Method& method : methods)
        contenders.push_back(contender_of(*bench, *pool, method, threads));
      const auto medians =
          measure(contenders, runs,
                  fmt::format("u64, b = {}, {} threads: ", threaded_bits, threads), report);
      if (!medians) return std::unexpected(medians.error());
    }
    // In 1B each thread has buckets of its own, and the thesis leaves it to their reader to go from
    // one to the next. So only the distribution of 1B is counted, without closing the gaps between
    // them and bringing blocks into rows; of M3, everything is counted.
    std::vector<double> m3_seconds, rings_seconds;
    for (unsigned run = 0; run < runs; ++run) {
      PartitionStats stats;
      const auto whole = bench->method(*pool, pieces, 2, false);
      if (!whole) return std::unexpected(whole.error());
      m3_seconds.push_back(*whole);
      if (const auto done = bench->method(*pool, rings, 2, false, &stats); !done)
        return std::unexpected(done.error());
      rings_seconds.push_back(static_cast<double>(stats.distribute_ns) * 1e-9);
    }
    report.ratio("m3_vs_1b", median(rings_seconds) / median(m3_seconds));
    report.hash(bench->hash());
  }

  auto bench = Bench<uint32_t>::open(2 * items);
  if (!bench) return std::unexpected(bench.error());
  bench->choose(threaded_bits);
  std::vector<Contender> contenders;
  const std::vector<unsigned> counts = thread_counts(options);
  for (const unsigned threads : counts) {
    contenders.push_back(contender_of(*bench, *pool, pieces, threads));
    contenders.back().what += fmt::format(", {} threads", threads);
  }
  const auto medians = measure(contenders, runs, "u32, b = 8: ", report);
  if (!medians) return std::unexpected(medians.error());
  report.hash(bench->hash());
  for (size_t i = 1; i < counts.size(); ++i)
    report.ratio(fmt::format("speedup_{}t_u32", counts[i]), medians->front() / (*medians)[i]);
  return report;
}

const Registration registration{"partition", "dealing keys out to buckets of unknown sizes",
                                run_partition};

}  // namespace
}  // namespace penstock::bench
