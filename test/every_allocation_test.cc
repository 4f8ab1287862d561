// Fails each allocation of a call once, in a forked child: the call returns out_of_memory or does its work, and its
// input is intact.
//
// This program's malloc(), which operator new also calls, fails when its turn comes, in any thread. A call with
// more than `tried_max` allocations is tried with its first ones, which have most error paths, and with evenly
// spread others.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "os/sanitizer.h"
#include "penstock/base.h"
#include "penstock/containers.h"
#include "penstock/file_stream.h"
#include "penstock/files.h"
#include "penstock/partition.h"
#include "penstock/region.h"
#include "penstock/rewire.h"
#include "penstock/sort.h"
#include "penstock/source.h"
#include "penstock/stream.h"

namespace {

// Allocations until one fails; below 0: none does. A counter, so relaxed order is enough.
std::atomic<int64_t> left{-1};
std::atomic<int64_t> made{0};

[[maybe_unused]] bool fails() {
  made.fetch_add(1, std::memory_order_relaxed);
  if (left.load(std::memory_order_relaxed) < 0) return false;
  if (left.fetch_sub(1, std::memory_order_relaxed) != 0) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PENSTOCK_NO_MALLOC_OF_OURS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PENSTOCK_NO_MALLOC_OF_OURS
#endif
#endif

#ifndef PENSTOCK_NO_MALLOC_OF_OURS
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t bytes) {
  return fails() ? nullptr : __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  return fails() ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  return fails() ? nullptr : __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (fails()) return ENOMEM;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#endif

namespace penstock {
namespace {

constexpr int64_t tried_max = 40;
constexpr int64_t first_tried = 24;
constexpr unsigned seconds_max = 60;  // limit for one try, on a busy machine

enum class End : char { worked, refused, other_error, thrown, lost, ended };
constexpr const char* names_of_ends[] = {"worked",       "out_of_memory",   "another error",
                                         "an exception", "items were lost", "the process ended"};

// A call whose input is made before allocations fail, and checked afterwards.
struct Case {
  std::string name;
  // Makes the input, calls armed(call), and returns whether the input is intact.
  std::function<bool(const std::function<void(const std::function<Status()>&)>& armed)> run;
};
std::ostream& operator<<(std::ostream& to, const Case& each) {
  return to << each.name;
}

class Folder : public testing::Environment {
 public:
  void TearDown() override { folder_.reset(); }
  std::string path() {
    if (!folder_) folder_.emplace();
    return folder_->path();
  }

 private:
  std::optional<TemporaryFolder> folder_;
};
auto* const folder_of_run = static_cast<Folder*>(testing::AddGlobalTestEnvironment(new Folder));
std::string folder() {
  return folder_of_run->path();
}

const std::string& input_file() {
  static const std::string path = [] {
    std::string made = folder() + "/in";
    std::ofstream to(made);
    Random random(1);
    for (int i = 0; i < 2000; ++i) to << random.below(500) << " line " << i << "\n";
    return made;
  }();
  return path;
}
const std::string& sorted_file() {
  static const std::string path = [] {
    std::string made = folder() + "/sorted";
    if (!sort_files({.inputs = {input_file()}, .output = made})) std::abort();
    return made;
  }();
  return path;
}

const std::string& written_file() {
  static const std::string path = folder() + "/written";
  return path;
}

struct Said {
  End end = End::worked;
  int64_t allocations = 0;
  char message[300] = {};
};

// Tries the call in a child, with allocation `n` failing (below 0: none). Sets `allocations` to the call's number.
End try_one(const Case& each, int64_t n, int64_t& allocations, std::string& message) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(seconds_max);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::abort();
    Said said;
    const bool whole = each.run([&](const std::function<Status()>& call) {
      try {
        made = 0;
        left = n;
        const Status status = call();
        left = -1;
        said.allocations = made;
        if (!status) {
          // EAGAIN: the system has no memory to start a thread.
          const bool refused = status.error().code == ErrorCode::out_of_memory ||
                               status.error().system_errno == EAGAIN;
          said.end = refused ? End::refused : End::other_error;
          std::snprintf(said.message, sizeof(said.message), "%s", status.error().message().c_str());
        }
      } catch (const std::exception& exception) {
        left = -1;
        said.end = End::thrown;
        std::snprintf(said.message, sizeof(said.message), "%s", exception.what());
      }
    });
    if (!whole) said.end = End::lost;
    if (::write(ends[1], &said, sizeof(said)) != sizeof(said)) std::abort();
    ::_exit(0);
  }
  ::close(ends[1]);
  Said said;
  if (::read(ends[0], &said, sizeof(said)) != sizeof(said)) said.end = End::ended;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  allocations = said.allocations;
  message = said.message;
  if (said.end == End::ended && WIFSIGNALED(status))
    message = std::string("signal ") + std::to_string(WTERMSIG(status));
  return said.end;
}

class EveryAllocation : public testing::TestWithParam<Case> {};

TEST_P(EveryAllocation, IsAnErrorOrDoesNotMatter) {
#ifdef PENSTOCK_NO_MALLOC_OF_OURS
  GTEST_SKIP() << "the sanitizer has a malloc() of its own";
#endif
  int64_t allocations = 0;
  std::string message;
  (void)sorted_file();  // created here, before allocations fail
  (void)written_file();
  ASSERT_EQ(try_one(GetParam(), -1, allocations, message), End::worked) << message;
  const int64_t step =
      std::max<int64_t>(1, (allocations - first_tried) / (tried_max - first_tried));
  int64_t ends[std::size(names_of_ends)] = {};
  int64_t tries = 0;
  for (int64_t n = 0; n < allocations; n += n < first_tried ? 1 : step) {
    int64_t ignored = 0;
    const End end = try_one(GetParam(), n, ignored, message);
    ++ends[static_cast<size_t>(end)];
    ++tries;
    EXPECT_TRUE(end == End::worked || end == End::refused)
        << "allocation " << n << " of " << allocations << ": "
        << names_of_ends[static_cast<size_t>(end)] << ": " << message;
  }
  std::printf("%s: %ld allocations, %ld failed once: ", GetParam().name.c_str(),
              static_cast<long>(allocations), static_cast<long>(tries));
  for (size_t i = 0; i < std::size(ends); ++i) {
    if (ends[i] != 0) std::printf("%s %ld ", names_of_ends[i], static_cast<long>(ends[i]));
  }
  std::printf("\n");
}

// ---- items in memory

enum class Keys { uniform, heavy, skewed, few };

uint64_t key_of(Keys keys, uint64_t i, uint64_t noise) {
  switch (keys) {
    case Keys::uniform:
      return noise;
    case Keys::heavy:
      return noise >> 62 != 0 ? i % 7 * 0x123456789abcdef : noise;
    case Keys::skewed:  // most keys in a range that a sample sees as a few buckets
      return noise % 16 == 0 ? noise : noise >> (24 + noise % 8);
    case Keys::few:
      return noise % 5;
  }
  return 0;
}

template <class T>
std::vector<T> items_of(size_t count, Keys keys) {
  Random random(count);
  std::vector<T> items(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t key = key_of(keys, i, random.next());
    if constexpr (std::is_same_v<T, Key128>) {
      items[i] = {.low = random.next(), .high = key};
    } else if constexpr (requires { items[i].value; }) {
      items[i] = {static_cast<decltype(items[i].key)>(key),
                  static_cast<decltype(items[i].value)>(i)};
    } else {
      items[i] = static_cast<T>(key);
    }
  }
  return items;
}

// A sum over units of `bytes` that does not depend on their order.
uint64_t sum_of(const void* memory, size_t count, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(memory);
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i, at += bytes) {
    uint64_t hash = 0;
    for (size_t byte = 0; byte < bytes; byte += 8) {
      uint64_t word = 0;
      std::memcpy(&word, at + byte, std::min<size_t>(8, bytes - byte));
      hash = mix64(hash ^ word);
    }
    sum += hash;
  }
  return sum;
}

template <class T, class Call>
Case in_place(std::string name, size_t count, Keys keys, Call call) {
  return {std::move(name), [=](const auto& armed) {
            std::vector<T> items = items_of<T>(count, keys);
            const uint64_t sum = sum_of(items.data(), count, sizeof(T));
            armed([&] { return call(items); });
            return sum_of(items.data(), count, sizeof(T)) == sum;
          }};
}

Case records(std::string name, size_t count, const RecordLayout& layout, Keys keys,
             unsigned threads) {
  return {std::move(name), [=](const auto& armed) {
            std::vector<std::byte> bytes(count * layout.record_bytes);
            Random random(count);
            for (size_t i = 0; i < count; ++i) {
              const uint64_t key = __builtin_bswap64(key_of(keys, i, random.next()));
              std::byte* const record = bytes.data() + i * layout.record_bytes;
              std::memcpy(record + layout.key_offset, &key, std::min<size_t>(8, layout.key_bytes));
              std::memcpy(record + layout.record_bytes - 4, &i, 4);
            }
            const uint64_t sum = sum_of(bytes.data(), count, layout.record_bytes);
            armed([&] { return sort_records(bytes.data(), count, layout, {.threads = threads}); });
            return sum_of(bytes.data(), count, layout.record_bytes) == sum;
          }};
}

// A call whose input is not changed.
Case whole(std::string name, const std::function<Status()>& call) {
  return {std::move(name), [=](const auto& armed) {
            armed(call);
            return true;
          }};
}

template <class T>
Status status_of(const Result<T>& result) {
  return result ? Status() : Status(std::unexpected(result.error()));
}

std::vector<Case> sorts() {
  std::vector<Case> cases;
  const auto sorted = [](unsigned threads, bool stable = false) {
    return
        [=](auto& items) { return penstock::sort(items, {.threads = threads, .stable = stable}); };
  };
  cases.push_back(in_place<uint8_t>("U8", 10'000, Keys::uniform, sorted(1)));
  cases.push_back(in_place<uint16_t>("U16", 10'000, Keys::uniform, sorted(1)));
  cases.push_back(in_place<uint32_t>("U32Passes", 500'000, Keys::uniform, sorted(1)));
  cases.push_back(in_place<uint32_t>("U32", 3 << 19, Keys::uniform, sorted(2)));
  cases.push_back(in_place<uint64_t>("U64Small", 10'000, Keys::uniform, sorted(1)));
  cases.push_back(in_place<uint64_t>("U64", 1 << 18, Keys::uniform, sorted(1)));
  cases.push_back(in_place<uint64_t>("U64TwoThreads", 3 << 19, Keys::uniform, sorted(2)));
  cases.push_back(in_place<uint64_t>("U64Heavy", 1 << 18, Keys::heavy, sorted(1)));
  cases.push_back(in_place<uint64_t>("U64HeavyTwoThreads", 3 << 19, Keys::heavy, sorted(2)));
  cases.push_back(in_place<uint64_t>("U64Skewed", 1 << 20, Keys::skewed, sorted(2)));
  cases.push_back(in_place<int64_t>("I64PartialSort", 1 << 18, Keys::uniform, [](auto& items) {
    return penstock::partial_sort(items, 1000);
  }));
  cases.push_back(in_place<double>("F64", 1 << 18, Keys::uniform, sorted(1)));
  cases.push_back(in_place<KeyValue32>("KeyValue32Stable", 1 << 18, Keys::few, sorted(1, true)));
  cases.push_back(in_place<KeyValue64>("KeyValue64", 3 << 18, Keys::skewed, sorted(2)));
  cases.push_back(
      in_place<KeyValue64>("KeyValue64Stable", 1 << 18, Keys::uniform, sorted(2, true)));
  cases.push_back(in_place<Key128>("Key128OneHighWord", 1 << 18, Keys::few, sorted(1)));
  cases.push_back(in_place<Key128>("Key128", 1 << 18, Keys::uniform, sorted(2)));
  cases.push_back({"U64Appended", [](const auto& armed) {
                     std::vector<uint64_t> items(1 << 18);
                     for (size_t i = 0; i < items.size(); ++i)
                       items[i] = i + (i > 260'000 ? 0 : 9999);
                     const uint64_t sum = sum_of(items.data(), items.size(), 8);
                     armed([&] { return penstock::sort(items); });
                     return sum_of(items.data(), items.size(), 8) == sum;
                   }});
  cases.push_back(
      records("Records40", 5 << 16, {.record_bytes = 40, .key_bytes = 8}, Keys::uniform, 1));
  cases.push_back(records("Records40TwoThreads", 5 << 16, {.record_bytes = 40, .key_bytes = 8},
                          Keys::uniform, 2));
  cases.push_back(
      records("Records16Skewed", 5 << 17, {.record_bytes = 16, .key_bytes = 12}, Keys::skewed, 2));
  cases.push_back(
      records("Records40Few", 5 << 16, {.record_bytes = 40, .key_bytes = 40}, Keys::few, 1));
  cases.push_back(
      records("RecordsSmall", 500, {.record_bytes = 40, .key_bytes = 40}, Keys::few, 1));
  cases.push_back(
      records("Records4096", 500, {.record_bytes = 4096, .key_bytes = 8}, Keys::uniform, 1));
  cases.push_back({"Strings", [](const auto& armed) {
                     const auto numbers = items_of<uint64_t>(50'000, Keys::skewed);
                     std::vector<std::string> words;
                     for (const uint64_t number : numbers) words.push_back(std::to_string(number));
                     std::vector<std::string_view> views(words.begin(), words.end());
                     const uint64_t sum = sum_of(views.data(), views.size(), sizeof(views[0]));
                     armed([&] { return penstock::sort(views, {.threads = 2}); });
                     return sum_of(views.data(), views.size(), sizeof(views[0])) == sum;
                   }});
  cases.push_back(in_place<uint64_t>("Argsort", 1 << 18, Keys::uniform, [](auto& items) {
    static std::array<uint64_t, 1 << 18> order;
    return argsort(items, order, {.threads = 2});
  }));
  cases.push_back(in_place<float>("TopK", 1 << 18, Keys::uniform, [](auto& items) {
    static std::array<float, 1000> best;
    return top_k(items, best);
  }));
  return cases;
}

template <class Call>
Case of_items(std::string name, Call call) {
  return {std::move(name), [=](const auto& armed) {
            const std::vector<uint64_t> items = items_of<uint64_t>(100'000, Keys::uniform);
            armed([&] { return call(std::span<const uint64_t>(items)); });
            return true;
          }};
}

std::vector<Case> partitions() {
  std::vector<Case> cases;
  for (const unsigned threads : {1u, 2u}) {
    for (const bool stable : {false, true}) {
      const std::string name = std::to_string(threads) + (stable ? "Stable" : "");
      const PartitionOptions options = {.by = ByLowBits{4}, .threads = threads, .stable = stable};
      cases.push_back(
          {"Partition" + name, [=](const auto& armed) {
             const auto items = items_of<uint64_t>(100'000, Keys::uniform);
             const auto pool = BlockPool::open({.block_bytes = 16 * KiB, .blocks = 200});
             if (!pool) return false;
             armed([&] {
               return status_of(partition(*pool, std::span<const uint64_t>(items), options));
             });
             return pool->blocks_free() == pool->blocks();
           }});
      if (stable && threads > 1) continue;
      cases.push_back({"RewiredPartition" + name, [=](const auto& armed) {
                         const auto items = items_of<uint64_t>(100'000, Keys::uniform);
                         const auto pool =
                             PagePool::open({.page_bytes = 16 * KiB, .bytes_max = 4 * MiB});
                         if (!pool) return false;
                         const uint64_t free = pool->pages_free();
                         const RewiredPartitionOptions rewired = {
                             .by = ByLowBits{4}, .threads = threads, .stable = stable};
                         armed([&] {
                           return status_of(
                               rewired_partition(*pool, std::span<const uint64_t>(items), rewired));
                         });
                         return pool->pages_free() == free;
                       }});
    }
  }
  cases.push_back(of_items("PartitionOwnPool", [](auto items) {
    return status_of(partition(items, {.by = ByLowBits{4}, .threads = 2}));
  }));
  return cases;
}

// ---- files

// `inputs`: 1 for sorted lines only; 2 for unsorted ones, too.
template <class Call>
Case of_files(std::string name, size_t inputs, const char* output, Call call) {
  return {std::move(name), [=](const auto& armed) {
            FilesOptions options = {.inputs = {sorted_file(), input_file()},
                                    .output = folder() + "/" + output,
                                    .memory_bytes = 64 * MiB};
            options.inputs.resize(inputs);
            armed([&] { return status_of(call(options)); });
            return true;
          }};
}

std::vector<Case> files() {
  return {
      of_files("CheckFile", 1, "out",
               [](const FilesOptions& options) { return check_file(options); }),
      of_files("PlanSortFiles", 2, "out",
               [](const FilesOptions& options) { return plan_sort_files(options); }),
  };
}

std::vector<Case> files_by_threads() {
  return {
      of_files("SortFiles", 2, "out",
               [](const FilesOptions& options) { return sort_files(options); }),
      of_files("MergeFiles", 1, "out",
               [](const FilesOptions& options) { return merge_files(options); }),
      of_files("GroupFiles", 2, "out",
               [](const FilesOptions& options) {
                 return group_files(options, {.aggregates = {.count = true}});
               }),
      of_files("PartitionFiles", 2, "part-{}",
               [](const FilesOptions& options) { return partition_files(options, {.parts = 3}); }),
  };
}

std::vector<Case> streams() {
  return {
      whole("RemapStream",
            [] {
              auto stream = RemapStream::open({.bytes = 1 * MiB, .block_bytes = 64 * KiB});
              if (!stream) return status_of(stream);
              stream->writer()[0] = 1;
              return stream->finish(1);
            }),
      whole("FileReader",
            [] {
              auto reader = FileReader::open(input_file(), {.block_bytes = 64 * KiB});
              if (!reader) return status_of(reader);
              return reader->begin<char>()[5] == 1 ? Status() : reader->status();
            }),
      whole("FileWriter",
            [] {
              auto writer = FileWriter::open(written_file(), {.block_bytes = 64 * KiB});
              if (!writer) return status_of(writer);
              writer->begin<char>()[0] = 1;
              return writer->finish(1);
            }),
      whole("SourceStream",
            [] {
              auto stream = SourceStream::open(input_file());
              if (!stream) return status_of(stream);
              (void)stream->at_end(stream->begin<char>());
              return stream->status();
            }),
      whole("SinkStream",
            [] {
              auto sink = open_sink(written_file());
              if (!sink) return status_of(sink);
              auto stream = SinkStream::open(std::move(*sink), "written");
              if (!stream) return status_of(stream);
              stream->begin<char>()[0] = 1;
              return stream->finish(1);
            }),
      whole("TableAndSnapshot",
            [] {
              auto pool = PagePool::open({.page_bytes = 64 * KiB, .bytes_max = 8 * MiB});
              if (!pool) return status_of(pool);
              auto table = RewiredTable::open(*pool, {.bytes = 1 * MiB});
              if (!table) return status_of(table);
              table->begin<char>()[0] = 1;
              auto snapshot = table->snapshot();
              if (!snapshot) return status_of(snapshot);
              table->begin<char>()[0] = 2;
              return Status();
            }),
      whole("RewiredVector",
            [] {
              auto pool = PagePool::open({.page_bytes = 64 * KiB, .bytes_max = 8 * MiB});
              if (!pool) return status_of(pool);
              auto vector = RewiredVector<uint64_t>::open(*pool);
              if (!vector) return status_of(vector);
              if (auto status = vector->try_reserve(100'000); !status) return status;
              return vector->try_push_back(1);
            }),
  };
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Sorts, EveryAllocation, testing::ValuesIn(sorts()), name_of);
INSTANTIATE_TEST_SUITE_P(Partitions, EveryAllocation, testing::ValuesIn(partitions()), name_of);
INSTANTIATE_TEST_SUITE_P(Files, EveryAllocation, testing::ValuesIn(files()), name_of);
INSTANTIATE_TEST_SUITE_P(FilesByThreads, EveryAllocation, testing::ValuesIn(files_by_threads()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Streams, EveryAllocation, testing::ValuesIn(streams()), name_of);

}  // namespace
}  // namespace penstock
