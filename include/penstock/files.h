#pragma once

// Operations on files larger than memory, within a memory budget: sort, merge, partition, group,
// join and check, as the commands of `penstock` with these names do.
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
// The first argument of each operation names the files and the limits, the second one the
// operation's own options. docs/sort.md and docs/files.md tell how the operations work.
//
// After any error the output's name is untouched, the inputs are whole and no temporaries are left.
// Every operation may return these errors besides its own: invalid_argument and unsupported for
// meaningless options, with their names on the command line; not_found, permission, io; corrupt if
// an input is no whole number of items; out_of_memory if the budget is too small for the input,
// before anything is written; out_of_space; interrupted if `cancel` was set.
//
// Thread safety: operations in different threads may run at the same time. Each has its own figures
// and progress, except for figures "of the process".

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

// ---- Inputs, outputs and limits.

// The head of a row in the format `rows`; the key follows, then a payload, both of any bytes. Rows
// are stored without gaps. They are ordered by their keys, byte by byte, and rows with equal keys
// keep their order in all operations. Group and join do not accept rows.
struct RowHead {
  uint32_t row_bytes;  // bytes of the whole row, including this head
  uint32_t key_bytes;

  static constexpr uint32_t bytes = 8;  // bytes of both numbers, little-endian
  // REQUIRES: `bytes` bytes can be read.
  static RowHead at(const void* row) {
    RowHead head;
    std::memcpy(&head, row, bytes);
    return head;
  }
  void store(void* row) const { std::memcpy(row, this, bytes); }
};

// The format of files and the order of their items, in the words of the command line.
struct ItemFormat {
  // Numbers, little-endian: u32, u64, i32, i64, f32, f64; kv64, 8 bytes of key (as u64) and 8 of
  // value; record, of a fixed length; lines of text; rows, with their lengths in front (RowHead);
  // jsonl, lines that are objects of JSON, or blank.
  std::string name = "lines";
  std::optional<uint32_t> record_bytes = {};  // record length; nullopt: 100, or by `dtype`
  std::string dtype = {};                     // fields of a record in NumPy's notation
  // Keys. For records OFFSET:LENGTH, compared byte by byte (if there are none: 0:10), with :TYPE as
  // a number, with :r descending. For lines the argument of GNU sort's -k. For rows of CSV:
  // columns, NUMBER or NAME, optionally followed by :LETTERS, with commas between several. For
  // jsonl: members, .NAME[.NAME...], followed by the same; without letters missing < null < false <
  // true < numbers < strings. All take :desc and :asc; those of text also :time, :ip, :natural,
  // :semver and :hex, in whose orders texts that are no such value come first.
  std::vector<std::string> keys = {};
  // GNU sort's letters out of bdfghiMnRV, for whole lines and for keys: of lines those without
  // letters (and without `descending`), of columns those without a comparison of their own. A word
  // may follow them, as in ":time".
  std::string letters = {};
  std::optional<char> separator = {};  // nullopt: blanks before each field, in CSV a comma
  bool csv = false;                    // CSV: quotes may hold separators and ends of lines
  // CSV: the character around fields that may hold separators and ends of lines; "none": quotes are
  // text. Empty: ".
  std::string quote = {};
  std::string escape = {};       // CSV: the character that makes the next one text; empty: none
  bool lenient = false;          // CSV: stray quotes, and text behind a closing one, are text
  uint32_t header_lines = 0;     // header lines of each file; those of the first file are kept
  bool rows_fit_header = false;  // CSV: a row with another number of fields is an error
  bool zero_terminated = false;  // lines end with a NUL
  // The C library's locale that orders lines: text, numbers and months by its rules, and strings by
  // strcoll(). Empty: the environment's locale. nullopt: byte by byte, as in the locale C.
  std::optional<std::string> locale = {};
  // Form of the times of keys with :time, as of strptime(3), "%d/%m/%Y". Empty: ISO 8601, or seconds
  // since 1970.
  std::string time_format = {};
  // Form of the numbers of keys with n, and of the columns that group adds up, by an example:
  // "1,234.50" or "1.234,50". They may have a currency sign, an exponent or a percent sign. Empty:
  // as in GNU sort, and decimal digits alone.
  std::string number_format = {};
  std::optional<uint64_t> random_seed = {};  // for the letter R; nullopt: by chance
  bool descending = false;  // also of each key, unless it has a direction of its own
};

struct FilesProgress {
  const char* phase;     // "sample", "distribute", "sort", "merge"
  uint64_t done_bytes;   // read and written by this run
  uint64_t total_bytes;  // at least done_bytes; 0: unknown
  // By the plan, corrected by the time that the finished part took; nullopt: unknown.
  std::optional<double> seconds_left = {};
  uint64_t input_bytes = 0;  // the inputs' size; 0: unknown
};

// The memory that a budget limits.
enum class MemoryScope {
  // The resident memory of the whole process, as the system measures it, including the caller's and
  // other runs' memory. For a program that does nothing else, or has a limit of its own.
  process,
  // The call's memory, by its own account: arenas, blocks, tables, decoders, threads, and a share
  // of the budget for small things (src/base/run_scope.h). The call never looks at other memory of
  // the process. Memory of `sources`, `sink` and callbacks belongs to the caller.
  call,
};
const char* name_of(MemoryScope scope);

// The names of options in errors and notices.
enum class OptionNames {
  members,       // members of these structs, such as "memory_bytes"
  command_line,  // words of the command line, such as "-S"
};

// The columns of tables that are inputs of one run (rows of CSV with a header).
enum class ColumnRule {
  equal,  // equal names in each input, in the same order
  same,   // equal names in any order; the first input's order is the output's
  all,    // all names of all inputs; fields that an input lacks are empty
};

struct FilesOptions {
  // Paths; "-" is stdin, "/dev/fd/N" is this process's descriptor N (a pipe from its current
  // position, a file from its beginning).
  std::vector<std::string> inputs = {};
  // More inputs, behind the paths. A thread of its own reads each source once, from front to back,
  // into the run's blocks, as soon as the run comes to it (possibly after all inputs before it).
  // Data of sources are not decompressed, and are UTF-8. Sources are cancelled when the run ends.
  std::vector<std::shared_ptr<Source>> sources = {};
  // "-" is stdout, "/dev/fd/N" writes at the current position of N. A file appears under its name
  // when it is complete; it may be an input. For partition_files(), the pattern of names.
  std::string output = "-";
  // Receives the output instead of `output`: the run's blocks in order, from a thread of its own,
  // and close() after the last one; after an error it is cancelled and not closed. (A write() or
  // read() that waits cannot be interrupted: the run ends when it returns. cancel() should end it,
  // and may be called more than once and while it waits.)
  std::shared_ptr<Sink> sink = {};
  // Compresses the output in a thread of its own. Not for partition_files(), and not with a sink
  // (penstock/source.h: compress()) or a sort that can be resumed.
  std::optional<CompressedFormat> compressed = {};
  ItemFormat items = {};
  // Inputs whose headers differ are read in order (`same`, `all`). Not for partition_files()
  // and for joins.
  ColumnRule columns = ColumnRule::equal;
  // Columns of the output, by name or number: each a list with commas between them. Empty: all. Not
  // for groups, joins and parts.
  std::vector<std::string> select = {};
  // Blank rows of CSV, and rows that break its rules: "skip" leaves them out, "fail" or an empty word
  // makes them errors (blank rows are rows then), any other word names the file that gets them.
  std::string bad_rows = {};
  // Budget of the call, or of the process; at least 32 MiB.
  uint64_t memory_bytes = 1 * GiB;
  // The default is `call`, because a library does not know what else its process does: a budget
  // means the same whatever the process holds, and concurrent calls keep theirs. (The command line
  // uses `process`: there the program is everything, and its user can check the system's measure.)
  MemoryScope memory_scope = MemoryScope::call;
  // Folders of temporaries. Empty: $TMPDIR or /tmp; if that is memory, /var/tmp or the output's.
  std::vector<std::string> temp_directories = {};
  // Device to plan for. nullptr: a sort inspects the disk, other operations assume a usual one.
  std::shared_ptr<const DeviceProfile> device = {};
  const std::atomic<bool>* cancel = nullptr;  // ends the run with ErrorCode::interrupted when set
  // Called from the run's own threads, one call at a time, about ten times a second at most.
  std::function<void(const FilesProgress&)> progress = {};
  // Called with a sentence when temporaries lie in an unusual place, for key values that the order
  // cannot read and rows of other lengths than the header (both are counted only if this is set),
  // and for what a resumed sort takes over, or leaves when it fails. Runs in the thread that called
  // the operation.
  std::function<void(const std::string&)> notice = {};
  Mechanism mechanism = Mechanism::automatic;
  bool record_staircases = false;  // measures how full the executor's buckets are
  OptionNames option_names = OptionNames::members;
  OutputRules output_rules = {};
  SourceOptions source = {};  // for inputs that are paths
};

// ---- Results of every operation.

// The measured levels of the buckets on a side of the executor in the steady state, the fullest
// first, as a mean over many steps, beside the theorem's prediction. If there are very many
// streams, each value is the mean of neighbours.
struct Staircase {
  std::string title;
  uint64_t streams = 0;
  uint64_t steps = 0;                   // steps in the mean
  std::vector<double> measured_bytes;   // per stream
  std::vector<double> predicted_bytes;  // empty: there is no theorem for it
};

// Figures of a run, for all its passes together.
struct RunStats {
  double seconds = 0;
  uint32_t passes = 0;  // times that the data are read, at most
  // Bytes read from files as stored, even if compressed, and bytes from sources.
  uint64_t bytes_read = 0;
  // Bytes written to files, and to sinks; an output that is compressed counts before compression.
  uint64_t bytes_written = 0;
  uint64_t temp_bytes = 0;         // written to temporaries
  uint64_t temp_memory_bytes = 0;  // part of them in memory outside of the budget (tmpfs)
  // Times that the disk went to another place: requests that did not begin at the end of the
  // request before, in whatever file. (Several disks count as one.)
  uint64_t seeks = 0;
  MemoryScope memory_scope = MemoryScope::process;
  uint64_t peak_bytes = 0;  // peak of the memory that the budget limits
  uint64_t budget_bytes = 0;
  uint64_t peak_rss_bytes = 0;        // peak of the process since its start
  std::string emulated;               // the emulated device that ran this; empty: none
  std::vector<Staircase> staircases;  // if FilesOptions::record_staircases is set

  // Returns the mean number of bytes between two seeks.
  double run_bytes() const {
    return seeks > 0 ? static_cast<double>(bytes_read + bytes_written) / static_cast<double>(seeks)
                     : 0;
  }
};

// ---- Sort.

// Compression of temporaries, block by block: numbers lose the bits that a block's numbers share;
// records and lines use LZ4.
enum class Compression {
  automatic,  // if the disk is slow and a sample shrinks enough
  never,
  always,  // if the block shrinks; records and lines: by an eighth
};

// The items that `unique` keeps of those with equal keys.
enum class Keep {
  first,     // the first in the order of the inputs
  last,      // the last
  none,      // none: only items whose key no other has
  repeated,  // all of them, and no item whose key no other has
};

struct SortFilesOptions {
  unsigned threads = 2;
  bool stable = false;  // items with equal keys keep their order
  bool unique = false;  // keeps only the first of items with equal keys
  // Other values than `first` imply `unique`, and exclude `resume` and `verify`.
  Keep keep = Keep::first;
  bool merge_only = false;           // the inputs are already sorted
  std::optional<uint64_t> top = {};  // writes only the first items of the output
  // Keeps finished work on the disk until the whole sort is done, so that a later run with the same
  // options continues from there however this one ended. Inputs and output must be files.
  bool resume = false;
  Compression compression = Compression::automatic;  // `resume` turns it off
  // Reads the output back before it appears, and compares it with what was written: bytes, order
  // and number of items. It must be a file; not with `resume` and `merge_only` (unsupported).
  bool verify = false;
};

enum class SortMethod {
  empty,       // nothing to do
  in_memory,   // one pass: it fits
  distribute,  // splits by key ranges into temporaries, then sorts these one by one
  merge,       // merges inputs, or sorted runs of them, directly
  top,         // reads once and keeps only the first items in order
};
const char* name_of(SortMethod method);

// The resource that takes most of a phase's time.
enum class PhaseBound {
  unknown,
  disk,
  processor,
  memory,  // its first use, which costs the system, and a virtual machine's host, time
};
const char* name_of(PhaseBound bound);

// One phase of a run, planned or done.
struct SortPhase {
  std::string name;
  double seconds = 0;  // 0 in a plan: not predicted
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  // Times that the disk went to another place: requests that did not begin at the end of the
  // request before, in whatever file. (Several disks count as one.)
  uint64_t seeks = 0;
  double processor_seconds = 0;  // sum over all threads of the process
  // In a plan only: the disk's time if nothing else took time, and the processor seconds for the
  // first use of memory.
  double disk_seconds = 0;
  double memory_seconds = 0;
  PhaseBound bound = PhaseBound::unknown;

  uint64_t bytes() const { return bytes_read + bytes_written; }
  // Returns the mean number of bytes between two seeks.
  double run_bytes() const {
    return seeks > 0 ? static_cast<double>(bytes()) / static_cast<double>(seeks) : 0;
  }
};

// A sort's plan with another budget.
struct SortAlternative {
  uint64_t memory_bytes = 0;
  SortMethod method = SortMethod::empty;
  uint32_t passes = 0;
  double seconds = 0;
  uint64_t temp_bytes = 0;
};

// The plan of a sort, made before anything is written.
struct SortPlan {
  SortMethod method = SortMethod::empty;
  uint64_t input_bytes = 0;  // 0 with pipes: unknown
  uint32_t buckets = 0;      // buckets of the first split, or fan-in of the first merge
  uint32_t passes = 0;       // times that the data are read
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t temp_bytes = 0;         // peak disk space of temporaries, in all directories together
  uint64_t temp_memory_bytes = 0;  // part of temp_bytes in memory outside of the budget (tmpfs)
  uint64_t spilled_bytes = 0;      // bytes that go to temporaries, before compression
  bool compresses = false;         // compresses temporaries
  uint64_t seeks = 0;              // all phases together
  uint64_t memory_bytes = 0;       // expected peak
  // Smallest budget, to a few per cent, that would save a pass; 0: none that this machine has.
  uint64_t fewer_passes_memory_bytes = 0;
  double seconds = 0;  // all phases together; 0: not predicted
  // Range that holds most runs on an otherwise idle machine.
  double seconds_low = 0;
  double seconds_high = 0;
  std::string why;  // one sentence
  // Phases in their order. Empty with pipes, whose length is unknown.
  std::vector<SortPhase> phases = {};
  // Uses the executor's schedule for the distribution, because the disk seeks slowly.
  bool long_runs = false;
  // The device of the plan, if known. The delay is 0 if the disk was only inspected.
  std::optional<DeviceProfile> device = {};
  // Plans in the order of their memory. Empty if that changes nothing, or the disk is unknown.
  std::vector<SortAlternative> alternatives = {};
  // The disk was not inspected, because that takes longer than such a sort: `device` is a usual
  // one, and decided nothing.
  bool device_is_assumed = false;
};

// The stages of a bucket's bytes, from the moment that it has memory until it has none.
enum class BucketStage { reading, waiting, sorting, writing };
inline constexpr size_t bucket_stages = 4;

// The use of a sort's memory over time. Seconds count from the beginning of the sort.
struct Occupancy {
  struct Bucket {
    uint64_t offset_bytes = 0;  // place in the output
    uint64_t bytes = 0;
    // The times when it got room and when each stage ended. The last stage ends when it is written
    // and its memory is free.
    double begin_s = 0, read_s = 0, waited_s = 0, sorted_s = 0, written_s = 0;
  };
  // Mean memory that each stage held in a bin: [stage][bin].
  std::array<std::vector<double>, bucket_stages> stage_bytes;
  double start_s = 0;  // begin of the first bin
  double bin_s = 0;
  uint64_t memory_bytes = 0;  // memory for buckets
  std::vector<Bucket> buckets;
  uint64_t buckets_seen = 0;  // number of buckets from which `buckets` were chosen
};

struct SortStats : RunStats {
  SortPlan predicted;
  SortMethod method = SortMethod::empty;
  uint64_t items = 0;          // in the output
  uint64_t bytes = 0;          // in the output
  uint64_t spilled_bytes = 0;  // bytes that went to temporaries, before compression
  uint64_t kept_bytes = 0;     // input bytes that skipped temporaries between the phases
  // Disk requests of each phase as measured, in the phases' order.
  std::vector<SortPhase> phases;
  // Seconds of the phases, and of threads within them (which may exceed the clock's).
  std::vector<std::pair<std::string, double>> phase_seconds;
  Occupancy occupancy;
  std::string pool;  // the mechanism used
  std::string engine;
};

// Opens and samples the inputs, and probes the disk with a temporary file if it predicts seconds
// without a device. Sources are unsupported, because they can be read only once. Rows that the sort
// leaves out count.
Result<SortPlan> plan_sort_files(const FilesOptions& files, const SortFilesOptions& options = {});
// Sorts files. With `resume`, the state for a later run is kept after an error.
Result<SortStats> sort_files(const FilesOptions& files, const SortFilesOptions& options = {});
// Writes the first `count` items of the order: sort_files() with `top`.
Result<SortStats> top_items(const FilesOptions& files, uint64_t count,
                            const SortFilesOptions& options = {});

// ---- Check.

struct FileCheck {
  uint64_t count = 0;  // items; a last line without a newline is one too
  // Items whose whole key equals that of the item before. Meaningless in unsorted data.
  uint64_t duplicates = 0;
  // Number, from 0 on, of the first item that belongs before its predecessor.
  std::optional<uint64_t> first_unsorted = {};
  // Hexadecimal. It does not depend on the order: an input and its sorted output have the same
  // checksum. It is a sum modulo 2^128: the checksums of parts add up to that of the whole.
  std::string checksum = {};
  std::string first = {};  // readable keys of the first and the last item
  std::string last = {};
  double seconds = 0;
  MemoryScope memory_scope = MemoryScope::process;
  uint64_t peak_bytes = 0;      // peak of the call, or the process
  uint64_t peak_rss_bytes = 0;  // peak of the process since its start

  bool sorted() const { return !first_unsorted; }
};

// Checks one input, or one source, of `files`; also uses the options `items`, `source`,
// `memory_scope` and `cancel`. Takes about 8 MiB a thread, and memory for decompression.
Result<FileCheck> check_file(const FilesOptions& files, unsigned threads = 2);

// Passes data on to another sink and checks them as check_file() would. Holds an item besides the
// memory of `to`. Thread safety: that of Sink; check() after the last write.
class CheckedSink : public Sink {
 public:
  static Result<std::shared_ptr<CheckedSink>> open(std::shared_ptr<Sink> to,
                                                   const ItemFormat& items);
  // Returns the result. REQUIRES: everything was written. Errors: corrupt if the last item is
  // incomplete.
  virtual Result<FileCheck> check() = 0;
};

// ---- Merge.

struct MergeFilesPlan {
  uint32_t files = 0;  // files that are not empty
  uint32_t passes = 0;
  uint64_t input_bytes = 0;  // 0 with pipes: unknown
  std::string factors;       // fan-ins of the passes: "90 x 89"
  uint64_t temp_bytes = 0;   // peak on disk, besides the output
  uint64_t bytes_read = 0;   // in all passes; 0: unknown, or only the first items are wanted
  uint64_t bytes_written = 0;
  uint64_t seeks = 0;
  double seconds = 0;  // by equation 1 of FilesOptions::device; 0: not predicted
  // The device of the prediction: without FilesOptions::device a published, usual disk (assumed).
  std::string device;
  bool device_is_assumed = false;
};

struct MergeFilesStats : RunStats {
  MergeFilesPlan planned;
  uint64_t items = 0;      // in the output
  uint64_t bytes = 0;      // in the output
  size_t block_bytes = 0;  // in the last pass
};

struct MergeFilesOptions {
  bool unique = false;      // keeps only the first of items with equal keys
  Keep keep = Keep::first;  // other values imply `unique`
  bool stable = false;      // keeps the files' order of lines with equal keys, which may be any
};

// Merges any number of sorted files, in as many passes as the planner finds best. Items with equal
// keys come in the order of the files. Errors: unsorted, with the file and the item.
Result<MergeFilesStats> merge_files(const FilesOptions& files,
                                    const MergeFilesOptions& options = {});

// ---- Partition.

enum class PartitionFilesBy {
  range,  // part j holds items from bound j - 1 on and before bound j
  hash,   // by a hash of the key, the same in all runs and versions (docs/files.md)
  bits,   // by the first bits of the key in its order: 2^bits parts
};

const char* name_of(PartitionFilesBy by);

struct PartitionFilesOptions {
  PartitionFilesBy by = PartitionFilesBy::hash;
  uint32_t parts = 0;            // range with bounds: 0, or the number of bounds plus one
  std::string bounds_path = {};  // range: a file of bounds, in order; empty: from a sample
  bool checksums = false;        // computes FilePart::checksum
};

struct FilePart {
  std::string path;
  uint64_t items = 0;
  uint64_t bytes = 0;
  std::string checksum;  // empty: not requested
};

struct PartitionFilesResult {
  RunStats stats;
  PartitionFilesBy by = PartitionFilesBy::hash;
  std::string format;  // name of the item format
  std::vector<FilePart> parts;
  std::vector<std::string> bounds;  // range: the bounds, readable
};

// Partitions into files named by `output` with the part's number for {}: "part-{}.bin". Each keeps
// the order of the items. No part has its name before all are complete and on the disk.
Result<PartitionFilesResult> partition_files(const FilesOptions& files,
                                             const PartitionFilesOptions& options);

// ---- Slices: a partition whose parts are carried elsewhere.
//
// One file takes all parts, in slices. A slice is a piece of the file with items of one part, in
// the order of the inputs. So a thousand parts need one descriptor, and are read again in requests
// as large as the memory allows. python/penstock/ray/ sorts with them on many machines.

// The beginning of a part: the first item that comes after `item` in the order, or whose key equals
// that of `item` and whose position is at least `position`. So items with equal keys may go to
// several parts.
struct SliceCut {
  std::string item;  // in the inputs' format; the end of a line is optional
  // Bytes of the inputs before an item, without their headers; for rows the number of rows. The
  // last line of an input counts as if it had its end.
  uint64_t position = 0;
};

struct SliceFilesOptions {
  uint32_t parts = 0;               // by hash of the key, as in partition_files(); or:
  std::vector<SliceCut> cuts = {};  // in order; one less than there are parts
  std::vector<bool> wanted = {};    // the parts to write; empty: all
  uint64_t slice_bytes = MiB;       // mean size of a slice, if the memory suffices
};

struct Slice {
  uint32_t part = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct SlicedPart {
  uint64_t items = 0;
  uint64_t bytes = 0;
  std::string checksum;  // see FileCheck
};

struct SliceFilesResult {
  double seconds = 0;
  uint64_t peak_bytes = 0;
  std::vector<Slice> slices;      // in the order of the file
  std::vector<SlicedPart> parts;  // unwanted parts included
};

// Reads the inputs one after the other and writes `output` without headers; the last line of each
// input gets an end. Cuts split lines with equal keys as a stable sort orders them. Errors: corrupt
// if an input is no whole number of items; out_of_memory if a line does not fit in a third of the
// memory.
Result<SliceFilesResult> slice_files(const FilesOptions& files, const SliceFilesOptions& options);

// Returns the items' numbers in the order of a stable sort, to choose cuts from a sample. `header`
// has the header lines of the inputs, if any. Items that break the rules of CSV are left out.
Result<std::vector<uint32_t>> order_items(const ItemFormat& format, const std::string& header,
                                          const std::vector<std::string>& items);

// ---- Group.

// The location of an integer in an item.
struct ValueField {
  uint32_t offset = 0;
  uint32_t bytes = 8;  // 1 to 8
  bool is_signed = false;
  bool big_endian = false;
};

// The groups that have a result, by the number of their items.
enum class GroupsKept { all, once, repeated };

struct Aggregates {
  bool count = false;
  bool sum = false;
  bool min = false;
  bool max = false;
  // Keeps the first item of each key, whole. Excludes the other aggregates, but for `like_uniq`.
  bool distinct = false;
  // Formats results as uniq(1) does, "      3 line". For lines with a count.
  bool like_uniq = false;
  GroupsKept kept = GroupsKept::all;  // for lines, rows and JSON lines
  // The field for sum, min and max. nullopt: the value of kv64, the number itself for integers.
  std::optional<ValueField> value = {};
};

struct GroupFilesOptions {
  Aggregates aggregates = {};
  bool sorted = false;  // by key; otherwise the results come in any order
  // Results come in the order in which their keys came first. For lines, rows and JSON lines, with
  // `count` or `distinct` alone; one thread works.
  bool in_order = false;
  // Keeps only this many results with the highest counts, descending; equal counts are ordered by
  // key. Needs `count`, and not `sorted`.
  std::optional<uint64_t> top = {};
  // Fields, columns or members of lines, rows and JSON lines for the flags sum, min and max: "3", "price". They hold
  // decimal numbers of up to 38 digits; empty ones are skipped, and so are null and missing members.
  std::vector<std::string> columns = {};
  // Results of single columns, in the order of their fields: "sum=price", "quantile=0.9:price". The
  // functions are sum, mean, min, max, stddev (of a sample), median and quantile, of numbers; and
  // first, last and count-distinct, of texts. They are exact; a quotient or root is rounded once.
  // Without keys they are of all rows. Different members are those that would be different keys.
  std::vector<std::string> results = {};
  // The most threads; more than 8 count as 8. Several work if results have an order, and input and
  // budget are large enough.
  unsigned threads = 2;
};

struct GroupFilesStats : RunStats {
  uint64_t items = 0;   // in the inputs
  uint64_t groups = 0;  // in the output
  uint64_t bytes = 0;   // in the output
  // Fields of the columns in `columns` and `results` that were empty, and so skipped.
  uint64_t empty_values = 0;
  uint32_t buckets = 0;  // buckets of the first split, or sorted runs; 0: all groups fitted
};

// Writes one result for each key: the key, and 8 bytes for each requested aggregate, in the order
// count, sum, min, max. For lines it is the count in decimal digits, a tab, and the line. Results
// of lines with keys and of rows come in the order of their keys: for lines the count, the keys and
// the values of columns, for rows the keys, the count and the values, under a header. A result of JSON
// lines is an object of the same. Rows and JSON lines without keys are one group, and lines without
// keys if there are `results`. Errors:
// unsupported with the key if a sum exceeds 64 bits; out_of_memory if an eighth of the memory
// cannot hold the `top` results.
Result<GroupFilesStats> group_files(const FilesOptions& files, const GroupFilesOptions& options);

// ---- Join.

struct JoinFilesOptions {
  // Record length and key of the right side, if they differ from the left side's.
  std::optional<uint32_t> right_record_bytes = {};
  std::optional<std::string> right_key = {};
};

struct JoinFilesStats : RunStats {
  uint64_t items = 0;  // in the output
  uint64_t bytes = 0;
};

// Joins two sorted inputs by key: each pair of items with equal keys, one from each side, becomes
// one item, the left one followed by the right one without its key. Errors: unsorted, with the file
// and the item; out_of_memory with the key if neither side's items with it fit.
Result<JoinFilesStats> join_files(const FilesOptions& files, const JoinFilesOptions& options = {});

// ---- Join of lines, like join(1) of POSIX and GNU.

struct JoinLinesOptions {
  // The fields or columns to join by, of the left side, which is the first one, and of all others,
  // as many on both: "2", and for columns "price", "price:n".
  std::array<std::vector<std::string>, 2> keys = {{{"1"}, {"1"}}};
  bool ignore_case = false;
  bool pairs = true;               // writes pairs
  std::array<bool, 2> alone = {};  // also writes unpaired lines of the left side, and of the others
  // Writes each chosen line of the left side once, as it is: those with a pair if `pairs`, and those
  // without if alone[0]. `list` may choose fields of the left side.
  bool first_only = false;
  // The output's fields: "0" is the key, "1.2" the left side's second field, "2.price" the second
  // side's column. Empty: the key and all other fields. "auto": the same, with as many fields as
  // the first line of each side has.
  std::string list = {};
  std::string empty = {};      // written for empty or missing fields
  bool inputs_sorted = false;  // otherwise unsorted inputs are sorted first
};

struct JoinLinesStats : RunStats {
  uint64_t items = 0;  // in the output, without its header
  uint64_t bytes = 0;
  uint32_t sorted_inputs = 0;  // inputs that had to be sorted
};

// Joins two or more inputs of lines, or of rows of CSV with a header of at most one line, in any
// order, by fields. ItemFormat::separator separates fields; if it is the end of lines, a line is
// one field. Lines with equal keys come in the order of their files, each left one with all others.
// More than two are joined from left to right; then `pairs` are lines that all sides have, and
// alone[1] needs alone[0]. Errors: as join_files().
Result<JoinLinesStats> join_lines(const FilesOptions& files, const JoinLinesOptions& options = {});

// ---- Items taken as they are: the first ones, a sample, all in random order, or in parts.

struct DrawFilesOptions {
  // The most items of the output; nullopt: 10 for head_files(), all for shuffle_files().
  std::optional<uint64_t> count = {};
  // Chooses the items and their order, whatever the memory and the threads; nullopt: by chance.
  std::optional<uint64_t> seed = {};
  unsigned threads = 2;  // shuffle_files()
};

struct DrawFilesStats : RunStats {
  uint64_t items = 0;  // in the output, without its header
  uint64_t bytes = 0;
};

// Writes the first items of the inputs together, after the header, and reads little more.
Result<DrawFilesStats> head_files(const FilesOptions& files, const DrawFilesOptions& options = {});

// Writes a random sample of the items, in their order: each set of `count` items is equally likely.
// Reads the inputs once. Errors: out_of_memory if the budget does not hold the sample.
Result<DrawFilesStats> sample_files(const FilesOptions& files, const DrawFilesOptions& options);

// Writes the items in random order, by a sort that puts a random key in front of each; `count`: only
// so many of them.
Result<DrawFilesStats> shuffle_files(const FilesOptions& files,
                                     const DrawFilesOptions& options = {});

// Exactly one is set.
struct SplitFilesOptions {
  std::optional<uint64_t> items = {};  // items of a part
  std::optional<uint64_t> bytes = {};  // the most bytes of a part, unless one item has more
};

struct SplitFilesResult {
  RunStats stats;
  std::vector<FilePart> parts;  // without checksums
};

// Writes the items in their order to files named by `output` with the part's number, of five digits,
// for {}: "part-{}.csv". Each part begins with the header. No part has its name before all are
// complete and on the disk. An input without items makes no part, unless it has a header.
Result<SplitFilesResult> split_files(const FilesOptions& files, const SplitFilesOptions& options);

// ---- Results as JSON: one object, as --json prints it. Fields never change their meaning while
// its "version" stays.

std::string to_json(const SortPlan& plan);
std::string to_json(const SortStats& stats);
// `file` is the file's name in the JSON.
std::string to_json(const FileCheck& check, const std::string& file, const ItemFormat& items);
std::string to_json(const MergeFilesStats& stats);
std::string to_json(const PartitionFilesResult& result);
std::string to_json(const SliceFilesResult& result);
std::string to_json(const GroupFilesStats& stats);
std::string to_json(const JoinFilesStats& stats);
std::string to_json(const JoinLinesStats& stats);

}  // namespace penstock
