#pragma once

// Advice for errors that come without any: the "(try: ...)" of their messages. Hints that need the
// library's knowledge are made by the library; those that follow from an error's code and subject
// are made here.

#include <string_view>

#include "penstock/base.h"

namespace penstock::cli {

// Returns the error as the program prints it: with a hint if one is known, and with names that
// people use. A subject that is `command` itself, which begins the message, is left out. An empty
// command is GNU sort, whose messages scripts read: names stay, and no files are suggested.
Error with_hint(Error error, std::string_view command);

}  // namespace penstock::cli
