// Writes traces of known shapes, for report_page_test.py and for tests of large pages:
//
//   report_page_traces sort|random|many|hostile REQUESTS FILE
//
// sort:    a sort of two passes: one input to 16 temporaries, and those to one output
// random:  4 KiB here and there in one large file, by 4 processes: the worst for a picture
// many:    small files in two folders, one after the other: each too thin for its name
// hostile: names that try to inject markup into a page

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "penstock/base.h"
#include "trace/format/format.h"

namespace penstock::trace {
namespace {

class Maker {
 public:
  Maker(TraceWriter& writer, uint64_t requests) : writer_(writer), requests_(requests) {}

  bool full() const { return made_ >= requests_; }
  void open(int32_t process, int32_t descriptor, uint32_t file) {
    add({.process = process,
         .descriptor = descriptor,
         .file = file,
         .flags = flag::read | flag::write,
         .call = Call::open});
  }
  void request(int32_t process, int32_t descriptor, Call call, uint64_t offset, uint64_t bytes) {
    if (full()) return;
    ++made_;
    // Two GB/s, with some slow calls.
    const uint64_t latency_ns =
        bytes / 2 + 20'000 + random_.below(20'000) + (random_.below(500) == 0 ? 4'000'000 : 0);
    add({.latency_ns = latency_ns,
         .offset = offset,
         .bytes = bytes,
         .result = bytes,
         .process = process,
         .descriptor = descriptor,
         .call = call});
    now_ns_ += latency_ns;
  }
  // Does not count as a request.
  void sync(int32_t process, int32_t descriptor, uint32_t file) {
    const uint64_t latency_ns = 3'000'000 + random_.below(9'000'000);
    add({.latency_ns = latency_ns,
         .process = process,
         .descriptor = descriptor,
         .file = file,
         .call = Call::sync});
    now_ns_ += latency_ns;
  }
  uint64_t below(uint64_t bound) { return random_.below(bound); }

 private:
  void add(Event event) {
    event.start_ns = now_ns_;
    event.thread = event.process;
    if (Status added = writer_.add(event); !added) {
      std::fprintf(stderr, "%s\n", added.error().message().c_str());
      std::exit(2);
    }
  }

  TraceWriter& writer_;
  const uint64_t requests_;
  uint64_t made_ = 0;
  uint64_t now_ns_ = 1'000'000;
  Random random_{42};
};

void make_sort(TraceWriter& writer, uint64_t requests) {
  constexpr int buckets = 16;
  constexpr uint64_t block_bytes = MiB;
  const uint64_t blocks = std::max<uint64_t>(requests / 4, buckets);
  writer.add_file({.kind = FileKind::regular, .inode = 1, .path = "/data/in.bin"});
  for (int i = 0; i < buckets; ++i) {
    writer.add_file({.kind = FileKind::regular,
                     .inode = 10u + static_cast<unsigned>(i),
                     .path = "/tmp/bucket-" + std::to_string(i)});
  }
  writer.add_file({.kind = FileKind::regular, .inode = 99, .path = "/data/out.bin"});
  Maker maker(writer, requests);
  for (int i = 0; i < buckets + 2; ++i) maker.open(100, 3 + i, 1 + static_cast<uint32_t>(i));
  // The fullest bucket is written after each stretch of input.
  std::vector<uint64_t> written(buckets), read(buckets);
  const uint64_t run = std::max<uint64_t>(1, blocks / 200);
  for (uint64_t done = 0, turn = 0; done < blocks; ++turn) {
    const uint64_t now = std::min(run, blocks - done);
    for (uint64_t i = 0; i < now; ++i) {
      maker.request(100, 3, Call::read, (done + i) * block_bytes, block_bytes);
    }
    const int bucket = static_cast<int>(turn * 7 % buckets);
    for (uint64_t i = 0; i < now; ++i) {
      maker.request(100, 4 + bucket, Call::write, written[bucket]++ * block_bytes, block_bytes);
    }
    done += now;
  }
  uint64_t out = 0;
  while (!maker.full()) {
    for (int bucket = 0; bucket < buckets && !maker.full(); ++bucket) {
      const uint64_t now = std::min(run, written[bucket] - read[bucket]);
      for (uint64_t i = 0; i < now; ++i) {
        maker.request(100, 4 + bucket, Call::read, read[bucket]++ * block_bytes, block_bytes);
      }
      for (uint64_t i = 0; i < now; ++i) {
        maker.request(100, 4 + buckets, Call::write, out++ * block_bytes, block_bytes);
      }
      maker.sync(100, 4 + buckets, 2 + buckets);
    }
    if (out >= blocks) break;
  }
}

void make_random(TraceWriter& writer, uint64_t requests) {
  writer.add_file({.kind = FileKind::regular, .inode = 1, .path = "/data/table.db"});
  Maker maker(writer, requests);
  for (int32_t process = 100; process < 104; ++process) maker.open(process, 3, 1);
  while (!maker.full()) {
    const auto process = static_cast<int32_t>(100 + maker.below(4));
    const Call call = maker.below(4) == 0 ? Call::write : Call::read;
    maker.request(process, 3, call, maker.below(GiB * 64 / 4096) * 4096, 4096);
  }
}

void make_many(TraceWriter& writer, uint64_t requests) {
  constexpr int files = 250;
  for (int i = 0; i < files; ++i) {
    const char* folder = i < files / 2 ? "/data/logs/day-" : "/data/parts/part-";
    writer.add_file({.kind = FileKind::regular,
                     .inode = 1u + static_cast<unsigned>(i),
                     .path = folder + std::to_string(1000 + i)});
  }
  Maker maker(writer, requests);
  for (int i = 0; i < files; ++i) maker.open(100, 3 + i, 1 + static_cast<uint32_t>(i));
  for (uint64_t i = 0; !maker.full(); ++i) {
    const auto file = static_cast<int32_t>(i * files / requests % files);
    maker.request(100, 3 + file, i % 3 == 0 ? Call::write : Call::read, i % 16 * 64 * KiB,
                  64 * KiB);
  }
}

void make_hostile(TraceWriter& writer, uint64_t requests) {
  const std::vector<std::string> names = {
      "</script><script>document.title='taken'</script>",
      "\"><img src=http://127.0.0.1:1/x onerror=\"document.title='taken'\">",
      "' onmouseover='alert(1)",
      "a\u202Egnp.exe\n\x1b[31m\xff\xfe",
      "<style>*{display:none}</style>" + std::string(3000, 'w'),
  };
  for (size_t i = 0; i < names.size(); ++i) {
    writer.add_file({.kind = FileKind::regular, .inode = i + 1, .path = names[i]});
  }
  Maker maker(writer, requests);
  for (size_t i = 0; i < names.size(); ++i) {
    maker.open(100, static_cast<int32_t>(i) + 3, static_cast<uint32_t>(i) + 1);
  }
  for (uint64_t i = 0; !maker.full(); ++i) {
    maker.request(100, static_cast<int32_t>(i % names.size()) + 3, Call::write, i * 512, 512);
  }
}

int make(const std::string& kind, uint64_t requests, const std::string& path) {
  auto writer = TraceWriter::create(
      path, {.backend = Backend::synthetic,
             .wall_ns = 0,
             .command = kind == "hostile" ? "<b>sh</b> -c '</title>'" : "made up: " + kind,
             .host = "Linux"});
  if (!writer) {
    std::fprintf(stderr, "%s\n", writer.error().message().c_str());
    return 2;
  }
  if (kind == "sort") {
    make_sort(*writer, requests);
  } else if (kind == "random") {
    make_random(*writer, requests);
  } else if (kind == "many") {
    make_many(*writer, requests);
  } else if (kind == "hostile") {
    make_hostile(*writer, requests);
  } else {
    return 2;
  }
  return writer->finish({}) ? 0 : 2;
}

}  // namespace
}  // namespace penstock::trace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return penstock::trace::make(argv[1], std::strtoull(argv[2], nullptr, 10), argv[3]);
}
