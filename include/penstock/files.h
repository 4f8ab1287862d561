#pragma once

// Files larger than memory: sorted, merged, partitioned, grouped, joined and checked within a budget
// of memory, as the commands of `penstock` of the same names do.
//
// clang-format off
//   auto sorted = penstock::sort_files({.inputs = {"big.u64"},
//                                       .output = "sorted.u64",
//                                       .items = {.name = "u64"},
//                                       .memory_bytes = 4 * penstock::GiB},
//                                      {.threads = 8});
//   if (!sorted) return report(sorted.error().message());
//   std::puts(penstock::to_json(*sorted).c_str());
// clang-format on
//
// The first argument of each operation says what is read and written and within which limits, the
// second one what is special to it. docs/sort.md and docs/files.md tell how they work.
//
// After any error the output's name is untouched, the inputs are whole and no temporaries are left.
// Errors beside those of the operation: invalid_argument and unsupported, for options that make no
// sense, named as the command line names them; not_found, permission, io; corrupt, where an input
// is no whole number of items; out_of_memory, where the budget is too small for this input, before
// anything is written; out_of_space; interrupted, where `cancel` was set.
//
// Thread safety: operations in different threads may run at the same time. The figures and the progress of
// each are its own, whatever else the process reads and writes, but for those that say "of the process".

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base.h"
#include "penstock/disk.h"
#include "penstock/source.h"

namespace penstock {

// ---- What is read and written, and within which limits.

// What a row of the format `rows` begins with; its key follows, and then a payload, both of any bytes.
// One row stands behind the other, with nothing between them. Rows are ordered by their keys, byte by
// byte, and rows of equal keys keep their order in all operations; group and join take none.
struct RowHead {
  uint32_t row_bytes;  // of all of it, this head included
  uint32_t key_bytes;

  static constexpr uint32_t bytes = 8;  // both, little-endian
  // REQUIRES: so many bytes are there.
  static RowHead at(const void* row) {
    RowHead head;
    std::memcpy(&head, row, bytes);
    return head;
  }
  void store(void* row) const { std::memcpy(row, this, bytes); }
};

// What the bytes of files are, and how their items are ordered, in the words of the command line.
struct ItemFormat {
  // Numbers, little-endian: u32, u64, i32, i64, f32, f64; kv64, 8 bytes of key (as u64) and 8 of
  // value; record, of a fixed length; lines of text; rows, each with its lengths in front (RowHead).
  std::string name = "lines";
  std::optional<uint32_t> record_bytes = {};  // of a record; nothing: 100, or as `dtype` says
  std::string dtype = {};                     // the fields of a record, as NumPy describes them
  // Of records OFFSET:LENGTH, compared byte by byte (nothing: 0:10), with :TYPE a number, with :r
  // descending. Of lines what GNU sort's -k takes. Of rows of CSV columns: NUMBER or NAME, with
  // :LETTERS behind.
  std::vector<std::string> keys = {};
  // Of lines, GNU sort's letters for keys without any of their own, of bdfghiMnRV.
  std::string letters = {};
  std::optional<char> separator = {};  // of fields; nothing: blanks before each, of CSV a comma
  bool csv = false;                    // rows: quotes may hold separators and ends of lines
  uint32_t header_lines = 0;           // of each file; those of the first one stay in front
  bool zero_terminated = false;        // lines end with a NUL
  // Of lines: text, numbers and months are ordered as this locale of the C library has them, and strings as strcoll() compares
  // them; empty: the one that the environment names. Nothing: byte by byte, as in the locale C.
  std::optional<std::string> locale = {};
  std::optional<uint64_t> random_seed = {};  // of the letter R; nothing: by chance
  bool descending = false;
};

struct FilesProgress {
  const char* phase;     // "sample", "distribute", "sort", "merge"
  uint64_t done_bytes;   // of all reading and writing of this run
  uint64_t total_bytes;  // never less than that; 0: not known
  // By the plan, corrected by how long what is done took; nothing: not known.
  std::optional<double> seconds_left = {};
};

// What a budget is held against.
enum class MemoryScope {
  // What the whole process has resident, as the system measures it: of a program that does nothing
  // else, and where it has a limit of its own to keep. The caller's memory counts, and other runs'.
  process,
  // What this call takes, by its own account: arenas, blocks, tables, decoders, threads, and a share
  // of the budget for all that is small (src/base/run_scope.h). It never asks what the process has
  // besides. What `sources`, `sink` and callbacks take is the caller's.
  call,
};
const char* name_of(MemoryScope scope);

struct FilesOptions {
  // Paths; "-" is stdin, "/dev/fd/N" what this process has open as N (a pipe from where it stands, a
  // file from its beginning).
  std::vector<std::string> inputs = {};
  // More inputs, behind those, taken as they are: nothing is decompressed. Each is read once, from front to
  // back, straight into the run's blocks, by a thread of its own, from when the run comes to it (which of
  // several may be after all of those in front); and cancelled when the run ends.
  std::vector<std::shared_ptr<Source>> sources = {};
  // "-" is stdout, "/dev/fd/N" goes where N stands. A file appears under its name when it is
  // complete; it may be an input. Of partition_files() the names of the parts.
  std::string output = "-";
  // Instead of `output`. It gets the run's blocks in order, from a thread of its own, and close() behind the
  // last one; after an error it is cancelled, and not closed. (A write() or read() that waits cannot be
  // interrupted: the run ends when it returns. Its cancel(), which may be called more than once and while
  // it waits, is to see to that.)
  std::shared_ptr<Sink> sink = {};
  // The output arrives compressed, by a thread of its own. Not of partition_files(), and not with a sink
  // (penstock/source.h: compress()) or a sort that can be resumed.
  std::optional<CompressedFormat> compressed = {};
  ItemFormat items = {};
  // That the call, or the process, may have; 32 MiB or more.
  uint64_t memory_bytes = 1 * GiB;
  // `call`, because a library does not know what else its process does: whatever that holds, a budget
  // means the same, and two calls at once keep theirs. (The command line has `process`: there the program
  // is all that there is, and what the system measures is what its user can check.)
  MemoryScope memory_scope = MemoryScope::call;
  // Where temporaries go. Nothing: $TMPDIR or /tmp; where that is memory, /var/tmp or the output's
  // folder.
  std::vector<std::string> temp_directories = {};
  // What to plan for. Nothing: a sort looks at the disk by itself, others reckon with a usual one.
  std::shared_ptr<const DeviceProfile> device = {};
  const std::atomic<bool>* cancel = nullptr;  // set it, and the run ends: ErrorCode::interrupted
  // Called from the run's own threads, one call at a time, some ten times a second at most.
  std::function<void(const FilesProgress&)> progress = {};
  // Told, in a sentence, where temporaries lie if that is not as usual, and what a resumed sort
  // takes over, or leaves when it fails. From the thread that called the operation.
  std::function<void(const std::string&)> notice = {};
  Mechanism mechanism = Mechanism::automatic;
  bool record_staircases = false;  // how full the executor's buckets are, in the statistics
  OutputRules output_rules = {};
  SourceOptions source = {};  // of the inputs that are paths
};

// ---- What every operation tells.

// How full the buckets of a side of the executor are in the steady state, the fullest first, mean
// over many steps, beside the theorem's. Of very many streams each value is the mean of neighbours.
struct Staircase {
  std::string title;
  uint64_t streams = 0;
  uint64_t steps = 0;                   // that the mean is of
  std::vector<double> measured_bytes;   // of a stream
  std::vector<double> predicted_bytes;  // the same; empty: there is no theorem for it
};

// Figures of a run, all its passes together.
struct RunStats {
  double seconds = 0;
  uint32_t passes = 0;  // times that the data are read, at most
  // Bytes of files as they are stored, compressed ones too, and of sources as they give them.
  uint64_t bytes_read = 0;
  // Bytes to files, and to sinks as they get them: an output that arrives compressed counts before that.
  uint64_t bytes_written = 0;
  uint64_t temp_bytes = 0;         // written to temporaries
  uint64_t temp_memory_bytes = 0;  // of these, to such in memory, beside the budget (tmpfs)
  // How often the disk went on to another place: requests, on whatever file, that did not begin where the one before
  // them ended. (Several disks count as one.)
  uint64_t seeks = 0;
  MemoryScope memory_scope = MemoryScope::process;
  uint64_t peak_bytes = 0;  // of what the budget is held against
  uint64_t budget_bytes = 0;
  uint64_t peak_rss_bytes = 0;        // of the process, since it began
  std::string emulated;               // the emulated device on which this happened; empty: none
  std::vector<Staircase> staircases;  // with FilesOptions::record_staircases

  // Bytes between two seeks, in the mean.
  double run_bytes() const {
    return seeks > 0 ? static_cast<double>(bytes_read + bytes_written) / static_cast<double>(seeks)
                     : 0;
  }
};

// ---- Sort.

// Of temporaries, block by block: numbers go without the bits that those of a block share, records and
// lines by LZ4.
enum class Compression {
  automatic,  // where the disk is so slow, and a sample shrinks so much, that it pays
  never,
  always,  // what becomes smaller: records and lines by an eighth
};

struct SortFilesOptions {
  unsigned threads = 2;
  bool stable = false;               // items with equal keys keep their order
  bool unique = false;               // of items with equal keys only the first
  bool merge_only = false;           // inputs are sorted already
  std::optional<uint64_t> top = {};  // the first so many items of the output alone
  // What is finished is kept on the disk until all is, so that a run with the same options goes on
  // from there if this one ends early, in whichever way. Inputs and output must be files.
  bool resume = false;
  Compression compression = Compression::automatic;  // with `resume` there is none
  // The output is read back before it appears, and compared with what was written: bytes, order and
  // number of items. It must be a file; not with `resume` and `merge_only` (unsupported).
  bool verify = false;
};

enum class SortMethod {
  empty,       // nothing to do
  in_memory,   // one pass: it fits
  distribute,  // split by key ranges into temporaries, then sort these one by one
  merge,       // merge inputs, or sorted stretches of them, directly
  top,         // one read, of which only the first items in order are kept
};
const char* name_of(SortMethod method);

// What takes most of a phase's time.
enum class PhaseBound {
  unknown,
  disk,
  processor,
  memory,  // its first use, which the system, and the host of a virtual machine, take time for
};
const char* name_of(PhaseBound bound);

// One phase of a run, planned or done.
struct SortPhase {
  std::string name;
  double seconds = 0;  // 0 in a plan: not predicted
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  // How often the disk went on to another place: requests, on whatever file, that did not begin
  // where the one before them ended. (Of several disks: as if they were one.)
  uint64_t seeks = 0;
  double processor_seconds = 0;  // of all threads of the process together
  // Planned alone: what the disk would take if nothing else took time, and what of the processors'
  // seconds is the first use of memory.
  double disk_seconds = 0;
  double memory_seconds = 0;
  PhaseBound bound = PhaseBound::unknown;

  uint64_t bytes() const { return bytes_read + bytes_written; }
  // Between two seeks, in the mean.
  double run_bytes() const {
    return seeks > 0 ? static_cast<double>(bytes()) / static_cast<double>(seeks) : 0;
  }
};

// What a sort would do with another budget.
struct SortAlternative {
  uint64_t memory_bytes = 0;
  SortMethod method = SortMethod::empty;
  uint32_t passes = 0;
  double seconds = 0;
  uint64_t temp_bytes = 0;
};

// What a run will do, asked for before anything is written.
struct SortPlan {
  SortMethod method = SortMethod::empty;
  uint64_t input_bytes = 0;  // 0 with pipes: not known
  uint32_t buckets = 0;      // of the first split, or fan-in of the first merge
  uint32_t passes = 0;       // times that the data are read
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t temp_bytes =
      0;  // disk space that temporaries take at the peak, all directories together
  uint64_t temp_memory_bytes = 0;  // of these, what lies in memory beside the budget (tmpfs)
  uint64_t spilled_bytes = 0;      // what goes to them, before it is compressed
  bool compresses = false;         // temporaries
  uint64_t seeks = 0;              // of all phases
  uint64_t memory_bytes = 0;       // expected peak
  // The least budget, to a few per cent, that would save a pass; 0: none that this machine has.
  uint64_t fewer_passes_memory_bytes = 0;
  double seconds = 0;  // of all phases; 0: not predicted
  // Most runs lie within, on a machine that has nothing else to do.
  double seconds_low = 0;
  double seconds_high = 0;
  std::string why;  // one sentence
  // In the order in which they come. None with pipes, whose length is not known.
  std::vector<SortPhase> phases = {};
  // The distribution goes by the executor's schedule, because the disk seeks slowly.
  bool long_runs = false;
  // What it was planned for, where that is known. Of a disk that was only looked at the delay is 0.
  std::optional<DeviceProfile> device = {};
  // In the order of their memory. None where that changes nothing, or where the disk is not known.
  std::vector<SortAlternative> alternatives = {};
  // Nobody looked at the disk, because to look takes longer than such a sort: `device` is a usual
  // one, by which nothing was decided.
  bool device_is_assumed = false;
};

// What the bytes of a bucket wait for, from the moment it has memory until it has none.
enum class BucketStage { reading, waiting, sorting, writing };
inline constexpr size_t bucket_stages = 4;

// What held the memory of a sort. Seconds count from the beginning of the sort.
struct Occupancy {
  struct Bucket {
    uint64_t offset_bytes = 0;  // its place in the output
    uint64_t bytes = 0;
    // It has room; its stages end. The last one ends when it is written and its memory is free.
    double begin_s = 0, read_s = 0, waited_s = 0, sorted_s = 0, written_s = 0;
  };
  // Memory that each stage holds, mean over a bin. [stage][bin]
  std::array<std::vector<double>, bucket_stages> stage_bytes;
  double start_s = 0;  // of the first bin
  double bin_s = 0;
  uint64_t memory_bytes = 0;  // that buckets may have
  std::vector<Bucket> buckets;
  uint64_t buckets_seen = 0;  // `buckets` are some of so many
};

struct SortStats : RunStats {
  SortPlan predicted;
  SortMethod method = SortMethod::empty;
  uint64_t items = 0;          // of the output
  uint64_t bytes = 0;          // of the output
  uint64_t spilled_bytes = 0;  // what went to temporaries, before it was compressed
  uint64_t kept_bytes = 0;     // of the input, that did not go to temporaries between the phases
  // What each phase really asked of the disk, in the order in which they came.
  std::vector<SortPhase> phases;
  // The phases' seconds, and those of threads within them (which may be more than the clock's).
  std::vector<std::pair<std::string, double>> phase_seconds;
  Occupancy occupancy;
  std::string pool;  // the mechanism used
  std::string engine;
};

// Opens and samples the inputs, and probes the disk with a temporary file when it predicts seconds
// without a device. Not of sources, which can be read once: unsupported.
Result<SortPlan> plan_sort_files(const FilesOptions& files, const SortFilesOptions& options = {});
// With `resume`, what a later run goes on with stays after an error.
Result<SortStats> sort_files(const FilesOptions& files, const SortFilesOptions& options = {});
// The first `count` items of the order: sort_files() with `top`.
Result<SortStats> top_items(const FilesOptions& files, uint64_t count,
                            const SortFilesOptions& options = {});

// ---- Check.

struct FileCheck {
  uint64_t count = 0;  // items; a last line without a newline is one too
  // Items whose whole key equals that of the item before them. Where the data are not sorted these
  // are not all duplicates, and their number means nothing.
  uint64_t duplicates = 0;
  // Of the first item, from 0, that belongs before the one before it.
  std::optional<uint64_t> first_unsorted = {};
  // Hexadecimal. It does not depend on the order: an input and its sorted output have the same. It is a sum
  // modulo 2^128: the checksums of parts add up to that of the whole.
  std::string checksum = {};
  std::string first = {};  // keys of the first and the last item, as they are told to people
  std::string last = {};
  double seconds = 0;
  MemoryScope memory_scope = MemoryScope::process;
  uint64_t peak_bytes = 0;      // of the call, or the process
  uint64_t peak_rss_bytes = 0;  // of the process, since it began

  bool sorted() const { return !first_unsorted; }
};

// One input, or one source, of `files`; of its options also `items`, `source`, `memory_scope` and `cancel`. It
// takes about 8 MiB a thread, and what decompression needs.
Result<FileCheck> check_file(const FilesOptions& files, unsigned threads = 2);

// Passes on what it is given, and knows what check_file() would say of that. Beside what `to` takes it
// holds an item. Thread safety: that of Sink; check() where nothing is written any more.
class CheckedSink : public Sink {
 public:
  static Result<std::shared_ptr<CheckedSink>> open(std::shared_ptr<Sink> to,
                                                   const ItemFormat& items);
  // REQUIRES: everything was written. Errors: corrupt, where that is no whole number of items.
  virtual Result<FileCheck> check() = 0;
};

// ---- Merge.

struct MergeFilesPlan {
  uint32_t files = 0;  // that hold anything
  uint32_t passes = 0;
  uint64_t input_bytes = 0;  // 0 with pipes: not known
  std::string factors;       // of the passes: "90 x 89"
  uint64_t temp_bytes = 0;   // on disk at once, beside the output, at most
  uint64_t bytes_read = 0;   // in all passes; 0: not known, or only the first items are wanted
  uint64_t bytes_written = 0;
  uint64_t seeks = 0;
  double seconds = 0;  // by equation 1 of FilesOptions::device; 0: not predicted
  // The device that it was predicted for: without FilesOptions::device a usual disk, as published (assumed).
  std::string device;
  bool device_is_assumed = false;
};

struct MergeFilesStats : RunStats {
  MergeFilesPlan planned;
  uint64_t items = 0;      // of the output
  uint64_t bytes = 0;      // of the output
  size_t block_bytes = 0;  // of the last pass
};

struct MergeFilesOptions {
  bool unique = false;  // of items with equal keys only the first
  bool stable = false;  // lines of equal keys stand in any order in the files, and keep it
};

// Of any number of sorted files, in as few or as many passes as the planner finds best. Items with
// equal keys come in the order of the files. Errors: unsorted, with the file and the item.
Result<MergeFilesStats> merge_files(const FilesOptions& files,
                                    const MergeFilesOptions& options = {});

// ---- Partition.

enum class PartitionFilesBy {
  range,  // part j holds what is not before bound j - 1 and before bound j
  hash,   // of the key, stable between runs and versions: docs/files.md says how it is computed
  bits,   // the first bits of the key in its order: 2^bits parts
};

const char* name_of(PartitionFilesBy by);

struct PartitionFilesOptions {
  PartitionFilesBy by = PartitionFilesBy::hash;
  uint32_t parts = 0;            // range with bounds: 0, or one more than there are bounds
  std::string bounds_path = {};  // range: the bounds, items in order; empty: from a sample
  bool checksums = false;        // as check_file() tells them
};

struct FilePart {
  std::string path;
  uint64_t items = 0;
  uint64_t bytes = 0;
  std::string checksum;  // empty: not asked for
};

struct PartitionFilesResult {
  RunStats stats;
  PartitionFilesBy by = PartitionFilesBy::hash;
  std::string format;  // the name of the items'
  std::vector<FilePart> parts;
  std::vector<std::string> bounds;  // range: as they are told to people
};

// To files whose names are `output` with the part's number for {}: "part-{}.bin". Each keeps the
// order of the items. No part has its name before all are complete, and on the disk.
Result<PartitionFilesResult> partition_files(const FilesOptions& files,
                                             const PartitionFilesOptions& options);

// ---- Slices: a partition for those who carry its parts elsewhere.
//
// One file takes all parts, in slices: each is a stretch of the file with items of one part, in the order of
// the inputs. So a thousand parts need one descriptor, and are read again in requests as large as the memory
// allows. python/penstock/ray/ sorts with them on many machines.

// Where a part begins: at the first item that is not before `item`, and, of those that equal it, at the first
// one whose position is `position` or more. So items of equal keys may go to several parts.
struct SliceCut {
  std::string item;  // of the inputs' format; of a line with or without its end
  // Bytes of the inputs in front of an item, without their headers; of rows, how many rows. The last
  // line of an input counts as if it had its end.
  uint64_t position = 0;
};

struct SliceFilesOptions {
  uint32_t parts = 0;               // by hash of the key, as partition_files() has it; or:
  std::vector<SliceCut> cuts = {};  // in order; one less than there are parts
  std::vector<bool> wanted = {};    // the parts that are written; empty: all
  uint64_t slice_bytes =
      MiB;  // of a slice in the mean, if the memory has room for so much of each part
};

struct Slice {
  uint32_t part = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct SlicedPart {
  uint64_t items = 0;
  uint64_t bytes = 0;
  std::string checksum;  // as check_file() tells it
};

struct SliceFilesResult {
  double seconds = 0;
  uint64_t peak_bytes = 0;
  std::vector<Slice> slices;      // as they stand in the file
  std::vector<SlicedPart> parts;  // those that are not wanted too
};

// Reads the inputs one after the other and writes `output`, which has no headers; the last line of each input
// has an end there. Lines of equal keys are cut as a stable sort has them. Errors: corrupt, where an input is
// no whole number of items; out_of_memory, where a line does not fit in a third of the memory.
Result<SliceFilesResult> slice_files(const FilesOptions& files, const SliceFilesOptions& options);

// The numbers of items in the order of a stable sort: of a sample, to choose cuts from. `header`: the header
// lines of the inputs, where they have any. Items that break the rules of CSV are left out.
Result<std::vector<uint32_t>> order_items(const ItemFormat& format, const std::string& header,
                                          const std::vector<std::string>& items);

// ---- Group.

// An integer in an item.
struct ValueField {
  uint32_t offset = 0;
  uint32_t bytes = 8;  // 1 to 8
  bool is_signed = false;
  bool big_endian = false;
};

struct Aggregates {
  bool count = false;
  bool sum = false;
  bool min = false;
  bool max = false;
  // Alone: the first item of each key, whole.
  bool distinct = false;
  // Of lines with a count: results as uniq(1) writes them, "      3 line".
  bool like_uniq = false;
  // What sum, min and max are of. Nothing: of kv64 the value, of integers the number itself.
  std::optional<ValueField> value = {};
};

struct GroupFilesOptions {
  Aggregates aggregates = {};
  bool sorted = false;  // by key; otherwise the results come in any order
  // The results with the highest counts alone, so many at most, by count, descending; those of equal
  // counts by key. With a count, and not `sorted`.
  std::optional<uint64_t> top = {};
  // Of lines and rows, the fields or columns that sum, min and max are of: "3", "price". They hold
  // decimal numbers of up to 38 digits; empty ones count for nothing.
  std::vector<std::string> columns = {};
};

struct GroupFilesStats : RunStats {
  uint64_t items = 0;    // of the inputs
  uint64_t groups = 0;   // of the output
  uint64_t bytes = 0;    // of the output
  uint32_t buckets = 0;  // of the first split, or sorted stretches; 0: all groups fitted
};

// One result for each key: the key, and 8 bytes each for count, sum, min and max, as far as they
// were asked for; of lines the count in decimal digits, a tab, and the line. Results of lines with keys
// and of rows come in the order of their keys: of lines the count, the keys and the values of columns,
// of rows the keys, the count and the values, under a header. Errors: unsupported
// with the key, where a sum does not fit 64 bits; out_of_memory where an eighth of the memory does
// not hold the `top` results.
Result<GroupFilesStats> group_files(const FilesOptions& files, const GroupFilesOptions& options);

// ---- Join.

struct JoinFilesOptions {
  // Of the right side's records, where they differ from the left side's.
  std::optional<uint32_t> right_record_bytes = {};
  std::optional<std::string> right_key = {};
};

struct JoinFilesStats : RunStats {
  uint64_t items = 0;  // of the output
  uint64_t bytes = 0;
};

// Two sorted inputs, by key: each pair of items with equal keys, one from each side, becomes one
// item, the left one followed by the right one without its key. Errors: unsorted, with the file and
// the item; out_of_memory with the key, where neither side's items with it fit.
Result<JoinFilesStats> join_files(const FilesOptions& files, const JoinFilesOptions& options = {});

// ---- Join of lines, as join(1) of POSIX and GNU has it.

struct JoinLinesOptions {
  // Of each side the fields or columns by which it is joined, as many on both: "2", and of columns
  // "price", "price:n".
  std::array<std::vector<std::string>, 2> keys = {{{"1"}, {"1"}}};
  bool ignore_case = false;
  bool pairs = true;               // are written
  std::array<bool, 2> alone = {};  // so are lines of this side that have no other
  // What is written: "0" is the key, "1.2" the left side's second field, "2.price" the right one's
  // column; "auto": the key and all others, as many as the first line of each side has. Empty: the
  // key and all others.
  std::string list = {};
  std::string empty = {};      // in place of fields that are empty or not there
  bool inputs_sorted = false;  // or what is not in order is sorted before
};

struct JoinLinesStats : RunStats {
  uint64_t items = 0;  // of the output, without its header
  uint64_t bytes = 0;
  uint32_t sorted_inputs = 0;  // that were not in order
};

// Two inputs of lines, or of rows of CSV with a header of at most one line, in any order, by fields.
// ItemFormat::separator is that of fields; the end of lines: they are one field.
// The lines of equal keys come in the order of their files, each left one with all right ones.
// Errors: as join_files().
Result<JoinLinesStats> join_lines(const FilesOptions& files, const JoinLinesOptions& options = {});

// ---- The same as JSON: one object, as --json prints it. Fields never change their meaning while
// its "version" stays.

std::string to_json(const SortPlan& plan);
std::string to_json(const SortStats& stats);
// `file` names it.
std::string to_json(const FileCheck& check, const std::string& file, const ItemFormat& items);
std::string to_json(const MergeFilesStats& stats);
std::string to_json(const PartitionFilesResult& result);
std::string to_json(const SliceFilesResult& result);
std::string to_json(const GroupFilesStats& stats);
std::string to_json(const JoinFilesStats& stats);
std::string to_json(const JoinLinesStats& stats);

}  // namespace penstock
