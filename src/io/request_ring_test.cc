// Test labels: first

// A ring against a file in memory: requests of any length in any order of completion, with short
// transfers, delays and errors of the system.

#include "io/request_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/run_scope.h"
#include "base/temporary_folder_fixture.h"
#include "base/trials.h"
#include "io/engine_fixture.h"
#include "test/support/injection.h"

namespace penstock::io {
namespace {

enum class Wait { oldest, any };

class RequestRingTest : public testing::TestWithParam<EngineKind> {
 protected:
  ~RequestRingTest() override { inject({}); }

  void SetUp() override {
    auto engine = Engine::open({.kind = GetParam()});
    if (!engine) GTEST_SKIP() << engine.error().message();
    renew();
  }

  void renew() {
    auto file = File::create_temporary(folder_.path());
    ASSERT_TRUE(file) << file.error().message();
    file_ = std::make_unique<File>(std::move(*file));
  }

  Status open(RequestRing& ring, unsigned depth, size_t buffer_bytes) {
    return ring.open({.depth = depth, .buffer_bytes = buffer_bytes, .kind = GetParam()});
  }

  void check_against_model(uint64_t seed, Wait wait);

  const TemporaryFolder folder_;
  std::unique_ptr<File> file_;
};

// Submits make(0) to make(count - 1), some ahead, and passes each completed one to check().
template <class Make, class Check>
void drive(RequestRing& ring, Random& random, Wait wait, uint64_t count, Make make, Check check) {
  uint64_t next = 0, oldest = 0;
  std::set<uint64_t> in_flight;
  while (next < count || !ring.idle()) {
    ASSERT_EQ(ring.in_flight(), in_flight.size());
    if (next < count && !ring.full() && (ring.idle() || random.below(4) != 0)) {
      Request request = make(next);
      request.tag = next;
      ring.submit(request);
      in_flight.insert(next++);
      continue;
    }
    const Request& done = wait == Wait::oldest ? ring.wait_oldest() : ring.wait_any();
    ASSERT_EQ(in_flight.erase(done.tag), 1u) << "each is reported once";
    if (wait == Wait::oldest) {
      ASSERT_EQ(done.tag, oldest++);
    }
    check(done);
  }
}

void RequestRingTest::check_against_model(uint64_t seed, Wait wait) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  renew();
  inject({.seed = seed, .short_transfer = 0.3, .delay = 0.3, .delay_us_max = 200});
  Random random(seed);
  const size_t buffer_bytes = sector_bytes * (1 + random.below(6));
  RequestRing ring;
  ASSERT_TRUE(open(ring, 1 + static_cast<unsigned>(random.below(9)), buffer_bytes));
  ASSERT_EQ(reinterpret_cast<uintptr_t>(ring.buffers().data()) % sector_bytes, 0u);

  std::string model(random.below(40 * buffer_bytes), '\0');
  for (char& byte : model) byte = static_cast<char>(random.next());
  std::vector<uint64_t> begins = {0};
  while (begins.back() < model.size())
    begins.push_back(std::min(model.size(), begins.back() + 1 + random.below(buffer_bytes)));
  drive(
      ring, random, wait, begins.size() - 1,
      [&](uint64_t i) {
        const size_t bytes = begins[i + 1] - begins[i];
        std::memcpy(ring.next_buffer(), model.data() + begins[i], bytes);
        return Request{.operation = Operation::write,
                       .file = file_.get(),
                       .offset = begins[i],
                       .data = ring.next_buffer(),
                       .bytes = bytes};
      },
      [&](const Request& done) { ASSERT_EQ(done.done_bytes, done.bytes); });
  ASSERT_TRUE(ring.wait_all());

  const Wait other = random.below(2) == 0 ? Wait::oldest : Wait::any;
  drive(
      ring, random, other, 60,
      [&](uint64_t) {
        return Request{.file = file_.get(),
                       .offset = random.below(model.size() + 2 * sector_bytes),
                       .data = ring.next_buffer(),
                       .bytes = random.below(buffer_bytes + 1)};
      },
      [&](const Request& done) {
        const uint64_t offset = std::min<uint64_t>(done.offset, model.size());
        const auto expected = std::string_view(model).substr(offset, done.bytes);
        ASSERT_EQ(done.done_bytes, expected.size());
        ASSERT_EQ(std::memcmp(done.data, expected.data(), expected.size()), 0);
      });
  ASSERT_TRUE(ring.status()) << "the end of a file is no failure";
}

TEST_P(RequestRingTest, AgreesWithAModelInTurn) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(15) && !HasFailure(); ++seed)
    check_against_model(seed, Wait::oldest);
}

TEST_P(RequestRingTest, AgreesWithAModelInAnyOrder) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(15) && !HasFailure(); ++seed)
    check_against_model(seed, Wait::any);
}

TEST_P(RequestRingTest, KeepsTheFirstFailureAndTakesNothingMore) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(15); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    inject({.seed = seed,
            .delay = 0.3,
            .delay_us_max = 200,
            .error = EIO,
            .error_after = random.below(10),
            .error_operation = Operation::write});
    const Wait wait = random.below(2) == 0 ? Wait::oldest : Wait::any;
    RequestRing ring;
    ASSERT_TRUE(open(ring, 4, sector_bytes));
    bool failed = false;
    for (uint64_t i = 0; i < 30; ++i) {
      if (ring.full()) {
        const Request& done = wait == Wait::oldest ? ring.wait_oldest() : ring.wait_any();
        failed |= done.error != 0;
        ASSERT_EQ(ring.status().has_value(), !failed);
      }
      const unsigned before = ring.in_flight();
      ring.submit({.operation = Operation::write,
                   .file = file_.get(),
                   .offset = i * sector_bytes,
                   .data = ring.next_buffer(),
                   .bytes = sector_bytes});
      ASSERT_EQ(ring.in_flight(), before + (failed ? 0 : 1));
    }
    const Status status = ring.wait_all();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().system_errno, EIO);
    EXPECT_TRUE(ring.idle());
  }
}

TEST_P(RequestRingTest, NamesTheRequestThatFailedFirst) {
  std::vector<File> files;
  for (const char* name : {"first", "second"}) {
    const std::string path = folder_ / name;
    ASSERT_TRUE(File::create_output(path)->publish());
    auto file = File::open_read(path);
    ASSERT_TRUE(file);
    files.push_back(std::move(*file));
  }
  inject({.error = EIO, .error_after = 0});
  RequestRing ring;
  ASSERT_TRUE(open(ring, 2, sector_bytes));
  for (const File& file : files)
    ring.submit({.file = &file, .data = ring.next_buffer(), .bytes = sector_bytes});
  while (!ring.idle()) {
    (void)ring.wait_oldest();
    ASSERT_FALSE(ring.status());
    EXPECT_EQ(ring.status().error().subject, files.front().path());
  }
}

TEST_P(RequestRingTest, ChargesItsBuffersWhileItLives) {
  const auto account = std::make_shared<MemoryAccount>(0);
  const RunScope scope({.account = account});
  {
    RequestRing ring;
    ASSERT_TRUE(open(ring, 4, 16 * sector_bytes));
    EXPECT_GE(account->bytes(), 64 * sector_bytes);
  }
  EXPECT_EQ(account->bytes(), 0u);
}

TEST(RequestRing, WithoutAnEngineIsIdle) {
  RequestRing ring;
  EXPECT_FALSE(ring.is_open());
  EXPECT_TRUE(ring.idle());
  EXPECT_FALSE(ring.full());
  EXPECT_TRUE(ring.wait_all());
}

INSTANTIATE_TEST_SUITE_P(Kinds, RequestRingTest, engine_kinds());

}  // namespace
}  // namespace penstock::io
