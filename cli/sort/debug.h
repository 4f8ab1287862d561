#pragma once

// The output of sort --debug, as GNU sort's: each line with its keys underlined, and remarks on
// likely mistakes in the keys.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "items/keys/text/locale.h"
#include "items/keys/text/text_order.h"
#include "penstock/files.h"
#include "penstock/source.h"

namespace penstock::cli {

// Returns the remarks for stderr, in the order of GNU sort's. `order`: null for a comparison byte
// by byte. `locale`: the locale of --locale, or null. `old_keys`: the keys that were written in the
// older form, "+1 -2", and the form to use instead.
struct OldKey {
  size_t key;  // index, 0-based
  std::string written;
  std::string now;
};
std::vector<std::string> remarks_on(const items::TextOrder* order, const items::Locale* locale,
                                    const ItemFormat& items, const std::vector<OldKey>& old_keys);

// Returns a sink that prints each line to stdout with its keys underlined.
std::shared_ptr<Sink> underlining_sink(std::shared_ptr<const items::KeyOrder> order,
                                       std::shared_ptr<const items::Locale> locale, char line_end);

}  // namespace penstock::cli
