// Test labels: one-thread

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "penstock/base.h"
#include "penstock/trace.h"
#include "trace/follow/script_fixture.h"

// Comparison of the conversion with a plain model of the kernel's state.

namespace penstock::trace {
namespace {

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

}  // namespace
}  // namespace penstock::trace
