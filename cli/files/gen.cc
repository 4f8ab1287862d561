// penstock gen: generates inputs for sorts.

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/format_options.h"
#include "cli/common/output_words.h"
#include "cli/common/size.h"
#include "cli/common/stop_signals.h"
#include "generate/generate_file.h"
#include "generate/generator.h"
#include "interfaces/api/item_format.h"
#include "io/file.h"

namespace penstock::cli {
namespace {

struct GenArguments {
  FormatOptions format;
  std::string distribution = "uniform";
  std::string count;
  std::string bytes;
  uint64_t seed = 1;
  std::string output;
  bool ascii = false;
  uint64_t start = 0;
  std::optional<double> skew;
  std::optional<double> t;
  unsigned threads = 2;
  OutputRules output_rules;
};

// "1000000" or "1e6".
Result<uint64_t> parse_count(std::string_view text) {
  const char* end = text.data() + text.size();
  uint64_t count = 0;
  auto [rest, problem] = std::from_chars(text.data(), end, count);
  unsigned zeros = 0;
  if (problem == std::errc{} && rest != end && *rest == 'e') {
    auto [exponent_end, exponent_problem] = std::from_chars(rest + 1, end, zeros);
    rest = exponent_end;
    problem = exponent_problem;
  }
  bool fits = problem == std::errc{} && rest == end;
  for (; fits && count != 0 && zeros > 0; --zeros) {
    fits = !__builtin_mul_overflow(count, uint64_t{10}, &count);
  }
  if (fits) return count;
  return misuse("read this as a number of items", "--count " + std::string(text), "1000000 or 1e6");
}

// The number of items: --count, or as many as fit in --bytes.
Result<uint64_t> count_of(const GenArguments& arguments, const items::Format& format) {
  if (arguments.count.empty() == arguments.bytes.empty()) {
    return misuse("generate an unknown number of items", "--count", "either --count or --bytes");
  }
  if (!arguments.count.empty()) return parse_count(arguments.count);
  if (!format.fixed()) return misuse("make lines of so many bytes", "--bytes", "--count");
  if (arguments.bytes.ends_with('%'))
    return misuse("take a percentage here", "--bytes", "--bytes 8G");
  auto bytes = parse_size("--bytes", arguments.bytes, 0);
  if (!bytes) return bytes;
  return *bytes / format.record_bytes;
}

Result<generate::Generator> generator_of(const GenArguments& arguments) {
  const auto items = arguments.format.items();
  if (!items) return std::unexpected(items.error());
  auto format = api::format_of(*items);
  if (!format) return std::unexpected(format.error());
  if (!arguments.format.keys.empty() &&
      (format->keys != nullptr || format->key_offset != 0 || format->key_bytes != 10))
    return misuse("put a key there", "--key " + arguments.format.keys.front(), "--key 0:10");
  auto distribution = generate::parse_distribution(arguments.distribution);
  if (!distribution) return std::unexpected(distribution.error());
  auto count = count_of(arguments, *format);
  if (!count) return std::unexpected(count.error());
  if (arguments.t && *distribution != generate::Distribution::bexp) {
    return misuse("use this option with this distribution", "--t", "--dist bexp");
  }

  generate::GeneratorOptions options;
  options.format = *format;
  options.distribution = *distribution;
  options.count = *count;
  options.seed = arguments.seed;
  options.t = arguments.t.value_or(options.t);
  options.ascii = arguments.ascii;
  options.start = arguments.start;
  if (*distribution == generate::Distribution::zipf) {
    options.zipf_exponent = arguments.skew.value_or(options.zipf_exponent);
  } else {
    options.skew = arguments.skew;
  }
  return generate::Generator::open(options);
}

int run_gen(const GenArguments& arguments) {
  auto generator = generator_of(arguments);
  if (!generator) return report("gen", generator.error());
  if (Status device = check_overwrite_device(arguments.output, arguments.output_rules); !device)
    return report("gen", device.error());
  StopOptions stop = stop_options("gen", arguments.output, arguments.output_rules);
  if (!stop.outcome_at_once.empty()) stop.outcome = "no output was written";  // there is no input
  const StopSignals signals(stop);
  const auto bytes = generate::generate_file(*generator, arguments.output,
                                             {.threads = arguments.threads,
                                              .output_rules = arguments.output_rules,
                                              .stop = &signals.flag()});
  if (bytes) return exit_ok;
  const Error& error = bytes.error();
  if (error.code == ErrorCode::interrupted && signals.caught() != 0) return signals.die();
  // The reader of the output has enough ("penstock gen ... | head"): end as other filters do.
  if (error.system_errno == EPIPE) return die_by(SIGPIPE);
  return report("gen", error);
}

}  // namespace

Command add_gen(Parser& program) {
  Parser parser = program.add_subcommand("gen", "generate an input for sorts");
  parser.describe(
      {.examples = {{"penstock gen --format lines --count 1e5 -o lines.txt", "random lines"},
                    {"penstock gen --format u64 --dist zipf --count 1e6 -o keys.u64",
                     "a million numbers by Zipf's law"},
                    {"penstock gen --format record --ascii --count 1000 -o records.txt",
                     "records of the Sort Benchmark"}}});
  auto arguments = std::make_shared<GenArguments>();
  add_format_options(parser, arguments->format);
  parser
      .add_option(
          "--dist", arguments->distribution,
          "uniform (default) sorted reverse all-equal almost-sorted sorted-tail rootdup twodup "
          "eightdup zipf exponential bexp low-bits-only high-bit-zero one-bucket; f32 and f64: "
          "nan-mix; lines: common-prefix empty-heavy")
      .offers({"uniform", "sorted", "reverse", "all-equal", "almost-sorted", "sorted-tail",
               "rootdup", "twodup", "eightdup", "zipf", "exponential", "bexp", "low-bits-only",
               "high-bit-zero", "one-bucket", "nan-mix", "common-prefix", "empty-heavy"});
  parser.add_option("--count", arguments->count, "number of items, as 1000000 or 1e6");
  parser.add_option("--bytes", arguments->bytes, "instead of --count: size of the output, as 8G");
  parser.add_option("--seed", arguments->seed,
                    "seed of the random items (default 1); the Sort Benchmark's records have none");
  parser.add_option("-o,--output", arguments->output, "the file to write; - is standard output")
      .required("items.bin");
  parser.add_flag("--ascii", arguments->ascii, "format record: the Sort Benchmark's ASCII records");
  parser
      .add_option("--start", arguments->start,
                  "format record: number of the first record (default 0)")
      .rare();
  parser
      .add_option("--skew", arguments->skew,
                  "exponent of Zipf's law: for --dist zipf (default 1), or for the first eight "
                  "bytes of the key with --format record and no --dist")
      .rare();
  parser
      .add_option("--t", arguments->t,
                  "--dist bexp: a bit is zero with probability 1/t (default 100)")
      .rare();
  add_output_words(parser, arguments->output_rules);
  parser.add_option("--parallel,--threads", arguments->threads, "threads (default 2)")
      .within(1, 256)
      .rare();
  return {parser, [arguments] { return run_gen(*arguments); }};
}

}  // namespace penstock::cli
