#pragma once

// The list of advice on a page.

#include <vector>

#include "trace/report/advice.h"
#include "trace/report/page_writer.h"

namespace penstock::report {

// Adds a list of advice under its heading, or the reason why there is none.
inline void add_advice(Writer& page, const std::vector<Advice>& all,
                       const char* none = "Nothing to change.") {
  page.section("What to do", "todo");
  if (all.empty()) {
    page.add("<p>{}</p></section>\n", none);
    return;
  }
  page.raw("<ul>\n");
  for (const Advice& advice : all) {
    page.add("<li><strong>{}</strong> ", shown(advice.what, 300));
    if (!advice.how.empty()) page.add("<code>{}</code> ", shown(advice.how, 300));
    page.add("<span>{}</span></li>\n", shown(advice.why, 500));
  }
  page.raw("</ul></section>\n");
}

}  // namespace penstock::report
