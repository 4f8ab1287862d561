#pragma once

// The writer that all sections of a page share.

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/report/text.h"

namespace penstock::report {

// Returns an untrusted name as the text of an element.
inline std::string shown(std::string_view name, size_t characters_max = 200) {
  return html_escaped(printable(name, characters_max));
}

// Returns "run.trace" for "/home/x/run.trace".
inline std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos || slash + 1 == path.size() ? path : path.substr(slash + 1);
}

class Writer {
 public:
  template <class... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(page_), format, std::forward<T>(values)...);
  }
  void raw(std::string_view text) { page_ += text; }

  // Writes a cell with a number: the value that the script sorts by, the text that a person reads,
  // and a bar behind it whose length is the value's share of the column's largest.
  void number_cell(double value, const std::string& text, double largest = 0) {
    add("<td class=\"n\" data-v=\"{:.17g}\">{}", value, text);
    if (largest > 0) add("<i style=\"--w:{:.2f}%\"></i>", 100 * value / largest);
    raw("</td>");
  }

  // Begins a section with a heading. Articles of several traces or sorts have headings of their own,
  // above those of their sections.
  void section(const char* heading, const char* css_class = "") {
    add("<section{}><{tag}>{}</{tag}>\n",
        *css_class == 0 ? "" : fmt::format(" class=\"{}\"", css_class), heading,
        fmt::arg("tag", sections_have_articles ? "h3" : "h2"));
  }
  bool sections_have_articles = false;

  // Begins a table. The caller ends it with </table></div>.
  void begin_table(const char* css_class, const std::string& label) {
    add("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table "
        "class=\"{}\">\n",
        html_escaped(label), css_class);
  }
  // Writes the columns' names and explanations. All columns but the first contain numbers.
  void heading(const std::vector<std::pair<const char*, const char*>>& columns) {
    raw("<thead><tr>");
    bool first = true;
    for (const auto& [name, explanation] : columns) {
      add("<th scope=\"col\"{}{}>{}</th>", first ? "" : " class=\"n\"",
          *explanation == 0 ? "" : fmt::format(" title=\"{}\"", html_escaped(explanation)), name);
      first = false;
    }
    raw("</tr></thead>\n");
  }

  std::string take() { return std::move(page_); }
  size_t bytes() const { return page_.size(); }

 private:
  std::string page_;
};

}  // namespace penstock::report
