#include "files/run/options.h"

#include <filesystem>
#include <system_error>
#include <utility>

namespace penstock::files {

size_t input_count(const penstock::FilesOptions& options) {
  return options.inputs.size() + options.sources.size();
}

std::string input_name(const penstock::FilesOptions& options, size_t number) {
  if (number < options.inputs.size()) return options.inputs[number];
  return "source " + std::to_string(number - options.inputs.size() + 1);
}

bool leaves_rows_out(const penstock::FilesOptions& options) {
  return !options.bad_rows.empty() && options.bad_rows != "fail";
}

bool is_named_file(const penstock::FilesOptions& options, size_t number) {
  if (number >= options.inputs.size()) return false;
  std::error_code ignored;
  const std::string& path = options.inputs[number];
  return path != "-" && std::filesystem::is_regular_file(path, ignored);
}

Result<io::File> open_input(const penstock::FilesOptions& options, size_t number) {
  if (number < options.inputs.size()) return io::File::open_input(options.inputs[number]);
  return io::File::of_source(options.sources[number - options.inputs.size()],
                             input_name(options, number));
}

FilesOptions with_input(FilesOptions options, size_t number) {
  const size_t paths = options.inputs.size();
  if (number < paths) {
    options.inputs = {std::move(options.inputs[number])};
    options.sources.clear();
  } else {
    options.sources = {std::move(options.sources[number - paths])};
    options.inputs.clear();
  }
  return options;
}

Result<io::File> open_output(const penstock::FilesOptions& options, const io::OutputOptions& how) {
  if (options.sink != nullptr) return io::File::of_sink(options.sink, "the sink");
  return io::File::create_output(options.output, how);
}

Result<std::shared_ptr<Sink>> sink_of(const penstock::FilesOptions& options) {
  if (options.sink != nullptr) return options.sink;
  return open_sink(options.output, {.sync = options.output_rules.sync,
                                    .overwrite_device = options.output_rules.overwrite_device,
                                    .inputs = options.inputs,
                                    .compressed = options.compressed});
}

}  // namespace penstock::files
