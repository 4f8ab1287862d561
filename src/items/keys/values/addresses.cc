#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "items/keys/values/scanner.h"
#include "items/keys/values/values.h"

// The bytes of an address: 4 or 6, the address, the length of its prefix.

namespace penstock::items {

bool append_address(std::string_view text, std::string& to) {
  text = without_blanks(text);
  const size_t slash = std::min(text.find('/'), text.size());
  std::array<char, INET6_ADDRSTRLEN> written{};  // ends with a NUL
  if (slash >= written.size() || text.contains('\0')) return false;
  std::memcpy(written.data(), text.data(), slash);
  const bool is_6 = text.contains(':');
  std::array<char, sizeof(in6_addr)> address{};
  if (inet_pton(is_6 ? AF_INET6 : AF_INET, written.data(), address.data()) != 1) return false;
  const size_t bytes = is_6 ? sizeof(in6_addr) : sizeof(in_addr);
  auto prefix_bits = static_cast<unsigned>(8 * bytes);
  if (slash < text.size()) {
    const unsigned bits_max = prefix_bits;
    Scanner rest(text.substr(slash + 1));
    if (!rest.number(prefix_bits, 1, 3) || !rest.is_at_end() || prefix_bits > bits_max)
      return false;
  }
  to.push_back(is_6 ? 6 : 4);
  to.append(address.data(), bytes);
  to.push_back(static_cast<char>(prefix_bits));
  return true;
}

}  // namespace penstock::items
