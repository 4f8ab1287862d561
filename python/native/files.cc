// Operations on files. penstock/_files.py sets the options by name; a run returns JSON.

#include "penstock/files.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "background.h"
#include "errors.h"
#include "files/source/codec.h"
#include "interfaces/api/option_table.h"
#include "sources.h"

namespace penstock::python {
namespace {

std::vector<std::string> strings_of(const std::vector<nb::bytes>& all) {
  std::vector<std::string> result;
  result.reserve(all.size());
  for (const nb::bytes& each : all) result.push_back(bytes_of(each));
  return result;
}

// Progress and notices of a run's threads, until the thread that waits for the run passes them on.
// Thread safety: any threads.
class RunMessages {
 public:
  void set_progress(const FilesProgress& progress) {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
  }
  void add_notice(const std::string& notice) {
    const std::lock_guard lock(mutex_);
    notices_.push_back(notice);
  }
  // REQUIRES: the GIL. The mutex is not held while callbacks run, so that none can wait for it.
  void deliver(const nb::object& progress, const nb::object& notice) {
    std::optional<FilesProgress> now;
    std::vector<std::string> notices;
    {
      const std::lock_guard lock(mutex_);
      now.swap(progress_);
      notices.swap(notices_);
    }
    for (const std::string& text : notices)
      notice(nb::steal<nb::object>(PyUnicode_DecodeFSDefault(text.c_str())));
    if (now && !progress.is_none()) progress(now->phase, now->done_bytes, now->total_bytes);
  }

 private:
  std::mutex mutex_;
  std::optional<FilesProgress> progress_;
  std::vector<std::string> notices_;
};

// Runs operation(files) so that Ctrl-C ends it, and calls its callbacks from this thread.
template <class Operation>
auto run(FilesOptions files, const nb::object& progress, const nb::object& notice,
         Operation operation) {
  std::atomic<bool> cancel{false};
  RunMessages messages;
  files.option_names = OptionNames::command_line;  // _errors.py replaces them
  files.cancel = &cancel;
  files.progress = [&](const FilesProgress& now) { messages.set_progress(now); };
  files.notice = [&](const std::string& text) { messages.add_notice(text); };
  return value_of(in_background([&] { return operation(files); }, [&] { cancel = true; },
                                [&] { messages.deliver(progress, notice); }));
}

// Defines a Python function of the files and the operation's own options that returns JSON.
// `checks`: it checks the output.
template <class Statistics, class Options>
void bind_operation(nb::module_& module, const char* name,
                    Result<Statistics> (*operation)(const FilesOptions&, const Options&),
                    bool checks = false) {
  module.def(
      name,
      [=](const FilesOptions& files, const Options& options, const nb::object& progress,
          const nb::object& notice) {
        return run(files, progress, notice, [&](const FilesOptions& all) {
          auto run_as_json = [&](const FilesOptions& each) {
            return json_of(operation(each, options));
          };
          return checks ? checked(all, run_as_json) : run_as_json(all);
        });
      },
      nb::arg("files"), nb::arg("options"), nb::arg("progress").none(), nb::arg("notice"));
}

// ---- The options of the table (interfaces/api/options.def) as properties. Methods set paths, which may hold
// any bytes, and options with a form of their own.

template <class Value>
inline constexpr bool has_words = false;
template <class Value>
  requires std::is_enum_v<Value>
inline constexpr bool has_words<Value> = api::option_words<Value>[0][0] != '\0';
template <class Value>
  requires has_words<Value>
inline constexpr bool has_words<std::optional<Value>> = true;

// Python's values are those of C++, except that values of enumerations are words.
template <class Value>
struct AsProperty {
  using Type = Value;
  static Type get(const Value& value) { return value; }
  static Value set(Type value) { return value; }
};
template <class Value>
  requires(std::is_enum_v<Value> && has_words<Value>)
struct AsProperty<Value> {
  using Type = std::string;
  static Type get(const Value& value) {
    return api::option_words<Value>[static_cast<size_t>(value)];
  }
  static Value set(const Type& word) {
    const auto value = api::value_of_word<Value>(word, "take this value", "");
    if (!value) throw nb::value_error(value.error().message().c_str());
    return *value;
  }
};
template <class Value>
  requires has_words<Value>
struct AsProperty<std::optional<Value>> {
  using Type = std::optional<std::string>;
  static Type get(const std::optional<Value>& value) {
    return value ? Type(AsProperty<Value>::get(*value)) : std::nullopt;
  }
  static std::optional<Value> set(const Type& word) {
    return word ? std::optional(AsProperty<Value>::set(*word)) : std::nullopt;
  }
};

template <class Value>
inline constexpr bool is_property =
    has_words<Value> || std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string> ||
    std::is_same_v<Value, std::vector<std::string>> ||
    std::is_same_v<Value, std::optional<std::string>> ||
    std::is_same_v<Value, std::optional<char>> || std::is_same_v<Value, std::optional<uint32_t>> ||
    std::is_same_v<Value, std::optional<uint64_t>>;

bool is_path(std::string_view name) {
  return name == "inputs" || name == "output" || name == "temp_directories" ||
         name == "bounds_path";
}

template <class Options>
nb::class_<Options> bind_table(nb::module_& module, const char* name) {
  nb::class_<Options> bound(module, name);
  bound.def(nb::init<>());
  api::for_each_option<Options>([&](const api::OptionText& text, auto field) {
    using Value = std::remove_cvref_t<decltype(field(std::declval<Options&>()))>;
    if constexpr (is_property<Value>) {
      using Property = AsProperty<Value>;
      if (is_path(text.name)) return;
      const auto get = [field](const Options& options) { return Property::get(field(options)); };
      const auto set = [field](Options& options, typename Property::Type value) {
        field(options) = Property::set(std::move(value));
      };
      if constexpr (requires { typename Property::Type::value_type; } &&
                    std::is_constructible_v<typename Property::Type, std::nullopt_t>)
        bound.def_prop_rw(text.name, get, set, nb::arg().none());
      else
        bound.def_prop_rw(text.name, get, set);
    }
  });
  return bound;
}

// The type of an option's value on a command line.
template <class Value>
constexpr const char* kind_of = "str";
template <>
constexpr const char* kind_of<bool> = "bool";
template <>
constexpr const char* kind_of<char> = "byte";
template <std::integral Value>
constexpr const char* kind_of<Value> = "int";
template <>
constexpr const char* kind_of<std::vector<std::string>> = "list";
template <class Value>
constexpr const char* kind_of<std::optional<Value>> = kind_of<Value>;

// Appends the rows of the table, each a dict; "default" is there if it is a property.
template <class Options>
void list_table(nb::list& rows) {
  api::for_each_option<Options>([&](const api::OptionText& text, auto field) {
    using Value = std::remove_cvref_t<decltype(field(std::declval<Options&>()))>;
    nb::dict row;
    row["owner"] = text.owner;
    row["name"] = text.name;
    row["field"] = text.field;
    row["c"] = text.c;
    row["python"] = text.python;
    row["words"] = text.words;
    row["help"] = text.help;
    row["scope"] = text.scope;
    if constexpr (is_property<Value>) {
      row["kind"] = kind_of<Value>;
      const Options defaults;
      row["default"] = AsProperty<Value>::get(field(defaults));
    }
    rows.append(row);
  });
}

nb::list options() {
  nb::list rows;
  list_table<ItemFormat>(rows);
  list_table<FilesOptions>(rows);
  list_table<SortFilesOptions>(rows);
  list_table<MergeFilesOptions>(rows);
  list_table<PartitionFilesOptions>(rows);
  list_table<GroupFilesOptions>(rows);
  list_table<JoinFilesOptions>(rows);
  list_table<JoinLinesOptions>(rows);
  return rows;
}

void bind_options(nb::module_& module) {
  module.def("options", options);
  module.def("compressed_suffixes", [] {
    std::vector<std::string> suffixes;
    for (const source::Codec* codec : source::codecs()) suffixes.emplace_back(codec->suffix);
    return suffixes;
  });
  module.attr("TABLES") = scope::tables;
  module.attr("CLUSTER") = scope::cluster;
  module.attr("CLUSTER_TABLES") = scope::cluster_tables;
  bind_table<ItemFormat>(module, "ItemFormat");
  bind_table<FilesOptions>(module, "FilesOptions")
      .def("set_paths",
           [](FilesOptions& files, const std::vector<nb::bytes>& inputs, const nb::bytes& output,
              const std::vector<nb::bytes>& temp_directories) {
             files.inputs = strings_of(inputs);
             files.output = bytes_of(output);
             files.temp_directories = strings_of(temp_directories);
           })
      .def("set_device",
           [](FilesOptions& files, const std::string& name) {
             files.device = std::make_shared<const DeviceProfile>(value_of(load_profile(name)));
           })
      .def("add_source",
           [](FilesOptions& files, std::shared_ptr<Source> source) {
             files.sources.push_back(std::move(source));
           })
      .def_rw("items", &FilesOptions::items);
  bind_table<SortFilesOptions>(module, "SortFilesOptions");
  bind_table<MergeFilesOptions>(module, "MergeFilesOptions");
  bind_table<PartitionFilesOptions>(module, "PartitionFilesOptions")
      .def("set_bounds_path", [](PartitionFilesOptions& options, const nb::bytes& path) {
        options.bounds_path = bytes_of(path);
      });
  nb::class_<SliceFilesOptions>(module, "SliceFilesOptions")
      .def(nb::init<>())
      .def_rw("parts", &SliceFilesOptions::parts)
      .def_rw("wanted", &SliceFilesOptions::wanted)
      .def("add_cut", [](SliceFilesOptions& options, const nb::bytes& item, uint64_t position) {
        options.cuts.push_back({bytes_of(item), position});
      });
  bind_table<GroupFilesOptions>(module, "GroupFilesOptions")
      .def("set_value", [](GroupFilesOptions& options, uint32_t offset, uint32_t bytes,
                           bool is_signed, bool big_endian) {
        options.aggregates.value = ValueField{offset, bytes, is_signed, big_endian};
      });
  bind_table<JoinFilesOptions>(module, "JoinFilesOptions");
  bind_table<JoinLinesOptions>(module, "JoinLinesOptions");
}

}  // namespace

void bind_files(nb::module_& module) {
  bind_options(module);
  bind_operation(module, "sort_files", sort_files);
  bind_operation(module, "plan_sort_files", plan_sort_files);
  bind_operation(module, "merge_files", merge_files);
  bind_operation(module, "partition_files", partition_files);
  bind_operation(module, "group_files", group_files);
  bind_operation(module, "join_files", join_files);
  bind_operation(module, "join_lines", join_lines);
  bind_operation(module, "slice_files", slice_files);
  bind_operation(module, "sort_checked", sort_files, true);
  module.def(
      "pass_checked",
      [](const FilesOptions& files, const nb::object& progress, const nb::object& notice) {
        return run(files, progress, notice,
                   [](const FilesOptions& all) { return checked(all, pass_on); });
      },
      nb::arg("files"), nb::arg("progress").none(), nb::arg("notice"));
  module.def(
      "order_items",
      [](const ItemFormat& format, const nb::bytes& header, const std::vector<nb::bytes>& items) {
        return value_of(order_items(format, bytes_of(header), strings_of(items)));
      },
      nb::arg("format"), nb::arg("header"), nb::arg("items"));
  module.def(
      "check_file",
      [](const FilesOptions& files, unsigned threads, const nb::object& progress,
         const nb::object& notice) {
        const FileCheck checked = run(files, progress, notice, [&](const FilesOptions& all) {
          return check_file(all, threads);
        });
        return to_json(checked, files.inputs.at(0), files.items);
      },
      nb::arg("files"), nb::arg("threads"), nb::arg("progress").none(), nb::arg("notice"));
}

}  // namespace penstock::python
