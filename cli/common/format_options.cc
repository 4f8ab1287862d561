#include "cli/common/format_options.h"

#include "cli/common/option_words.h"

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
  using api::option;
  parser.group("Input and output");
  const Option format = add_option(parser, option<ItemFormat>("name"), options.name);
  add_option(parser, option<ItemFormat>("record_bytes"), options.record_bytes);
  add_option(parser, option<ItemFormat>("dtype"), options.dtype);
  parser.group("Order");
  add_option(parser, option<ItemFormat>("keys"), options.keys);
  return format;
}

}  // namespace penstock::cli
