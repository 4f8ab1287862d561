#include "cli/common/format_options.h"

#include "base/misuse.h"
#include "cli/common/modes.h"
#include "cli/common/option_words.h"

namespace penstock::cli {

Result<ItemFormat> FormatOptions::items(bool descending) const {
  ItemFormat items{.name = name,
                   .record_bytes = record_bytes,
                   .dtype = dtype,
                   .keys = keys,
                   .rows_fit_header = rows_fit_header,
                   .descending = descending};
  if (is_named() && parser->given("--jsonl"))
    return misuse("be both", "--format " + name + " --jsonl", "one of them");
  if (text.no_header && name != "lines")
    return misuse("be used with --format " + name, "--no-header", "--format lines");
  if (Status status = apply_text_words(text, items); !status)
    return std::unexpected(status.error());
  return items;
}

Option add_format_options(Parser& parser, FormatOptions& options, bool takes_keys) {
  using api::option;
  options.parser = parser;
  parser.group("Input and output");
  Option format = add_option(parser, option<ItemFormat>("name"), options.name);
  format.offers({"u32", "u64", "u128", "i32", "i64", "i128", "f32", "f64", "kv64", "record",
                 "lines", "rows", "jsonl"});
  parser
      .add_flag_that_sets("--jsonl", options.name, "jsonl",
                          "short for --format jsonl: each line is an object of JSON; keys are "
                          "members, as in --key .user.id:desc")
      .in(modes::all_items & ~modes::keys_shown);
  add_option(parser, option<ItemFormat>("record_bytes"), options.record_bytes);
  add_option(parser, option<ItemFormat>("dtype"), options.dtype);
  if (!takes_keys) return format;
  parser.group("Order");
  add_option(parser, option<ItemFormat>("keys"), options.keys);
  return format;
}

}  // namespace penstock::cli
