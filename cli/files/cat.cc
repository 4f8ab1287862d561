// penstock cat: writes files one after the other, decompressed, with a few blocks of memory.

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "base/printable.h"
#include "cli/common/command.h"
#include "cli/common/compressed_word.h"
#include "cli/common/output_words.h"
#include "cli/common/print.h"
#include "cli/common/source_words.h"
#include "cli/common/stop_signals.h"
#include "files/source/codec.h"
#include "penstock/source.h"

namespace penstock::cli {
namespace {

struct CatArguments {
  std::vector<std::string> inputs;
  std::string output = "-";
  SourceOptions source;
  OutputRules output_rules;
  std::string compressed;
};

// Reports a failed write. A closed pipe ("penstock cat FILE | head") ends the program as other
// filters.
int report_output(const Error& error) {
  return error.system_errno == EPIPE ? die_by(SIGPIPE) : report("cat", error);
}

int run_cat(const CatArguments& arguments) {
  const auto compressed = compressed_format(arguments.compressed, arguments.output);
  if (!compressed) return report("cat", compressed.error());
  if (Status device = check_overwrite_device(arguments.output, arguments.output_rules); !device)
    return report("cat", device.error());
  auto sink =
      open_sink(arguments.output, {.sync = arguments.output_rules.sync,
                                   .overwrite_device = arguments.output_rules.overwrite_device,
                                   .inputs = arguments.inputs,
                                   .compressed = *compressed});
  if (!sink) return report("cat", sink.error());
  if (const std::string notice = uncompressed_notice(arguments.compressed, arguments.output);
      !notice.empty())
    print_to(stderr, "{}: {}\n", called("cat"), printable(notice, std::string::npos));
  SourceStreamOptions options{.read_ahead_blocks = 4,
                              .policy = ErrorPolicy::recover,
                              .deliver_tail = true,
                              .strict = false};
  options.source = arguments.source;

  int code = exit_ok;
  for (const std::string& input : arguments.inputs) {
    auto stream = SourceStream::open(input, options);
    Status status = stream ? Status{} : std::unexpected(stream.error());
    if (stream) {
      const auto copied = copy(*stream, **sink);
      status = stream->status();
      if (!copied && status) return report_output(copied.error());
    }
    if (!status) {
      report("cat", status.error());
      code = exit_incomplete;
    }
  }
  if (code != exit_ok && arguments.output != "-") {
    return code;  // no output file without all inputs
  }
  // From here on a signal must not end the program at once: the output may have a temporary name,
  // which would stay.
  const StopSignals signals(
      {.command = "cat", .outcome = "the output is there only if it is complete"});
  if (Status closed = (*sink)->close(); !closed) return report_output(closed.error());
  return code;
}

}  // namespace

Command add_cat(Parser& program) {
  auto arguments = std::make_shared<CatArguments>();
  Parser parser = program.add_subcommand("cat", "write files one after the other, decompressed");
  parser.add_option("FILE", arguments->inputs, "files to read (default, or -: standard input)");
  parser.add_option("-o,--output", arguments->output,
                    "output file, written only if all inputs could be read (default: standard "
                    "output)");
  add_compressed_word(parser, arguments->compressed);
  add_output_words(parser, arguments->output_rules);
  add_source_words(parser, arguments->source);
  parser.describe(
      {.examples = {{"penstock cat january.gz february.zst -o year.txt",
                     "decompress two files into one"},
                    {"penstock cat access.log.gz | wc -l", "count the lines of a compressed file"}},
       .notes = {"Compressed data (" + source::codec_names() +
                 ") are recognized by their first bytes. The readable part of a damaged input is "
                 "written; the next inputs follow."},
       .exit_codes = {
           {0, "done"}, {1, "an input could not be read in whole"}, {2, "any other error"}}});
  return {parser, [arguments] {
            if (arguments->inputs.empty()) arguments->inputs = {"-"};
            return run_cat(*arguments);
          }};
}

}  // namespace penstock::cli
