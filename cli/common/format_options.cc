#include "cli/common/format_options.h"

#include "cli/common/modes.h"

namespace penstock::cli {

Result<ItemFormat> FormatOptions::items(bool descending) const {
  ItemFormat items{.name = name,
                   .record_bytes = record_bytes,
                   .dtype = dtype,
                   .keys = keys,
                   .descending = descending};
  if (Status status = apply_text_words(text, items); !status)
    return std::unexpected(status.error());
  return items;
}

Option add_format_options(Parser& parser, FormatOptions& options) {
  // Keys that are shown are those of lines.
  constexpr unsigned not_shown = modes::all_items & ~modes::keys_shown;
  parser.group("Input and output");
  const Option format =
      parser
          .add_option("--format", options.name,
                      "u32 u64 i32 i64 f32 f64 kv64 record lines rows (default lines)")
          .in(not_shown);
  parser
      .add_option("--record", options.record_bytes,
                  "bytes of a record (of --format record; default 100)")
      .in(not_shown);
  parser
      .add_option("--dtype", options.dtype,
                  "the fields of a record as NumPy describes them, as in '<u8,>f4,S10' or "
                  "\"[('id', '<u8'), ...]\"")
      .in(not_shown);
  parser.group("Order");
  parser
      .add_option("-k,--key", options.keys,
                  "records: OFFSET:LENGTH of the key, compared byte by byte (default 0:10), with "
                  ":TYPE a number, "
                  "with :r descending; lines: "
                  "FIELD[.CHARACTER][bdfghiMnRrV][,FIELD[.CHARACTER][...]], as GNU sort's; "
                  "may be given several times")
      .in(modes::all_items);
  return format;
}

}  // namespace penstock::cli
