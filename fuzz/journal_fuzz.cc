#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "check.h"
#include "files/sort/resume/resume_journal.h"

// Fuzzing the journal of a sort that can be resumed:
//
//   byte 0   even: the rest is an unchanged file. Odd: entries with right checks. 3 modulo 4: behind
//            a right `begin`, without which no entry counts. For each entry:
//   byte     kind
//   byte     bytes of the payload, in units of 4; 255: the usual size of the kind
//   rest     payload
//
// The entries read must be consistent, and none behind `end` may count.

namespace penstock::external {
namespace {

// An empty file, in memory if there is a file system for it.
class Scratch {
 public:
  Scratch()
      : path_((::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") +
              std::string("/penstock-journal-fuzz-") + std::to_string(::getpid())),
        fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    require(fd_ >= 0, "a file to try in");
  }
  ~Scratch() {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const int fd_;
};

// Payload sizes by kind, as in resume_journal.cc; the shortest one of kinds that vary.
constexpr size_t usual_bytes[] = {0, 24, 52, 72, 8, 4, 56, 32, 8};

void write_entries(const std::string& path, bool begins_right, std::string_view input) {
  auto journal = Journal::open(path);
  require(journal.has_value(), "a journal that is new");
  if (begins_right) {
    const ResumeState begin{.version = ResumeState::present_version,
                            .purpose = "u64",
                            .inputs = {{.path = "/a", .identity = {}}},
                            .folders = {"/t"},
                            .part = "/o"};
    require(write_begin(*journal, begin).has_value(), "begin");
  }
  while (input.size() >= 2) {
    const auto kind = static_cast<uint32_t>(static_cast<unsigned char>(input[0]));
    const auto units = static_cast<unsigned char>(input[1]);
    const size_t bytes =
        units == 255 && kind < std::size(usual_bytes) ? usual_bytes[kind] : size_t{4} * units;
    const std::string_view payload = input.substr(2, bytes);
    require(journal->append(kind, payload).has_value(), "append");
    input.remove_prefix(2 + payload.size());
  }
  require(journal->commit().has_value(), "commit");
}

void check(const ResumeState& state) {
  for (const auto& [id, split] : state.splits) {
    require(split.number < state.next_split || state.next_split > 0, "the number of a split");
    require(split.block_bytes > 0, "blocks of a split");
    for (const ResumeBucket& bucket : split.buckets) {
      require(bucket.blocks.size() == bucket.checks.size(), "a check for each block");
      require(bucket.part < std::max(split.parts, 1u), "the part of a bucket");
    }
  }
  for (const auto& [id, done] : state.done)
    require(done.offset <= state.output_bytes, "where a bucket stands in the output");
}

}  // namespace
}  // namespace penstock::external

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::external;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Scratch scratch;
  if (data[0] % 2 == 1) {
    write_entries(scratch.path(), data[0] % 4 == 3, rest);
  } else {
    penstock::require(
        ::pwrite(scratch.fd(), rest.data(), rest.size(), 0) == static_cast<ssize_t>(rest.size()),
        "write");
  }
  auto journal = Journal::open(scratch.path());
  if (!journal) return 0;
  Journal::Position end;
  const auto state = read_steps(*journal, end);
  if (!state) return 0;
  check(*state);
  penstock::require(journal->cut(end).has_value(), "cut");
  // The journal, opened again, has exactly these entries.
  *journal = Journal();
  auto again = Journal::open(scratch.path());
  penstock::require(again.has_value(), "open once more");
  Journal::Position same;
  const auto reread = read_steps(*again, same);
  penstock::require(reread.has_value() && same.offset == end.offset && same.check == end.check,
                    "the same end");
  penstock::require(reread->splits.size() == state->splits.size() || state->version == 0,
                    "the same splits");
  penstock::require(reread->done.size() == state->done.size() &&
                        (reread->output_bytes == state->output_bytes || state->version == 0),
                    "the same buckets that are done");
  return 0;
}
