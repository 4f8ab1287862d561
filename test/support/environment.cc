#include "test/support/environment.h"

#include <cstdio>
#include <cstdlib>

#include "io/emulation.h"
#include "test/support/injection.h"

namespace penstock::io {

Status obey_environment() {
  if (const char* text = std::getenv("PENSTOCK_INJECT"); text != nullptr) {
    const auto injection = Injection::parse(text);
    if (!injection) return std::unexpected(injection.error());
    inject(*injection);
  }
  if (const char* text = std::getenv("PENSTOCK_EMULATE"); text != nullptr && *text != 0) {
    const auto device = EmulatedDevice::parse(text);
    if (!device) return std::unexpected(device.error());
    emulate(*device);
    std::fprintf(stderr, "penstock: %s (PENSTOCK_EMULATE)\n", device->describe().c_str());
  }
  return {};
}

}  // namespace penstock::io
