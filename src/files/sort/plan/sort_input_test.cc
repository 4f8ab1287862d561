// The look at an input before the sort is decided: its result for sequential inputs, and its cost.

#include "files/sort/plan/sort_input.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "files/run/memory_plan.h"
#include "files/sort/sort_fixture.h"
#include "os/sanitizer.h"
#include "penstock/source.h"

namespace penstock::external {
namespace {

class InputTest : public SortFixture {
 protected:
  SortOptions options(const Format& format) const {
    SortOptions options = SortFixture::options(format);
    options.inputs.clear();
    // A sanitizer's shadow grows with the memory that the look opens.
    options.memory_bytes = budget_bytes() + (os::shadowed ? 32 * MiB : 0);
    return options;
  }
  // A sequential source, in pieces of any length, as from a pipe.
  static std::shared_ptr<Source> source_of(std::string text) {
    return callback_source(
        [left = std::move(text)](std::span<std::byte> into) mutable -> Result<size_t> {
          const size_t bytes = std::min({left.size(), into.size(), size_t{4321}});
          std::memcpy(into.data(), left.data(), bytes);
          left.erase(0, bytes);
          return bytes;
        });
  }
  static std::shared_ptr<Source> endless_source() {
    return callback_source(
        [number = uint64_t{0}](std::span<std::byte> into) mutable -> Result<size_t> {
          const size_t bytes = round_down(into.size(), sizeof number);
          for (size_t at = 0; at < bytes; at += sizeof number) {
            const uint64_t item = mix64(number++);
            std::memcpy(&into[at], &item, sizeof item);
          }
          return bytes;
        });
  }
};

// A short sequential input is known like a file: it is sorted in memory, without temporaries.
TEST_F(InputTest, AShortSequentialInputIsKnown) {
  Random random(seed_of_run());
  for (const size_t count : {1, 3, 8}) {
    SCOPED_TRACE(count);
    std::string all;
    std::vector<std::shared_ptr<Source>> sources;
    for (size_t i = 0; i < count; ++i) {
      std::string text(8 * random.below(20'000), '\0');
      for (char& byte : text) byte = static_cast<char>(random.next());
      all += text;
      sources.push_back(source_of(text));
    }
    SortOptions chosen = options(u64);  // beside the memory that the test itself takes by now
    chosen.sources = std::move(sources);
    const auto stats = sort_files(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_EQ(stats->predicted.input_bytes, all.size());
    EXPECT_EQ(stats->predicted.method, all.empty() ? Method::empty : Method::in_memory);
    EXPECT_EQ(stats->temp_bytes, 0u);
    EXPECT_EQ(stats->bytes, all.size());
    const auto sorted = check(u64, read(path("out")));
    EXPECT_TRUE(sorted.sorted());
    EXPECT_EQ(sorted.checksum_hex(), check(u64, all).checksum_hex());
  }
}

// Sources behind the eighth, or behind an endless one, are not read, and the plan has no figures.
TEST_F(InputTest, SourcesThatAreNotLookedAtAreNotKnown) {
  SortOptions chosen = options(u64);
  for (int i = 0; i < 9; ++i) chosen.sources.push_back(source_of("12345678"));
  auto plan = plan_sort(chosen);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->input_bytes, 0u);
  EXPECT_EQ(plan->method, Method::distribute);
  EXPECT_TRUE(plan->phases.empty());

  bool is_asked = false;
  chosen.sources = {endless_source(), callback_source([&](std::span<std::byte>) -> Result<size_t> {
                      is_asked = true;
                      return size_t{0};
                    })};
  plan = plan_sort(chosen);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->input_bytes, 0u);
  EXPECT_EQ(plan->method, Method::distribute);
  EXPECT_FALSE(is_asked) << "its writer may be the same, and wait";
}

// A look takes a quarter of the memory, however many sources share it.
TEST_F(InputTest, ALookTakesNoMoreThanAQuarterOfTheMemory) {
  for (const size_t sources : {1, 2, 8}) {
    SCOPED_TRACE(sources);
    SortOptions chosen = options(u64);
    // The first sources are short; the last one goes on.
    for (size_t i = 1; i < sources; ++i) chosen.sources.push_back(source_of("12345678"));
    chosen.sources.push_back(endless_source());
    Context context(chosen);
    auto input = open_sort_input(chosen, {});
    ASSERT_TRUE(input) << input.error().message();
    const uint64_t usable_bytes = files::usable_memory(chosen.memory_bytes);
    const auto looked = look_at_input(context, {}, *input);
    ASSERT_TRUE(looked) << looked.error().message();
    EXPECT_FALSE(input->known);
    EXPECT_TRUE(input->any_in_order());
    EXPECT_EQ(input->pieces.size(), sources);
    EXPECT_LE(input->bytes, usable_bytes / 4);
    // The last source gets the memory that the others left over.
    EXPECT_GE(input->bytes, usable_bytes / 8);
    EXPECT_LE(input->usable_bytes, usable_bytes - input->bytes);
    EXPECT_GE(input->sample.size(), 100u);
    EXPECT_EQ(input->sample.item_bytes, 8);
  }
}

TEST_F(InputTest, HeadersOfAllMustBeTheSameAndAppearOnce) {
  Format format = lines;
  format.header_lines = 1;
  SortOptions chosen = options(format);
  write(path("in"), "names\nc\na\n");
  chosen.inputs = {path("in")};
  chosen.sources = {source_of("names\nb\n"), source_of(""), source_of("names\n"),
                    source_of("names\nd")};
  const auto stats = sort_files(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(read(path("out")), "names\na\nb\nc\nd\n");
  EXPECT_EQ(stats->items, 4u);
  EXPECT_EQ(stats->bytes, read(path("out")).size());

  for (const bool file_comes_first : {true, false}) {
    chosen.sources = {source_of("other\nb\n")};
    if (!file_comes_first) {
      chosen.inputs.clear();
      chosen.sources.push_back(source_of("names\nb\n"));
    }
    const auto refused = sort_files(chosen);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported) << refused.error().message();
    EXPECT_EQ(read(path("out")), "names\na\nb\nc\nd\n") << "it is as it was";
  }
}

// The check covers files and sequential inputs, before anything is written.
TEST_F(InputTest, ItemsThatAreCutOffAreRefused) {
  for (const bool in_order : {false, true}) {
    SortOptions chosen = options(u64);
    write(path("in"), std::string(803, 'x'));
    if (in_order) {
      chosen.sources = {source_of(std::string(803, 'x'))};
    } else {
      chosen.inputs = {path("in")};
    }
    const auto plan = plan_sort(chosen);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::corrupt);
    EXPECT_NE(plan.error().message().find("its 803 bytes as items of 8"), std::string::npos)
        << plan.error().message();
  }
}

TEST_F(InputTest, TooLittleMemorySaysHowMuchIsEnough) {
  write(path("in"), std::string(8000, 'x'));
  SortOptions chosen = options(u64);
  chosen.inputs = {path("in")};
  // The program itself takes more than that.
  ballast_.resize(64 * MiB, 1);
  chosen.memory_bytes = 64 * MiB;
  auto stats = sort_files(chosen);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::out_of_memory) << stats.error().message();
  EXPECT_EQ(stats.error().subject, "-S");
  const std::string& hint = stats.error().hint;
  const size_t digit = hint.find_first_of("0123456789");
  ASSERT_NE(digit, std::string::npos) << hint;
  // The memory of a sample is not included.
  chosen.memory_bytes = (std::stoull(hint.substr(digit)) + 2) * MiB;
  stats = sort_files(chosen);
  EXPECT_TRUE(stats) << stats.error().message();
}

// The look at the input must not cost more than it saves.
TEST(SamplePlan, LooksLessOftenIfTheDiskSeeksSlowly) {
  const bowtie::DeviceProfile disk = *bowtie::find_profile("hard-disk");
  bowtie::DeviceProfile fast = *bowtie::find_profile("nvme-ssd");
  const uint64_t memory_bytes = 64 * MiB;
  for (const uint64_t bytes : {uint64_t{64} * MiB, 1 * GiB, 8 * GiB, 1 * TiB}) {
    const files::SamplePlan usual = files::plan_sample(bytes, memory_bytes, nullptr);
    const files::SamplePlan slow = files::plan_sample(bytes, memory_bytes, &disk);
    EXPECT_EQ(files::plan_sample(1 * TiB, memory_bytes, &fast).places,
              files::plan_sample(1 * TiB, memory_bytes, nullptr).places);
    EXPECT_LE(slow.places, usual.places);
    EXPECT_GE(slow.stretch_bytes, usual.stretch_bytes);
    const uint64_t keys = uint64_t{usual.places} * usual.items_per_stretch;
    EXPECT_GE(2 * uint64_t{slow.places} * slow.items_per_stretch, keys);
    const double read_seconds = static_cast<double>(bytes) / disk.read_bytes_per_s;
    const double look_seconds = slow.places * disk.switch_seconds.at(1, 0) +
                                static_cast<double>(slow.bytes()) / disk.read_bytes_per_s;
    EXPECT_LT(look_seconds, (bytes >= 8 * GiB ? 0.1 : 0.5) * read_seconds);
  }
}

// The unknown part between two looks does not determine the size of a bucket.
TEST(SamplePlan, LooksFourTimesWithinTheMemoryIfTheDiskSeeksSlowly) {
  const bowtie::DeviceProfile disk = *bowtie::find_profile("hard-disk");
  EXPECT_EQ(files::plan_sample(32 * MiB, 64 * MiB, &disk).places, 4u);
  EXPECT_EQ(files::plan_sample(128 * MiB, 64 * MiB, &disk).places, 8u);
  EXPECT_EQ(files::plan_sample(128 * MiB, 16 * MiB, &disk).places, 32u);
  EXPECT_EQ(files::plan_sample(512 * MiB, 16 * MiB, &disk).places, 32u);
}

}  // namespace
}  // namespace penstock::external
