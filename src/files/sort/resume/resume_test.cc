// Test labels: ci, no-sanitizer (whole sorts, again and again with another fault, take minutes
// under one)

// Sorts that end early, at any request, and are resumed: the output is right, no finished step is
// repeated, and no incomplete file is trusted. test/resume_test.py kills the program.

#include "files/sort/resume/resume.h"

#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/random.h"
#include "base/trials.h"
#include "files/sort/bucket/bucket_sort.h"
#include "files/sort/external_sort.h"
#include "files/sort/sort_fixture.h"
#include "generate/generator.h"
#include "io/engine.h"
#include "os/memory.h"
#include "test/support/injection.h"

namespace {
bool fail_readdir = false;
}

// Overrides the system's readdir(), and calls it.
extern "C" __attribute__((visibility("default"))) dirent* readdir(DIR* directory) {
  static const auto system = reinterpret_cast<dirent* (*)(DIR*)>(::dlsym(RTLD_NEXT, "readdir"));
  if (!fail_readdir) return system(directory);
  errno = EIO;
  return nullptr;
}

namespace penstock::external {
namespace {

constexpr uint64_t input_bytes = 20 * MiB;
constexpr uint32_t complete_entry = 7;  // see resume_journal.cc

class ResumeTest : public SortFixture {
 protected:
  void SetUp() override {
    SortFixture::SetUp();
    std::filesystem::create_directories(directory_ / "one");
    std::filesystem::create_directories(directory_ / "two");
    std::filesystem::create_directories(directory_ / "three");
  }

  SortOptions options(const Format& format) {
    SortOptions options = SortFixture::options(format);
    options.temp_directories = {path("one"), path("two")};
    options.resume = true;
    options.notice = [this](const std::string& text) { notices_.push_back(text); };
    return options;
  }
  Result<SortStats> sort(SortOptions options) {
    options.memory_bytes = budget_bytes();
    notices_.clear();
    return sort_files(options);
  }
  // A run in which every request of one kind fails after the first `requests`.
  Result<SortStats> sort_failing_after(const SortOptions& options, uint64_t requests,
                                       io::Operation operation = io::Operation::write) {
    io::inject({.seed = requests,
                .error = operation == io::Operation::write ? ENOSPC : EIO,
                .error_after = requests,
                .error_operation = operation});
    auto stats = sort(options);
    io::inject({});
    return stats;
  }
  // Output of a sort that is not resumed.
  std::string expected(SortOptions options) {
    options.resume = false;
    options.output = path("expected");
    auto stats = sort(options);
    EXPECT_TRUE(stats) << stats.error().message();
    return read(path("expected"));
  }
  // Fails again and again, until the state has at least `done_min` done buckets.
  void fail_late(const SortOptions& options, uint32_t done_min) {
    uint64_t first = 150;  // requests of a run that distributes
    uint64_t later = 2;    // requests of a resumed run: threads mix its steps in any order
    for (int attempt = 0; attempt < 300; ++attempt) {
      const bool goes_on = found(options).buckets != 0;
      if (sort_failing_after(options, goes_on ? later++ : first)) {
        // The sort has ended: once more, from the beginning.
        ASSERT_NE(options.output, options.inputs.front()) << "it never failed in time";
        std::filesystem::remove(options.output);
        first -= goes_on ? 0 : 15;
        later = 2;
        continue;
      }
      const ResumeProgress now = found(options);
      if (now.buckets_done >= done_min) return;
      if (now.buckets == 0) first += 40;
    }
    FAIL() << "it never failed with enough buckets done";
  }
  // Saves the state, to be restored later. `bytes`: size of the whole output.
  void save(const SortOptions& options, uint64_t bytes) {
    // An output in progress that is longer than needed takes long to copy.
    std::filesystem::resize_file(path(part_name(options)), bytes);
    for (const std::string& part : parts_of_state(options))
      std::filesystem::copy(path(part), path("saved-" + part), copying);
    // The output in progress has to be the same file, not an equal one.
    std::filesystem::create_hard_link(path(part_name(options)), path("saved-file"));
  }
  void restore(const SortOptions& options) {
    for (const std::string& part : parts_of_state(options)) {
      std::filesystem::remove_all(path(part));
      if (part != part_name(options))
        std::filesystem::copy(path("saved-" + part), path(part), copying);
    }
    std::filesystem::remove(options.output);
    write(path("saved-file"), read(path("saved-" + part_name(options))));
    std::filesystem::create_hard_link(path("saved-file"), path(part_name(options)));
  }
  void forget(const SortOptions& options) {
    std::filesystem::remove(path("saved-file"));
    for (const std::string& part : parts_of_state(options))
      std::filesystem::remove_all(path("saved-" + part));
  }
  static std::string part_name(const SortOptions& options) {
    return Resume::output_name_of(options, options.temp_directories);
  }
  static std::vector<std::string> parts_of_state(const SortOptions& options) {
    return {"one", "two", part_name(options)};
  }
  static constexpr auto copying = std::filesystem::copy_options::recursive;
  // Progress of the state.
  ResumeProgress found(const SortOptions& options) {
    std::vector<std::unique_ptr<io::File>> inputs;
    for (const std::string& input : options.inputs)
      inputs.push_back(std::make_unique<io::File>(*io::File::open_read(input)));
    if (!std::filesystem::exists(resume_folder(options))) return {};
    auto resume = Resume::open(options, inputs, options.temp_directories, {});
    EXPECT_TRUE(resume) << resume.error().message();
    return resume ? (*resume)->progress() : ResumeProgress{};
  }
  void expect_nothing_left(std::vector<std::string> more = {}) const {
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "in" || name == "out" || name == "one" || name == "two" ||
                  name == "three" || name == "expected" || name == "temporaries" ||
                  std::ranges::find(more, name) != more.end())
          << name << " was left";
    }
    EXPECT_TRUE(std::filesystem::is_empty(directory_ / "one"));
    EXPECT_TRUE(std::filesystem::is_empty(directory_ / "two"));
    EXPECT_TRUE(std::filesystem::is_empty(directory_ / "three"));
  }
  std::vector<std::unique_ptr<io::File>> opened_inputs() const {
    std::vector<std::unique_ptr<io::File>> inputs;
    inputs.push_back(std::make_unique<io::File>(*io::File::open_read(path("in"))));
    return inputs;
  }
  // Leaves the files of a run that is killed while it distributes: one temporary in each directory.
  void leave_as_killed_early(const SortOptions& options) {
    auto resume = Resume::open(options, opened_inputs(), options.temp_directories, {});
    ASSERT_TRUE(resume) << resume.error().message();
    ASSERT_TRUE((*resume)->open_output());
    const SpillPlace place = (*resume)->place_for_split();
    for (uint32_t i = 0; i < place.directories.size(); ++i)
      write(Spill::path_of(place.directories[i], SpillSet::name_of(place, 0), i), "begun");
  }
  bool noticed(const std::string& part) const {
    return std::ranges::any_of(notices_, [&](const std::string& notice) {
      return notice.find(part) != std::string::npos;
    });
  }

  std::vector<std::string> notices_;
  const uint64_t seed_ = seed_of_run();
};

struct Kind {
  const char* name;
  Format format;
  Distribution distribution;
  bool descending = false;
  bool unique = false;
};
const Kind kinds[] = {
    {"u64", {Type::u64, 8}, Distribution::uniform},
    {"i32_descending", {Type::i32, 4, 0, 4}, Distribution::uniform, true},
    {"u64_zipf", {Type::u64, 8}, Distribution::zipf},
    {"u64_unique", {Type::u64, 8}, Distribution::rootdup, false, true},
    {"kv64", {Type::kv64, 16}, Distribution::uniform},
    {"kv64_unique_descending", {Type::kv64, 16}, Distribution::zipf, true, true},
    {"record", {Type::record, 100, 0, 10}, Distribution::uniform},
    {"record_equal", {Type::record, 100, 0, 10}, Distribution::all_equal},
    {"record_unique", {Type::record, 100, 0, 10}, Distribution::uniform, false, true},
    {"lines_descending", {Type::lines, 1}, Distribution::uniform, true},
    {"lines_unique", {Type::lines, 1}, Distribution::zipf, false, true},
    {"u64_sorted", {Type::u64, 8}, Distribution::sorted},
};

class EveryKind : public ResumeTest, public testing::WithParamInterface<Kind> {};

TEST_P(EveryKind, ResumesAfterAnErrorAtAnyRequest) {
  const Kind& kind = GetParam();
  SortOptions chosen = options(kind.format);
  chosen.descending = kind.descending;
  chosen.unique = kind.unique;
  write(path("in"), generate(kind.format, kind.distribution, input_bytes));
  const std::string wanted = expected(chosen);
  Random random(seed_);
  uint64_t runs = 0;
  uint32_t done = 0;
  for (uint64_t most = 100;; most += 100, ++runs) {
    ASSERT_LT(runs, 60u) << "it does not come to an end";
    auto operation = random.below(3) == 0 ? io::Operation::read : io::Operation::write;
    auto stats = sort_failing_after(chosen, random.below(most), operation);
    if (stats) break;
    EXPECT_FALSE(std::filesystem::exists(path("out")));
    uint32_t now = found(chosen).buckets_done;
    EXPECT_GE(now, done) << "what was done is lost";
    done = now;
  }
  EXPECT_TRUE(read(path("out")) == wanted);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryKind, testing::ValuesIn(kinds),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_F(ResumeTest, FinishedStepsAreNotRepeated) {
  for (const Format& format : {Format{Type::u64, 8}, Format{Type::record, 100, 0, 10}}) {
    SortOptions chosen = options(format);
    write(path("in"), generate(format, Distribution::uniform, input_bytes));
    const std::string wanted = expected(chosen);
    fail_late(chosen, 4);
    const ResumeProgress before = found(chosen);
    auto stats = sort(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_TRUE(noticed("resuming: " + std::to_string(before.buckets_done) + " of " +
                        std::to_string(before.buckets) + " buckets are done"));
    const uint64_t left_bytes = wanted.size() - before.bytes_done;
    EXPECT_GT(before.bytes_done, 0u);
    EXPECT_EQ(stats->passes, 2u);
    // The rest is sectors at the ends of buckets, and the journal.
    EXPECT_LE(stats->bytes_written, left_bytes + before.buckets * 64 * KiB);
    // Only a sample of the input is read.
    EXPECT_LE(stats->bytes_read, left_bytes + 3 * MiB);
    EXPECT_TRUE(read(path("out")) == wanted);
    std::printf("%u of %u buckets were done, %.1f of %.1f MiB: the resumed run wrote %.1f MiB\n",
                before.buckets_done, before.buckets, static_cast<double>(before.bytes_done) / MiB,
                static_cast<double>(wanted.size()) / MiB,
                static_cast<double>(stats->bytes_written) / MiB);
    expect_nothing_left();
    std::filesystem::remove(path("out"));
  }
}

// Buckets that fit in much memory are too large for little, and are split again: the sort can be
// cut off at every level.
TEST_F(ResumeTest, LargeBucketsAreSplitAgainAndTheirSplitsAreResumed) {
  for (bool unique : {false, true}) {
    SortOptions chosen = options({Type::kv64, 16});
    chosen.unique = unique;
    chosen.memory_bytes = 1 * GiB;
    std::vector<uint64_t> items(input_bytes / 8);
    Random random(seed_);
    for (size_t i = 0; i < items.size(); i += 2) items[i] = random.below(1 << 20), items[i + 1] = i;
    std::string data(reinterpret_cast<const char*>(items.data()), items.size() * 8);
    write(path("in"), data);
    const std::string wanted = expected(chosen);
    uint32_t levels = 0;
    uint64_t runs = 0;
    for (bool complete = false; !complete || runs == 1; ++runs) {
      ASSERT_LT(runs, 60u);
      // The first run meets no error.
      if (runs > 0) {
        std::filesystem::remove(path("out"));
        io::inject({.seed = runs,
                    .error = ENOSPC,
                    .error_after = random.below(200 + 60 * runs),
                    .error_operation = io::Operation::write});
      }
      std::vector<std::unique_ptr<io::File>> inputs;
      inputs.push_back(std::make_unique<io::File>(*io::File::open_read(path("in"))));
      auto resume = Resume::open(chosen, inputs, chosen.temp_directories, {});
      if (!resume) continue;
      auto output = (*resume)->open_output();
      if (!output) {
        EXPECT_EQ(output.error().code, ErrorCode::out_of_space) << output.error().message();
        (*resume)->keep_or_remove();
        continue;
      }
      Context context(chosen);
      BucketSort sort(context, 14 * MiB, chosen.temp_directories, false, resume->get());
      // The sample claims that all keys are large, so that all items fall into the first bucket.
      std::vector<uint64_t> sample(4096);
      for (size_t i = 0; i < sample.size(); ++i) sample[i] = (1ull << 60) + (i << 40);
      const std::vector<files::Piece> pieces = {{.file = inputs[0].get(), .bytes = data.size()}};
      auto stored = sort.run(
          {.pieces = pieces, .bytes = data.size(), .sample = {.numbers = sample, .item_bytes = 16}},
          {&*output, 0});
      levels = std::max(levels, sort.stats().levels);
      const ResumeProgress progress = (*resume)->progress();
      if (stored) {
        EXPECT_EQ(progress.buckets_done, progress.buckets);
        EXPECT_EQ(progress.bytes_done, stored->bytes);
      }
      complete = stored && (*resume)->publish(*output, *stored);
      if (!complete) (*resume)->keep_or_remove();
    }
    io::inject({});
    EXPECT_GE(levels, 2u);
    EXPECT_TRUE(read(path("out")) == wanted);
    expect_nothing_left();
    std::filesystem::remove(path("out"));
  }
}

TEST_F(ResumeTest, LargeBucketsOfRecordsAreSplitAgain) {
  SortOptions chosen = options({Type::record, 100, 0, 10});
  write(path("in"), generate(chosen.format, Distribution::uniform, 3 * input_bytes));
  const std::string wanted = expected(chosen);
  // More memory makes fewer buckets, too large for less memory.
  chosen.memory_bytes = budget_bytes() + 40 * MiB;
  for (uint64_t after = 200;; after += 20) {
    io::inject({.seed = after,
                .error = ENOSPC,
                .error_after = after,
                .error_operation = io::Operation::write});
    auto stats = sort_files(chosen);
    io::inject({});
    ASSERT_FALSE(stats);
    if (found(chosen).buckets > 1) break;
  }
  Random random(seed_);
  for (uint64_t most = 500, runs = 0;; most += 250, ++runs) {
    ASSERT_LT(runs, 60u);
    if (sort_failing_after(chosen, random.below(most))) break;
  }
  EXPECT_TRUE(read(path("out")) == wanted);
  expect_nothing_left();
}

TEST_F(ResumeTest, AnInputThatIsTheOutputStaysUntilTheEnd) {
  SortOptions chosen = options({Type::u64, 8});
  const std::string data = generate(chosen.format, Distribution::uniform, input_bytes);
  write(path("in"), data);
  const std::string wanted = expected(chosen);
  chosen.output = path("in");
  fail_late(chosen, 2);
  EXPECT_TRUE(read(path("in")) == data);
  ASSERT_TRUE(sort(chosen));
  EXPECT_TRUE(read(path("in")) == wanted);
  expect_nothing_left();
}

TEST_F(ResumeTest, SeveralInputsAreSortedTogether) {
  SortOptions chosen = options({Type::lines, 1});
  std::string data = generate(chosen.format, Distribution::uniform, input_bytes);
  size_t cut = data.find('\n', data.size() / 3) + 1;
  write(path("in"), data.substr(0, cut));
  write(path("empty"), "");
  write(path("in2"), data.substr(cut, data.size() - cut - 1));  // the last newline is missing
  chosen.inputs = {path("in"), path("empty"), path("in2")};
  const std::string wanted = expected(chosen);
  fail_late(chosen, 2);
  ASSERT_TRUE(sort(chosen));
  EXPECT_TRUE(read(path("out")) == wanted);
  expect_nothing_left({"empty", "in2"});
}

TEST_F(ResumeTest, AChangedInputIsRefusedUntilTheStateIsRemoved) {
  SortOptions chosen = options({Type::u64, 8});
  std::string data = generate(chosen.format, Distribution::uniform, input_bytes);
  write(path("in"), data);
  fail_late(chosen, 2);
  std::reverse(data.begin(), data.end());
  write(path("in"), data);
  auto stats = sort(chosen);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(stats.error().subject, path("in"));
  EXPECT_NE(stats.error().hint.find(resume_folder(chosen)), std::string::npos);
  EXPECT_NE(stats.error().hint.find(part_name(chosen)), std::string::npos);
  EXPECT_FALSE(noticed("goes on from there"));
  EXPECT_TRUE(std::filesystem::exists(resume_folder(chosen)));
  std::filesystem::remove_all(resume_folder(chosen));
  ASSERT_TRUE(sort(chosen));
  EXPECT_TRUE(read(path("out")) == expected(chosen));
  expect_nothing_left();
}

// Times are restored as `cp --preserve`, `rsync --inplace --times` and `touch -r` do.
TEST_F(ResumeTest, AnInputWithRestoredTimesIsNoticed) {
  SortOptions chosen = options({Type::u64, 8});
  std::string data = generate(chosen.format, Distribution::uniform, input_bytes);
  write(path("in"), data);
  fail_late(chosen, 2);
  const auto time = std::filesystem::last_write_time(path("in"));
  std::reverse(data.begin(), data.end());
  write(path("in"), data);
  std::filesystem::last_write_time(path("in"), time);
  ASSERT_EQ(std::filesystem::last_write_time(path("in")), time);
  auto stats = sort(chosen);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(stats.error().subject, path("in"));
}

TEST_F(ResumeTest, AnotherSortHasAnotherState) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  fail_late(chosen, 2);
  for (int what = 0; what < 3; ++what) {
    SortOptions other = chosen;
    if (what == 0) other.descending = true;
    if (what == 1) other.unique = true;
    if (what == 2) other.output = path("other");
    EXPECT_NE(resume_folder(other), resume_folder(chosen));
    ASSERT_TRUE(sort(other));
    EXPECT_FALSE(noticed("resuming"));
    EXPECT_TRUE(read(other.output) == expected(other));
  }
  ASSERT_TRUE(sort(chosen));
  EXPECT_TRUE(noticed("resuming"));
  EXPECT_TRUE(read(path("out")) == expected(chosen));
}

TEST_F(ResumeTest, TwoRunsAtOnceAreRefused) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  fail_late(chosen, 2);
  {
    auto lock = Journal::open(resume_folder(chosen) + "/journal");
    ASSERT_TRUE(lock);
    auto stats = sort(chosen);
    ASSERT_FALSE(stats);
    EXPECT_NE(stats.error().message().find("another process"), std::string::npos);
    EXPECT_EQ(stats.error().subject, resume_folder(chosen));
    EXPECT_FALSE(noticed("gives it up")) << "whoever did that would spoil the other run";
  }
  ASSERT_TRUE(sort(chosen));
  EXPECT_TRUE(noticed("resuming"));
}

// The output is right whatever happened to the journal. A journal that is cut off lacks the last
// steps; if their temporaries are gone the sort begins anew.
TEST_F(ResumeTest, ADamagedJournalIsNotTrusted) {
  Random random(seed_);
  for (const Format& format : {Format{Type::u64, 8}, Format{Type::lines, 1}}) {
    SortOptions chosen = options(format);
    write(path("in"), generate(format, Distribution::uniform, input_bytes));
    const std::string wanted = expected(chosen);
    fail_late(chosen, 2);
    save(chosen, wanted.size());
    for (int round = 0; round < 6; ++round) {
      restore(chosen);
      const std::string journal = resume_folder(chosen) + "/journal";
      std::string bytes = read(journal);
      size_t at = random.below(bytes.size());
      if (round == 0) {
        bytes.clear();
      } else if (round % 3 == 0) {
        bytes.resize(at);
      } else if (round % 3 == 1) {
        bytes[at] = static_cast<char>(~bytes[at]);
      } else {
        bytes += std::string(1 + random.below(5000), static_cast<char>(random.next()));
      }
      write(journal, bytes);
      auto stats = sort(chosen);
      ASSERT_TRUE(stats) << stats.error().message();
      EXPECT_TRUE(read(path("out")) == wanted);
    }
    forget(chosen);
    expect_nothing_left();
  }
}

// Entries behind an unknown one do not count either, whatever they say.
TEST_F(ResumeTest, AnEntryOfAnUnknownKindEndsTheJournal) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  const std::string wanted = expected(chosen);
  fail_late(chosen, 2);
  const ResumeProgress before = found(chosen);
  {
    auto journal = Journal::open(resume_folder(chosen) + "/journal");
    ASSERT_TRUE(journal);
    Journal::Position end;
    const auto state = read_steps(*journal, end);
    ASSERT_TRUE(state);
    ASSERT_TRUE(journal->cut(end));
    ASSERT_TRUE(journal->append(99, "of another version"));
    // It claims that all buckets are done.
    for (const auto& [of, split] : state->splits) {
      for (uint32_t bucket = 0; bucket < split.buckets.size(); ++bucket) {
        const ResumeDone done{.id = {split.number, bucket}, .offset = 0, .stored = {8, 1}};
        ASSERT_TRUE(write_done(*journal, {&done, 1}));
      }
    }
  }
  EXPECT_EQ(found(chosen).buckets_done, before.buckets_done);
  auto stats = sort(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_TRUE(read(path("out")) == wanted);
  expect_nothing_left();
}

// A state of another version, or of another sort whose name is the same by chance, is neither used
// nor removed, and the command in the message removes it.
TEST_F(ResumeTest, AStateOfAnotherVersionIsRefusedUntilItIsRemoved) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  const std::string journal_path = resume_folder(chosen) + "/journal";
  for (int what = 0; what < 4; ++what) {
    SCOPED_TRACE(what);
    leave_as_killed_early(chosen);
    {
      auto journal = Journal::open(journal_path);
      ASSERT_TRUE(journal);
      Journal::Position end;
      auto state = read_steps(*journal, end);
      ASSERT_TRUE(state);
      if (what == 0) --state->version;
      if (what == 1) ++state->version;
      if (what == 2) state->purpose += "something else";
      if (what == 3) state->inputs.push_back(state->inputs.front());
      ASSERT_TRUE(journal->cut(Journal::beginning()));
      ASSERT_TRUE(write_begin(*journal, *state));
    }
    const std::string before = read(journal_path);
    auto stats = sort(chosen);
    ASSERT_FALSE(stats);
    EXPECT_EQ(stats.error().code, ErrorCode::unsupported) << stats.error().message();
    EXPECT_EQ(stats.error().subject, resume_folder(chosen));
    EXPECT_FALSE(std::filesystem::exists(path("out")));
    EXPECT_EQ(read(journal_path), before);
    const std::string& hint = stats.error().hint;
    ASSERT_NE(hint.find("rm -r "), std::string::npos) << hint;
    ASSERT_EQ(std::system(hint.substr(hint.find("rm -r ")).c_str()), 0);
    expect_nothing_left();
  }
  ASSERT_TRUE(sort(chosen));
  EXPECT_FALSE(noticed("resuming"));
  EXPECT_TRUE(read(path("out")) == expected(chosen));
  expect_nothing_left();
}

TEST_F(ResumeTest, MissingTemporariesAndOutputsAreMadeAnew) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  const std::string wanted = expected(chosen);
  auto spoil = [&](int what) {
    for (const char* folder : {"one", "two"}) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path(folder))) {
        if (!entry.path().filename().string().starts_with("split-")) continue;
        if (what == 0) std::filesystem::remove(entry.path());
        if (what == 1) std::filesystem::resize_file(entry.path(), 1000);
      }
    }
    const std::string output = path(part_name(chosen));
    if (what == 2) std::filesystem::remove(output);
    if (what == 3) std::filesystem::resize_file(output, 10);
    if (what == 4) {
      // Another file of the same length.
      std::filesystem::remove(output);
      write(output, std::string(wanted.size(), 'x'));
    }
  };
  fail_late(chosen, 2);
  save(chosen, wanted.size());
  restore(chosen);
  ASSERT_TRUE(sort(chosen));
  EXPECT_FALSE(noticed("beginning anew"));
  for (int what = 0; what < 5; ++what) {
    SCOPED_TRACE(what);
    restore(chosen);
    spoil(what);
    auto stats = sort(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_TRUE(noticed("beginning anew"));
    EXPECT_TRUE(read(path("out")) == wanted);
  }
  forget(chosen);
  expect_nothing_left();
}

// A run that was killed after the output got its name and before the rest was removed.
TEST_F(ResumeTest, ACompleteOutputIsNotMadeAgain) {
  for (bool in_changes : {false, true}) {
    SortOptions chosen = options({Type::u64, 8});
    write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
    fail_late(chosen, 2);
    const std::string wanted = expected(chosen);
    write(path("out"), wanted);
    std::filesystem::remove(path(part_name(chosen)));
    {
      auto journal = Journal::open(resume_folder(chosen) + "/journal");
      ASSERT_TRUE(journal);
      Journal::Entry entry;
      while (*journal->next(entry)) {
      }
      ASSERT_TRUE(journal->cut(journal->position()));
      PayloadWriter writer;
      writer.put_text(path(part_name(chosen)));
      writer.put_text(path("out"));
      writer.put(io::File::open_read(path("out"))->identity()->inode);
      writer.put(uint64_t{wanted.size()});
      writer.put(uint64_t{wanted.size() / 8});
      ASSERT_TRUE(journal->append(complete_entry, writer.text()));
      ASSERT_TRUE(journal->commit());
    }
    if (in_changes)
      write(path("in"), generate(chosen.format, Distribution::reverse, input_bytes - 8));
    auto stats = sort(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_EQ(noticed("complete already"), !in_changes);
    EXPECT_EQ(noticed("beginning anew"), in_changes);
    EXPECT_EQ(stats->items, (wanted.size() - (in_changes ? 8 : 0)) / 8);
    EXPECT_TRUE(read(path("out")) == expected(chosen));
    expect_nothing_left();
    std::filesystem::remove(path("out"));
  }
}

TEST_F(ResumeTest, AUselessStateIsRemoved) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  ASSERT_FALSE(sort_failing_after(chosen, 10));
  expect_nothing_left();

  write(path("in"), generate(chosen.format, Distribution::uniform, 1 * MiB));
  ASSERT_TRUE(sort(chosen));
  EXPECT_TRUE(noticed("fits in memory"));
  expect_nothing_left();
  write(path("in"), "");
  ASSERT_TRUE(sort(chosen));
  EXPECT_EQ(read(path("out")), "");
  expect_nothing_left();
}

TEST_F(ResumeTest, InputsAndOutputsWithoutANameAreRefused) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, 100 * KiB));
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  auto refused = [&](SortOptions options) {
    auto stats = sort(std::move(options));
    return !stats && stats.error().code == ErrorCode::unsupported;
  };
  SortOptions other = chosen;
  other.output = "-";
  EXPECT_TRUE(refused(other));
  other.output = "/dev/null";
  EXPECT_TRUE(refused(other));
  other = chosen;
  other.merge_only = true;
  EXPECT_TRUE(refused(other));
  other = chosen;
  other.top = 10;
  EXPECT_TRUE(refused(other));
  other = chosen;
  other.inputs.push_back("/dev/zero");
  EXPECT_TRUE(refused(other));
}

// In a directory that all may write to, somebody else may have put files for us to trust.
TEST_F(ResumeTest, AFolderThatOthersMayEnterIsRefused) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  std::filesystem::create_directory(resume_folder(chosen));
  std::filesystem::permissions(resume_folder(chosen), std::filesystem::perms::all);
  auto stats = sort(chosen);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::permission);
  std::filesystem::remove(resume_folder(chosen));
  std::filesystem::create_directory_symlink(path("two"), resume_folder(chosen));
  EXPECT_FALSE(sort(chosen));
  std::filesystem::remove(resume_folder(chosen));

  // The second directory is checked, too; and nothing stays in the first.
  SortOptions second = chosen;
  second.temp_directories = {path("three"), path("one")};
  const std::filesystem::path folder = resume_folder(second);
  const std::filesystem::path entered = directory_ / "one" / folder.filename();
  std::filesystem::create_directory(entered);
  std::filesystem::permissions(entered, std::filesystem::perms::all);
  stats = sort(second);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::permission);
  EXPECT_FALSE(noticed("goes on from there"));
  EXPECT_TRUE(std::filesystem::exists(entered)) << "it is not ours";
  std::filesystem::remove(entered);
  expect_nothing_left();
}

// Another first directory is another state, and the two share nothing: neither the output in
// progress, nor temporaries in a directory that both use.
TEST_F(ResumeTest, StatesInDifferentDirectoriesDoNotMeet) {
  SortOptions here = options({Type::u64, 8});
  SortOptions there = here;
  here.temp_directories = {path("one"), path("two")};
  there.temp_directories = {path("three"), path("two")};
  write(path("in"), generate(here.format, Distribution::uniform, input_bytes));
  const std::string wanted = expected(here);
  fail_late(here, 2);
  fail_late(there, 2);
  // Another name of the same directory.
  SortOptions other_way = here;
  std::filesystem::create_directory_symlink(path("one"), path("link"));
  other_way.temp_directories = {path("link/"), path("two")};
  EXPECT_EQ(part_name(other_way), part_name(here));
  std::filesystem::remove(path("link"));
  {
    // One state is in use, and the other is resumed.
    auto resume = Resume::open(there, opened_inputs(), there.temp_directories, {});
    ASSERT_TRUE(resume) << resume.error().message();
    auto output = (*resume)->open_output();
    ASSERT_TRUE(output) << output.error().message();
    ASSERT_TRUE(sort(here));
    EXPECT_TRUE(noticed("resuming"));
    EXPECT_FALSE(noticed("beginning anew"));
    EXPECT_TRUE(read(path("out")) == wanted);
  }
  std::filesystem::remove(path("out"));
  ASSERT_TRUE(sort(there));
  EXPECT_TRUE(noticed("resuming"));
  EXPECT_FALSE(noticed("beginning anew"));
  EXPECT_TRUE(read(path("out")) == wanted);
  expect_nothing_left();
}

TEST_F(ResumeTest, DirectoriesMayChangeFromRunToRun) {
  Random random(seed_);
  for (const Format& format : {Format{Type::u64, 8}, Format{Type::record, 100, 0, 10}}) {
    SortOptions chosen = options(format);
    write(path("in"), generate(format, Distribution::uniform, input_bytes));
    const std::string wanted = expected(chosen);
    const auto check = [&] {
      EXPECT_TRUE(read(path("out")) == wanted);
      std::filesystem::remove(path("out"));
    };
    std::vector<std::string> directories = {path("one"), path("two"), path("three")};
    for (int run = 0; run < 12; ++run) {
      std::vector<std::string> some = directories;
      for (size_t i = some.size(); i > 1; --i) std::swap(some[i - 1], some[random.below(i)]);
      some.resize(1 + random.below(some.size()));
      chosen.temp_directories = some;
      if (random.below(6) == 0 && !std::filesystem::exists(resume_folder(chosen)))
        leave_as_killed_early(chosen);
      if (sort_failing_after(chosen, random.below(600))) check();
    }
    for (const std::string& directory : directories) {
      chosen.temp_directories = {directory};
      ASSERT_TRUE(sort(chosen));
      check();
    }
    expect_nothing_left();
  }
}

// Files of temporaries without needed blocks are removed, and a run must not require them.
TEST_F(ResumeTest, ResumesWithOneToThreeDirectories) {
  Random random(seed_);
  const Format format{Type::record, 100, 0, 10};
  const std::vector<std::string> directories = {path("one"), path("two"), path("three")};
  write(path("in"), generate(format, Distribution::uniform, input_bytes));
  for (size_t used = 1; used <= directories.size(); ++used) {
    SCOPED_TRACE(used);
    SortOptions chosen = options(format);
    chosen.temp_directories.assign(directories.begin(),
                                   directories.begin() + static_cast<ptrdiff_t>(used));
    const std::string wanted = expected(chosen);
    fail_late(chosen, 1 + static_cast<uint32_t>(random.below(6)));
    for (uint64_t runs = 0;; ++runs) {
      ASSERT_LT(runs, 60u) << "it does not come to an end";
      auto stats = sort_failing_after(chosen, random.below(60) + 20 * runs);
      if (stats) break;
      EXPECT_EQ(stats.error().code, ErrorCode::out_of_space) << stats.error().message();
    }
    EXPECT_TRUE(read(path("out")) == wanted);
    expect_nothing_left();
    std::filesystem::remove(path("out"));
  }
}

TEST_F(ResumeTest, AFlippedBitInATemporaryIsAnErrorUntilTheFileIsRemoved) {
  for (const Format& format : {Format{Type::u64, 8}, Format{Type::record, 100, 0, 10}}) {
    SCOPED_TRACE(items::name_of(format.type));
    SortOptions chosen = options(format);
    write(path("in"), generate(format, Distribution::uniform, input_bytes));
    const std::string wanted = expected(chosen);
    fail_late(chosen, 2);
    std::string damaged;
    for (const auto& entry : std::filesystem::directory_iterator(resume_folder(chosen))) {
      if (entry.path().filename().string().starts_with("split-")) damaged = entry.path();
    }
    ASSERT_NE(damaged, "");
    // The bit flips in each place where a block may lie, because some blocks are done.
    std::string bytes = read(damaged);
    for (size_t at = 777; at < bytes.size(); at += 64 * KiB)
      bytes[at] = static_cast<char>(bytes[at] ^ 16);
    write(damaged, bytes);
    for (int again = 0; again < 2; ++again) {
      auto stats = sort(chosen);
      ASSERT_FALSE(stats) << "a wrong output: " << (read(path("out")) != wanted);
      EXPECT_EQ(stats.error().code, ErrorCode::corrupt);
      EXPECT_EQ(stats.error().subject, damaged);
      EXPECT_NE(stats.error().message().find("at offset"), std::string::npos);
    }
    std::filesystem::remove(damaged);
    ASSERT_TRUE(sort(chosen));
    EXPECT_TRUE(noticed("beginning anew"));
    EXPECT_TRUE(read(path("out")) == wanted);
    std::filesystem::remove(path("out"));
    expect_nothing_left();
  }
}

TEST_F(ResumeTest, AFolderThatCannotBeListedIsAnError) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  fail_late(chosen, 2);
  fail_readdir = true;
  auto stats = sort(chosen);
  fail_readdir = false;
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().system_errno, EIO) << stats.error().message();
  EXPECT_EQ(stats.error().subject, resume_folder(chosen));
  ASSERT_TRUE(sort(chosen));
  EXPECT_TRUE(noticed("resuming"));
  EXPECT_TRUE(read(path("out")) == expected(chosen));
  expect_nothing_left();
}

TEST_F(ResumeTest, ADirectoryThatIsGoneIsNotNeededToBeginAnew) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  fail_late(chosen, 2);
  std::filesystem::remove_all(path("two"));
  chosen.temp_directories = {path("one"), path("three")};
  auto stats = sort(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_TRUE(noticed("beginning anew"));
  EXPECT_TRUE(read(path("out")) == expected(chosen));
  std::filesystem::create_directory(path("two"));
  expect_nothing_left();
}

TEST_F(ResumeTest, FilesOfAKilledRunAreRemovedWhateverTheNextOneDoes) {
  for (int what = 0; what < 3; ++what) {
    SCOPED_TRACE(what);
    SortOptions chosen = options({Type::u64, 8});
    write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
    leave_as_killed_early(chosen);
    if (what == 0) {
      chosen.temp_directories = {path("one")};
      ASSERT_TRUE(sort(chosen));
    } else if (what == 1) {
      chosen.memory_bytes = 1 * GiB;
      notices_.clear();
      ASSERT_TRUE(sort_files(chosen));
      EXPECT_TRUE(noticed("fits in memory"));
      EXPECT_FALSE(noticed("is kept in"));
    } else {
      write(path("in"), "");
      ASSERT_TRUE(sort(chosen));
      EXPECT_EQ(read(path("out")), "");
    }
    expect_nothing_left();
    std::filesystem::remove(path("out"));
  }
  // The state is kept if only the input differs.
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  fail_late(chosen, 2);
  write(path("in"), "");
  auto stats = sort(chosen);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::invalid_argument);
}

TEST_F(ResumeTest, AfterAnErrorNoStepIsRecorded) {
  SortOptions chosen = options({Type::u64, 8});
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  fail_late(chosen, 2);
  const ResumeProgress before = found(chosen);
  {
    auto resume = Resume::open(chosen, opened_inputs(), chosen.temp_directories, {});
    ASSERT_TRUE(resume) << resume.error().message();
    auto output = (*resume)->open_output();
    ASSERT_TRUE(output) << output.error().message();
    const ResumeDone done{.id = {0, before.buckets - 1}, .offset = 0, .stored = {8, 1}};
    // A file that cannot be flushed to the disk; and then one that can.
    EXPECT_FALSE((*resume)->finished({&done, 1}, io::File()));
    EXPECT_FALSE((*resume)->finished({&done, 1}, *output));
    EXPECT_FALSE((*resume)->publish(*output, {8, 1}));
  }
  EXPECT_EQ(found(chosen).buckets_done, before.buckets_done);
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  ASSERT_TRUE(sort(chosen));
  EXPECT_TRUE(read(path("out")) == expected(chosen));
  expect_nothing_left();
}

TEST_F(ResumeTest, TheRemovalCommandIsQuotedForTheShell) {
  std::filesystem::create_directory(path("it's one"));
  SortOptions chosen = options({Type::u64, 8});
  chosen.temp_directories = {path("it's one"), path("two")};
  write(path("in"), generate(chosen.format, Distribution::uniform, input_bytes));
  fail_late(chosen, 1);
  ASSERT_FALSE(sort_failing_after(chosen, 5));
  ASSERT_TRUE(noticed("goes on from there"));
  const std::string& notice = notices_.back();
  const size_t begin = notice.find("rm -r "), end = notice.find(" gives it up");
  ASSERT_NE(end, std::string::npos);
  ASSERT_EQ(std::system(notice.substr(begin, end - begin).c_str()), 0);
  EXPECT_TRUE(std::filesystem::is_empty(path("it's one")));
  std::filesystem::remove(path("it's one"));
  expect_nothing_left();
}

}  // namespace
}  // namespace penstock::external
