// Groups of lines and of rows against a map.

#include "files/ops/group/group_lines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "files/ops/group/group_files.h"
#include "files/run/memory_plan.h"
#include "io/whole_file_fixture.h"
#include "items/keys/text/text_order.h"
#include "items/rows.h"
#include "os/memory.h"
#include "os/sanitizer.h"

namespace penstock::files {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class GroupLinesTest : public testing::Test {
 protected:
  GroupLinesTest() {
    std::string name = (fs::temp_directory_path() / "group_lines_test_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directory(folder_ / "temporaries");
  }
  ~GroupLinesTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  // The least memory that works beside what the process has already.
  static uint64_t least_memory_bytes() {
    const uint64_t needed_bytes = os::resident_memory().bytes + 28 * MiB;
    return std::max<uint64_t>(files_memory_bytes_min, needed_bytes + needed_bytes / 31);
  }
  FilesOptions files_options(const items::Format& format, Texts inputs) const {
    return {{.inputs = std::move(inputs),
             .output = path("out"),
             .memory_bytes = least_memory_bytes(),
             .temp_directories = {path("temporaries")}},
            format};
  }

 private:
  fs::path folder_;
};

// A number with up to three places behind the point.
struct Number {
  int64_t thousandths = 0;
  int places = 0;
  std::string text() const {
    int64_t rest = std::abs(thousandths);
    for (int i = places; i < 3; ++i) rest /= 10;
    std::string digits = fmt::format("{:0{}}", rest, places + 1);
    if (places > 0) digits.insert(digits.size() - static_cast<size_t>(places), ".");
    return thousandths < 0 ? "-" + digits : digits;
  }
};

struct Row {
  Texts fields;
  std::optional<Number> number;  // in the last field
};

// The options of a group and the format of its input.
struct Case {
  Texts keys;           // in the words of the options
  std::string letters;  // order of whole lines, if there are no keys
  std::vector<size_t> key_fields;
  bool csv = false;
  bool header = false;
  char line_end = '\n';
  std::string row_end = "\n";
  std::shared_ptr<const items::Locale> locale;
  Aggregates aggregates;
  std::optional<uint64_t> top;

  char separator() const { return csv ? ';' : ','; }
  bool sums() const { return aggregates.sum || aggregates.min || aggregates.max; }
  std::string field(const std::string& text) const {
    return csv ? items::row_field(text, separator()) : text;
  }
  std::string line(const Texts& fields) const {
    std::string line;
    for (size_t i = 0; i < fields.size(); ++i)
      line += (i == 0 ? "" : std::string(1, separator())) + field(fields[i]);
    return line;
  }
  items::TextOptions text_options() const {
    return {.keys = keys,
            .letters = letters,
            .separator = separator(),
            .stable = true,
            .locale = locale,
            .csv = csv ? std::optional<items::Dialect>(separator()) : std::nullopt,
            .header = csv && header ? names() : Texts()};
  }
  static Texts names() { return {"one", "t;wo", "x"}; }

  items::Format format() const {
    items::Format format = *items::parse_format("lines");
    format.line_end = line_end;
    format.header_lines = header ? 1 : 0;
    if (csv) format.csv = separator();
    if (keys.empty() && letters.empty()) return format;
    if (csv && header) {
      format.columns = std::make_shared<const items::TextOptions>(text_options());
    } else {
      format.keys = *items::TextOrder::make(text_options());
    }
    return format;
  }
};

struct ModelGroup {
  Row first;
  uint64_t count = 0;
  std::optional<Number> sum, min, max;
};

std::string result_of(const Case& how, const ModelGroup& group) {
  Texts keys;
  for (const size_t field : how.key_fields) keys.push_back(how.field(group.first.fields[field]));
  if (keys.empty()) keys.push_back(how.line(group.first.fields));
  const Aggregates& wanted = how.aggregates;
  if (wanted.distinct) return how.line(group.first.fields);
  if (wanted.like_uniq)
    return fmt::format("{:7} {}", group.count, fmt::join(keys, std::string(1, how.separator())));
  Texts texts;
  const std::string count = std::to_string(group.count);
  if (wanted.count && !how.csv) texts.push_back(count);
  texts.insert(texts.end(), keys.begin(), keys.end());
  if (wanted.count && how.csv) texts.push_back(count);
  auto add = [&](bool is_wanted, const std::optional<Number>& number) {
    if (is_wanted) texts.push_back(number ? number->text() : "");
  };
  add(wanted.sum, group.sum);
  add(wanted.min, group.min);
  add(wanted.max, group.max);
  return fmt::format("{}", fmt::join(texts, std::string(1, how.separator())));
}

std::string head_of(const Case& how) {
  if (!how.header) return "";
  Texts names = Case::names();
  if (how.csv && !how.aggregates.distinct) {
    names.clear();
    for (const size_t field : how.key_fields) names.push_back(Case::names()[field]);
    if (how.aggregates.count) names.emplace_back("count");
    for (const auto& [is_wanted, name] : {std::pair{how.aggregates.sum, "sum_x"},
                                          {how.aggregates.min, "min_x"},
                                          {how.aggregates.max, "max_x"}})
      if (is_wanted) names.emplace_back(name);
  }
  return how.line(names) + how.row_end;
}

// The expected output.
std::string model_of(const Case& how, const std::vector<Row>& rows) {
  std::shared_ptr<const items::TextOrder> order = *items::TextOrder::make(how.text_options());
  std::map<std::string, ModelGroup> groups;
  for (const Row& row : rows) {
    std::string key;
    order->append(how.line(row.fields), key);
    ModelGroup& group = groups[key];
    if (group.count++ == 0) group.first = row;
    if (!row.number) continue;
    const Number number = *row.number;
    if (!group.sum) {
      group.sum = group.min = group.max = number;
      continue;
    }
    group.sum->thousandths += number.thousandths;
    group.sum->places = std::max(group.sum->places, number.places);
    if (number.thousandths < group.min->thousandths) group.min = number;
    if (number.thousandths > group.max->thousandths) group.max = number;
  }
  std::vector<const ModelGroup*> in_order;
  for (const auto& [key, group] : groups) in_order.push_back(&group);
  if (how.top) {
    std::ranges::stable_sort(in_order, std::greater(), &ModelGroup::count);
    in_order.resize(std::min<size_t>(in_order.size(), *how.top));
  }
  std::string text = head_of(how);
  for (const ModelGroup* group : in_order) text += result_of(how, *group) + how.row_end;
  return text;
}

std::string text_of(const Case& how, const std::vector<Row>& rows) {
  std::string text = how.header ? how.line(Case::names()) + how.row_end : "";
  for (const Row& row : rows) text += how.line(row.fields) + how.row_end;
  return text;
}

GroupFilesOptions options_of(const Case& how, FilesOptions files) {
  GroupFilesOptions options{.files = std::move(files),
                            .aggregates = how.aggregates,
                            .lines = {.separator = how.separator()},
                            .sorted = !how.top,
                            .top = how.top};
  if (how.sums()) options.lines.values = {how.csv && how.header ? "x" : "3"};
  return options;
}

Row random_row(Random& random, const Case& how, uint64_t keys) {
  Row row;
  for (int i = 0; i < 2; ++i) {
    const uint64_t key = random.below(keys);
    const char* const forms[] = {"{}", "k{}", "K{}", "0{}", "{}.50", "-{}"};
    std::string text =
        fmt::format(fmt::runtime(forms[random.below(std::size(forms))]), mix64(key) % keys);
    if (key % 9 == 0) text = "";
    if (key % 7 == 1) text = key % 2 == 0 ? "jan" : "FEB";
    if (how.csv && key % 5 == 2) text += random.below(2) == 0 ? "\"a\";b" : "\n";
    row.fields.push_back(text);
  }
  if (how.sums() && random.below(4) != 0) {
    Number number{.places = static_cast<int>(random.below(4))};
    number.thousandths = static_cast<int64_t>(random.below(2001)) - 1000;
    for (int i = number.places; i < 3; ++i) number.thousandths *= 10;
    row.number = number;
  }
  row.fields.push_back(row.number ? row.number->text() : "");
  return row;
}

Case random_case(Random& random) {
  Case how;
  how.csv = random.below(2) == 0;
  how.header = random.below(2) == 0;
  if (!how.csv && random.below(4) == 0) how.line_end = '\0';
  how.row_end = how.line_end;
  if (how.csv && random.below(2) == 0) how.row_end = "\r\n";
  const char* const letters[] = {"", "f", "n", "r", "d", "i", "V", "M", "h", "g", "nr", "fr"};
  auto some_letters = [&] { return std::string(letters[random.below(std::size(letters))]); };
  const size_t count = how.csv ? 1 + random.below(2) : random.below(3);
  for (size_t i = 0; i < count; ++i) {
    const size_t field = random.below(2);
    how.key_fields.push_back(field);
    const std::string number = std::to_string(field + 1);
    const std::string name = how.header && random.below(2) == 0 ? Case::names()[field] : number;
    const std::string chosen = some_letters();
    how.keys.push_back(!how.csv         ? number + "," + number + chosen
                       : chosen.empty() ? name
                                        : name + ":" + chosen);
  }
  if (count == 0) how.letters = some_letters();
  for (const char* name : {"en_US.UTF-8", "C.UTF-8"}) {
    auto locale = items::Locale::open(name);
    if (locale && random.below(4) == 0) how.locale = *locale;
  }
  // A locale alone orders nothing: the case gets an order with made keys.
  if (how.locale != nullptr && how.keys.empty() && how.letters.empty()) how.letters = "f";
  switch (random.below(4)) {
    case 0:
      how.aggregates.distinct = true;
      break;
    case 1:
      how.aggregates.count = true;
      how.aggregates.like_uniq = !how.csv && random.below(2) == 0;
      break;
    default:
      how.aggregates = {.count = random.below(2) == 0,
                        .sum = true,
                        .min = random.below(2) == 0,
                        .max = random.below(2) == 0};
  }
  if (how.aggregates.count && random.below(3) == 0) how.top = random.below(20);
  return how;
}

TEST_F(GroupLinesTest, EqualsAMap) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(200); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Case how = random_case(random);
    std::vector<Row> all;
    Texts inputs;
    const size_t files = 1 + random.below(3);
    const uint64_t keys = 1 + random.below(300);
    for (size_t i = 0; i < files; ++i) {
      std::vector<Row> rows(random.below(3) == 0 ? random.below(2) : random.below(400));
      for (Row& row : rows) row = random_row(random, how, keys);
      inputs.push_back(write(fmt::format("in{}", i), text_of(how, rows)));
      all.insert(all.end(), rows.begin(), rows.end());
    }
    if (how.csv && !how.header && all.empty()) continue;
    GroupFilesOptions options = options_of(how, files_options(how.format(), inputs));
    options.threads = 1 + static_cast<unsigned>(random.below(3));
    options.round_items = 1 + random.below(12);
    const auto done = group_files(options);
    ASSERT_TRUE(done.has_value()) << done.error().message();
    EXPECT_EQ(done->items, all.size());
    EXPECT_EQ(done->temp_bytes, 0u);
    ASSERT_EQ(io::read_whole(path("out")), model_of(how, all));
  }
}

// Partials of more groups than fit go to temporaries and meet again, and the first line of each key
// stays the first.
TEST_F(GroupLinesTest, EqualsAMapIfGroupsDoNotFit) {
  Case rows{.keys = {"t;wo:f"}, .key_fields = {1}, .csv = true, .header = true};
  rows.aggregates = {.count = true, .sum = true, .min = true, .max = true};
  Case numbers{.keys = {"2,2n", "1,1f"}, .key_fields = {1, 0}};
  numbers.aggregates.distinct = true;
  Case most{.keys = {"1,1"}, .key_fields = {0}, .top = 50};
  most.aggregates.count = true;
  // Half of the rows have one of a few keys. The models make the rows again after all runs: in
  // memory they would count against the budget.
  constexpr uint64_t count = 300'000;
  auto row_at = [](const Case& how, uint64_t i) {
    Random random(i);
    Row row = random_row(random, how, random.below(2) == 0 ? 100 : 1'000'000);
    for (int field = 0; field < 2; ++field) row.fields[field] += std::string(100, 'y');
    return row;
  };
  const std::vector<Case> cases = {rows, numbers, most, rows};
  const std::vector<unsigned> threads = {1, 3, 2, 2};
  for (size_t k = 0; k < cases.size(); ++k) {
    const Case& how = cases[k];
    {
      std::ofstream file(path("in"), std::ios::binary);
      file << text_of(how, {});
      for (uint64_t i = 0; i < count; ++i) file << how.line(row_at(how, i).fields) << how.row_end;
    }
    FilesOptions files = files_options(how.format(), {path("in")});
    files.output = path(fmt::format("out{}", k));
    os::reset_peak_resident_memory();
    GroupFilesOptions options = options_of(how, files);
    options.threads = threads[k];
    options.round_items = 200;
    const auto done = group_files(options);
    ASSERT_TRUE(done.has_value()) << done.error().message();
    EXPECT_EQ(done->items, count);
    EXPECT_GT(done->temp_bytes, 0u);
    // A sanitizer's own memory counts as the program's, and grows.
    if (!os::shadowed) {
      EXPECT_LE(done->peak_rss_bytes, files.memory_bytes);
    }
  }
  for (size_t k = 0; k < cases.size(); ++k) {
    std::vector<Row> all(count);
    for (uint64_t i = 0; i < count; ++i) all[i] = row_at(cases[k], i);
    ASSERT_TRUE(io::read_whole(path(fmt::format("out{}", k))) == model_of(cases[k], all));
  }
}

// A small file is assumed to fit, and is read again with temporaries if it does not.
TEST_F(GroupLinesTest, KeysThatAreMuchLongerThanTheirLinesFit) {
  Case how;
  for (int i = 0; i < 120; ++i) how.keys.emplace_back("1,1");
  how.key_fields.assign(how.keys.size(), 0);
  how.aggregates.count = true;
  std::vector<Row> all;
  for (int i = 0; i < 20'000; ++i) all.push_back({.fields = {std::to_string(i % 15'000)}});
  const auto done =
      group_files(options_of(how, files_options(how.format(), {write("in", text_of(how, all))})));
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_EQ(done->items, all.size());
  EXPECT_GT(done->temp_bytes, 0u);
  ASSERT_TRUE(io::read_whole(path("out")) == model_of(how, all));
}

// Long partials can be read back, however many buckets there are.
TEST_F(GroupLinesTest, LongLinesComeBackFromTemporaries) {
  Case how{.keys = {"1,1f"}, .key_fields = {0}};
  how.aggregates.distinct = true;
  std::vector<Row> all;
  for (int i = 0; i < 600; ++i)
    all.push_back({.fields = {std::to_string(i) + std::string(60'000, 'x'), "b"}});
  const auto done =
      group_files(options_of(how, files_options(how.format(), {write("in", text_of(how, all))})));
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_GT(done->temp_bytes, 0u);
  ASSERT_TRUE(io::read_whole(path("out")) == model_of(how, all));
}

// Sums become wide in the table, in buckets that seem to fit, and in the merge of extents.
TEST_F(GroupLinesTest, SumsThatOutgrowTheirRoomAreExact) {
  Case how{.keys = {"1,1"}, .key_fields = {0}};
  how.aggregates.sum = true;
  std::string text;
  for (const char* value : {"1", "9223372036854775807", "0.123456789"}) {
    for (int key = 0; key < 400'000; ++key) text += fmt::format("{},b,{}\n", key, value);
  }
  const items::Format format = how.format();
  GroupFilesOptions options = options_of(how, files_options(format, {write("in", text)}));
  for (const bool sorted : {false, true}) {
    options.sorted = sorted;
    const auto done = group_files(options);
    ASSERT_TRUE(done.has_value()) << done.error().message();
    EXPECT_EQ(done->groups, 400'000u);
    EXPECT_GT(done->temp_bytes, 0u);
    std::string line;
    for (std::ifstream out(path("out")); std::getline(out, line);)
      ASSERT_TRUE(line.ends_with(",9223372036854775808.123456789")) << line;
  }
}

// The error of the first bad row, and its place, do not depend on the threads.
TEST_F(GroupLinesTest, ReportsTheFirstErrorWithAnyThreads) {
  Case how{.keys = {"1"}, .key_fields = {0}, .csv = true};
  how.aggregates.sum = true;
  for (const auto& [first, second] : {std::pair{"a;b;x1", "c;d;x2"},
                                      {"c;d;x2", "a;b;x1"},
                                      {"a;\"b\"c;1", "a;b;x1"},
                                      {"a;b;x1", "a;\"b\"c;1"}}) {
    std::string text;
    for (int i = 0; i < 6000; ++i) {
      text += i == 4000                ? first
              : i == 4001 || i == 4100 ? second
                                       : fmt::format("{};\n;{}", i % 50, i);
      if (i == 100) text += ";\"of\nthree\nlines\"";
      text += '\n';
    }
    std::vector<std::string> messages;
    for (unsigned threads = 1; threads <= 3; ++threads) {
      GroupFilesOptions options = options_of(how, files_options(how.format(), {write("in", text)}));
      options.threads = threads;
      options.round_items = 50;
      const auto done = group_files(options);
      ASSERT_FALSE(done.has_value());
      messages.push_back(done.error().message());
      EXPECT_EQ(messages.back(), messages.front());
      EXPECT_FALSE(fs::exists(path("out")));
    }
  }
}

TEST_F(GroupLinesTest, ThreadsEndWithACancelledRun) {
  Case how{.keys = {"1,1"}, .key_fields = {0}};
  how.aggregates.count = true;
  for (unsigned threads = 1; threads <= 3; ++threads) {
    std::atomic<bool> cancel{false};
    GroupFilesOptions options = options_of(how, files_options(how.format(), {}));
    options.files.cancel = &cancel;
    options.threads = threads;
    options.round_items = 50;
    options.files.sources = {callback_source(
        [&, line = 0, text = std::string()](std::span<std::byte> into) mutable -> Result<size_t> {
          while (text.size() < into.size()) text += fmt::format("{},b\n", ++line);
          if (line > 200'000) cancel = true;
          std::memcpy(into.data(), text.data(), into.size());
          text.erase(0, into.size());
          return into.size();
        })};
    const auto done = group_files(options);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::interrupted) << done.error().message();
    EXPECT_FALSE(fs::exists(path("out")));
  }
}

TEST_F(GroupLinesTest, ASumIsTooLongInPartsIfItIsAsAWhole) {
  Case how{.keys = {"1,1"}, .key_fields = {0}};
  how.aggregates.sum = true;
  const std::string largest = "170141183460469231731687303715884105727";
  const items::Format format = how.format();
  auto group = [&](const Texts& values) {
    std::string text;
    for (const std::string& value : values) text += "a,b," + value + "\n";
    return group_files(options_of(how, files_options(format, {write("in", text)})));
  };
  auto done = group({largest, largest, "-" + largest});
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_EQ(io::read_whole(path("out")), "a," + largest + "\n");
  for (const Texts& values : {Texts{largest, "1"}, Texts{largest, "0.5"}}) {
    done = group(values);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::unsupported);
  }
  done = group({"1", "x", "y"});
  ASSERT_FALSE(done.has_value());
  EXPECT_NE(done.error().message().find("line 2, column"), std::string::npos)
      << done.error().message();
}

}  // namespace
}  // namespace penstock::files
