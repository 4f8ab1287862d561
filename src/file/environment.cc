#include "file/environment.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/misuse.h"
#include "file/emulation.h"
#include "file/injection.h"
#include "os/process.h"

namespace penstock::file {

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
  if (const char* text = std::getenv("PENSTOCK_CORE_DUMPS"); text != nullptr && *text != 0) {
    if (std::string_view(text) != "without-memory")
      return misuse("dump cores in this way", std::string("PENSTOCK_CORE_DUMPS=") + text,
                    "without-memory");
    return os::keep_memory_out_of_core_dumps();
  }
  return {};
}

}  // namespace penstock::file
