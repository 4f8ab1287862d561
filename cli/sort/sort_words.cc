#include "cli/sort/sort_words.h"

#include <algorithm>
#include <utility>

#include "base/misuse.h"
#include "cli/common/keep_word.h"
#include "cli/common/option_words.h"
#include "cli/common/source_words.h"
#include "os/limits.h"

namespace penstock::cli {
namespace {

using api::option;

// The most threads by default: more seldom help on one disk, and GNU sort stops there too.
constexpr unsigned default_threads_max = 8;
}  // namespace

const char* const note_on_sizes =
    "Sizes are numbers with a suffix: K M G T (or KiB ...) for powers of 1024, KB MB GB TB for "
    "powers of 1000, b for bytes, % for a share of the memory of this machine or its container. "
    "Without a suffix, -S counts KiB, as in GNU sort; all other sizes count bytes.";

SortWords::SortWords() : sort{.threads = std::clamp(os::cores_usable(), 1u, default_threads_max)} {
  orders = counts_odd_values = true;
}

void add_sort_words(Parser& parser, SortWords& words) {
  add_option(parser, option<FilesOptions>("inputs"), words.inputs);
  parser.group("Input and output");
  add_option(parser, option<FilesOptions>("output"), words.output);
  add_format_options(parser, words.format);
  add_text_words(parser, words.format.text, true);
  add_flag(parser, option<ItemFormat>("descending"), words.descending);
  parser.group("Memory and disk");
  add_memory_words(parser, words);
  parser.group("Advanced");
  add_gnu_options(parser, words.gnu);
  add_option(parser, option<FilesOptions>("device"), words.device).offers(disk_names);
  add_option(parser, option<SortFilesOptions>("compression"), words.compression)
      .offers(api::option_words<Compression>);
  add_option(parser, option<FilesOptions>("mechanism"), words.pool)
      .offers(api::option_words<Mechanism>);
  add_source_words(parser, words.source);
  add_option(parser, api::option<FilesOptions>("bad_rows"), words.bad_rows)
      .names_files(FileUse::written);
  add_options(parser, words.sort);
  add_keep_word<SortFilesOptions>(parser, words.keep);
}

Result<SortRequest> sort_request(const SortWords& words) {
  if (auto status = check_gnu_options(words.gnu); !status) return std::unexpected(status.error());
  RunWords run = words;
  std::vector<std::string>& inputs = run.inputs;
  if (!words.gnu.files0_from.empty()) {
    if (!inputs.empty())
      return misuse("sort " + inputs.front() + " and the files of a list", "--files0-from",
                    "one of the two");
    auto names = inputs_from(words.gnu.files0_from);
    if (!names) return std::unexpected(names.error());
    inputs = std::move(*names);
  }
  auto files = files_options(run);
  if (!files) return std::unexpected(files.error());
  if (!words.gnu.random_source.empty()) {
    auto seed = random_seed_from(words.gnu.random_source);
    if (!seed) return std::unexpected(seed.error());
    files->items.random_seed = *seed;
  }
  const auto mechanism =
      api::value_of_word<Mechanism>(words.pool, "move memory in this way", "--pool ");
  if (!mechanism) return std::unexpected(mechanism.error());
  const auto compression = api::value_of_word<Compression>(
      words.compression, "compress temporaries in this way", "--compress-temporaries ");
  if (!compression) return std::unexpected(compression.error());

  files->mechanism = *mechanism;
  SortRequest request{.files = std::move(*files), .sort = words.sort};
  if (Status kept = apply_keep_word(words.keep, request.sort); !kept)
    return std::unexpected(kept.error());
  request.sort.compression =
      words.gnu.compress_program.empty() ? *compression : Compression::always;
  return request;
}

}  // namespace penstock::cli
