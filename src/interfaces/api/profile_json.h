#pragma once

// Device profiles as files. docs/disks.md describes the format.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "files/bowtie/device_measurement.h"
#include "files/bowtie/device_profile.h"

namespace penstock::api {

// A saved profile and its origin.
struct ProfileFile {
  bowtie::DeviceProfile profile;
  std::string emulated;  // the emulation, if the disk was not real
};

// The profile as JSON; `measurement` (its origin) may be null. Reading ignores it and unknown
// names.
nlohmann::ordered_json profile_json(const ProfileFile& file,
                                    const nlohmann::ordered_json& measurement);
nlohmann::ordered_json measurement_json(const bowtie::Measurement& measurement);

// `subject` is for messages. Errors: corrupt, with the field and its error.
Result<ProfileFile> parse_profile(const std::string& text, const std::string& subject);

// Loads the value of --device: a published profile, by its short or full name, or a file.
Result<ProfileFile> load_device(const std::string& name);

}  // namespace penstock::api
