// Files larger than memory.

#include "penstock/files.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "interfaces/api/option_table.h"
#include "interfaces/c/guard.h"
#include "interfaces/c/lists.h"

using namespace penstock;
using c_api::guarded;
using c_api::lacking;
using c_api::list_of;
using c_api::opened;
using c_api::options_of;
using c_api::set;
using c_api::text_of;

namespace {

Error callback_failed(const char* attempted, const char* subject) {
  return {.code = ErrorCode::io, .attempted = attempted, .subject = subject};
}

std::shared_ptr<Source> source_of(const penstock_source& source) {
  return callback_source([source](std::span<std::byte> into) -> Result<size_t> {
    const int64_t bytes = source.read(source.context, into.data(), into.size());
    if (bytes >= 0) return static_cast<size_t>(bytes);
    return std::unexpected(callback_failed("read", "the caller's source"));
  });
}

std::shared_ptr<Sink> sink_of(const penstock_sink& sink) {
  return callback_sink([sink](std::span<const std::byte> from) -> Status {
    if (sink.write(sink.context, from.data(), from.size()) == 0) return {};
    return std::unexpected(callback_failed("write", "the caller's sink"));
  });
}

// ---- Fields of C converted to options by interfaces/api/options.def. 0 and NULL keep the default.

Status assign(bool& to, int from) {
  to = from != 0;
  return {};
}
template <std::unsigned_integral Number>
Status assign(Number& to, std::type_identity_t<Number> from) {
  if (from != 0) to = from;
  return {};
}
Status assign(std::optional<uint32_t>& to, uint32_t from) {
  if (from != 0) to = from;
  return {};
}
Status assign(std::string& to, const char* from) {
  if (from != nullptr) to = from;
  return {};
}
Status assign(std::optional<std::string>& to, const char* from) {
  if (from != nullptr) to = from;
  return {};
}
Status assign(std::optional<char>& to, const char* from) {
  const std::string separator = text_of(from);
  if (separator.size() > 1)
    return failure(ErrorCode::invalid_argument, "separate fields by other than one byte", separator,
                   "one byte");
  if (!separator.empty()) to = separator.front();
  return {};
}
template <class Value>
  requires std::is_enum_v<Value>
Status assign(Value& to, const char* from) {
  if (from == nullptr) return {};
  const auto value = api::value_of_word<Value>(from, "take this value", "");
  if (!value) return std::unexpected(value.error());
  to = *value;
  return {};
}
Status assign(std::optional<CompressedFormat>& to, const char* from) {
  return from == nullptr ? Status() : assign(to.emplace(), from);
}
Status assign(Compression& to, int from) {
  if (from < 0 || static_cast<size_t>(from) >= std::size(api::option_words<Compression>))
    return failure(ErrorCode::invalid_argument, "compress temporaries so", std::to_string(from),
                   "one of enum penstock_compression");
  to = static_cast<Compression>(from);
  return {};
}

// Reads those options of the struct Options that `from` has.
template <class Options, class From>
Status assign_all(Options& options, const From& from) {
#define C(field) [&](auto& to) { return assign(to, from.field); }
#define C_NOT(field) [&](auto& to) { return assign(to, from.field == 0); }
#define C_OPTIONAL(field)                       \
  [&](auto& to) {                               \
    if (from.has_##field != 0) to = from.field; \
    return Status();                            \
  }
#define C_LIST(field)                                            \
  [&](auto& to) -> Status {                                      \
    auto list = list_of(#field, from.field, from.field##_count); \
    if (!list) return std::unexpected(list.error());             \
    if (!list->empty()) to = std::move(*list);                   \
    return {};                                                   \
  }
#define C_OWN(field) [](auto&) { return Status(); }
#define C_NONE [](auto&) { return Status(); }
#define OPTION(owner, name, field, c, ...)               \
  if constexpr (std::is_same_v<Options, owner>) {        \
    if (Status set = c(options.field); !set) return set; \
  }
#include "interfaces/api/options.def"
  return {};
}

// All options of one operation.
template <class Options, class From>
Result<Options> options_from(const From* given) {
  const auto from = options_of(given);
  if (!from) return std::unexpected(from.error());
  Options options;
  if (Status all = assign_all(options, *from); !all) return std::unexpected(all.error());
  return options;
}

// ---- Settings: options by their names in the table.

Status set_to(bool& to, const std::string& text) {
  if (text != "true" && text != "false")
    return failure(ErrorCode::invalid_argument, "set a flag so", text, "true or false");
  to = text == "true";
  return {};
}
template <std::unsigned_integral Number>
Status set_to(Number& to, const std::string& text) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  return failure(ErrorCode::invalid_argument, "take this number", text, "a whole number");
}
Status set_to(std::vector<std::string>& to, const std::string& text) {
  to.push_back(text);
  return {};
}
template <class Value>
  requires requires(Value& to, const char* from) { assign(to, from); }
Status set_to(Value& to, const std::string& text) {
  return assign(to, text.c_str());
}
template <class Value>
  requires requires(Value& to, const std::string& text) { set_to(to, text); }
Status set_to(std::optional<Value>& to, const std::string& text) {
  return set_to(to.emplace(), text);
}

// Sets the option of that name. Returns nullopt if the struct has no such option.
template <class Options>
std::optional<Status> set_in(Options& options, std::string_view name, const std::string& value) {
  std::optional<Status> done;
  api::for_each_option<Options>([&](const api::OptionText& text, auto field) {
    if (name != text.name) return;
    if constexpr (requires { set_to(field(options), value); }) {
      done = set_to(field(options), value);
    } else {
      done = failure(ErrorCode::invalid_argument, "set this option by its name", text.name,
                     "the field of penstock_files_options");
    }
  });
  return done;
}

template <class Options>
Status apply_settings(FilesOptions& files, Options& options, const penstock_files_options& from) {
  const auto settings = list_of("settings", from.settings, from.settings_count);
  if (!settings) return std::unexpected(settings.error());
  for (const std::string& setting : *settings) {
    const size_t equals = std::min(setting.find('='), setting.size());
    const std::string name = setting.substr(0, equals);
    const std::string value = setting.substr(std::min(equals + 1, setting.size()));
    auto done = set_in(options, name, value);
    if (!done) done = set_in(files, name, value);
    if (!done) done = set_in(files.items, name, value);
    if (!done || equals == setting.size())
      return failure(ErrorCode::invalid_argument, "set this option", setting,
                     "NAME=VALUE, with the name of a member in penstock/files.h");
    if (!*done) {
      Error error = done->error();
      error.subject = setting;
      return std::unexpected(std::move(error));
    }
  }
  return {};
}

Status set_hooks(FilesOptions& options, const penstock_files_options& from) {
  for (size_t i = 0; i < from.sources_count; ++i) {
    if (from.sources == nullptr || from.sources[i].read == nullptr)
      return lacking("sources", "as many as their count says, each with read");
    options.sources.push_back(source_of(from.sources[i]));
  }
  if (from.sink != nullptr) {
    if (from.sink->write == nullptr) return lacking("sink", "one with write");
    options.sink = sink_of(*from.sink);
  }
  if (from.cancel != nullptr) options.cancel = &from.cancel->requested;
  if (from.progress != nullptr) {
    options.progress = [progress = from.progress,
                        context = from.progress_context](const FilesProgress& now) {
      progress(context, now.phase, now.done_bytes, now.total_bytes);
    };
  }
  if (from.notice != nullptr) {
    options.notice = [notice = from.notice, context = from.notice_context](
                         const std::string& sentence) { notice(context, sentence.c_str()); };
  }
  return {};
}

Result<FilesOptions> files_options(const penstock_files_options* given) {
  const auto from = options_of(given);
  if (!from) return std::unexpected(from.error());
  FilesOptions options;
  if (Status all = assign_all(options, *from); !all) return std::unexpected(all.error());
  if (Status all = assign_all(options.items, *from); !all) return std::unexpected(all.error());
  if (Status all = set_hooks(options, *from); !all) return std::unexpected(all.error());
  switch (from->memory_scope) {
    case PENSTOCK_MEMORY_CALL:
      break;
    case PENSTOCK_MEMORY_PROCESS:
      options.memory_scope = MemoryScope::process;
      break;
    default:
      return failure(ErrorCode::invalid_argument, "budget memory so",
                     std::to_string(from->memory_scope), "one of enum penstock_memory_scope");
  }
  if (from->device != nullptr) {
    auto device = load_profile(from->device);
    if (!device) return std::unexpected(device.error());
    options.device = std::make_shared<const DeviceProfile>(std::move(*device));
  }
  return options;
}

void return_text(const std::string& text, char** to) {
  if (to == nullptr) return;
  *to = static_cast<char*>(std::malloc(text.size() + 1));
  if (*to == nullptr) throw std::bad_alloc();
  std::memcpy(*to, text.c_str(), text.size() + 1);
}

// Runs operation(files, options), and returns its statistics as JSON.
template <class Options, class Given, class Operation>
int run_operation(const penstock_files_options* files, const Given* given, char** json,
                  Operation&& operation) {
  if (json != nullptr) *json = nullptr;
  return guarded([&]() -> Status {
    auto all = files_options(files);
    if (!all) return std::unexpected(all.error());
    auto options = options_from<Options>(given);
    if (!options) return std::unexpected(options.error());
    if (Status set = apply_settings(*all, *options, *options_of(files)); !set) return set;
    const auto done = operation(*all, *options);
    if (!done) return std::unexpected(done.error());
    return_text(to_json(*done), json);
    return {};
  });
}

}  // namespace

int penstock_cancel_open(penstock_cancel** cancel) {
  return opened(cancel, [] { return Result<bool>(false); });
}
void penstock_cancel_request(penstock_cancel* cancel) {
  cancel->requested = true;
}
void penstock_cancel_close(penstock_cancel* cancel) {
  delete cancel;
}

void penstock_text_free(char* text) {
  std::free(text);
}

int penstock_sort_files(const penstock_files_options* files,
                        const penstock_sort_files_options* options, char** json) {
  return run_operation<SortFilesOptions>(files, options, json, sort_files);
}

int penstock_plan_sort_files(const penstock_files_options* files,
                             const penstock_sort_files_options* options, char** json) {
  return run_operation<SortFilesOptions>(files, options, json, plan_sort_files);
}

int penstock_check_file(const penstock_files_options* files,
                        const penstock_check_file_options* given, int* sorted, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&]() -> Status {
    const auto from = options_of(given);
    if (!from) return std::unexpected(from.error());
    auto options = files_options(files);
    if (!options) return std::unexpected(options.error());
    if (Status set = apply_settings(*options, *options, *options_of(files)); !set) return set;
    const auto done = check_file(*options, from->threads != 0 ? from->threads : 2);
    if (!done) return std::unexpected(done.error());
    if (sorted != nullptr) *sorted = done->sorted() ? 1 : 0;
    const std::string name = options->inputs.empty() ? "a source" : options->inputs.front();
    return_text(to_json(*done, name, options->items), json);
    return {};
  });
}

int penstock_merge_files(const penstock_files_options* files,
                         const penstock_merge_files_options* options, char** json) {
  return run_operation<MergeFilesOptions>(files, options, json, merge_files);
}

int penstock_partition_files(const penstock_files_options* files,
                             const penstock_partition_files_options* options, char** json) {
  return run_operation<PartitionFilesOptions>(files, options, json, partition_files);
}

int penstock_group_files(const penstock_files_options* files,
                         const penstock_group_files_options* options, char** json) {
  return run_operation<GroupFilesOptions>(
      files, options, json,
      [&](const FilesOptions& all, GroupFilesOptions made) -> Result<GroupFilesStats> {
        const auto from = options_of(options);
        if (!from) return std::unexpected(from.error());
        if (from->has_value != 0) {
          ValueField& value = made.aggregates.value.emplace();
          value.offset = from->value_offset;
          set(value.bytes, from->value_bytes);
          value.is_signed = from->value_signed != 0;
          value.big_endian = from->value_big_endian != 0;
        }
        return group_files(all, made);
      });
}

int penstock_join_files(const penstock_files_options* files,
                        const penstock_join_files_options* options, char** json) {
  return run_operation<JoinFilesOptions>(files, options, json, join_files);
}

int penstock_join_lines(const penstock_files_options* files,
                        const penstock_join_lines_options* options, char** json) {
  return run_operation<JoinLinesOptions>(files, options, json, join_lines);
}
