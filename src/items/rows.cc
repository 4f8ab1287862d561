#include "items/rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "items/keys/codec.h"

namespace penstock::items {
namespace {

size_t find(std::string_view text, char what, size_t from) {
  return std::min(text.find(what, from), text.size());
}

bool is_quoted(std::string_view row, size_t at, std::optional<char> quote) {
  return quote && at < row.size() && row[at] == *quote;
}

// Returns the field that begins with a quote at `at`. next(at) returns the place of the first quote
// from `at` on, or the row's size.
template <class Next>
FieldPlace quoted_field(std::string_view row, size_t at, char quote, Next next) {
  FieldPlace field{.begin = at, .quotes = FieldPlace::Quotes::around};
  for (++at;; ++at) {
    at = next(at) + 1;
    field.end = at;
    if (!is_quoted(row, at, quote)) return field;
    field.quotes = FieldPlace::Quotes::doubled;
  }
}

// A field as RowStates reads it.
struct StateField {
  FieldPlace place;
  std::optional<size_t> stray = {};  // place of the first quote inside it, or text behind it
  RowStates::State state = {};       // at its end
  bool is_escaped = false;           // an escape character stands in front of its end
};

StateField field_by_states(std::string_view text, const Dialect& dialect, char line_end,
                           size_t at) {
  StateField field{.place = {.begin = at}};
  bool ends_with_return = false;  // an escaped one
  RowStates states(dialect, line_end);
  for (; at < text.size() && !states.ends_field(text[at]); ++at) {
    const auto before = states.state();
    const bool was_escaped = states.is_escaped();
    ends_with_return = was_escaped && text[at] == '\r';
    const bool is_text = states.take(text[at]);
    if (!is_text) field.place.quotes = FieldPlace::Quotes::states;
    if (field.stray || was_escaped || !is_text || states.state() != RowStates::State::plain)
      continue;
    const bool is_return = text[at] == '\r' && (at + 1 == text.size() || text[at + 1] == line_end);
    if (before == RowStates::State::closed ? !is_return : text[at] == dialect.quote)
      field.stray = at;
  }
  field.place.end = at;
  field.state = states.state();
  const bool is_row_end = at == text.size() || text[at] == line_end;
  field.is_escaped = states.is_escaped() || (ends_with_return && is_row_end);
  return field;
}

constexpr const char* open_quote = "a quote that nothing closes";

// Returns the fault of a quote inside the field at `begin`, or of text after its quotes.
ItemFault fault_of_stray(std::string_view text, size_t begin, size_t at, char quote) {
  const bool is_closed = text[begin] == quote;
  const size_t mark = at - (is_closed ? 1 : 0);  // the quote that does not close the field
  return {.at = at,
          .what = is_closed ? "text after the quote that closes a field"
                            : "a quote inside a field that does not begin with one",
          .hint = mark > begin && text[mark - 1] == '\\' ? "--escape '\\'" : nullptr};
}

// Returns the fault of the end of a field: its quotes are not closed, or the end is escaped, so that
// what is written after the field would be text. REQUIRES: no text follows an end at `text`'s end.
std::optional<ItemFault> fault_of_end(std::string_view text, const StateField& field) {
  if (field.state == RowStates::State::quoted)
    return ItemFault{field.place.begin, open_quote, true};
  if (!field.is_escaped) return {};
  const size_t end = field.place.end;
  return ItemFault{end - 1, "an escape character that nothing follows", end == text.size()};
}

// Walks over the row at the beginning of `text`, and calls use(place) for each field. Returns the
// bytes of the row, or 0 if it has a fault or goes on behind the text. If `is_last`, the row may
// end with the text.
template <class Use>
size_t walk_row(std::string_view text, const Dialect& dialect, char line_end, RowMarks& marks,
                bool is_last, std::optional<ItemFault>& fault, Use use) {
  const char separator = dialect.separator;
  const std::optional<char> quote = dialect.quote;
  const bool has_states = dialect.has_states();
  for (size_t at = 0;;) {
    FieldPlace field;
    size_t end = 0;  // end of the field with a carriage return behind it
    if (has_states) {
      const StateField read = field_by_states(text, dialect, line_end, at);
      field = read.place;
      end = field.end;
      if (read.stray && !dialect.is_lenient) {
        fault = fault_of_stray(text, at, *read.stray, *quote);
        return 0;
      }
      if (end < text.size() || is_last) fault = fault_of_end(text, read);
      if (fault) return 0;
    } else if (is_quoted(text, at, quote)) {
      field = quoted_field(text, at, *quote, [&](size_t from) {
        from = marks.find(text, from);
        while (from < text.size() && text[from] != *quote) from = marks.find(text, from + 1);
        return from;
      });
      end = field.end;
      if (end > text.size()) {
        if (is_last) fault = {at, open_quote, true};
        return 0;
      }
      if (end < text.size() && text[end] == '\r' &&
          (end + 1 == text.size() || text[end + 1] == line_end))
        ++end;
      if (end < text.size() && text[end] != separator && text[end] != line_end) {
        fault = fault_of_stray(text, at, end, *quote);
        return 0;
      }
    } else {
      end = marks.find(text, at);
      field = {.begin = at, .end = end};
      if (is_quoted(text, end, quote)) {
        fault = fault_of_stray(text, at, end, *quote);
        return 0;
      }
    }
    if (end == text.size() && !is_last) return 0;
    const bool is_end = end == text.size() || text[end] == line_end;
    if (is_end && field.end == end && end > at && text[end - 1] == '\r') --field.end;
    use(field);
    if (is_end) return std::min(end + 1, text.size());
    at = end + 1;
  }
}

// Returns the number of fields of a row that has neither quotes nor escape characters; empty if it has.
std::optional<size_t> plain_fields(std::string_view row, const Dialect& dialect) {
  const ByteSet<1> separators({dialect.separator});
  const bool has_quotes = dialect.quote || dialect.escape;
  const char quote = dialect.quote.value_or(dialect.escape.value_or('\0'));
  const ByteSet<2> quotes({quote, dialect.escape.value_or(quote)});
  size_t fields = 1;
  for (size_t at = 0; at < row.size(); at += ByteSet<1>::block_bytes) {
    const auto* const block = reinterpret_cast<const std::byte*>(row.data() + at);
    if (has_quotes && quotes.find_in(block, row.size() - at) != 0) return {};
    fields += static_cast<size_t>(std::popcount(separators.find_in(block, row.size() - at)));
  }
  return fields;
}

// Returns the field at `at`. The next one begins behind its end and the separator.
FieldPlace field_at(std::string_view row, const Dialect& dialect, size_t at) {
  if (dialect.has_states()) return field_by_states(row, dialect, '\n', at).place;
  return is_quoted(row, at, dialect.quote)
             ? quoted_field(row, at, *dialect.quote,
                            [&](size_t from) { return find(row, *dialect.quote, from); })
             : FieldPlace{.begin = at, .end = find(row, dialect.separator, at)};
}

std::string_view value_by_states(std::string_view field, const Dialect& dialect,
                                 std::string& room) {
  room.clear();
  RowStates states(dialect, '\n');
  for (const char c : field) {
    if (states.take(c)) room += c;
  }
  if (states.is_escaped()) room += *dialect.escape;
  return room;
}

}  // namespace

std::string_view without_return(std::string_view row) {
  if (row.ends_with('\r')) row.remove_suffix(1);
  return row;
}

bool is_even_row(std::string_view row, char line_end, size_t have, size_t fields) {
  if (fields == 0 || have == fields) return true;
  if (row.ends_with(line_end)) row.remove_suffix(1);
  return without_return(row).empty();
}

ItemFault fault_of_count(size_t have, size_t fields, const char* model) {
  return {.what = std::to_string(have) + (have == 1 ? " column" : " columns") + ", and " + model +
                  " has " + std::to_string(fields),
          .is_count = true};
}

bool RowStates::take(char c) {
  if (is_escaped_) {
    is_escaped_ = false;
    if (state_ == State::start) state_ = State::plain;
    return true;
  }
  if (c == dialect_.escape && state_ != State::closed) {
    is_escaped_ = true;
    return false;
  }
  if (c == dialect_.quote && state_ != State::plain) {
    const bool is_doubled = state_ == State::closed;
    state_ = state_ == State::quoted ? State::closed : State::quoted;
    return is_doubled;
  }
  if (state_ == State::quoted) return true;
  const bool is_end = c == dialect_.separator || c == line_end_;
  state_ = is_end ? State::start : State::plain;
  return !is_end;
}

size_t row_bytes_at(const Dialect& dialect, char line_end, const std::byte* at,
                    const std::byte* end, std::string_view begun) {
  if (begun.empty() && dialect.counts_quotes())
    return row_bytes_at(line_end, at, end, false, *dialect.quote);
  RowStates states(dialect, line_end);
  for (const char c : begun) states.take(c);
  for (const std::byte* from = at; from < end; ++from) {
    const char c = static_cast<char>(*from);
    if (c == line_end && states.ends_field(c)) return static_cast<size_t>(from - at) + 1;
    states.take(c);
  }
  return 0;
}

std::string name_of(const Dialect& dialect) {
  std::string name = std::to_string(int{dialect.separator});
  if (!dialect.quote) name += " without quotes";
  if (dialect.quote && *dialect.quote != quote)
    name += " quote " + std::to_string(int{*dialect.quote});
  if (dialect.escape) name += " escape " + std::to_string(int{*dialect.escape});
  if (dialect.is_lenient) name += " lenient";
  return name;
}

size_t read_row(std::string_view text, const Dialect& dialect, char line_end, bool is_last,
                std::optional<ItemFault>& fault, size_t* have) {
  size_t found = 0;
  RowMarks marks(dialect, line_end);
  const size_t bytes =
      walk_row(text, dialect, line_end, marks, is_last, fault, [&](const FieldPlace&) { ++found; });
  if (have != nullptr) *have = found;
  return bytes;
}

std::optional<ItemFault> fault_of_row(std::string_view row, const Dialect& dialect, char line_end,
                                      size_t* have) {
  std::optional<ItemFault> fault;
  if (const auto fields = plain_fields(row, dialect)) {
    if (have != nullptr) *have = *fields;
  } else {
    read_row(row, dialect, line_end, true, fault, have);
  }
  return fault;
}

std::string_view FieldPlace::unquoted(std::string_view row, const Dialect& dialect,
                                      std::string& room) const {
  if (quotes == Quotes::states)
    return value_by_states(row.substr(begin, end - begin), dialect, room);
  std::string_view text = row.substr(begin + 1, end - begin - 2);
  if (quotes == Quotes::around) return text;
  room.clear();
  while (!text.empty()) {
    const size_t pair = find(text, *dialect.quote, 0);
    room.append(text.substr(0, std::min(pair + 1, text.size())));
    text.remove_prefix(std::min(pair + 2, text.size()));
  }
  return room;
}

std::string_view field_of_row(std::string_view row, const Dialect& dialect, size_t column,
                              std::string& room) {
  row = without_return(row);
  for (size_t at = 0; at <= row.size(); --column) {
    const FieldPlace field = field_at(row, dialect, at);
    if (column == 0) return field.value(row, dialect, room);
    at = field.end + 1;
  }
  return {};
}

size_t end_of_field(std::string_view row, const Dialect& dialect, size_t at) {
  return std::min(field_at(row, dialect, at).end, row.size());
}

std::vector<std::string> fields_of_row(std::string_view row, const Dialect& dialect) {
  std::vector<std::string> fields;
  std::string room;
  row = without_return(row);
  for (size_t at = 0; at <= row.size();) {
    const FieldPlace field = field_at(row, dialect, at);
    fields.emplace_back(field.value(row, dialect, room));
    at = field.end + 1;
  }
  return fields;
}

RowIndex::RowIndex(const Format& format, std::vector<size_t> columns)
    : dialect_(*format.csv),
      line_end_(format.line_end),
      fields_(format.row_fields),
      fit_header_(format.rows_fit_header),
      columns_(std::move(columns)),
      marks_(*format.csv, format.line_end) {}

std::optional<RowIndex> RowIndex::of(const Format& format, std::vector<size_t> columns) {
  if (!format.csv) return {};
  return std::optional<RowIndex>(std::in_place, format, std::move(columns));
}

size_t RowIndex::add(const std::byte* at, const std::byte* end, bool is_last) {
  const std::string_view text(reinterpret_cast<const char*>(at), static_cast<size_t>(end - at));
  const size_t first = places_.size();
  places_.resize(first + columns_.size());
  FieldPlace* place = places_.data() + first;
  auto wanted = columns_.begin();
  size_t have = 0;
  fault_.reset();
  if (at != next_) marks_.clear();
  const size_t bytes =
      walk_row(text, dialect_, line_end_, marks_, is_last, fault_, [&](const FieldPlace& field) {
        const size_t column = have++;
        if (wanted == columns_.end() || column != *wanted) return;
        *place++ = field;
        ++wanted;
      });
  next_ = bytes > 0 ? at + bytes : nullptr;
  const bool is_even = is_even_row(text.substr(0, bytes), line_end_, have, fields_);
  if (bytes > 0 && !is_even && fit_header_) fault_ = fault_of_count(have, fields_);
  if (bytes == 0 || fault_) {
    places_.resize(first);
    return 0;
  }
  if (!is_even) uneven_.push_back(rows_);
  ++rows_;
  return bytes;
}

}  // namespace penstock::items
