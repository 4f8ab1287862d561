#pragma once

// Notices about the inputs of a run, from their beginnings. Each is empty if there is no reason for
// it.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/beginnings.h"
#include "penstock/files.h"

namespace penstock::cli {

struct InputNotices {
  bool orders = false;  // numbers that are compared as text, if the run orders
  bool groups = false;  // keys of lines that go on to the line's end, if the run groups
  bool header = true;   // a header that counts as data, and does not stay in front
  bool keys = true;     // the command has --key
  // The run counts values that keys cannot read, and gives a notice at its end. Only a long run has
  // one at its beginning, too, so that it can be stopped early.
  bool counts_odd_values = false;
};
// Returns the notices, without empty ones: bytes that are no text, a table that was recognized and
// the usual length of records (on a terminal), standard input that is a terminal, values that are
// no numbers in numeric columns, fields that blanks do not separate, and those that are `wanted`.
// Looks at the first 16 inputs; an only one that is a pipe is waited for.
std::vector<std::string> input_notices(const FilesOptions& files, Beginnings& beginnings,
                                       const InputNotices& wanted);

// Prints them on stderr, for commands without a progress line.
void print_notices(std::string_view command, const std::vector<std::string>& notices);

// The first value such as "$30" or "n/a" that its key cannot read, at the beginning of an input.
std::string number_notice(const FilesOptions& files, Beginnings& beginnings);

// An input whose first line has no such field, because blanks separate fields, but has it with a
// comma, a semicolon or a bar as the separator. `single`: a key of a field alone causes a notice as
// well if all of the line is one field. A file whose name is that of CSV needs no such reason. `hint`
// returns what to try in place of -t, or nothing.
std::string field_notice(const FilesOptions& files, Beginnings& beginnings,
                         const std::string& input, const std::vector<std::string>& keys,
                         bool single, const std::function<std::string()>& hint = {});

// A key of lines such as "3", which goes on to the line's end, if the first line of the first input
// has fields after it.
std::string open_key_notice(const FilesOptions& files, Beginnings& beginnings);

// The first of the members that `keys` of `option` name which no line of JSON at the beginning of
// the inputs has, with names that the first line has. (Such a member is missing in all lines, or
// comes late. A pipe shows a part of its lines that depends on the time, and causes no notice.)
std::string member_notice(const FilesOptions& files, Beginnings& beginnings,
                          const std::vector<std::string>& inputs, const std::string& option,
                          const std::vector<std::string>& keys);

}  // namespace penstock::cli
