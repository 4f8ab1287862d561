// penstock sort: GNU sort's options with their meanings, and formats that GNU sort does not know.

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/misuse.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/input_notices.h"
#include "cli/common/modes.h"
#include "cli/common/output_words.h"
#include "cli/common/print.h"
#include "cli/common/table_guess.h"
#include "cli/common/write_file.h"
#include "cli/sort/debug.h"
#include "cli/sort/sort_words.h"
#include "cli/sort/tables.h"
#include "cli/trace/sort_page.h"
#include "files/ops/merge/merge_files.h"
#include "files/run/walk.h"
#include "interfaces/api/callers.h"
#include "interfaces/api/item_format.h"
#include "interfaces/api/options.h"
#include "io/file.h"
#include "io/input_guard.h"
#include "items/keys/text/text_order.h"

namespace penstock::cli {
namespace {

struct SortArguments : SortWords {
  std::string check;  // "" (no), "true" (-c), "diagnose-first", "quiet", "silent"
  bool check_quietly = false;
  std::string stats_path;
  std::string report_path;
  bool debug = false;
  bool is_program = false;  // started under the name "sort"
  PackageWords package;

  bool checks() const { return check_quietly || !check.empty(); }
  bool quiet() const { return check_quietly || check == "quiet" || check == "silent"; }
};

// Refuses options that the chosen mode does not obey. Under the name of GNU sort, options that GNU
// sort accepts without effect are let pass.
Status check_modes(const Parser& parser, const SortArguments& arguments) {
  const std::pair<bool, const Mode*> all[] = {{arguments.checks(), &modes::checks},
                                              {arguments.debug, &modes::keys_are_shown},
                                              {arguments.sort.merge_only, &modes::merges}};
  const unsigned taken = arguments.is_program ? modes::as_gnu : 0;
  for (const auto& [chosen, mode] : all) {
    if (!chosen) continue;
    if (Status obeyed = parser.refuse_outside(*mode, taken); !obeyed) return obeyed;
  }
  return {};
}

// Refuses values that contradict each other.
Status validate(const SortArguments& arguments) {
  if (arguments.checks()) {
    if (arguments.inputs.size() > 1) {
      return misuse("check more than one file", arguments.inputs[1], "one run for each file");
    }
    if (arguments.check_quietly && !arguments.check.empty()) {
      return misuse("check both ways at once", "-c -C", "one of the two");
    }
    bool known = arguments.check.empty() || arguments.check == "true" ||
                 arguments.check == "diagnose-first" || arguments.quiet();
    if (!known)
      return misuse("check in this way", "--check=" + arguments.check,
                    "--check, --check=diagnose-first or --check=quiet");
  }
  if (arguments.sort.resume && !arguments.output_rules.sync)
    return misuse("resume from data that --no-sync leaves in memory", "--resume --no-sync",
                  "one of the two");
  if (arguments.json && io::output_descriptor(arguments.output) == STDOUT_FILENO) {
    return misuse("print statistics to the same place as the output", "--json",
                  "-o FILE, or --stats FILE");
  }
  return {};
}

// Refuses a --stats or --report file that holds something else, because the word after the option
// may have been meant for an input, and one that is an input of --files0-from or the device of one.
Status check_report_paths(const SortArguments& arguments, const FilesOptions& options) {
  io::InputGuard taken;
  for (const std::string& input : options.inputs) taken.add(input);
  struct Report {
    const std::string& path;
    std::string_view option;
    std::string_view beginning;  // all such files have it; check_page() knows more about pages
    std::string_view example;
  };
  const Report reports[] = {{arguments.stats_path, "--stats", "{\n  \"version\": ", "run.json"},
                            {arguments.report_path, "--report", "<", "run.html"}};
  for (const auto& [path, option, beginning, example] : reports) {
    if (path.empty() || path == "-") continue;
    struct stat there;
    if (::stat(path.c_str(), &there) == 0 && taken.contains(there))
      return misuse("write over an input", path, fmt::format("another name for {}", option));
    if (holds_something_else(path, beginning))
      return misuse("overwrite a file that is no report", fmt::format("{} {}", option, path),
                    fmt::format("{} {} {}", option, example, typed_word(path)));
  }
  return arguments.report_path.empty() ? Status{} : check_page(arguments.report_path);
}

int check_order(const SortArguments& arguments, SortRequest& request) {
  if (!arguments.quiet() && !arguments.telling.quiet) {
    request.files.notice = [](const std::string& notice) {
      print_notices("sort", {as_typed(notice)});
    };
    print_notices("sort", notices_of(arguments, request.files));
  }
  items::Format format;
  using Found = Result<std::optional<files::Disorder>>;
  const Found found = api::with_callers(request.files, [&](const FilesOptions& each) -> Found {
    const auto options = api::sort_options(each, request.sort);
    if (!options) return std::unexpected(options.error());
    format = options->format;
    // All rows that are left out are counted.
    Found disorder =
        files::find_disorder({*options, options->unique}, files::leaves_rows_out(each));
    if (!disorder) return std::unexpected(files::with_place(disorder.error(), *options));
    return disorder;
  });
  if (!found) return report("sort", found.error());
  if (!found->has_value()) return exit_ok;
  if (!arguments.quiet()) {
    const files::Disorder& disorder = **found;
    if (files::leaves_rows_out(request.files)) {
      print_to(stderr, "{}: {}: disorder: row {} of those that are not left out: {}\n",
               called("sort"), printable(disorder.path), disorder.place.row, disorder.text);
    } else if (arguments.is_program) {
      // The raw text, for programs that read it.
      print_to(stderr, "sort: {}:{}: disorder: {}{}", disorder.path, disorder.place.line,
               disorder.item_text, arguments.format.text.zero ? '\0' : '\n');
    } else {
      print_to(stderr, "penstock sort: {}:{}: disorder: {}{}\n", printable(disorder.path),
               disorder.place.line,
               format.framing().spans_lines ? fmt::format("row {}: ", disorder.place.row) : "",
               disorder.text);
    }
  }
  return exit_disorder;
}

// Writes the statistics to where --json, --stats and --report ask for them.
int write_statistics(const SortArguments& arguments, const FilesOptions& options,
                     const SortStats& stats) {
  if (!arguments.json && arguments.stats_path.empty() && arguments.report_path.empty())
    return exit_ok;
  const std::string json = to_json(stats);
  if (arguments.json) print("{}\n", json);
  Status written;
  if (!arguments.stats_path.empty()) written = write_file(arguments.stats_path, json + "\n");
  if (written && !arguments.report_path.empty()) {
    const Result<std::string> page = sort_page(json, options.output);
    if (!page) return report("sort", page.error());
    written = write_file(arguments.report_path, *page);
  }
  return written ? exit_ok : report("sort", written.error());
}

int sort(const SortArguments& arguments, SortRequest& request) {
  std::optional<SortStats> stats;
  const int code = carry_out("sort", arguments, request.files, [&]() -> Result<RunSummary> {
    auto done = sort_files(request.files, request.sort);
    if (!done) return std::unexpected(done.error());
    stats = std::move(*done);
    return summary_of(*stats);
  });
  return code == exit_ok ? write_statistics(arguments, request.files, *stats) : code;
}

// Sets the defaults that differ in GNU sort: the environment's locale, no decompression of inputs,
// no notices, no wait for the disk.
void be_gnu_sort(SortArguments& arguments) {
  std::string& locale = arguments.format.text.locale;
  // A locale that is not installed counts as C.
  if (locale.empty() && items::Locale::open("").has_value()) locale = "true";
  arguments.source.decompress = false;
  arguments.telling.quiet = true;
  arguments.output_rules.sync = arguments.sort.resume;
  arguments.takes_any_memory = true;
  arguments.recognizes_tables = false;
}

// Prints remarks on the keys, and makes the request's output the lines with their keys underlined.
Status show_keys(const SortArguments& arguments, SortRequest& request) {
  const ItemFormat& items = request.files.items;
  auto format =
      api::format_of(items, {.stable = request.sort.stable, .unique = request.sort.unique});
  if (!format) return std::unexpected(format.error());
  std::shared_ptr<const items::Locale> locale;
  if (items.locale) {
    auto opened = items::Locale::open(*items.locale);
    if (!opened) return std::unexpected(opened.error());
    locale = std::move(*opened);
  }
  std::vector<OldKey> old_keys;
  for (const std::string& old : arguments.gnu.old_keys) {
    const size_t first = old.find('=');
    const size_t second = old.find('=', first + 1);
    const auto key = std::ranges::find(items.keys, old.substr(0, first));
    old_keys.push_back({static_cast<size_t>(key - items.keys.begin()),
                        old.substr(first + 1, second - first - 1), old.substr(second + 1)});
  }
  const auto* const order = static_cast<const items::TextOrder*>(format->keys.get());
  for (const std::string& remark : remarks_on(order, locale.get(), items, old_keys))
    print_to(stderr, "{}: {}\n", called("sort"), remark);
  request.files.sink = underlining_sink(format->keys, std::move(locale), format->line_end);
  return {};
}

int run(const Parser& parser, SortArguments& arguments) {
  if (arguments.is_program) be_gnu_sort(arguments);
  if (Status obeyed = check_modes(parser, arguments); !obeyed)
    return report("sort", obeyed.error());
  if (Status valid = validate(arguments); !valid) return report("sort", valid.error());
  if (arguments.debug) {
    arguments.recognizes_tables = false;
    const auto& keys = arguments.format.keys;
    if (Status none = arguments.is_program ? Status() : refuse_names(keys, "--debug"); !none)
      return report("sort", none.error());
  }
  Result<SortRequest> request = sort_request(arguments);
  if (!request) return report("sort", request.error());
  if (Status apart = check_report_paths(arguments, request->files); !apart)
    return report("sort", apart.error());
  if (arguments.debug) {
    if (Status shown = show_keys(arguments, *request); !shown) return report("sort", shown.error());
  }
  request->files.record_staircases =
      arguments.json || !arguments.stats_path.empty() || !arguments.report_path.empty();
  return arguments.checks() ? check_order(arguments, *request) : sort(arguments, *request);
}

}  // namespace

namespace {

std::vector<Example> sort_examples() {
  return {
      {"penstock sort big.txt -o sorted.txt -S 2G", "sort lines within 2 GiB of memory"},
      {"penstock sort --key price:n:desc orders.csv -o sorted.csv",
       "sort a CSV file by a column of numbers, the largest first"},
      {"penstock sort -t, -k2,2n -k1,1 table.txt", "sort by fields, with the options of GNU sort"},
      {"penstock sort -u names.txt.gz -o names.txt", "sort a compressed file, without duplicates"},
      {"penstock sort --top 10 -n -r sizes.txt", "print the ten largest numbers"},
      {"penstock sort --format u64 keys.u64 -o sorted.u64", "sort binary numbers of 64 bits"}};
}

Command declare_sort(Parser parser, bool is_program) {
  auto arguments = std::make_shared<SortArguments>();
  SortArguments& a = *arguments;
  a.is_program = is_program;
  parser.describe(
      {.examples = is_program ? std::vector<Example>() : sort_examples(),
       .notes =
           {"The output appears when it is complete, and inputs stay as they are. Memory stays "
            "within -S; what does not fit goes to temporaries, which vanish with the program.",
            note_on_sizes},
       .exit_codes = {{0, "done"}, {1, "not sorted (-c, -C)"}, {2, "any error"}}});
  add_sort_words(parser, a);
  parser.group("Input and output");
  add_columns_word(parser, a);
  add_select_word(parser, a);
  add_memory_pool_word(parser, a);
  add_compressed_word(parser, a.compressed);
  add_output_words(parser, a.output_rules);
  parser.group("Operation and reports");
  add_telling_words(parser, a.telling);
  constexpr unsigned told = modes::items | modes::keys_shown | modes::merging;
  parser
      .add_flag(
          "-c,--check", a.check,
          "check whether the input is sorted, and do not sort: diagnose-first (default), quiet "
          "or silent (both as -C)")
      .value_name("HOW")
      .values_like([](const std::string& word) {
        return word == "quiet" || word == "silent" || word == "diagnose-first";
      })
      .offers({"quiet", "silent", "diagnose-first"})
      .in(modes::checking | modes::merging);
  parser.add_flag("-C", a.check_quietly, "like -c, but do not report the first unsorted item")
      .rare()
      .in(modes::checking | modes::merging);
  parser.add_option("--stats", a.stats_path, "write the plan and measurements to this file as JSON")
      .names_files(FileUse::written)
      .rare()
      .in(told);
  Option page = parser.add_option("--report", a.report_path,
                                  "write the plan and measurements as an HTML page");
  page.names_files(FileUse::written).in(told);
  if (!has_pages()) page.hidden();
  parser
      .add_flag("--debug", a.debug,
                "lines: underline the keys of each, and warn of likely mistakes in them")
      .rare()
      .in(modes::keys_shown | modes::merging);
  parser.add_flag("--json", a.json, "print the plan and measurements as JSON (needs -o FILE)")
      .rare()
      .in(modes::items | modes::merging);
  if (!is_program) {
    constexpr unsigned packages = modes::tables | modes::cluster | modes::cluster_tables;
    parser.group("Tables");
    parser
        .add_option(
            "--by", a.package.by,
            "sort tables (x.parquet, x.arrow, x.csv) by these columns: "
            "COLUMN[:desc][:nulls-first][,...]; from x.csv to x.csv fields keep their bytes, and "
            "columns are text, or with COLUMN:n numbers. Needs the Python package penstock; obeys "
            "-o, -S, -T, --parallel and --top")
        .value_name("COLUMNS")
        .in(packages);
    parser
        .add_option("--engine", a.package.engine,
                    "local, or ray: on a Ray cluster (RAY_ADDRESS; without it, on this machine), "
                    "by the Python package; -o is the folder of the parts, -S the memory of a "
                    "task")
        .offers({"local", "ray"})
        .rare()
        .in(packages | modes::items);
  }
  return {parser, [arguments, parser] {
            return arguments->package.any()
                       ? sort_by_package(parser, *arguments, arguments->package)
                       : run(parser, *arguments);
          }};
}

}  // namespace

Command add_sort(Parser& program) {
  return declare_sort(program.add_subcommand("sort", "sort files larger than memory"), false);
}

Command make_sort(Parser& program) {
  return declare_sort(program, true);
}

}  // namespace penstock::cli
