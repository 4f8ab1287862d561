// The format of a trace on disk, with its writer and its reader in one file.

#include "trace/format/format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "items/crc32.h"
#include "items/keys/codec.h"
#include "trace/format/event_source.h"
#include "trace/format/trace_file.h"

// The packing of events.
//
// An Event takes 80 bytes in memory. Most of its members are those of the previous event, or mean
// nothing for the call, or follow from others (bytes moved are mostly the bytes requested, an offset
// is mostly the end of the last access). So an event is
//
//   call (1 byte), mask (varint), start, latency, and a varint for each bit of the mask
//
// and a clear bit means "as expected". Varints take seven bits a byte, least significant first;
// differences are folded to unsigned (zigzag). Sums wrap around, so that any two 64-bit numbers have
// a difference.
//
// A read of 4 KiB that continues the last one takes 7 bytes, and a decoder some 20 ns.
//
// Bounds. The reader trusts nothing. A chunk has at most chunk_bytes_max bytes, and its checksum is
// verified before anything is decoded (against accidents); every number is checked when it is
// decoded (against malice). Zeros follow the body, as many as the longest event has bytes, so that
// the decoder checks for the end once per record instead of at each byte.

namespace penstock::trace {
namespace {

constexpr std::array<char, 8> file_magic = {'P', 'E', 'N', 'T', 'R', 'A', 'C', 'E'};
constexpr uint32_t chunk_magic = 0x4b4e4843;  // "CHNK"
constexpr size_t header_bytes = 64;
constexpr size_t chunk_header_bytes = 32;
constexpr size_t chunk_bytes_usual = 256 * 1024;
constexpr size_t chunk_bytes_max = 1024 * 1024;
constexpr size_t varint_bytes_max = 10;
// Bytes of a call, a mask, and 14 numbers.
constexpr size_t event_bytes_max = 1 + 15 * varint_bytes_max;
constexpr uint64_t record_count_max = uint64_t{1} << 31;

enum class ChunkKind : uint32_t { events = 1, end = 2, info = 3 };

// Tags of records that are no events.
constexpr uint8_t tag_string = 0x80;
constexpr uint8_t tag_file = 0x81;

namespace bit {
constexpr uint64_t thread = 1u << 0;   // difference to the previous event's
constexpr uint64_t process = 1u << 1;  // likewise
constexpr uint64_t descriptor = 1u << 2;
constexpr uint64_t offset = 1u << 3;  // difference to the end of the previous one; clear: no_offset
constexpr uint64_t result = 1u << 4;  // clear: the previous event's
constexpr uint64_t bytes = 1u << 5;   // clear: the result
constexpr uint64_t flags = 1u << 6;   // clear: the previous event's
constexpr uint64_t descriptor2 = 1u << 7;
constexpr uint64_t file = 1u << 8;
constexpr uint64_t path = 1u << 9;
constexpr uint64_t child = 1u << 10;
constexpr uint64_t offset2 = 1u << 11;
constexpr uint64_t all = (1u << 12) - 1;
}  // namespace bit

constexpr uint64_t zigzag(uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}
constexpr uint64_t unzigzag(uint64_t folded) {
  return (folded >> 1) ^ (0 - (folded & 1));
}
constexpr uint64_t wide(int32_t value) {
  return static_cast<uint64_t>(int64_t{value});
}

// The previous event's members, to which the next event is packed as a difference.
struct Previous {
  uint64_t start_ns = 0;
  uint64_t end_offset = 0;
  uint64_t result = 0;
  int32_t thread = 0;
  int32_t process = 0;
  int32_t descriptor = 0;
  uint32_t flags = 0;

  void follow(const Event& event) {
    start_ns = event.start_ns;
    if (event.offset != no_offset) end_offset = event.offset + event.result;
    result = event.result;
    thread = event.thread;
    process = event.process;
    descriptor = event.descriptor;
    flags = event.flags;
  }
};

bool is_call(uint8_t number) {
  return number <= call_max && !name_of(static_cast<Call>(number)).empty();
}

class Packer {
 public:
  std::vector<std::byte> bytes;

  void byte(uint8_t value) { bytes.push_back(std::byte{value}); }
  void number(uint64_t value) {
    while (value >= 0x80) {
      byte(static_cast<uint8_t>(value | 0x80));
      value >>= 7;
    }
    byte(static_cast<uint8_t>(value));
  }
  void text(std::string_view value) {
    value = value.substr(0, string_bytes_max);
    number(value.size());
    const auto* data = reinterpret_cast<const std::byte*>(value.data());
    bytes.insert(bytes.end(), data, data + value.size());
  }
  void event(const Event& e, const Previous& before) {
    uint64_t mask = 0;
    if (e.thread != before.thread) mask |= bit::thread;
    if (e.process != before.process) mask |= bit::process;
    if (e.descriptor != before.descriptor) mask |= bit::descriptor;
    if (e.offset != no_offset) mask |= bit::offset;
    if (e.result != before.result) mask |= bit::result;
    if (e.bytes != e.result) mask |= bit::bytes;
    if (e.flags != before.flags) mask |= bit::flags;
    if (e.descriptor2 != -1) mask |= bit::descriptor2;
    if (e.file != 0) mask |= bit::file;
    if (e.path != 0) mask |= bit::path;
    if (e.child != 0) mask |= bit::child;
    if (e.offset2 != no_offset) mask |= bit::offset2;
    byte(static_cast<uint8_t>(e.call));
    number(mask);
    number(zigzag(e.start_ns - before.start_ns));
    number(e.latency_ns);
    if (mask & bit::thread) number(zigzag(wide(e.thread) - wide(before.thread)));
    if (mask & bit::process) number(zigzag(wide(e.process) - wide(before.process)));
    if (mask & bit::descriptor) number(zigzag(wide(e.descriptor) - wide(before.descriptor)));
    if (mask & bit::offset) number(zigzag(e.offset - before.end_offset));
    if (mask & bit::result) number(e.result);
    if (mask & bit::bytes) number(e.bytes);
    if (mask & bit::flags) number(e.flags);
    if (mask & bit::descriptor2) number(zigzag(wide(e.descriptor2)));
    if (mask & bit::file) number(e.file);
    if (mask & bit::path) number(e.path);
    if (mask & bit::child) number(zigzag(wide(e.child)));
    if (mask & bit::offset2) number(zigzag(e.offset2));
  }
};

// Reads packed numbers. A bad number sets `bad`, and all numbers after it read as zeros.
// REQUIRES: at least event_bytes_max readable bytes behind the packed ones.
struct Unpacker {
  const std::byte* at;
  const std::byte* end;
  bool bad = false;

  uint8_t byte() { return static_cast<uint8_t>(*at++); }
  uint64_t number() {
    uint64_t first = static_cast<uint8_t>(*at++);
    if (first < 0x80) [[likely]]
      return first;
    uint64_t value = first & 0x7f;
    for (unsigned shift = 7; shift < 70; shift += 7) {
      const uint64_t next = static_cast<uint8_t>(*at++);
      // The tenth byte contains the last one of 64 bits.
      if (shift == 63 && next > 1) break;
      value |= (next & 0x7f) << shift;
      if (next < 0x80) return value;
    }
    bad = true;
    return 0;
  }
  uint64_t number_up_to(uint64_t largest) {
    const uint64_t value = number();
    bad |= value > largest;
    return value;
  }
  // Returns `before` plus a packed difference. The sum must be a 32-bit number again.
  int32_t near(int32_t before) {
    const auto value = static_cast<int64_t>(wide(before) + unzigzag(number()));
    bad |= value != static_cast<int32_t>(value);
    return static_cast<int32_t>(value);
  }
  std::string_view text() {
    const uint64_t bytes = number();
    if (bad || bytes > string_bytes_max || at > end || bytes > static_cast<size_t>(end - at)) {
      bad = true;
      return {};
    }
    const std::string_view value(reinterpret_cast<const char*>(at), bytes);
    at += bytes;
    return value;
  }
  void event(Call call, const Previous& before, Event& e) {
    const uint64_t mask = number_up_to(bit::all);
    e.call = call;
    e.start_ns = before.start_ns + unzigzag(number());
    e.latency_ns = number_up_to(time_max);
    e.thread = mask & bit::thread ? near(before.thread) : before.thread;
    e.process = mask & bit::process ? near(before.process) : before.process;
    e.descriptor = mask & bit::descriptor ? near(before.descriptor) : before.descriptor;
    e.offset = mask & bit::offset ? before.end_offset + unzigzag(number()) : no_offset;
    e.result = mask & bit::result ? number() : before.result;
    e.bytes = mask & bit::bytes ? number() : e.result;
    e.flags = mask & bit::flags ? static_cast<uint32_t>(number_up_to(flag::all)) : before.flags;
    e.descriptor2 = mask & bit::descriptor2 ? near(0) : -1;
    e.file = mask & bit::file ? static_cast<uint32_t>(number_up_to(record_count_max)) : 0;
    e.path = mask & bit::path ? static_cast<uint32_t>(number_up_to(record_count_max)) : 0;
    e.child = mask & bit::child ? near(0) : 0;
    e.offset2 = mask & bit::offset2 ? unzigzag(number()) : no_offset;
    bad |= e.start_ns > time_max;
    bad |= e.result > largest_offset || e.bytes > largest_offset;
    bad |= e.offset > largest_offset && e.offset != no_offset;
    bad |= e.offset2 > largest_offset && e.offset2 != no_offset;
  }
};

// A part of the file that ends with a checksum of its bytes.
template <size_t bytes>
class Fields {
 public:
  std::array<std::byte, bytes> data{};

  template <class T>
  void put(size_t at, T value) {
    std::memcpy(data.data() + at, &value, sizeof value);
  }
  template <class T>
  T get(size_t at) const {
    T value;
    std::memcpy(&value, data.data() + at, sizeof value);
    return value;
  }
  uint32_t sum() const { return items::crc32(data.data(), bytes - sizeof(uint32_t)); }
  void seal() { put(bytes - sizeof(uint32_t), sum()); }
  bool sealed() const { return get<uint32_t>(bytes - sizeof(uint32_t)) == sum(); }
};
using HeaderFields = Fields<header_bytes>;
using ChunkFields = Fields<chunk_header_bytes>;

}  // namespace

// ---- writing

struct TraceWriter::State {
  TraceFile file;
  Packer packer;
  Previous before;
  Status failed;  // the first error, which every later call returns
  uint32_t chunk_events = 0;
  uint32_t strings = 0;
  uint32_t files = 0;
  uint64_t events = 0;
  uint64_t file_bytes = 0;
  bool finished = false;

  Status write(std::span<const std::byte> bytes) {
    if (!failed) return failed;
    failed = file.write(bytes);
    if (failed) file_bytes += bytes.size();
    return failed;
  }

  Status write_chunk(ChunkKind kind) {
    ChunkFields head;
    head.put(0, chunk_magic);
    head.put(4, static_cast<uint32_t>(kind));
    head.put(8, static_cast<uint32_t>(packer.bytes.size()));
    head.put(12, chunk_events);
    head.put(16, events);
    head.put(24, items::crc32(packer.bytes.data(), packer.bytes.size()));
    head.seal();
    Status status = write(head.data);
    if (status) status = write(packer.bytes);
    packer.bytes.clear();
    before = {};
    chunk_events = 0;
    return status;
  }

  // Ends the chunk before it becomes too long. No record is split.
  void make_room() {
    if (packer.bytes.size() >= chunk_bytes_usual) (void)write_chunk(ChunkKind::events);
  }
};

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() {
  if (state_ != nullptr && !state_->finished) (void)flush();
}

Result<TraceWriter> TraceWriter::create(const std::string& path, const Header& header) {
  auto file = TraceFile::create(path);
  if (!file) return std::unexpected(file.error());
  return begin(std::move(*file), header);
}

Result<TraceWriter> TraceWriter::create_whole(const std::string& path, const Header& header) {
  auto file = TraceFile::create_whole(path);
  if (!file) return std::unexpected(file.error());
  return begin(std::move(*file), header);
}

Result<TraceWriter> TraceWriter::begin(TraceFile file, const Header& header) {
  auto state = std::make_unique<State>(std::move(file));
  HeaderFields fields;
  std::memcpy(fields.data.data(), file_magic.data(), file_magic.size());
  fields.put(8, format_version);
  fields.put(12, static_cast<uint32_t>(header_bytes));
  fields.put(16, header.wall_ns);
  fields.put(24, static_cast<uint32_t>(header.backend));
  fields.seal();
  Status status = state->write(fields.data);
  state->packer.text(header.command);
  state->packer.text(header.host);
  if (status) status = state->write_chunk(ChunkKind::info);
  if (!status) return std::unexpected(status.error());
  return TraceWriter(std::move(state));
}

uint32_t TraceWriter::add_string(std::string_view text) {
  state_->make_room();
  state_->packer.byte(tag_string);
  state_->packer.text(text);
  return ++state_->strings;
}

uint32_t TraceWriter::add_file(const FileRecord& file) {
  state_->make_room();
  Packer& packer = state_->packer;
  packer.byte(tag_file);
  packer.byte(static_cast<uint8_t>(file.kind));
  packer.number(file.device);
  packer.number(file.inode);
  packer.number(file.birth_ns);
  packer.number(std::min(file.bytes, largest_offset));
  packer.text(file.path);
  return ++state_->files;
}

Status TraceWriter::add(const Event& given) {
  PENSTOCK_CHECK(given.file <= state_->files && given.path <= state_->strings,
                 "an event names a file or a string that the trace does not have");
  // A program may request any number ("read -1 bytes"), and a reader accepts a smaller range.
  Event event = given;
  event.start_ns = std::min(event.start_ns, time_max);
  event.latency_ns = std::min(event.latency_ns, time_max);
  event.bytes = std::min(event.bytes, largest_offset);
  event.result = std::min(event.result, largest_offset);
  if (event.offset > largest_offset) event.offset = no_offset;
  if (event.offset2 > largest_offset) event.offset2 = no_offset;
  event.flags &= flag::all;
  state_->make_room();
  state_->packer.event(event, state_->before);
  state_->before.follow(event);
  ++state_->chunk_events;
  ++state_->events;
  return state_->failed;
}

Status TraceWriter::flush() {
  if (state_->packer.bytes.empty()) return state_->failed;
  return state_->write_chunk(ChunkKind::events);
}

Status TraceWriter::finish(const Totals& totals) {
  (void)flush();
  Packer& packer = state_->packer;
  packer.number(state_->events);
  packer.number(state_->files);
  packer.number(std::min(totals.end_ns, time_max));
  packer.number(zigzag(wide(totals.exit_code)));
  packer.number(totals.unseen.size());
  for (uint64_t count : totals.unseen) packer.number(count);
  (void)state_->write_chunk(ChunkKind::end);
  state_->finished = true;
  if (!state_->failed) return state_->failed;
  return state_->file.close();
}

Status TraceWriter::leave_cut_off() {
  (void)flush();
  state_->finished = true;
  if (!state_->failed) return state_->failed;
  return state_->file.close();
}

uint64_t TraceWriter::events() const {
  return state_->events;
}
uint64_t TraceWriter::file_bytes() const {
  return state_->file_bytes;
}

// ---- reading

namespace {

// Events of a trace in our own format.
struct PackedSource final : EventSource {
  // The bytes are in a file, or in memory.
  std::unique_ptr<TraceFile> file;
  std::span<const std::byte> memory;
  uint64_t position = 0;  // bytes read so far

  std::vector<std::byte> body;  // the chunk's body, and event_bytes_max zeros
  Unpacker unpacker{nullptr, nullptr};
  Previous before;
  uint64_t chunk_position = 0;
  uint32_t chunk_events_left = 0;
  uint64_t events = 0;

  Result<size_t> take(std::span<std::byte> into) {
    size_t got = 0;
    if (file != nullptr) {
      auto read = file->read(into);
      if (!read) return read;
      got = *read;
    } else {
      got = std::min(into.size(), memory.size() - position);
      if (got > 0) std::memcpy(into.data(), memory.data() + position, got);
    }
    position += got;
    return got;
  }

  std::unexpected<Error> corrupt(std::string what) {
    return failure(ErrorCode::corrupt,
                   "read the trace: " + std::move(what) + " at byte " +
                       std::to_string(chunk_position) + ", after " + std::to_string(events) +
                       " events",
                   trace_path);
  }
  std::unexpected<Error> cut_off() {
    was_cut_off = true;
    return failure(ErrorCode::corrupt,
                   "read the trace to its end: it was cut off after " + std::to_string(position) +
                       " bytes and " + std::to_string(events) + " events",
                   trace_path);
  }

  Status read_header() {
    HeaderFields fields;
    auto got = take(fields.data);
    if (!got) return std::unexpected(got.error());
    const size_t known = std::min(*got, file_magic.size());
    if (*got == 0 || std::memcmp(fields.data.data(), file_magic.data(), known) != 0) {
      return failure(ErrorCode::corrupt, "read this as a trace: it does not begin as one",
                     trace_path, "a file made by penstock trace");
    }
    if (*got < header_bytes) return cut_off();
    if (const auto version = fields.get<uint32_t>(8); version == 0 || version > format_version) {
      return failure(ErrorCode::unsupported, "read a trace of version " + std::to_string(version),
                     trace_path, "the program that made it");
    }
    if (!fields.sealed() || fields.get<uint32_t>(12) != header_bytes) {
      return corrupt("the header is damaged");
    }
    header.wall_ns = fields.get<uint64_t>(16);
    const auto backend = fields.get<uint32_t>(24);
    header.backend = backend <= static_cast<uint32_t>(Backend::synthetic)
                         ? static_cast<Backend>(backend)
                         : Backend::unknown;
    auto kind = read_chunk();
    if (!kind) return std::unexpected(kind.error());
    if (*kind != ChunkKind::info) return corrupt("the description is missing");
    header.command = unpacker.text();
    header.host = unpacker.text();
    if (unpacker.bad || unpacker.at != unpacker.end) return corrupt("a bad description");
    return {};
  }

  // Reads the next chunk.
  Result<ChunkKind> read_chunk() {
    chunk_position = position;
    ChunkFields head;
    auto got = take(head.data);
    if (!got) return std::unexpected(got.error());
    if (*got < chunk_header_bytes) return cut_off();
    const auto kind = static_cast<ChunkKind>(head.get<uint32_t>(4));
    const auto bytes = head.get<uint32_t>(8);
    if (head.get<uint32_t>(0) != chunk_magic || !head.sealed()) {
      return corrupt("a damaged chunk");
    }
    if (bytes > chunk_bytes_max || kind < ChunkKind::events || kind > ChunkKind::info) {
      return corrupt("a chunk that cannot be");
    }
    body.resize(bytes + event_bytes_max);
    auto filled = take(std::span(body).first(bytes));
    if (!filled) return std::unexpected(filled.error());
    if (*filled < bytes) return cut_off();
    std::fill(body.begin() + bytes, body.end(), std::byte{0});
    if (items::crc32(body.data(), bytes) != head.get<uint32_t>(24)) {
      return corrupt("a damaged chunk");
    }
    unpacker = {body.data(), body.data() + bytes};
    before = {};
    chunk_events_left = head.get<uint32_t>(12);
    if (kind == ChunkKind::events && head.get<uint64_t>(16) != events + chunk_events_left) {
      return corrupt("events are missing");
    }
    return kind;
  }

  Status read_end() {
    totals.events = unpacker.number();
    totals.files = unpacker.number();
    totals.end_ns = unpacker.number_up_to(time_max);
    totals.exit_code = unpacker.near(0);
    const uint64_t counts = unpacker.number();
    if (unpacker.bad || unpacker.at > unpacker.end || counts > 64) return corrupt("a bad end");
    for (uint64_t i = 0; i < counts; ++i) {
      if (unpacker.at >= unpacker.end) return corrupt("a bad end");
      const uint64_t count = unpacker.number();
      if (i < totals.unseen.size()) totals.unseen[i] = count;
    }
    if (unpacker.bad || unpacker.at != unpacker.end || totals.events != events ||
        totals.files != files.size()) {
      return corrupt("an end that does not fit");
    }
    complete = true;
    return {};
  }

  // Reads a string or a file. Returns false, and reads nothing, if an event comes next.
  Result<bool> read_definition() {
    const auto tag = static_cast<uint8_t>(*unpacker.at);
    if (tag == tag_string) {
      ++unpacker.at;
      strings.emplace_back(unpacker.text());
    } else if (tag == tag_file) {
      ++unpacker.at;
      FileRecord record;
      record.id = static_cast<uint32_t>(files.size() + 1);
      const uint8_t kind = unpacker.byte();
      unpacker.bad |= kind > file_kind_max;
      record.kind = static_cast<FileKind>(kind);
      record.device = unpacker.number();
      record.inode = unpacker.number();
      record.birth_ns = unpacker.number();
      record.bytes = unpacker.number_up_to(largest_offset);
      record.path = std::string(unpacker.text());
      files.push_back(std::move(record));
    } else {
      return false;
    }
    if (unpacker.bad || unpacker.at > unpacker.end) return corrupt("a bad definition");
    return true;
  }

  Result<size_t> next(std::span<Event> into) override {
    if (has_failed()) return failed_error();
    if (into.empty()) return 0;
    size_t given = 0;
    while (given < into.size() && !complete) {
      if (unpacker.at < unpacker.end) {
        if (const Status status = read_record(into[given], given); !status) {
          return fail(status.error(), given);
        }
        continue;
      }
      if (chunk_events_left != 0)
        return fail(corrupt("a chunk with too few events").error(), given);
      auto kind = read_chunk();
      if (!kind) return fail(kind.error(), given);
      if (*kind == ChunkKind::info) return fail(corrupt("a second description").error(), given);
      if (*kind == ChunkKind::end) {
        if (const Status status = read_end(); !status) return fail(status.error(), given);
      }
    }
    return given;
  }

  Status read_record(Event& into, size_t& given) {
    if (static_cast<uint8_t>(*unpacker.at) >= tag_string) {
      auto defined = read_definition();
      if (!defined) return std::unexpected(defined.error());
      if (*defined) return {};
    }
    const uint8_t call = unpacker.byte();
    if (!is_call(call)) return corrupt("an unknown call");
    if (chunk_events_left == 0) return corrupt("a chunk with too many events");
    unpacker.event(static_cast<Call>(call), before, into);
    if (unpacker.bad || unpacker.at > unpacker.end || into.file > files.size() ||
        into.path > strings.size()) {
      return corrupt("a bad event");
    }
    before.follow(into);
    --chunk_events_left;
    ++events;
    ++given;
    return {};
  }
};

}  // namespace

TraceReader::TraceReader(std::unique_ptr<EventSource> source) : source_(std::move(source)) {}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

Result<TraceReader> TraceReader::open(const std::string& path) {
  auto file = TraceFile::open(path);
  if (!file) return std::unexpected(file.error());
  return open(std::move(*file));
}

Result<TraceReader> TraceReader::open(TraceFile file) {
  auto source = std::make_unique<PackedSource>();
  source->trace_path = file.path();
  source->file = std::make_unique<TraceFile>(std::move(file));
  if (Status status = source->read_header(); !status) return std::unexpected(status.error());
  return TraceReader(std::move(source));
}

Result<TraceReader> TraceReader::of_memory(std::span<const std::byte> trace) {
  auto source = std::make_unique<PackedSource>();
  source->trace_path = "a trace in memory";
  source->memory = trace;
  if (Status status = source->read_header(); !status) return std::unexpected(status.error());
  return TraceReader(std::move(source));
}

const Header& TraceReader::header() const {
  return source_->header;
}
const std::string& TraceReader::path() const {
  return source_->trace_path;
}
Result<size_t> TraceReader::next(std::span<Event> into) {
  return source_->next(into);
}
const std::vector<FileRecord>& TraceReader::files() const {
  return source_->files;
}

const FileRecord& TraceReader::file(uint32_t id) const {
  PENSTOCK_CHECK(id > 0 && id <= source_->files.size(), "a file that the trace does not have");
  return source_->files[id - 1];
}
std::string_view TraceReader::string(uint32_t id) const {
  PENSTOCK_CHECK(id > 0 && id <= source_->strings.size(), "a string that the trace does not have");
  return source_->strings[id - 1];
}
const Totals& TraceReader::totals() const {
  PENSTOCK_CHECK(source_->complete, "the end of the trace has not been read");
  return source_->totals;
}
const UnseenCounts& TraceReader::unseen() const {
  return source_->totals.unseen;
}
bool TraceReader::complete() const {
  return source_->complete;
}
bool TraceReader::cut_off() const {
  return source_->was_cut_off;
}

}  // namespace penstock::trace
