#pragma once

// Whether this program is built with a sanitizer that keeps a shadow of the address space: it needs
// mappings of its own, and the largest reservations do not fit beside the shadow. For tests, for
// messages, and for how far reservations reach; nothing else behaves differently.

namespace penstock::os {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool shadowed = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool shadowed = true;
#else
inline constexpr bool shadowed = false;
#endif
#else
inline constexpr bool shadowed = false;
#endif

}  // namespace penstock::os
