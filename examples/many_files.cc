// A custom function between many files: numbers go to sixteen files by their last digit in base 16,
// and are merged from all of them at once, in a custom order. Sorting, merging and partitioning
// need no such function (penstock/files.h).

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "penstock/bowtie.h"
#include "penstock/file_stream.h"

using penstock::bowtie::InputStream;
using penstock::bowtie::OutputStream;
using penstock::bowtie::Streams;

namespace {

constexpr uint64_t count = 1'000'000;
constexpr uint32_t files = 16;

// Moves every number of the first input to the output of its last digit.
penstock::Status by_last_digit(Streams& streams) {
  InputStream& in = streams.input(0);
  for (;;) {
    const auto window = in.window(sizeof(uint64_t));  // at least one number; waits for the disk
    const size_t items = window.size() / sizeof(uint64_t);
    if (items == 0) return in.status();
    for (size_t i = 0; i < items; ++i) {
      uint64_t number;
      std::memcpy(&number, window.data() + i * sizeof number, sizeof number);
      OutputStream& out = streams.output(number % files);
      if (!out.append(&number, sizeof number)) return out.status();
    }
    in.advance(items * sizeof(uint64_t));
  }
}

// Takes one number from each input in turn, which restores the order.
penstock::Status in_turn(Streams& streams) {
  for (uint64_t i = 0; i < count; ++i) {
    InputStream& in = streams.input(i % files);
    const auto window = in.window(sizeof(uint64_t));
    if (window.size() < sizeof(uint64_t)) return in.status();
    if (!streams.output(0).append(window.data(), sizeof(uint64_t))) return streams.status();
    in.advance(sizeof(uint64_t));
  }
  return {};
}

int report(const penstock::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

int run(const std::string& folder) {
  const std::string numbers = folder + "/numbers", again = folder + "/again";
  {
    auto file = penstock::FileWriter::open(numbers);
    if (!file) return report(file.error());
    for (uint64_t i = 0; i < count; ++i) file->begin<uint64_t>()[i] = i;
    if (auto done = file->finish(count * sizeof(uint64_t)); !done) return report(done.error());
  }
  std::vector<std::string> parts;
  for (uint32_t i = 0; i < files; ++i) parts.push_back(folder + "/part-" + std::to_string(i));

  const auto apart = penstock::bowtie::run(
      {.inputs = {numbers}, .outputs = parts, .memory_bytes = 4 * penstock::MiB}, by_last_digit);
  if (!apart) return report(apart.error());
  std::printf(
      "%llu bytes to %u files: the disk went on to another one %llu times, after %.0f bytes\n",
      static_cast<unsigned long long>(apart->bytes_written), files,
      static_cast<unsigned long long>(apart->switches), apart->run_bytes);
  const auto together = penstock::bowtie::run(
      {.inputs = parts, .outputs = {again}, .memory_bytes = 4 * penstock::MiB}, in_turn);
  if (!together) return report(together.error());

  auto file = penstock::FileReader::open(again);
  if (!file) return report(file.error());
  if (file->bytes() != count * sizeof(uint64_t)) return 1;
  for (uint64_t i = 0; i < count; ++i) {
    if (file->begin<uint64_t>()[i] != i) return 1;
  }
  return 0;
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "many-files-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const int result = run(folder);
  std::filesystem::remove_all(folder);
  return result;
}
