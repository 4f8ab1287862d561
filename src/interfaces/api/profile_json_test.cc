#include "interfaces/api/profile_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::api {
namespace {

using bowtie::DeviceProfile;
using bowtie::SwitchDelay;
using Json = nlohmann::ordered_json;

std::string text_of(const DeviceProfile& profile) {
  return profile_json({profile, ""}, nullptr).dump();
}

void expect_equal(const DeviceProfile& a, const DeviceProfile& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.read_bytes_per_s, b.read_bytes_per_s);
  EXPECT_EQ(a.write_bytes_per_s, b.write_bytes_per_s);
  EXPECT_EQ(a.cache_bytes, b.cache_bytes);
  for (uint32_t n : {0u, 1u, 5u, 64u, 1000u}) {
    for (uint32_t m : {0u, 1u, 5u, 64u, 1000u}) {
      EXPECT_EQ(a.switch_seconds.at(n, m), b.switch_seconds.at(n, m));
    }
  }
}

TEST(ProfileJson, ASavedProfileIsLoadedUnchanged) {
  DeviceProfile profile = bowtie::paper_array();
  profile.switch_seconds =
      *SwitchDelay::table({1, 8}, {1, 8, 64}, {0, 1e-3, 2e-3, 1e-3, 2e-3, 3e-3});
  for (const DeviceProfile& each : {bowtie::paper_array(), profile}) {
    const auto loaded = parse_profile(text_of(each), "x.json");
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
    expect_equal(loaded->profile, each);
    EXPECT_EQ(loaded->emulated, "");
  }
  const auto emulated =
      parse_profile(profile_json({profile, "as if"}, Json{{"seconds", 1}}).dump(2), "x.json");
  ASSERT_TRUE(emulated.has_value());
  EXPECT_EQ(emulated->emulated, "as if");
}

TEST(ProfileJson, ShortNamesAndFullOnesAreKnown) {
  EXPECT_EQ(load_device("array24")->profile.name, "paper-array");
  EXPECT_EQ(load_device("hdd")->profile.name, "hard-disk");
  EXPECT_EQ(load_device("nvme")->profile.name, "nvme-ssd");
  for (const DeviceProfile& profile : bowtie::published_profiles()) {
    EXPECT_EQ(load_device(profile.name)->profile.name, profile.name);
  }
  const auto unknown = load_device("tape");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().hint.find("array24"), std::string::npos);
  EXPECT_FALSE(load_device("/no/such/profile.json").has_value());
  EXPECT_FALSE(load_device("/").has_value());
}

// Each case is an error and the words that the message must contain.
TEST(ProfileJson, BadFilesAreDistinguished) {
  const Json good = profile_json({bowtie::paper_array(), ""}, nullptr);
  struct Case {
    std::function<void(Json&)> spoil;
    const char* told;
  };
  const Case cases[] = {
      {[](Json& json) { json.erase("kind"); }, "it is none"},
      {[](Json& json) { json = Json::array(); }, "it is none"},
      {[](Json& json) { json["version"] = 2; }, "it has version 2"},
      {[](Json& json) { json.erase("version"); }, "version is missing"},
      {[](Json& json) { json.erase("read_bytes_per_s"); }, "read_bytes_per_s is missing"},
      {[](Json& json) { json["read_bytes_per_s"] = "fast"; }, "read_bytes_per_s is no number"},
      {[](Json& json) { json["write_bytes_per_s"] = 0; }, "must be positive"},
      {[](Json& json) { json.erase("switch_seconds"); }, "switch_seconds is missing"},
      {[](Json& json) { json["switch_seconds"] = -1; }, "must not be negative"},
      {[](Json& json) { json["switch_seconds"] = "slow"; }, "neither a number nor a table"},
      {[](Json& json) { json["switch_seconds"] = Json::object(); }, "inputs is missing"},
      {[](Json& json) { json["switch_seconds"] = {{"inputs", 3}}; }, "inputs is no list"},
      {[](Json& json) {
         json["switch_seconds"] = {{"inputs", {1, 2}}, {"outputs", {1}}, {"seconds", {{1}}}};
       },
       "a row for each n"},
      {[](Json& json) {
         json["switch_seconds"] = {{"inputs", {1}}, {"outputs", {1, 2}}, {"seconds", {{1}}}};
       },
       "a value for each m"},
      {[](Json& json) {
         json["switch_seconds"] = {{"inputs", {2, 1}}, {"outputs", {1}}, {"seconds", {{1}, {1}}}};
       },
       "must rise"},
      {[](Json& json) {
         json["switch_seconds"] = {{"inputs", {-1}}, {"outputs", {1}}, {"seconds", {{1}}}};
       },
       "whole number"},
      {[](Json& json) { json["cache_bytes"] = 1.5; }, "cache_bytes is no whole number"},
      {[](Json& json) { json["name"] = 7; }, "name is no text"},
      {[](Json& json) { json["emulated"] = true; }, "emulated is no text"},
  };
  ASSERT_TRUE(parse_profile(good.dump(), "x.json").has_value());
  for (const Case& spoilt : cases) {
    Json json = good;
    spoilt.spoil(json);
    const auto loaded = parse_profile(json.dump(), "x.json");
    ASSERT_FALSE(loaded.has_value()) << json.dump(2);
    EXPECT_EQ(loaded.error().code, ErrorCode::corrupt);
    EXPECT_NE(loaded.error().message().find(spoilt.told), std::string::npos)
        << loaded.error().message() << "\nwanted: " << spoilt.told;
    EXPECT_NE(loaded.error().message().find("x.json"), std::string::npos);
  }
  for (const char* text : {"", "{", "[]", "7", "\xff\xfe", "{\"kind\": \"\xff\"}"}) {
    EXPECT_FALSE(parse_profile(text, "x.json").has_value()) << text;
  }
}

}  // namespace
}  // namespace penstock::api
