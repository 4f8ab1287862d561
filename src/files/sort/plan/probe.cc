#include "files/sort/plan/probe.h"

#include "files/bowtie/device_measurement.h"

namespace penstock::external {

Result<DiskSpeed> probe_disk(const std::string& directory, const DiskProbe& probe) {
  auto device = bowtie::FileDevice::open({.directory = directory,
                                          .bytes = probe.bytes,
                                          .zones = 1,
                                          .request_bytes = probe.request_bytes,
                                          .depth = probe.depth,
                                          .reserve = false,
                                          .direct_only = false});
  if (!device) return std::unexpected(device.error());
  auto write = (*device)->scan(0, io::Operation::write);
  if (!write) return std::unexpected(write.error());
  auto read = (*device)->scan(0, io::Operation::read);
  if (!read) return std::unexpected(read.error());
  return DiskSpeed{.write_bytes_per_s = *write, .read_bytes_per_s = *read};
}

}  // namespace penstock::external
