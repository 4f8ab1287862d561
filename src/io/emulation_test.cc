#include "io/emulation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/random.h"
#include "io/engine.h"

namespace penstock::io {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Emulated {
  explicit Emulated(const EmulatedDevice& device) { emulate(device); }
  ~Emulated() { emulate(std::nullopt); }
};

TEST(EmulatedDevice, IsReadFromText) {
  const auto device = EmulatedDevice::parse("read=3.55e9,write=2e9,switch=0.009");
  ASSERT_TRUE(device.has_value());
  EXPECT_EQ(*device, (EmulatedDevice{3.55e9, 2e9, 0.009}));
  EXPECT_EQ(device->describe(), "emulated device: 3550 MB/s read, 2000 MB/s write, 9 ms a switch");
  EXPECT_TRUE(EmulatedDevice::parse("read=1,write=1").has_value());
  for (const char* text :
       {"", "read=1", "read=0,write=1", "read=1,write=1,switch", "read=1,write=x",
        "read=1,write=1,seek=2", "read=1,write=1,switch=-1", "read=inf,write=1"})
    EXPECT_FALSE(EmulatedDevice::parse(text).has_value()) << text;
}

TEST(EmulatedDevice, IsOffUnlessAskedFor) {
  EXPECT_FALSE(emulated().has_value());
  EXPECT_EQ(emulated_traffic().requests, 0u);
}

// Compares with a plain model: a list of requests, served one by one.
TEST(EmulatedQueue, ServesOneRequestAfterTheOther) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const EmulatedDevice device{1e9, 0.5e9, 0.002};
    EmulatedQueue queue(device);
    double free_at = 0;
    uint64_t now = 1'000'000'000;
    int file = -1;
    uint64_t offset = 0;
    uint64_t switches = 0;
    for (int k = 0; k < 500; ++k) {
      now += random.below(3) == 0 ? random.below(20'000'000) : 0;
      EmulatedQueue::Transfer transfer{.file = static_cast<int>(random.below(3)),
                                       .offset = random.below(4) << 20,
                                       .bytes = 4096 + random.below(1 << 20),
                                       .write = random.below(2) == 0};
      if (random.below(2) == 0) transfer.file = file, transfer.offset = offset;
      const bool goes_on = transfer.file == file && transfer.offset == offset;
      switches += !goes_on;
      free_at = std::max(free_at, static_cast<double>(now)) + (goes_on ? 0 : 2e6) +
                static_cast<double>(transfer.bytes) * (transfer.write ? 2 : 1);
      file = transfer.file;
      offset = transfer.offset + transfer.bytes;
      ASSERT_NEAR(static_cast<double>(queue.end_ns(transfer, now)), free_at, 2000);
    }
    EXPECT_EQ(queue.traffic.switches, switches);
    EXPECT_EQ(queue.traffic.requests, 500u);
  }
}

class EmulatedEngine : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    auto made = File::create_temporary(std::filesystem::temp_directory_path());
    ASSERT_TRUE(made.has_value());
    file_ = std::move(*made);
    auto engine = Engine::open({.depth = 8, .kind = GetParam()});
    if (!engine) GTEST_SKIP() << engine.error().message();
    engine_ = std::move(*engine);
  }
  File file_;
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, EmulatedEngine,
                         testing::Values(EngineKind::io_uring, EngineKind::threads));

// Requests in flight of a sequential run are one run; nothing ends before its time; the data
// arrive.
TEST_P(EmulatedEngine, RequestsInFlightStayInOrderAndTakeTheirTime) {
  constexpr size_t block_bytes = 64 * 1024;
  constexpr size_t blocks = 32;
  struct alignas(4096) Block {
    std::byte bytes[block_bytes];
  };
  const auto memory = std::make_unique<std::array<Block, 8>>();
  const Emulated emulated(
      {.read_bytes_per_s = 100e6, .write_bytes_per_s = 50e6, .switch_seconds = 0.005});
  for (const Operation operation : {Operation::write, Operation::read}) {
    const double began = now_seconds();
    std::array<Request, 8> requests;
    uint64_t reported = 0;
    auto take = [&] {
      const Request* done = engine_->wait_any();
      ASSERT_NE(done, nullptr);
      EXPECT_EQ(done->error, 0);
      EXPECT_EQ(done->offset, reported * block_bytes) << "in the order of submission";
      if (operation == Operation::read) {
        EXPECT_EQ(done->data[77], static_cast<std::byte>(reported));
      }
      ++reported;
    };
    for (size_t k = 0; k < blocks; ++k) {
      if (k >= requests.size()) take();
      Request& request = requests[k % requests.size()];
      std::byte* const data = (*memory)[k % requests.size()].bytes;
      if (operation == Operation::write) std::fill_n(data, block_bytes, static_cast<std::byte>(k));
      request = {.operation = operation,
                 .file = &file_,
                 .offset = k * block_bytes,
                 .data = data,
                 .bytes = block_bytes};
      engine_->submit(request);
    }
    while (engine_->in_flight() > 0) take();
    EXPECT_EQ(reported, blocks);
    const double transfer = blocks * block_bytes / (operation == Operation::read ? 100e6 : 50e6);
    EXPECT_GE(now_seconds() - began, transfer + 0.005 - 0.0002);
  }
  const EmulatedTraffic traffic = emulated_traffic();
  EXPECT_EQ(traffic.switches, 2u);
  EXPECT_EQ(traffic.bytes_read, blocks * block_bytes);
  EXPECT_EQ(traffic.bytes_written, blocks * block_bytes);
}

TEST_P(EmulatedEngine, ASwitchIsAnotherFileOrAnotherOffset) {
  auto other = File::create_temporary(std::filesystem::temp_directory_path());
  ASSERT_TRUE(other.has_value());
  const Emulated emulated({.read_bytes_per_s = 1e9, .write_bytes_per_s = 1e9, .switch_seconds = 0});
  std::byte data[512] = {};
  auto write = [&](const File& file, uint64_t offset) {
    ASSERT_TRUE(write_exactly(file, offset, data, sizeof data).has_value());
  };
  write(file_, 0);      // a switch: the first request
  write(file_, 512);    // continues
  write(*other, 1024);  // a switch
  write(file_, 1024);   // a switch
  write(file_, 1536);   // continues
  write(file_, 0);      // a switch
  ASSERT_TRUE(read_exactly(file_, 512, data, sizeof data).has_value());  // continues
  EXPECT_EQ(emulated_traffic().switches, 4u);
  EXPECT_EQ(emulated_traffic().requests, 7u);
}

TEST_P(EmulatedEngine, IsOneDeviceForAllThreads) {
  const Emulated emulated(
      {.read_bytes_per_s = 20e6, .write_bytes_per_s = 20e6, .switch_seconds = 0});
  const double began = now_seconds();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> data(100'000);
      EXPECT_TRUE(write_exactly(file_, t << 20, data.data(), data.size()).has_value());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(now_seconds() - began, 4 * 100'000 / 20e6 - 0.0002);
}

}  // namespace
}  // namespace penstock::io
