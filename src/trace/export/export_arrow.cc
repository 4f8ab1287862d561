#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/export/export.h"
#include "trace/export/exporter.h"
#include "trace/export/flatbuffer.h"

// Requests as an Arrow IPC file (also known as Feather, version 2): what polars and pyarrow map
// into memory without parsing, and DuckDB reads through either.
//
//   "ARROW1\0\0"
//   message: schema
//   message: record batch, batch_rows requests      each message: ff ff ff ff, bytes of its
//   ...                                              metadata, the metadata (a flatbuffer), and
//   message: dictionary of `access`                  the body: the columns, one after the other
//   message: dictionary of `file`
//   ff ff ff ff 00 00 00 00
//   footer: the schema again, and where each batch and dictionary lies
//   bytes of the footer, "ARROW1"
//
// Names of files are stored once and referred to by number (a dictionary). The naive way would know
// all of them before it writes the first request, and so take two passes over the trace; or it
// would write a piece of the dictionary whenever a new name comes up, which polars does not read.
// But in a file, other than in a stream, readers find the dictionaries by the footer, and take them
// before the batches; so this one is written last. (What reads a file from front to back as if it
// were a stream, does not understand it.)
//
// There is a library for all this, some 40 MB of it, which Debian 12 does not have; the metadata of
// one fixed schema are 100 lines. Memory: one batch, the names, and 24 bytes for each batch.
//
// Numbers are signed, though none is negative: databases subtract unsigned ones with errors. The
// columns lie at multiples of 64 bytes in the file, as Arrow recommends.

namespace penstock::trace {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t batch_rows = 64 * 1024;
constexpr size_t alignment = 64;
constexpr std::string_view magic = "ARROW1";

// Numbers of Arrow's Schema.fbs, Message.fbs and File.fbs.
constexpr int16_t version_5 = 4;
enum class MessageKind : uint8_t { schema = 1, dictionary_batch = 2, record_batch = 3 };
enum class Type : uint8_t { integer = 2, utf8 = 5, boolean = 6 };

struct FieldNode {
  int64_t length;
  int64_t null_count;
};
struct Buffer {
  int64_t offset;
  int64_t length;
};
struct Block {
  int64_t offset;
  int32_t metadata_bytes;
  int32_t padding;
  int64_t body_bytes;
};

constexpr int64_t access_dictionary = 0;
constexpr int64_t file_dictionary = 1;

FlatBuffer::Position add_integer(FlatBuffer& to, int32_t bits) {
  to.begin_table();
  to.number<int32_t>(0, bits);
  to.number<uint8_t>(1, 1);  // signed
  return to.end_table();
}

FlatBuffer::Position add_empty(FlatBuffer& to) {
  to.begin_table();
  return to.end_table();
}

struct Column {
  const char* name;
  Type type;
  int32_t bits = 0;         // of an integer, or of the numbers that stand for a dictionary's texts
  int64_t dictionary = -1;  // which one; none
};
constexpr std::array<Column, 10> columns = {{
    {"start_ns", Type::integer, 64},
    {"latency_ns", Type::integer, 64},
    {"process", Type::integer, 32},
    {"thread", Type::integer, 32},
    {"access", Type::utf8, 8, access_dictionary},
    {"file", Type::utf8, 32, file_dictionary},
    {"offset", Type::integer, 64},
    {"bytes", Type::integer, 64},
    {"file_seek", Type::boolean},
    {"device_seek", Type::boolean},
}};

FlatBuffer::Position add_field(FlatBuffer& to, const Column& column) {
  const auto name = to.string(column.name);
  const auto children = to.vector({});
  const auto type = column.type == Type::integer ? add_integer(to, column.bits) : add_empty(to);
  FlatBuffer::Position dictionary = 0;
  if (column.dictionary >= 0) {
    const auto index = add_integer(to, column.bits);
    to.begin_table();
    to.number<int64_t>(0, column.dictionary);
    to.reference(1, index);
    dictionary = to.end_table();
  }
  to.begin_table();
  to.reference(0, name);
  to.number<uint8_t>(1, 0);  // never null
  to.number<uint8_t>(2, static_cast<uint8_t>(column.type));
  to.reference(3, type);
  if (dictionary != 0) to.reference(4, dictionary);
  to.reference(5, children);
  return to.end_table();
}

FlatBuffer::Position add_schema(FlatBuffer& to) {
  std::array<FlatBuffer::Position, columns.size()> fields;
  for (size_t i = 0; i < columns.size(); ++i) fields[i] = add_field(to, columns[i]);
  const auto all = to.vector(fields);
  to.begin_table();
  to.number<int16_t>(0, 0);  // little-endian
  to.reference(1, all);
  return to.end_table();
}

std::string message(FlatBuffer& metadata, MessageKind kind, FlatBuffer::Position header,
                    size_t body_bytes) {
  metadata.begin_table();
  metadata.number<int64_t>(3, static_cast<int64_t>(body_bytes));
  metadata.reference(2, header);
  metadata.number<int16_t>(0, version_5);
  metadata.number<uint8_t>(1, static_cast<uint8_t>(kind));
  return metadata.finish(metadata.end_table());
}

// The columns of a batch, and where each lies.
struct Body {
  std::string bytes;
  std::vector<FieldNode> nodes;
  std::vector<Buffer> buffers;

  void add_buffer(std::string_view data) {
    buffers.push_back({static_cast<int64_t>(bytes.size()), static_cast<int64_t>(data.size())});
    bytes += data;
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
  }
  // A column without nulls: nothing tells which ones are.
  void begin_column(size_t rows) {
    nodes.push_back({static_cast<int64_t>(rows), 0});
    add_buffer({});
  }
  template <class Number>
  void add_numbers(const std::vector<Number>& numbers) {
    begin_column(numbers.size());
    add_buffer({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)});
  }
  void add_bits(const std::vector<bool>& bits) {
    begin_column(bits.size());
    std::string packed((bits.size() + 7) / 8, '\0');
    for (size_t i = 0; i < bits.size(); ++i) {
      packed[i / 8] = static_cast<char>(packed[i / 8] | (bits[i] ? 1 << (i % 8) : 0));
    }
    add_buffer(packed);
  }
  void add_texts(const std::vector<int32_t>& ends, std::string_view texts) {
    begin_column(ends.size());
    std::vector<int32_t> offsets = {0};
    offsets.insert(offsets.end(), ends.begin(), ends.end());
    add_buffer({reinterpret_cast<const char*>(offsets.data()), offsets.size() * sizeof(int32_t)});
    add_buffer(texts);
  }

  FlatBuffer::Position add_batch(FlatBuffer& to, size_t rows) const {
    const auto where = to.structs(std::span<const Buffer>(buffers));
    const auto counts = to.structs(std::span<const FieldNode>(nodes));
    to.begin_table();
    to.number<int64_t>(0, static_cast<int64_t>(rows));
    to.reference(1, counts);
    to.reference(2, where);
    return to.end_table();
  }
};

// Different texts, each once.
class Dictionary {
 public:
  // The number of a text. -1: there is no room for it.
  int32_t number_of(const std::string& text) {
    constexpr size_t bytes_max = std::numeric_limits<int32_t>::max();
    const auto [known, added] = numbers_.try_emplace(text, static_cast<int32_t>(ends_.size()));
    if (!added) return known->second;
    if (texts_.size() + text.size() > bytes_max || ends_.size() >= bytes_max) {
      numbers_.erase(known);
      return -1;
    }
    texts_ += text;
    ends_.push_back(static_cast<int32_t>(texts_.size()));
    return known->second;
  }
  const std::vector<int32_t>& ends() const { return ends_; }
  const std::string& texts() const { return texts_; }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<int32_t> ends_;
  std::string texts_;
};

class ArrowExporter final : public Exporter {
 public:
  void begin(ExportText& out) override {
    out.raw(magic);
    out.raw(std::string_view("\0\0", 2));
    FlatBuffer metadata;
    const auto schema = add_schema(metadata);
    (void)write(out, message(metadata, MessageKind::schema, schema, 0), {});
  }

  void request(ExportText& out, const Request& r, const Files& files) override {
    if (numbers_.size() < files.size()) numbers_.resize(files.size(), no_number);
    int32_t& number = numbers_[r.file];
    if (number == no_number) {
      number = names_.number_of(utf8_of(files[r.file].first_path));
      too_many_names_ |= number < 0;
    }
    start_ns_.push_back(static_cast<int64_t>(r.start_ns));
    latency_ns_.push_back(static_cast<int64_t>(r.latency_ns));
    process_.push_back(r.process);
    thread_.push_back(r.thread);
    access_.push_back(r.access == Access::read ? 0 : 1);
    file_.push_back(number);
    offset_.push_back(static_cast<int64_t>(r.offset));
    bytes_.push_back(static_cast<int64_t>(r.bytes));
    file_seek_.push_back(r.file_seek);
    device_seek_.push_back(r.device_seek);
    if (file_.size() == batch_rows) write_batch(out);
  }

  Status end(ExportText& out, const Conversion& result) override {
    if (too_many_names_) {
      return failure(ErrorCode::unsupported, "write names of files of more than 2 GiB",
                     std::to_string(result.files.size()) + " files", "--under, or another format");
    }
    if (!file_.empty()) write_batch(out);
    Dictionary accesses;
    for (const char* name : {"read", "write"}) (void)accesses.number_of(name);
    const std::array<Block, 2> dictionaries = {write_dictionary(out, access_dictionary, accesses),
                                               write_dictionary(out, file_dictionary, names_)};
    out.raw(std::string_view("\xff\xff\xff\xff\0\0\0\0", 8));

    FlatBuffer footer;
    const auto batches = footer.structs(std::span<const Block>(batches_));
    const auto texts = footer.structs(std::span<const Block>(dictionaries));
    const auto schema = add_schema(footer);
    footer.begin_table();
    footer.reference(1, schema);
    footer.reference(2, texts);
    footer.reference(3, batches);
    footer.number<int16_t>(0, version_5);
    const std::string bytes = footer.finish(footer.end_table());
    out.raw(bytes);
    put(out, static_cast<int32_t>(bytes.size()));
    out.raw(magic);
    return {};
  }

 private:
  static constexpr int32_t no_number = -2;

  static void put(ExportText& out, int32_t value) {
    std::array<char, sizeof value> bytes;
    std::memcpy(bytes.data(), &value, sizeof value);
    out.raw({bytes.data(), bytes.size()});
  }

  // The metadata are made longer until the body, behind them, lies at a multiple of `alignment`.
  static Block write(ExportText& out, std::string metadata, std::string_view body) {
    const uint64_t at = out.position();
    constexpr size_t prefix_bytes = 8;
    while ((at + prefix_bytes + metadata.size()) % alignment != 0) metadata += '\0';
    put(out, -1);
    put(out, static_cast<int32_t>(metadata.size()));
    out.raw(metadata);
    out.raw(body);
    return {.offset = static_cast<int64_t>(at),
            .metadata_bytes = static_cast<int32_t>(prefix_bytes + metadata.size()),
            .padding = 0,
            .body_bytes = static_cast<int64_t>(body.size())};
  }

  void write_batch(ExportText& out) {
    Body body;
    body.add_numbers(start_ns_);
    body.add_numbers(latency_ns_);
    body.add_numbers(process_);
    body.add_numbers(thread_);
    body.add_numbers(access_);
    body.add_numbers(file_);
    body.add_numbers(offset_);
    body.add_numbers(bytes_);
    body.add_bits(file_seek_);
    body.add_bits(device_seek_);
    FlatBuffer metadata;
    const auto batch = body.add_batch(metadata, file_.size());
    batches_.push_back(write(
        out, message(metadata, MessageKind::record_batch, batch, body.bytes.size()), body.bytes));
    for (auto* column : {&start_ns_, &latency_ns_, &offset_, &bytes_}) column->clear();
    for (auto* column : {&process_, &thread_, &file_}) column->clear();
    access_.clear();
    for (auto* column : {&file_seek_, &device_seek_}) column->clear();
  }

  static Block write_dictionary(ExportText& out, int64_t number, const Dictionary& dictionary) {
    Body body;
    body.add_texts(dictionary.ends(), dictionary.texts());
    FlatBuffer metadata;
    const auto batch = body.add_batch(metadata, dictionary.ends().size());
    metadata.begin_table();
    metadata.number<int64_t>(0, number);
    metadata.reference(1, batch);
    const auto header = metadata.end_table();
    return write(out, message(metadata, MessageKind::dictionary_batch, header, body.bytes.size()),
                 body.bytes);
  }

  std::vector<int64_t> start_ns_, latency_ns_, offset_, bytes_;
  std::vector<int32_t> process_, thread_, file_;
  std::vector<int8_t> access_;
  std::vector<bool> file_seek_, device_seek_;
  std::vector<int32_t> numbers_;  // by file: its name's in the dictionary
  Dictionary names_;
  bool too_many_names_ = false;
  std::vector<Block> batches_;
};

}  // namespace

std::unique_ptr<Exporter> arrow_exporter() {
  return std::make_unique<ArrowExporter>();
}

}  // namespace penstock::trace
