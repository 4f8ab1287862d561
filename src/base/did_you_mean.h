#pragma once

// Suggestions for misspelt words: options, commands, columns, files.

#include <span>
#include <string>
#include <string_view>

namespace penstock {

// Returns the name that a misspelt word most likely means: at most a third of the word's letters
// differ besides their case, or one more if the name begins with the word. Empty if there is none.
std::string_view nearest_name(std::string_view word, std::span<const std::string> names);

// Returns " (did you mean --output?)", with the name as one types it, or nothing if no name is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace penstock
