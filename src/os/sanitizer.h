#pragma once

// Constants for builds with a sanitizer, for tests, messages, and the size of reservations; nothing
// else behaves differently.

namespace penstock::os {

#ifdef __has_feature
inline constexpr bool thread_sanitized = __has_feature(thread_sanitizer);
inline constexpr bool address_sanitized = __has_feature(address_sanitizer);
inline constexpr bool undefined_sanitized = __has_feature(undefined_behavior_sanitizer);
#else
inline constexpr bool undefined_sanitized = false;  // gcc does not tell
#ifdef __SANITIZE_THREAD__
inline constexpr bool thread_sanitized = true;
#else
inline constexpr bool thread_sanitized = false;
#endif
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool address_sanitized = true;
#else
inline constexpr bool address_sanitized = false;
#endif
#endif

// True with a sanitizer that keeps a shadow of the address space: it needs mappings of its own, and
// the largest reservations do not fit beside the shadow.
inline constexpr bool shadowed = thread_sanitized || address_sanitized;
inline constexpr bool sanitized = shadowed || undefined_sanitized;

}  // namespace penstock::os
