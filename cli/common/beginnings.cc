#include "cli/common/beginnings.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "cli/common/command.h"
#include "cli/common/stop_signals.h"
#include "files/source/encoding.h"
#include "interfaces/api/binary_input.h"
#include "items/items.h"
#include "items/rows.h"
#include "penstock/source.h"

namespace penstock::cli {
namespace {

constexpr size_t text_bytes = 256 * KiB;
constexpr size_t head_bytes = 4 * KiB;

Beginning decompressed(const io::Peek& seen, const std::string& input,
                       const SourceOptions& source) {
  Beginning made;
  const auto decoded = source::decoded(decompress(stretches_source({}, seen.bytes), input, source),
                                       input, source.encoding);
  if (!decoded) return {.is_damaged = true};
  const std::unique_ptr<Source>& text = *decoded;
  constexpr size_t piece_bytes = 64 * KiB;
  const auto piece = std::make_unique_for_overwrite<char[]>(piece_bytes);
  while (made.text.size() < text_bytes ||
         (made.text.size() <= items::header_bytes_max && !made.has_row())) {
    const auto bytes = text->read(std::as_writable_bytes(std::span(piece.get(), piece_bytes)));
    if (!bytes) {
      made.is_damaged = seen.is_all;  // or else the rest was not looked at
      break;
    }
    if (*bytes == 0) {
      made.is_all = seen.is_all;
      break;
    }
    made.text.append(piece.get(), *bytes);
  }
  return made;
}

Beginning look_at(const std::string& input, const SourceOptions& source, io::Wait wait,
                  const std::atomic<bool>* cancel) {
  Beginning made;
  const auto enough = [&](const io::Peek& seen) {
    made = decompressed(seen, input, source);
    return made.has_row();
  };
  auto seen = io::peek(input, {.bytes_max = items::header_bytes_max,
                               .tail_bytes = api::kind_tail_bytes,
                               .wait = wait,
                               .enough = enough,
                               .cancel = cancel});
  if (!seen) return {.can_open = false};
  if (!*seen) return {.is_read_once = true};
  made = decompressed(**seen, input, source);
  made.head = std::move(**seen);
  made.head.bytes = made.head.bytes.substr(0, head_bytes);
  return made;
}

}  // namespace

bool Beginning::has_row(const items::Dialect& dialect) const {
  const auto* const at = reinterpret_cast<const std::byte*>(text.data());
  return is_all || items::row_bytes_at(dialect, '\n', at, at + text.size()) > 0;
}

std::string Beginning::rows(char line_end) const {
  std::string all = text;
  if (is_all && !all.empty() && !all.ends_with(line_end)) all += line_end;
  return all;
}

const Beginning& Beginnings::of(const std::string& input, const SourceOptions& source,
                                io::Wait wait, const std::atomic<bool>* cancel) {
  const auto kept = kept_.find(input);
  if (kept != kept_.end()) {
    const Beginning& seen = kept->second.beginning;
    const bool may_grow = seen.can_open && !seen.is_read_once && !seen.head.is_file && !seen.is_all;
    if (!may_grow || kept->second.wait >= wait) return seen;
  }
  std::optional<StopSignals> signals;
  if (wait != io::Wait::none && cancel == nullptr) {
    signals.emplace(StopOptions{.command = typed_command(),
                                .outcome = "the input is untouched, no output was written",
                                .may_wait = true});
    cancel = &signals->flag();
  }
  Beginning made = look_at(input, source, wait, cancel);
  if (signals && signals->caught() != 0) std::exit(signals->die());
  return kept_.insert_or_assign(input, Kept{wait, std::move(made)}).first->second.beginning;
}

}  // namespace penstock::cli
