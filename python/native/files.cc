// Operations on files. penstock/_files.py fills in the options by name; what a run tells comes back as the text of its
// JSON.

#include "penstock/files.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "background.h"
#include "errors.h"
#include "sources.h"

namespace penstock::python {
namespace {

std::string bytes_of(const nb::bytes& bytes) {
  return {bytes.c_str(), bytes.size()};
}

// Paths and items may hold any bytes.
std::vector<std::string> strings_of(const std::vector<nb::bytes>& all) {
  std::vector<std::string> result;
  result.reserve(all.size());
  for (const nb::bytes& each : all) result.push_back(bytes_of(each));
  return result;
}

// What a run tells from its own threads, until the thread that waits for it hands it on.
// Thread safety: any threads.
class Told {
 public:
  void set_progress(const FilesProgress& progress) {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
  }
  void add_notice(const std::string& notice) {
    const std::lock_guard lock(mutex_);
    notices_.push_back(notice);
  }
  // REQUIRES: the GIL, and that no callback waits for this mutex: it is not held while they run.
  void hand_on(const nb::object& progress, const nb::object& notice) {
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

// operation(files), so that Ctrl-C ends it, and its callbacks need not be called by its threads.
template <class Operation>
auto run(FilesOptions files, const nb::object& progress, const nb::object& notice,
         Operation operation) {
  std::atomic<bool> cancel{false};
  Told told;
  files.cancel = &cancel;
  files.progress = [&](const FilesProgress& now) { told.set_progress(now); };
  files.notice = [&](const std::string& text) { told.add_notice(text); };
  return value_of(in_background([&] { return operation(files); }, [&] { cancel = true; },
                                [&] { told.hand_on(progress, notice); }));
}

// A function of Python that takes the files and the operation's own options, and gives JSON.
template <class Options, class Operation>
void bind_operation(nb::module_& module, const char* name, Operation operation) {
  module.def(
      name,
      [operation](const FilesOptions& files, const Options& options, const nb::object& progress,
                  const nb::object& notice) {
        return to_json(run(files, progress, notice,
                           [&](const FilesOptions& all) { return operation(all, options); }));
      },
      nb::arg("files"), nb::arg("options"), nb::arg("progress").none(), nb::arg("notice"));
}

// The same, with an output that is checked.
template <class Options, class Operation>
void bind_checked(nb::module_& module, const char* name, Operation operation) {
  module.def(
      name,
      [operation](const FilesOptions& files, const Options& options, const nb::object& progress,
                  const nb::object& notice) {
        return run(files, progress, notice, [&](const FilesOptions& all) {
          return checked(all, [&](const FilesOptions& each) -> Result<std::string> {
            const auto done = operation(each, options);
            if (!done) return std::unexpected(done.error());
            return to_json(*done);
          });
        });
      },
      nb::arg("files"), nb::arg("options"), nb::arg("progress").none(), nb::arg("notice"));
}

void bind_options(nb::module_& module) {
  nb::class_<ItemFormat>(module, "ItemFormat")
      .def_rw("name", &ItemFormat::name)
      .def_rw("record_bytes", &ItemFormat::record_bytes, nb::arg().none())
      .def_rw("dtype", &ItemFormat::dtype)
      .def_rw("keys", &ItemFormat::keys)
      .def_rw("letters", &ItemFormat::letters)
      .def_rw("separator", &ItemFormat::separator, nb::arg().none())
      .def_rw("csv", &ItemFormat::csv)
      .def_rw("header_lines", &ItemFormat::header_lines)
      .def_rw("zero_terminated", &ItemFormat::zero_terminated)
      .def_rw("random_seed", &ItemFormat::random_seed, nb::arg().none())
      .def_rw("descending", &ItemFormat::descending);
  nb::class_<FilesOptions>(module, "FilesOptions")
      .def(nb::init<>())
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
      .def_rw("items", &FilesOptions::items)
      .def_rw("memory_bytes", &FilesOptions::memory_bytes)
      .def_prop_rw(
          "sync", [](const FilesOptions& files) { return files.output_rules.sync; },
          [](FilesOptions& files, bool sync) { files.output_rules.sync = sync; })
      .def_prop_rw(
          "overwrite_device",
          [](const FilesOptions& files) { return files.output_rules.overwrite_device; },
          [](FilesOptions& files, bool overwrite) {
            files.output_rules.overwrite_device = overwrite;
          })
      .def_prop_rw(
          "decompress", [](const FilesOptions& files) { return files.source.decompress; },
          [](FilesOptions& files, bool decompress) { files.source.decompress = decompress; });
  nb::class_<SortFilesOptions>(module, "SortFilesOptions")
      .def(nb::init<>())
      .def_rw("threads", &SortFilesOptions::threads)
      .def_rw("stable", &SortFilesOptions::stable)
      .def_rw("unique", &SortFilesOptions::unique)
      .def_rw("top", &SortFilesOptions::top, nb::arg().none())
      .def_rw("resume", &SortFilesOptions::resume);
  nb::class_<MergeFilesOptions>(module, "MergeFilesOptions")
      .def(nb::init<>())
      .def_rw("unique", &MergeFilesOptions::unique)
      .def_rw("stable", &MergeFilesOptions::stable);
  nb::enum_<PartitionFilesBy>(module, "PartitionFilesBy")
      .value("range", PartitionFilesBy::range)
      .value("hash", PartitionFilesBy::hash)
      .value("bits", PartitionFilesBy::bits);
  nb::class_<PartitionFilesOptions>(module, "PartitionFilesOptions")
      .def(nb::init<>())
      .def_rw("by", &PartitionFilesOptions::by)
      .def_rw("parts", &PartitionFilesOptions::parts)
      .def_rw("checksums", &PartitionFilesOptions::checksums)
      .def("set_bounds_path", [](PartitionFilesOptions& options, const nb::bytes& path) {
        options.bounds_path = bytes_of(path);
      });
  nb::class_<SliceFilesOptions>(module, "SliceFilesOptions")
      .def(nb::init<>())
      .def_rw("parts", &SliceFilesOptions::parts)
      .def_rw("wanted", &SliceFilesOptions::wanted)
      .def_rw("slice_bytes", &SliceFilesOptions::slice_bytes)
      .def("add_cut", [](SliceFilesOptions& options, const nb::bytes& item, uint64_t position) {
        options.cuts.push_back({bytes_of(item), position});
      });
  nb::class_<Aggregates>(module, "Aggregates")
      .def_rw("count", &Aggregates::count)
      .def_rw("sum", &Aggregates::sum)
      .def_rw("min", &Aggregates::min)
      .def_rw("max", &Aggregates::max)
      .def_rw("distinct", &Aggregates::distinct)
      .def("set_value", [](Aggregates& aggregates, uint32_t offset, uint32_t bytes, bool is_signed,
                           bool big_endian) {
        aggregates.value = ValueField{offset, bytes, is_signed, big_endian};
      });
  nb::class_<GroupFilesOptions>(module, "GroupFilesOptions")
      .def(nb::init<>())
      .def_rw("aggregates", &GroupFilesOptions::aggregates)
      .def_rw("sorted", &GroupFilesOptions::sorted)
      .def_rw("top", &GroupFilesOptions::top, nb::arg().none())
      .def_rw("columns", &GroupFilesOptions::columns);
  nb::class_<JoinFilesOptions>(module, "JoinFilesOptions")
      .def(nb::init<>())
      .def_rw("right_record_bytes", &JoinFilesOptions::right_record_bytes, nb::arg().none())
      .def_rw("right_key", &JoinFilesOptions::right_key, nb::arg().none());
  nb::class_<JoinLinesOptions>(module, "JoinLinesOptions")
      .def(nb::init<>())
      .def_rw("keys", &JoinLinesOptions::keys)
      .def_rw("ignore_case", &JoinLinesOptions::ignore_case)
      .def_rw("pairs", &JoinLinesOptions::pairs)
      .def_rw("alone", &JoinLinesOptions::alone)
      .def_rw("list", &JoinLinesOptions::list)
      .def_rw("empty", &JoinLinesOptions::empty);
}

}  // namespace

void bind_files(nb::module_& module) {
  bind_options(module);
  bind_operation<SortFilesOptions>(module, "sort_files", sort_files);
  bind_operation<SortFilesOptions>(module, "plan_sort_files", plan_sort_files);
  bind_operation<MergeFilesOptions>(module, "merge_files", merge_files);
  bind_operation<PartitionFilesOptions>(module, "partition_files", partition_files);
  bind_operation<GroupFilesOptions>(module, "group_files", group_files);
  bind_operation<JoinFilesOptions>(module, "join_files", join_files);
  bind_operation<JoinLinesOptions>(module, "join_lines", join_lines);
  bind_operation<SliceFilesOptions>(module, "slice_files", slice_files);
  bind_checked<SortFilesOptions>(module, "sort_checked", sort_files);
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
