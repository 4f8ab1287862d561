// Test labels: one-thread

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "penstock/base.h"
#include "penstock/trace.h"
#include "trace/export/export.h"
#include "trace/format/format.h"

namespace penstock::trace {
namespace {

// A trace that a test writes event by event. Times increase automatically.
class Script {
 public:
  Script()
      : path_((std::filesystem::temp_directory_path() /
               ("penstock-convert-" + std::to_string(::getpid()) + ".trace"))
                  .string()),
        writer_(*TraceWriter::create(path_, {.backend = Backend::synthetic})) {}
  ~Script() { std::filesystem::remove(path_); }

  uint32_t file(const std::string& name, uint64_t bytes = 0, FileKind kind = FileKind::regular) {
    return writer_.add_file({.kind = kind, .bytes = bytes, .path = name});
  }
  void add(Event event) {
    if (event.start_ns == 0) event.start_ns = time_ += 100;
    if (event.thread == 0) event.thread = event.process;
    ASSERT_TRUE(writer_.add(event));
  }
  void open(int32_t process, int32_t descriptor, uint32_t file, uint64_t bytes = 0,
            uint32_t flags = 0) {
    add({.result = bytes,
         .process = process,
         .descriptor = descriptor,
         .file = file,
         .flags = flags,
         .call = Call::open});
  }
  void read(int32_t process, int32_t descriptor, uint64_t bytes, uint64_t at = no_offset) {
    add({.offset = at,
         .bytes = bytes,
         .result = bytes,
         .process = process,
         .descriptor = descriptor,
         .call = Call::read});
  }
  void write(int32_t process, int32_t descriptor, uint64_t bytes, uint64_t at = no_offset) {
    add({.offset = at,
         .bytes = bytes,
         .result = bytes,
         .process = process,
         .descriptor = descriptor,
         .call = Call::write});
  }
  void seek(int32_t process, int32_t descriptor, uint64_t to) {
    add({.result = to, .process = process, .descriptor = descriptor, .call = Call::seek});
  }

  Conversion convert(const ConvertOptions& options = {}) {
    EXPECT_TRUE(writer_.finish({}));
    requests.clear();
    auto conversion = convert_file(path_, options, [&](std::span<const Request> batch) -> Status {
      requests.insert(requests.end(), batch.begin(), batch.end());
      return {};
    });
    EXPECT_TRUE(conversion) << conversion.error().message();
    return conversion ? *conversion : Conversion{};
  }
  const std::string& path() const { return path_; }

  std::vector<Request> requests;

 private:
  std::string path_;
  TraceWriter writer_;
  uint64_t time_ = 0;
};

// Syncs and requests of the same time keep their order, too.
TEST(Conversion, SyncsKeepTheirPlaceAndAreNoRequests) {
  Script script;
  const uint32_t a = script.file("/a"), pipe = script.file("pipe", 0, FileKind::pipe);
  auto sync = [&](uint32_t file, uint64_t start_ns) {
    script.add({.start_ns = start_ns,
                .process = 1,
                .descriptor = 3,
                .file = file,
                .flags = flag::data_only,
                .call = Call::sync});
  };
  script.open(1, 3, a);
  script.write(1, 3, 10);
  sync(a, 200);
  script.write(1, 3, 10);
  sync(pipe, 0);
  script.write(1, 3, 10);
  sync(a, 0);
  const Conversion conversion = script.convert({.syncs = true});
  std::vector<std::pair<uint64_t, bool>> found;
  for (const Request& request : script.requests)
    found.emplace_back(request.offset, request.is_sync());
  EXPECT_EQ(found, (std::vector<std::pair<uint64_t, bool>>{
                       {0, false}, {0, true}, {10, false}, {20, false}, {0, true}}));
  EXPECT_EQ(conversion.requests, 3u);
  EXPECT_EQ(conversion.writes, 3u);
  EXPECT_EQ(conversion.device_seeks, 1u);
  EXPECT_EQ(conversion.files[0].syncs, 2u);
}

// Section VI.C of the paper: "one process may issue a read of size x at offset y within a given
// file, followed by a seek to the end of the stream. Then, another process, which has an open
// handle to the same file, requests a seek to offset x + y and a read of size z. Our platform
// detects this as a sequential I/O of length x + z, despite the multiple seeks in the middle."
TEST(Conversion, SeekThatLeadsBackToTheLastAccessIsNone) {
  constexpr uint64_t x = 3000, y = 10000, z = 500;
  Script script;
  const uint32_t file = script.file("/data", 100000);
  script.open(1, 3, file, 100000);
  script.open(2, 5, file, 100000);
  script.seek(1, 3, y);
  script.read(1, 3, x);
  script.seek(1, 3, 100000);
  script.seek(2, 5, x + y);
  script.read(2, 5, z);
  const Conversion conversion = script.convert();
  ASSERT_EQ(script.requests.size(), 2u);
  EXPECT_EQ(script.requests[1].offset, x + y);
  EXPECT_FALSE(script.requests[1].file_seek);
  EXPECT_FALSE(script.requests[1].device_seek);
  EXPECT_EQ(conversion.file_seeks, 1u);  // the first access is not at 0
  EXPECT_EQ(conversion.device_seeks, 1u);
  EXPECT_EQ(conversion.mean_run_bytes(), x + z);
  EXPECT_EQ(conversion.runs[11], 1u);  // a run of 3500 bytes
  EXPECT_EQ(conversion.processes, 2u);
}

TEST(Conversion, InterleavedFilesAreSeeksOfTheDiskAndNotOfTheFiles) {
  Script script;
  const uint32_t a = script.file("/a", 1000), b = script.file("/b", 1000);
  script.open(1, 3, a, 1000);
  script.open(1, 4, b, 1000);
  for (int i = 0; i < 5; ++i) {
    script.read(1, 3, 100);
    script.read(1, 4, 100);
  }
  const Conversion conversion = script.convert();
  EXPECT_EQ(conversion.file_seeks, 0u);
  EXPECT_EQ(conversion.device_seeks, 10u);
  EXPECT_EQ(conversion.runs[6], 10u);
  EXPECT_EQ(conversion.files[0].switches, 5u);
}

TEST(Conversion, RequestsComeInTheOrderTheyWereStarted) {
  Script script;
  const uint32_t file = script.file("/a", 1 << 20);
  script.open(1, 3, file, 1 << 20);
  for (uint64_t i = 0; i < 1000; ++i) {
    // In each group of four, the last one started ends first.
    const uint64_t place = i / 4 * 4 + (3 - i % 4);
    script.add({.start_ns = 10000 + place,
                .offset = place * 512,
                .bytes = 512,
                .result = 512,
                .process = 1,
                .descriptor = 3,
                .call = Call::read});
  }
  const Conversion conversion = script.convert({.reorder_requests = 16});
  EXPECT_EQ(conversion.late, 0u);
  EXPECT_EQ(conversion.device_seeks, 1u);
  ASSERT_EQ(script.requests.size(), 1000u);
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(script.requests[i].offset, i * 512);
}

// Times fall, rise and jump. A window that holds all requests sorts them, and keeps the order of the
// trace for equal times.
TEST(Conversion, AnyOrderIsSortedWithinTheWindow) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Script script;
    const uint32_t file = script.file("/a", 1 << 30);
    script.open(1, 3, file, 1 << 30);
    std::vector<uint64_t> wanted;  // start * 2^20 + order in the trace
    constexpr uint64_t count = 3000;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t start = 1 + random.below(seed * 100);
      if (seed % 3 == 0) start = 1 + (count - i) / 3;
      if (seed % 3 == 1) start = 1 + i / 2 + random.below(100) * random.below(2);
      wanted.push_back(start << 20 | i);
      script.add({.start_ns = start,
                  .offset = i,
                  .bytes = 1,
                  .result = 1,
                  .process = 1,
                  .descriptor = 3,
                  .call = Call::read});
    }
    std::ranges::sort(wanted);
    const Conversion conversion = script.convert({.reorder_requests = count});
    EXPECT_EQ(conversion.late, 0u);
    ASSERT_EQ(script.requests.size(), count);
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(script.requests[i].start_ns << 20 | script.requests[i].offset, wanted[i]) << i;
    }
    // A small window passes all requests on as well, although some come late.
    const auto small = convert_file(script.path(), {.reorder_requests = 8}, {});
    ASSERT_TRUE(small);
    EXPECT_EQ(small->requests, count);
  }
}

TEST(Conversion, CallThatTookLongerThanTheWindowIsCountedAsLate) {
  Script script;
  const uint32_t file = script.file("/a", 1 << 20);
  script.open(1, 3, file, 1 << 20);
  for (int i = 0; i < 100; ++i) script.read(1, 3, 512);
  script.add({.start_ns = 1,
              .offset = 0,
              .bytes = 1,
              .result = 1,
              .process = 1,
              .descriptor = 3,
              .call = Call::read});
  const Conversion conversion = script.convert({.reorder_requests = 8});
  EXPECT_EQ(conversion.requests, 101u);
  EXPECT_EQ(conversion.late, 1u);
  EXPECT_FALSE(conversion.caveats().empty());
}

TEST(Conversion, UnderLimitsItToTheFilesOfAFolder) {
  Script script;
  const uint32_t a = script.file("/in/a", 1000), b = script.file("/lib/b", 1000);
  script.open(1, 3, a, 1000);
  script.open(1, 4, b, 1000);
  script.read(1, 3, 100);
  script.read(1, 4, 100);
  script.read(1, 3, 100);
  const Conversion conversion = script.convert({.under = "/in/"});
  EXPECT_EQ(conversion.requests, 2u);
  EXPECT_EQ(conversion.device_seeks, 1u);
  ASSERT_EQ(conversion.files.size(), 1u);
  EXPECT_EQ(conversion.files[0].path, "/in/a");
}

// The first calls of both processes have ended in the kernel before the tracer sees the end of the
// second one.
TEST(Conversion, SizeOfAnOpenIsNotBelievedWhileOthersWrite) {
  Script script;
  const uint32_t file = script.file("/log");
  constexpr uint32_t appends = flag::write | flag::append;
  script.open(1, 3, file, 0, appends);
  script.write(1, 3, 10);
  script.open(2, 3, file, 30, appends);  // the size includes the next write
  script.write(1, 3, 20);
  script.write(2, 3, 5);
  script.add({.process = 1, .descriptor = 3, .call = Call::close});
  script.add({.process = 2, .descriptor = 3, .call = Call::close});
  script.open(2, 3, file, 1000, appends);  // a process that is not traced has written
  script.write(2, 3, 1);
  const Conversion conversion = script.convert();
  ASSERT_EQ(script.requests.size(), 4u);
  EXPECT_EQ(script.requests[1].offset, 10u);
  EXPECT_EQ(script.requests[2].offset, 30u);
  EXPECT_EQ(script.requests[3].offset, 1000u);
  EXPECT_EQ(conversion.files[0].peak_bytes, 1001u);
}

// A file is extended by a GiB ahead of its writes, reported, truncated, and read again.
TEST(Conversion, SpaceThatWasOnlyReservedIsNotUsed) {
  Script script;
  const uint32_t file = script.file("/out");
  script.open(1, 3, file, 0, flag::write | flag::truncates);
  script.write(1, 3, 1000);
  for (const Call call : {Call::truncate, Call::allocate}) {
    script.add({.offset = 0,
                .bytes = GiB,
                .result = GiB,
                .process = 1,
                .descriptor = 3,
                .file = file,
                .call = call});
  }
  script.write(1, 3, 5000);
  script.add({.process = 1, .descriptor = 3, .call = Call::close});
  script.open(1, 3, file, GiB, 0);  // the size has not changed
  script.add({.process = 1, .descriptor = 3, .call = Call::close});
  const Conversion conversion = script.convert();
  EXPECT_EQ(conversion.files[0].peak_bytes, GiB);
  EXPECT_EQ(conversion.files[0].used_bytes, 6000u);
}

TEST(Conversion, BytesBeyondTheReservedSpaceWereWrittenByAnotherProcess) {
  Script script;
  const uint32_t file = script.file("/out");
  script.open(1, 3, file, 0, flag::write);
  script.add({.result = 500, .process = 1, .descriptor = 3, .file = file, .call = Call::truncate});
  script.add({.process = 1, .descriptor = 3, .call = Call::close});
  script.open(1, 3, file, 700, 0);
  EXPECT_EQ(script.convert().files[0].used_bytes, 700u);
}

TEST(Conversion, TraceThatIsCutOffIsConvertedUpToTheCut) {
  Script script;
  const uint32_t file = script.file("/a", 1 << 30);
  script.open(1, 3, file, 1 << 30);
  for (int i = 0; i < 200000; ++i) script.read(1, 3, 4096);
  EXPECT_EQ(script.convert().requests, 200000u);
  std::filesystem::resize_file(script.path(), std::filesystem::file_size(script.path()) * 2 / 3);
  const auto conversion = convert_file(script.path(), {}, {});
  ASSERT_TRUE(conversion);
  EXPECT_FALSE(conversion->complete);
  EXPECT_GT(conversion->requests, 50000u);
  EXPECT_LT(conversion->requests, 200000u);
  EXPECT_EQ(conversion->device_seeks, 1u);
}

// ---- Comparison with a plain model of the kernel's state.

class Model {
 public:
  struct Inode {
    uint64_t bytes = 0, peak = 0, used = 0;
  };
  struct Open {
    uint32_t file;
    uint64_t position = 0;
    bool append = false;
  };
  struct Slot {
    std::shared_ptr<Open> open;
    bool cloexec = false;
  };
  using Table = std::map<int32_t, Slot>;

  std::vector<Inode> inodes;
  std::map<int32_t, std::shared_ptr<Table>> processes;
};

TEST(Conversion, EqualsAPlainModelOfTheKernel) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Script script;
    Model model;
    std::vector<std::string> names;
    std::vector<Request> wanted;
    for (uint32_t i = 0; i < 4; ++i) {
      names.push_back("/f" + std::to_string(i));
      (void)script.file(names.back());
      model.inodes.emplace_back();
    }
    model.processes[1] = std::make_shared<Model::Table>();
    int32_t next_process = 2;
    const auto any_descriptor = [&] {
      // Some numbers are beyond the tables' arrays.
      const auto number = static_cast<int32_t>(random.below(6));
      return random.below(5) == 0 ? number + 5000 : number;
    };
    for (int step = 0; step < 3000; ++step) {
      auto at = model.processes.begin();
      std::advance(at, static_cast<long>(random.below(model.processes.size())));
      const int32_t process = at->first;
      Model::Table& table = *at->second;
      const int32_t descriptor = any_descriptor();
      const auto slot = table.find(descriptor);
      Model::Open* open = slot == table.end() ? nullptr : slot->second.open.get();
      Model::Inode* inode = open == nullptr ? nullptr : &model.inodes[open->file - 1];
      const auto access = [&](uint64_t offset, uint64_t bytes, Access kind) {
        if (bytes == 0) return;
        inode->bytes = std::max(inode->bytes, offset + bytes);
        inode->peak = std::max(inode->peak, inode->bytes);
        inode->used = std::max(inode->used, offset + bytes);
        wanted.push_back({.offset = offset,
                          .bytes = bytes,
                          .file = open->file - 1,
                          .process = process,
                          .access = kind});
      };
      switch (random.below(13)) {
        case 0: {
          const auto file = static_cast<uint32_t>(1 + random.below(4));
          uint32_t flags = 0;
          if (random.below(4) == 0) flags |= flag::truncates;
          if (random.below(3) == 0) flags |= flag::append;
          if (random.below(2) == 0) flags |= flag::close_on_exec;
          if (random.below(2) == 0) flags |= flag::write;
          if (flags & flag::truncates) model.inodes[file - 1].bytes = 0;
          table[descriptor] = {
              std::make_shared<Model::Open>(Model::Open{file, 0, (flags & flag::append) != 0}),
              (flags & flag::close_on_exec) != 0};
          script.open(process, descriptor, file, model.inodes[file - 1].bytes, flags);
          break;
        }
        case 1:
          table.erase(descriptor);
          script.add({.process = process, .descriptor = descriptor, .call = Call::close});
          break;
        case 2: {
          if (open == nullptr) break;
          const int32_t other = any_descriptor();
          if (other == descriptor) break;
          table[other] = {slot->second.open, false};
          script.add({.process = process,
                      .descriptor = descriptor,
                      .descriptor2 = other,
                      .call = Call::duplicate});
          break;
        }
        case 3: {
          if (model.processes.size() > 5) break;
          const bool shares = random.below(4) == 0;
          model.processes[next_process] =
              shares ? at->second : std::make_shared<Model::Table>(table);
          script.add({.process = process,
                      .child = next_process,
                      .flags = shares ? flag::shares_descriptors : 0,
                      .call = Call::fork});
          ++next_process;
          break;
        }
        case 4:
          if (random.below(4) != 0) break;
          at->second = std::make_shared<Model::Table>(table);
          std::erase_if(*at->second, [](const auto& entry) { return entry.second.cloexec; });
          script.add({.process = process, .call = Call::exec});
          break;
        case 5:
          if (model.processes.size() == 1 || random.below(3) != 0) break;
          model.processes.erase(at);
          script.add({.process = process, .call = Call::exit});
          break;
        case 6: {
          if (open == nullptr) break;
          open->position = random.below(20000);
          script.seek(process, descriptor, open->position);
          break;
        }
        case 7: {
          if (open == nullptr) break;
          inode->bytes = random.below(20000);
          inode->peak = std::max(inode->peak, inode->bytes);
          script.add({.result = inode->bytes,
                      .process = process,
                      .descriptor = descriptor,
                      .file = open->file,
                      .call = Call::truncate});
          break;
        }
        case 8: {
          if (random.below(4) != 0) break;
          const int32_t first = any_descriptor(), last = any_descriptor();
          const bool marks = random.below(2) == 0;
          for (auto entry = table.begin(); entry != table.end();) {
            const bool inside = entry->first >= first && entry->first <= last;
            if (inside && marks) entry->second.cloexec = true;
            entry = inside && !marks ? table.erase(entry) : std::next(entry);
          }
          script.add({.process = process,
                      .descriptor = first,
                      .descriptor2 = last,
                      .flags = marks ? flag::close_on_exec : 0,
                      .call = Call::close_range});
          break;
        }
        case 9: {
          if (open == nullptr) break;
          const uint64_t offset = random.below(20000);
          const uint64_t bytes = random.below(1000);
          const bool writes = random.below(2) == 0;
          if (writes) {
            script.write(process, descriptor, bytes, offset);
            access(open->append ? inode->bytes : offset, bytes, Access::write);
          } else {
            const uint64_t there =
                offset < inode->bytes ? std::min(bytes, inode->bytes - offset) : 0;
            script.read(process, descriptor, there, offset);
            access(offset, there, Access::read);
          }
          break;
        }
        default: {
          if (open == nullptr) break;
          uint64_t bytes = random.below(1000);
          if (random.below(2) == 0) {
            const uint64_t offset = open->append ? inode->bytes : open->position;
            script.write(process, descriptor, bytes);
            access(offset, bytes, Access::write);
            open->position = offset + bytes;
          } else {
            bytes =
                open->position < inode->bytes ? std::min(bytes, inode->bytes - open->position) : 0;
            script.read(process, descriptor, bytes);
            access(open->position, bytes, Access::read);
            open->position += bytes;
          }
        }
      }
    }
    const Conversion conversion = script.convert();
    ASSERT_EQ(script.requests.size(), wanted.size());
    uint64_t file_seeks = 0, device_seeks = 0;
    std::map<uint32_t, uint64_t> ends;
    int64_t last_file = -1;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Request& r = script.requests[i];
      ASSERT_EQ(r.offset, wanted[i].offset) << "request " << i;
      ASSERT_EQ(r.bytes, wanted[i].bytes) << "request " << i;
      ASSERT_EQ(r.file, wanted[i].file) << "request " << i;
      ASSERT_EQ(r.process, wanted[i].process) << "request " << i;
      ASSERT_EQ(r.access, wanted[i].access) << "request " << i;
      const bool file_seek = r.offset != ends[r.file];
      file_seeks += file_seek;
      device_seeks += file_seek || last_file != r.file;
      ends[r.file] = r.offset + r.bytes;
      last_file = r.file;
    }
    EXPECT_EQ(conversion.file_seeks, file_seeks);
    EXPECT_EQ(conversion.device_seeks, device_seeks);
    for (size_t i = 0; i < conversion.files.size(); ++i) {
      EXPECT_EQ(conversion.files[i].peak_bytes, model.inodes[i].peak);
      EXPECT_EQ(conversion.files[i].used_bytes, model.inodes[i].used);
      EXPECT_EQ(conversion.files[i].last_bytes, model.inodes[i].bytes);
    }
  }
}

TEST(Export, NamesAreEscapedForEachFormat) {
  EXPECT_EQ(csv_string("a\"b,c"), "\"a\"\"b,c\"");
  EXPECT_EQ(json_string("a\"\\\n\x01</script>"), "\"a\\\"\\\\\\u000a\\u0001</script>\"");
  EXPECT_EQ(json_string("\xc3\xa9"), "\"\xc3\xa9\"");
  EXPECT_EQ(json_string("\xff\xc0\x80\xed\xa0\x80"),
            "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(iolog_name(6, "/tmp/a b:c/..\x80x y"), "00007-.._x_y");
}

TEST(Export, FormatsHaveALineForEachRequest) {
  Script script;
  const uint32_t file = script.file("/tmp/a,b", 1000);
  script.open(1, 3, file, 1000);
  script.read(1, 3, 100);
  script.write(1, 3, 200, 500);
  (void)script.convert();
  const std::string out = script.path() + ".out";
  const auto exported = [&](ExportFormat format) {
    auto trace = TraceReader::open(script.path());
    EXPECT_TRUE(trace);
    EXPECT_TRUE(export_requests(*trace, {}, format, out));
    std::string text(std::filesystem::file_size(out), ' ');
    std::FILE* from = std::fopen(out.c_str(), "rb");
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), from), text.size());
    std::fclose(from);
    std::filesystem::remove(out);
    return text;
  };
  EXPECT_EQ(exported(ExportFormat::csv),
            "start_ns,latency_ns,process,thread,access,file,offset,bytes,file_seek,device_seek\r\n"
            "200,0,1,1,read,\"/tmp/a,b\",0,100,0,1\r\n"
            "300,0,1,1,write,\"/tmp/a,b\",500,200,1,1\r\n");
  EXPECT_EQ(exported(ExportFormat::iolog),
            "fio version 3 iolog\n0 00001-a_b add\n0 00001-a_b open\n0 00001-a_b read 0 100\n"
            "0 00001-a_b write 500 200\n0 00001-a_b close\n");
  const std::string json = exported(ExportFormat::perfetto);
  EXPECT_EQ(std::ranges::count(json, '\n'), 4);
  EXPECT_NE(json.find("\"ts\":0.200"), std::string::npos);
}

}  // namespace
}  // namespace penstock::trace
