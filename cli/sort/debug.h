#pragma once

// sort --debug: what GNU sort's shows. Each line with its keys underlined, and what looks like a mistake in the keys.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "items/text/locale.h"
#include "items/text/text_order.h"
#include "penstock/files.h"
#include "penstock/source.h"

namespace penstock::cli {

// Sentences for stderr, in the order of GNU sort's. `order`: null: byte by byte. `locale`: the one that was asked for, as C or not; or null. `old_keys`: "+1 -2" and what it is now, for
// each key that was written so.
struct OldKey {
  size_t key;  // from 0 on
  std::string written;
  std::string now;
};
std::vector<std::string> remarks_on(const items::TextOrder* order, const items::Locale* locale,
                                    const ItemFormat& items, const std::vector<OldKey>& old_keys);

// Gets lines, and prints each with its keys underlined to stdout.
std::shared_ptr<Sink> underlining_sink(std::shared_ptr<const items::KeyOrder> order,
                                       std::shared_ptr<const items::Locale> locale, char line_end);

}  // namespace penstock::cli
