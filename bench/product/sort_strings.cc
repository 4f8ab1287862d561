// How fast are strings in memory sorted, compared with other sorts?
//
// Views of 2^22 contiguous strings in random order: random hexadecimal digits, addresses of pages
// with common beginnings, words by Zipf's law (few distinct ones), and decimal numbers of several
// lengths. On one thread, and on two. Every result is verified by comparing neighbours and by a sum
// over all strings.

#include <fmt/core.h>

#include <algorithm>
#include <boost/sort/pdqsort/pdqsort.hpp>
#include <boost/sort/spreadsort/string_sort.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "penstock/sort.h"

namespace penstock::bench {
namespace {

using Views = std::vector<std::string_view>;

struct Kind {
  const char* name;
  std::string (*make)(Random& random);
};

std::string word_of(uint64_t number) {
  std::string word;
  for (Random letters(number); word.size() < 3 + number % 9;)
    word += static_cast<char>('a' + letters.below(26));
  return word;
}

const Kind kinds[] = {
    {"hex", [](Random& random) { return fmt::format("{:016x}", random.next()); }},
    {"urls",
     [](Random& random) {
       return fmt::format("https://www.example.com/{}/{}?page={}", word_of(random.below(100)),
                          word_of(random.below(100'000)), random.below(1000));
     }},
    {"words",
     [](Random& random) {
       // (One of 2^20 words, the k-th with a probability of about 1 / k.)
       const uint64_t bits = random.below(20);
       return word_of((uint64_t{1} << bits) + random.below(uint64_t{1} << bits));
     }},
    {"numbers",
     [](Random& random) { return fmt::format("{}", random.next() >> random.below(48)); }}};

uint64_t sum_of(const Views& views) {
  uint64_t sum = 0;
  for (const std::string_view view : views) sum += std::hash<std::string_view>()(view);
  return sum;
}

struct Contender {
  std::string name;
  std::function<Status(Views&)> sort;
};

std::vector<Contender> contenders() {
  return {
      {"penstock", [](Views& views) { return penstock::sort(views); }},
      {"penstock, 2 threads", [](Views& views) { return penstock::sort(views, {.threads = 2}); }},
      {"std::sort",
       [](Views& views) -> Status {
         std::ranges::sort(views);
         return {};
       }},
      {"boost pdqsort",
       [](Views& views) -> Status {
         boost::sort::pdqsort(views.begin(), views.end());
         return {};
       }},
      {"boost spreadsort", [](Views& views) -> Status {
         boost::sort::spreadsort::string_sort(
             views.begin(), views.end(),
             [](std::string_view string, size_t at) { return string[at]; },
             [](std::string_view string) { return string.size(); });
         return {};
       }}};
}
constexpr size_t ours = 2;

Status race(const Options& options, const Kind& kind, Report& report) {
  const size_t count = size_t{1} << (options.quick ? 15 : 22);
  Random random(7);
  std::string block;
  std::vector<size_t> ends;
  for (size_t i = 0; i < count; ++i) {
    block += kind.make(random);
    ends.push_back(block.size());
  }
  Views input;
  for (size_t i = 0, begin = 0; i < count; begin = ends[i++])
    input.push_back(std::string_view(block).substr(begin, ends[i] - begin));
  const uint64_t sum = sum_of(input);
  report.hash(block.size());
  const std::vector<Contender> all = contenders();
  std::vector<std::vector<double>> seconds(all.size());
  for (unsigned round = 0; round < options.runs_or(5); ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      Views views = input;
      Status done;
      seconds[i].push_back(seconds_of([&] { done = all[i].sort(views); }));
      if (!done) return done;
      if (!std::ranges::is_sorted(views) || sum_of(views) != sum)
        return failure(ErrorCode::corrupt, "sort", all[i].name);
    }
  }
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<double> speeds;
    for (const double taken : seconds[i])
      speeds.push_back(static_cast<double>(count) / taken / 1e6);
    report.add(fmt::format("{}: {}", kind.name, all[i].name), "M/s", speeds);
    if (i >= ours) best = std::min(best, median(seconds[i]));
  }
  report.ratio(fmt::format("vs_best_rival_{}", kind.name), best / median(seconds[0]));
  report.ratio(fmt::format("two_threads_{}", kind.name), median(seconds[0]) / median(seconds[1]));
  return {};
}

Result<Report> run(const Options& options) {
  Report report;
  for (const Kind& kind : kinds) {
    if (Status done = race(options, kind, report); !done) return std::unexpected(done.error());
  }
  return report;
}

const Registration registration{"sort-strings", "strings in memory, beside other sorts", run};

}  // namespace
}  // namespace penstock::bench
