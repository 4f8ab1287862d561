#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "trace/follow/descriptors.h"
#include "trace/import/import_sources.h"

// Logs of requests of fio.
//
//   fio version 2 iolog            fio version 3 iolog
//   /data/a add                    0 /data/a add
//   /data/a open                   12 /data/a open
//   /data/a read 0 4096            15 /data/a read 0 4096
//   /data/a wait 1000 0            1015 /data/a write 4096 4096
//   /data/a close                  1120 /data/a close
//
// Times are microseconds: since the beginning in version 3; in version 2 only between requests with a
// `wait`. There are no processes and no latencies: all requests belong to process 1.
//
// A line is read from its end, so that a name may have spaces, and may be "read". (fio itself
// cannot replay such a log, but it writes one.)
//
// Each file has a descriptor of its own: its number in the order of first sight. A file that is
// read without having been added and opened counts as open, so that a part of a log can be read.

namespace penstock::trace {
namespace {

constexpr int32_t process = 1;
constexpr uint64_t microseconds_max = (uint64_t{1} << 62) / 1000;

std::optional<uint64_t> number_of(std::string_view text, uint64_t largest) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > largest) return {};
  return value;
}

// Removes the last word and returns it; empty if there is none.
std::string_view last_word(std::string_view& text) {
  const size_t end = text.find_last_not_of(" \t");
  text = text.substr(0, end == text.npos ? 0 : end + 1);
  const size_t space = text.find_last_of(" \t");
  const std::string_view word = text.substr(space == text.npos ? 0 : space + 1);
  text.remove_suffix(word.size());
  return word;
}

class IologSource final : public LogSource {
 public:
  IologSource(Lines lines, std::string_view head) : LogSource(std::move(lines)) {
    header.backend = Backend::import;
    header.command = head.starts_with("fio version 2")
                         ? "fio (iolog version 2: no times but waits, no latencies)"
                         : "fio (iolog version 3: no latencies)";
  }

 private:
  enum class Action { none, add, open, close, read, write, sync, data_sync, trim, wait };

  Status add_line(std::string_view line) override {
    if (line_number() == 1) return first_line(line);
    if (trimmed(line).empty()) return {};
    const auto bad = [&](std::string_view why) { return bad_line(line_number(), line, why); };

    std::string_view rest = line;
    if (version_ >= 3) {
      rest = trimmed(rest);
      const size_t space = rest.find_first_of(" \t");
      const auto time = number_of(rest.substr(0, space), microseconds_max);
      if (!time || space == rest.npos) return bad("no time in front");
      now_us_ = *time;
      rest.remove_prefix(space);
    }
    // Requests are NAME ACTION OFFSET BYTES, other lines NAME ACTION.
    std::string_view front = rest;
    const auto bytes = number_of(last_word(front), largest_offset);
    const auto offset = number_of(last_word(front), largest_offset);
    Action action = bytes && offset ? action_of(last_word(front)) : Action::none;
    const bool has_place = action >= Action::read;
    if (!has_place) {
      front = rest;
      action = action_of(last_word(front));
      if (action == Action::none || action >= Action::read) return bad("no action of fio's");
    }
    const std::string_view name = trimmed(front);
    if (name.empty()) return bad("no name of a file");
    if (has_place && *offset > largest_offset - *bytes) return bad("a place beyond 2^63 bytes");
    return act(action, name, has_place ? *offset : 0, has_place ? *bytes : 0, line);
  }

  Status end() override {
    totals.end_ns = now_us_ * 1000;
    return {};
  }

  Status first_line(std::string_view line) {
    if (line == "fio version 2 iolog") version_ = 2;
    if (line == "fio version 3 iolog") version_ = 3;
    if (version_ != 0) return {};
    return bad_line(1, line, "no version of fio's logs that is known",
                    "a log of fio 2.0 or later, which begins with \"fio version 2 iolog\" or 3");
  }

  static Action action_of(std::string_view word) {
    constexpr std::array<std::pair<std::string_view, Action>, 9> actions = {
        {{"add", Action::add},
         {"open", Action::open},
         {"close", Action::close},
         {"read", Action::read},
         {"write", Action::write},
         {"sync", Action::sync},
         {"datasync", Action::data_sync},
         {"trim", Action::trim},
         {"wait", Action::wait}}};
    const auto found =
        std::ranges::find(actions, word, &std::pair<std::string_view, Action>::first);
    return found == actions.end() ? Action::none : found->second;
  }

  Status act(Action action, std::string_view name, uint64_t offset, uint64_t bytes,
             std::string_view line) {
    if (action == Action::wait) {
      if (version_ >= 3 || now_us_ > microseconds_max - std::min(offset, microseconds_max)) {
        return bad_line(line_number(), line, "a wait that cannot be");
      }
      now_us_ += offset;
      return {};
    }
    File& file = file_of(name);
    if (action == Action::add) return {};
    Event event{.start_ns = now_us_ * 1000,
                .process = process,
                .thread = process,
                .descriptor = static_cast<int32_t>(file.id),
                .file = file.id};
    if (action == Action::close) {
      file.is_open = false;
      event.call = Call::close;
      event.file = 0;
      give(event);
      return {};
    }
    if (!file.is_open || action == Action::open) {
      Event opened = event;
      opened.call = Call::open;
      opened.flags = flag::read | flag::write | flag::size_unknown;
      give(opened);
      file.is_open = true;
    }
    if (action == Action::open) return {};
    if (action == Action::sync || action == Action::data_sync) {
      event.call = Call::sync;
      if (action == Action::data_sync) event.flags = flag::data_only;
      give(event);
      return {};
    }
    event.offset = offset;
    event.bytes = bytes;
    if (action == Action::trim) {
      event.call = Call::allocate;
      event.flags = flag::keep_size | flag::punch | flag::size_unknown;
    } else {
      event.call = action == Action::read ? Call::read : Call::write;
      event.result = bytes;
      event.file = 0;
    }
    give(event);
    return {};
  }

  struct File {
    uint32_t id = 0;
    bool is_open = false;
  };
  File& file_of(std::string_view name) {
    // Successive lines are mostly of one file.
    if (last_ != nullptr && name == last_name_) return *last_;
    last_name_ = name;
    last_ = &files_[last_name_];
    if (last_->id == 0) last_->id = add_file(kind_of_path(name), name);
    return *last_;
  }

  int version_ = 0;
  uint64_t now_us_ = 0;
  std::unordered_map<std::string, File> files_;
  std::string last_name_;
  File* last_ = nullptr;
};

}  // namespace

std::unique_ptr<EventSource> iolog_source(Lines lines, std::string_view head) {
  return std::make_unique<IologSource>(std::move(lines), head);
}

}  // namespace penstock::trace
