#pragma once

// Device profiles as files. docs/disks.md describes the format.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "files/bowtie/device_measurement.h"
#include "files/bowtie/device_profile.h"

namespace penstock::api {

// What a saved profile says beside the profile itself.
struct ProfileFile {
  bowtie::DeviceProfile profile;
  std::string emulated;  // how, if the disk was not a real one
};

// The profile as JSON; `measurement` (how it was found) may be null. Reading ignores it, and all
// names that it does not know.
nlohmann::ordered_json profile_json(const ProfileFile& file,
                                    const nlohmann::ordered_json& measurement);
nlohmann::ordered_json measurement_json(const bowtie::Measurement& measurement);

// `subject` is for messages. Errors: corrupt, with what is wrong in which field.
Result<ProfileFile> parse_profile(const std::string& text, const std::string& subject);

// What --device names: a published profile (array24, hdd, sata-ssd, nvme, or as it calls itself),
// or a file.
Result<ProfileFile> load_device(const std::string& name);

}  // namespace penstock::api
