#include "trace/calls/call_table.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "trace/capture/bpf/call_shapes.h"
#include "trace/capture/decoded_call.h"
#include "trace/format/format.h"
#include "trace/import/import.h"

namespace penstock::trace {
namespace {

constexpr int8_t none = CallArguments::none;

TEST(CallTable, NamesAndNumbersAreUnique) {
  std::set<std::string_view> names;
  std::set<int32_t> numbers;
  for (const CallRow& row : call_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.number == CallRow::no_number || numbers.insert(row.number).second) << row.name;
    EXPECT_NE(row.effect, Effect::nothing) << row.name;
    EXPECT_EQ(row.at.letters.find_first_not_of("-dDnofcwpWPaAs"), row.name.npos) << row.name;
  }
  EXPECT_EQ(captured_call(SYS_pread64)->name, "pread64");
  EXPECT_EQ(captured_call(SYS_io_uring_enter)->number, SYS_io_uring_enter);
  EXPECT_EQ(captured_call(SYS_getpid), nullptr);
  EXPECT_EQ(captured_call(~uint64_t{0}), nullptr);
}

// Returns a call with arguments that make it relevant.
SystemCall interesting(const CallRow& row) {
  SystemCall call{.number = static_cast<uint64_t>(row.number), .arguments = {3, 3, 3, 3, 3, 3}};
  if (row.commands[0] != row.commands[1]) {
    call.arguments[static_cast<size_t>(row.at.operation)] = row.commands[2];
  }
  return call;
}

TEST(CallTable, CapturesHaveEachRowOrAReason) {
  const auto settings = std::make_unique<kernel::Settings>();
  fill_settings(*settings, false);
  for (const CallRow& row : call_table()) {
    if (!row.not_captured.empty()) {
      EXPECT_EQ(row.number, CallRow::no_number) << row.name;
      continue;
    }
#ifdef __x86_64__
    ASSERT_NE(row.number, CallRow::no_number) << row.name;
#endif
    if (row.number == CallRow::no_number) continue;
    const auto number = static_cast<uint64_t>(row.number);
    EXPECT_EQ(captured_call(number), &row);
    EXPECT_EQ(decode(interesting(row)).effect, row.effect) << row.name;
    EXPECT_EQ(settings->calls[number].what != 0, row.not_by_bpf.empty()) << row.name;
  }
}

// Returns strace's line for a call that succeeds, with values that fit the arguments' letters.
std::string line_of(const CallRow& row, std::string_view name) {
  const CallArguments& at = row.at;
  std::vector<std::string> arguments;
  const auto put = [&](int8_t index, const std::string& text) {
    if (index == none) return;
    if (arguments.size() <= static_cast<size_t>(index)) {
      arguments.resize(static_cast<size_t>(index) + 1, "0");
    }
    arguments[static_cast<size_t>(index)] = text;
  };
  put(at.descriptor, "3</d/a>");
  put(at.descriptor2, row.effect == Effect::copy ? "4</d/b>" : "9");
  put(at.bytes, "1");
  put(at.offset, "0");
  put(at.flags, row.commands[0] == row.commands[1] ? "O_RDONLY" : "FD_CLOEXEC");
  put(at.operation, row.effect == Effect::set_flags ? "F_SETFD" : "PROT_READ");
  for (const int8_t folder : {at.folder, at.folder2}) put(folder, "AT_FDCWD</d>");
  put(at.path, "\"/d/a\"");
  put(at.path2, "\"/d/c\"");
  for (const int8_t address : {at.offset_at, at.offset2_at}) put(address, "[0]");
  put(at.structure, row.effect == Effect::seek ? "[1]"
                                               : "{flags=O_RDONLY, st_mode=S_IFREG, st_size=1, "
                                                 "stx_mode=S_IFREG, stx_size=1}");
  if (row.effect == Effect::make_descriptors) put(0, "[7, 8]");
  std::string line = "12 " + std::string(name) + "(";
  for (size_t i = 0; i < arguments.size(); ++i) line += (i == 0 ? "" : ", ") + arguments[i];
  const bool opens = row.effect == Effect::open;
  return line + (opens ? ") = 5</d/a>\n" : row.effect == Effect::duplicate ? ") = 6\n" : ") = 1\n");
}

// Returns the calls of a log's events behind its first two lines, which introduce the files.
std::set<Call> calls_of(const std::string& line) {
  const std::string log = "12 read(3</d/a>, \"\", 1) = 0\n12 read(4</d/b>, \"\", 1) = 0\n" + line;
  std::set<Call> calls;
  auto trace = trace_of_text(log, LogKind::strace);
  EXPECT_TRUE(trace) << line;
  std::vector<Event> events(64);
  const auto read = trace->next(events);
  EXPECT_TRUE(read) << line << (read ? "" : read.error().message());
  for (size_t i = 4; read && i < *read; ++i) calls.insert(events[i].call);
  return calls;
}

TEST(CallTable, LogsHaveEachRowOrAReason) {
  for (const CallRow& row : call_table()) {
    EXPECT_EQ(logged_call(row.name), row.not_in_logs.empty() ? &row : nullptr) << row.name;
    std::set<Call> calls = calls_of(line_of(row, row.name));
    calls.erase(Call::exit);
    const auto effect = static_cast<Call>(row.effect);
    const bool is_event = !name_of(effect).empty() && row.effect != Effect::ring_setup;
    if (row.effect == Effect::truncate_path) {
      EXPECT_TRUE(calls.contains(Call::truncate));
    } else if (row.not_in_logs.empty() && is_event) {
      EXPECT_TRUE(calls.contains(effect)) << line_of(row, row.name);
    } else {
      EXPECT_TRUE(calls.empty()) << line_of(row, row.name);
    }
  }
}

TEST(CallTable, OtherNamesLeadToTheirRow) {
  EXPECT_EQ(logged_call("dup4"), nullptr);
  EXPECT_EQ(logged_call("pread"), logged_call("pread64"));
  EXPECT_EQ(logged_call("lstat64"), logged_call("lstat"));
  EXPECT_EQ(logged_call("clone3"), logged_call("fork"));
  EXPECT_EQ(logged_call("pidfd_open"), logged_call("socket"));
  EXPECT_EQ(logged_call("accept accept4"), nullptr);
}

TEST(CallTable, ProgramOfExecveatIsItsSecondArgument) {
  auto trace = trace_of_text("12 execveat(3</d>, \"prog\", [\"x\"], 0x1 /* 2 vars */, 0) = 0\n",
                             LogKind::strace);
  ASSERT_TRUE(trace);
  Event event;
  ASSERT_EQ(trace->next({&event, 1}).value_or(0), 1u);
  EXPECT_EQ(event.call, Call::exec);
  EXPECT_EQ(trace->string(event.path), "prog");
}

}  // namespace
}  // namespace penstock::trace
