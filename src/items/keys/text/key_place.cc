#include "items/keys/text/key_place.h"

#include <algorithm>
#include <cstring>

namespace penstock::items {
namespace {

class Fields {
 public:
  Fields(std::string_view line, std::optional<char> separator)
      : line_(line), separator_(separator) {}

  // Behind `fields` fields and the separators that end them.
  size_t start_of(size_t fields) const {
    size_t at = 0;
    for (; fields > 0 && at < line_.size(); --fields) {
      at = end_of_field(at);
      if (separator_ && at < line_.size()) ++at;
    }
    return at;
  }
  // Behind `fields` fields, before the separator that ends the last.
  size_t end_of(size_t fields) const {
    size_t at = 0;
    for (; fields > 0 && at < line_.size(); --fields) {
      at = end_of_field(at);
      if (separator_ && at < line_.size() && fields > 1) ++at;
    }
    return at;
  }

 private:
  size_t end_of_field(size_t at) const {
    if (separator_) {
      const void* found = std::memchr(line_.data() + at, *separator_, line_.size() - at);
      return found == nullptr ? line_.size()
                              : static_cast<size_t>(static_cast<const char*>(found) - line_.data());
    }
    at = skip_blanks(line_, at);
    while (at < line_.size() && !is_blank(line_[at])) ++at;
    return at;
  }

  std::string_view line_;
  std::optional<char> separator_;
};

size_t forward(std::string_view line, size_t at, size_t characters) {
  return at + std::min(characters, line.size() - at);
}

}  // namespace

std::string_view place_of(const TextKey& key, std::string_view line,
                          std::optional<char> separator) {
  const Fields fields(line, separator);
  size_t begin = fields.start_of(key.start_field);
  if (key.skips_blanks_at_start) begin = skip_blanks(line, begin);
  begin = forward(line, begin, key.start_character);
  size_t end = line.size();
  if (key.end_field != TextKey::line_end) {
    if (key.end_characters == 0) {
      end = fields.end_of(key.end_field + 1);
    } else {
      end = fields.start_of(key.end_field);
      if (key.skips_blanks_at_end) end = skip_blanks(line, end);
      end = forward(line, end, key.end_characters);
    }
  }
  return line.substr(begin, std::max(begin, end) - begin);
}

}  // namespace penstock::items
