#include "generate/generator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/random.h"
#include "generate/lines.h"
#include "generate/sort_benchmark.h"
#include "items/keys/codec.h"

// Each distribution times each numeric type would be more than a hundred loops. Instead an input is
// made in two steps, over blocks small enough for the cache: the distribution makes 64-bit words,
// and the type makes numbers of them. The meaning of a word depends on the distribution:
//   bits    the bits of the number; of a float with the exponent of NaN or infinity one exponent
//           bit is flipped, so that it becomes finite
//   raw     the bits of the number, whatever they mean
//   key     the number's key (codec.h), so that order of words is order of numbers in every type
//   value   a natural number: taken modulo 2^width for integers, rounded for floats

namespace penstock::generate {

using namespace items;
namespace {

using D = Distribution;

struct DistributionName {
  std::string_view name;
  Distribution distribution;
};

constexpr std::array<DistributionName, 18> distribution_names = {
    {{"uniform", D::uniform},
     {"sorted", D::sorted},
     {"reverse", D::reverse},
     {"all-equal", D::all_equal},
     {"almost-sorted", D::almost_sorted},
     {"sorted-tail", D::sorted_tail},
     {"rootdup", D::rootdup},
     {"twodup", D::twodup},
     {"eightdup", D::eightdup},
     {"zipf", D::zipf},
     {"exponential", D::exponential},
     {"bexp", D::bexp},
     {"low-bits-only", D::low_bits_only},
     {"high-bit-zero", D::high_bit_zero},
     {"one-bucket", D::one_bucket},
     {"nan-mix", D::nan_mix},
     {"common-prefix", D::common_prefix},
     {"empty-heavy", D::empty_heavy}}};

constexpr std::array float_distributions = {
    D::uniform,       D::sorted,        D::reverse,     D::all_equal,
    D::almost_sorted, D::sorted_tail,   D::rootdup,     D::twodup,
    D::eightdup,      D::zipf,          D::exponential, D::bexp,
    D::low_bits_only, D::high_bit_zero, D::one_bucket,  D::nan_mix};
constexpr std::array line_distributions = {
    D::uniform, D::sorted, D::reverse, D::all_equal, D::zipf, D::common_prefix, D::empty_heavy};

constexpr uint64_t golden = 0x9e3779b97f4a7c15u;
constexpr uint64_t count_max = uint64_t{1} << 60;
constexpr uint64_t zipf_ranks_max = uint64_t{1} << 32;
constexpr size_t block_items = 512;
constexpr uint64_t shared_top_bits = 16;  // one-bucket: leading bits that all keys have in common

uint64_t root_of(uint64_t value) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root > value) --root;
  while ((root + 1) * (root + 1) <= value) ++root;
  return root;
}

// Returns factor * factor mod modulus.
uint64_t square(uint64_t factor, uint64_t modulus) {
  if (modulus <= uint64_t{1} << 32) return factor * factor % modulus;
  return static_cast<uint64_t>(static_cast<__uint128_t>(factor) * factor % modulus);
}

uint64_t high_half(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>((static_cast<__uint128_t>(a) * b) >> 64);
}

enum class Meaning { bits, raw, key, value };

Meaning meaning_of(Distribution distribution) {
  switch (distribution) {
    case D::sorted:
    case D::reverse:
    case D::almost_sorted:
    case D::sorted_tail:
      return Meaning::key;
    case D::rootdup:
    case D::twodup:
    case D::eightdup:
    case D::zipf:
    case D::exponential:
      return Meaning::value;
    case D::nan_mix:
      return Meaning::raw;
    default:
      return Meaning::bits;
  }
}

template <class Codec>
constexpr bool is_float = requires { Codec::infinity; };

// Returns a natural number as the bits of a number of this type.
template <class Codec>
typename Codec::Bits bits_of_value(uint64_t value) {
  using Bits = typename Codec::Bits;
  if constexpr (std::same_as<Codec, F32Codec>)
    return std::bit_cast<Bits>(static_cast<float>(value));
  if constexpr (std::same_as<Codec, F64Codec>)
    return std::bit_cast<Bits>(static_cast<double>(value));
  return static_cast<Bits>(value);
}

template <class Codec>
typename Codec::Bits finite(typename Codec::Bits bits) {
  if constexpr (is_float<Codec>) {
    if ((bits & Codec::infinity) == Codec::infinity) bits ^= Codec::exponent_one;
  }
  return bits;
}

template <class Codec>
typename Codec::Bits number_of(uint64_t word, Meaning meaning) {
  using Bits = typename Codec::Bits;
  switch (meaning) {
    case Meaning::bits:
      return finite<Codec>(static_cast<Bits>(word));
    case Meaning::raw:
      return static_cast<Bits>(word);
    case Meaning::key:
      return Codec::decode(static_cast<Bits>(word));
    case Meaning::value:
      return bits_of_value<Codec>(word);
  }
  return 0;
}

// Returns a value that floating point treats in a special way, by four random bits.
template <class Codec>
uint64_t special_float(unsigned choice) {
  using Bits = typename Codec::Bits;
  constexpr std::array<Bits, 8> specials = {
      0,                                          // zero
      1,                                          // the smallest
      Codec::infinity - 1,                        // the largest
      Codec::infinity,                            //
      Codec::infinity + 1,                        // a signalling NaN
      Codec::infinity + Codec::exponent_one / 2,  // a quiet NaN
      Codec::sign - 1,                            // all of its bits
      Codec::infinity / 2 & Codec::infinity};     // about 1
  return specials[choice & 7] | ((choice & 8) != 0 ? Codec::sign : 0);
}

bool in_range(double value, double least, double most) {
  return value >= least && value <= most;
}

std::unexpected<Error> refuse(std::string what, std::string subject, std::string hint) {
  return failure(ErrorCode::invalid_argument, std::move(what), std::move(subject), std::move(hint));
}

}  // namespace

Result<Distribution> parse_distribution(std::string_view name) {
  const auto* found = std::ranges::find(distribution_names, name, &DistributionName::name);
  if (found != distribution_names.end()) return found->distribution;
  std::string all;
  for (const DistributionName& each : distribution_names)
    all.append(all.empty() ? "" : " ").append(each.name);
  return refuse("use this distribution", "--dist " + std::string(name), std::move(all));
}

std::string_view name_of(Distribution distribution) {
  return std::ranges::find(distribution_names, distribution, &DistributionName::distribution)->name;
}

std::span<const Distribution> distributions_of(Type type) {
  if (type == Type::lines) return line_distributions;
  const std::span<const Distribution> all = float_distributions;
  return type == Type::f32 || type == Type::f64 ? all : all.first(all.size() - 1);
}

Result<Generator> Generator::open(const GeneratorOptions& options) {
  const std::string dist = "--dist " + std::string(name_of(options.distribution));
  const bool records = options.format.type == Type::record;
  if (options.format.type > Type::lines) {
    return refuse("generate such items", "--format " + std::string(name_of(options.format.type)),
                  "--format lines");
  }
  const auto available = distributions_of(options.format.type);
  if (std::ranges::find(available, options.distribution) == available.end()) {
    return refuse("make this distribution in format " + std::string(name_of(options.format.type)),
                  dist, "another --dist or --format");
  }
  if (records && options.format.record_bytes != benchmark_record_bytes) {
    return refuse("generate records of this size", std::to_string(options.format.record_bytes),
                  "records of 100 bytes, as the Sort Benchmark has them");
  }
  if (!records && (options.ascii || options.start != 0 || options.skew)) {
    return refuse("use --ascii, --start or --skew with this format",
                  "--format " + std::string(name_of(options.format.type)), "--format record");
  }
  if (options.distribution != D::uniform && (options.ascii || options.skew)) {
    return refuse("combine it with --ascii or --skew", dist, "records without --dist");
  }
  if (options.count > count_max || options.start > ~uint64_t{0} - options.count) {
    return refuse("generate so many items", "--count " + std::to_string(options.count),
                  "a smaller count");
  }
  if (!in_range(options.t, 2, 65536)) {
    return refuse("use this t", std::to_string(options.t), "2 to 65536");
  }
  if (!in_range(options.skew.value_or(1), 0, 8) || !in_range(options.zipf_exponent, 0, 8)) {
    return refuse("use this exponent of Zipf's law",
                  std::to_string(options.skew.value_or(options.zipf_exponent)), "0 to 8");
  }
  return Generator(options);
}

Generator::Generator(const GeneratorOptions& options)
    : options_(options), root_(root_of(options.count)), seed_state_(mix64(options.seed)) {
  if (options.format.numeric()) {
    number_ = options.format.type;
    width_ = item_bytes_of(number_) == 4 ? 32 : 64;
    with_codec(number_, [&]<class Codec>(Codec) {
      using Bits = typename Codec::Bits;
      key_last_ = ~Bits{0};
      if constexpr (is_float<Codec>) {
        key_first_ = 1;  // 0 is -inf
        key_last_ = Codec::encode(Codec::infinity - 1);
      }
    });
  }
  if (options.count > 0) {
    const uint64_t span = key_last_ - key_first_;
    key_step_ = span / options.count;
    if (key_step_ == 0) {
      keys_per_item_ = static_cast<uint64_t>((__uint128_t{span} << 64) / options.count);
    }
  }
  if (options.skew) {
    zipf_.emplace(*options.skew, zipf_ranks_max);
  } else if (options.distribution == D::zipf) {
    zipf_.emplace(options.zipf_exponent, std::clamp<uint64_t>(options.count, 1, zipf_ranks_max));
  }
}

size_t Generator::item_bytes_max() const {
  return options_.format.fixed() ? options_.format.record_bytes : line_bytes_max;
}

uint64_t Generator::total_bytes() const {
  if (options_.format.fixed()) return options_.count * options_.format.record_bytes;
  constexpr uint64_t samples_max = 1024;
  const uint64_t samples = std::min(options_.count, samples_max);
  std::array<char, line_bytes_max> line;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < samples; ++i) {
    bytes += write_line(i * (options_.count / samples), line.data());
  }
  return samples == 0
             ? 0
             : static_cast<uint64_t>(static_cast<__uint128_t>(bytes) * options_.count / samples);
}

size_t Generator::fill(uint64_t first, uint64_t count, std::byte* out) const {
  PENSTOCK_CHECK(first <= options_.count && count <= options_.count - first,
                 "items beyond the end of a generated input were asked for");
  switch (options_.format.type) {
    case Type::lines:
      return fill_lines(first, count, out);
    case Type::record:
      fill_records(first, count, out);
      break;
    default:
      fill_numbers(first, count, out);
  }
  return count * options_.format.record_bytes;
}

// The random number of an item.
uint64_t Generator::random(uint64_t index) const {
  return mix64(seed_state_ + index * golden);
}

void Generator::fill_numbers(uint64_t first, uint64_t count, std::byte* out) const {
  const Meaning meaning = meaning_of(options_.distribution);
  const bool pairs = number_ == Type::kv64;
  const size_t item_bytes = item_bytes_of(number_);
  std::array<uint64_t, block_items> block;
  for (uint64_t done = 0; done < count; done += block.size()) {
    const auto words = std::span(block).first(std::min<uint64_t>(block.size(), count - done));
    fill_words(first + done, words);
    std::byte* to = out + done * item_bytes;
    with_codec(number_, [&]<class Codec>(Codec) {
      for (size_t i = 0; i < words.size(); ++i) {
        store(to + i * item_bytes, number_of<Codec>(words[i], meaning));
      }
    });
    if (!pairs) continue;
    for (size_t i = 0; i < words.size(); ++i) store<uint64_t>(to + i * 16 + 8, first + done + i);
  }
}

// Performs the first of the two steps described above.
void Generator::fill_words(uint64_t first, std::span<uint64_t> words) const {
  const uint64_t n = options_.count;
  const unsigned spare = 64 - width_;  // bits of a word that are not in a number
  const uint64_t all = ~uint64_t{0} >> spare;
  const uint64_t low = (uint64_t{1} << (width_ / 4)) - 1;
  const uint64_t shared = all & ~(all >> shared_top_bits);
  const uint64_t tail = n - n / 100 - (n > 0 ? 1 : 0);
  auto make = [&](auto word_of) {
    for (size_t i = 0; i < words.size(); ++i) words[i] = word_of(first + i);
  };
  auto bits = [&](uint64_t i) { return random(i) >> spare; };
  auto modulo_n = [&](uint64_t residue) {
    return residue + n / 2 >= n ? residue + n / 2 - n : residue + n / 2;
  };
  switch (options_.distribution) {
    case D::uniform:
      return make(bits);
    case D::sorted:
      return make([&](uint64_t i) { return sorted_key(i); });
    case D::reverse:
      return make([&](uint64_t i) { return sorted_key(n - 1 - i); });
    case D::all_equal:
      return make([&](uint64_t) { return bits(0); });
    case D::almost_sorted:
      return make([&](uint64_t i) { return sorted_key(swapped(i)); });
    case D::sorted_tail:
      return make([&](uint64_t i) {
        return i < tail ? sorted_key(i) : key_first_ + high_half(random(i), key_last_ - key_first_);
      });
    case D::rootdup:
      return make([&](uint64_t i) { return i % root_; });
    case D::twodup:
      return make([&](uint64_t i) { return modulo_n(square(i, n)); });
    case D::eightdup:
      return make([&](uint64_t i) { return modulo_n(square(square(square(i, n), n), n)); });
    case D::zipf:
      return make([&](uint64_t i) { return zipf_->rank(random(i)); });
    case D::exponential:
      return make([&](uint64_t i) {
        const double unit = static_cast<double>((random(i) >> 11) + 1) * 0x1p-53;  // in (0, 1]
        return static_cast<uint64_t>(-std::log(unit) *
                                     std::ldexp(1.0, static_cast<int>(width_) - 6));
      });
    case D::bexp:
      return make([&](uint64_t i) { return bits_with_zeros(i) >> spare; });
    case D::low_bits_only:
      return make([&](uint64_t i) { return bits(i) & low; });
    case D::high_bit_zero:
      return make([&](uint64_t i) { return bits(i) >> 1; });
    case D::one_bucket:
      return make([&](uint64_t i) { return (bits(i) & ~shared) | (bits(n) & shared); });
    case D::nan_mix:
      return make([&](uint64_t i) {
        const uint64_t drawn = random(i);
        if (drawn % 4 != 0) return mix64(drawn) >> spare;
        const auto choice = static_cast<unsigned>(drawn >> 2);
        return width_ == 32 ? special_float<F32Codec>(choice) : special_float<F64Codec>(choice);
      });
    case D::common_prefix:
    case D::empty_heavy:
      break;
  }
  PENSTOCK_CHECK(false, "a distribution of text was asked for numbers");
}

// Returns key number `index` of a strictly rising sequence that covers the range of the type: one
// key out of every interval of key_step_. With more items than keys, neighbours may be equal.
uint64_t Generator::sorted_key(uint64_t index) const {
  if (key_step_ == 0) return key_first_ + high_half(index, keys_per_item_);
  return key_first_ + index * key_step_ + high_half(random(index), key_step_);
}

// Returns the index or, for one in root_ of them, its partner: the indices are cut into root_
// blocks of root_, each block has one index that is swapped, and blocks are paired by b -> c - b.
uint64_t Generator::swapped(uint64_t index) const {
  auto chosen = [&](uint64_t block) { return block * root_ + high_half(random(~block), root_); };
  const uint64_t block = index / root_;
  if (block >= root_ || index != chosen(block)) return index;
  const uint64_t pairing = seed_state_ % root_;
  return chosen(block <= pairing ? pairing - block : pairing + root_ - block);
}

// Returns 64 bits, each of which is zero with probability 1 / t (to 16 binary digits),
// independently. From the last digit of the probability to the first, "or random" halves the
// distance to one and "and random" the distance to zero, for 64 bits at once.
uint64_t Generator::bits_with_zeros(uint64_t index) const {
  constexpr unsigned digits = 16;
  const auto ones = static_cast<uint32_t>(std::lround((1 - 1 / options_.t) * (1 << digits)));
  Random random_bits(random(index));
  uint64_t bits = 0;
  for (unsigned digit = 0; digit < digits; ++digit) {
    const uint64_t next = random_bits.next();
    bits = ((ones >> digit) & 1) != 0 ? bits | next : bits & next;
  }
  return bits;
}

void Generator::fill_records(uint64_t first, uint64_t count, std::byte* out) const {
  fill_benchmark_records(options_.ascii ? BenchmarkKind::ascii : BenchmarkKind::binary,
                         options_.start + first, count, out);
  if (options_.skew || options_.distribution != D::uniform) replace_keys(first, count, out);
}

// Replaces the keys of records. With --skew the first eight bytes are a hash of the rank,
// big-endian or in base 95, and the last two stay; for a numeric distribution (binary only) they
// are the number, big-endian, and two zeros, so that equal numbers are equal keys.
void Generator::replace_keys(uint64_t first, uint64_t count, std::byte* records) const {
  if (options_.skew) {
    for (uint64_t i = 0; i < count; ++i, records += benchmark_record_bytes) {
      const uint64_t key = mix64(zipf_->rank(random(options_.start + first + i)));
      if (options_.ascii) {
        write_base95(key, 8, records);
      } else {
        store(records, __builtin_bswap64(key));
      }
    }
    return;
  }
  const Meaning meaning = meaning_of(options_.distribution);
  for (uint64_t i = 0; i < count; ++i, records += benchmark_record_bytes) {
    uint64_t word = 0;
    fill_words(first + i, {&word, 1});
    store(records, __builtin_bswap64(number_of<UnsignedCodec<uint64_t>>(word, meaning)));
    store<uint16_t>(records + 8, 0);
  }
}

size_t Generator::fill_lines(uint64_t first, uint64_t count, std::byte* out) const {
  auto* text = reinterpret_cast<char*>(out);
  size_t bytes = 0;
  for (uint64_t i = 0; i < count; ++i) bytes += write_line(first + i, text + bytes);
  return bytes;
}

size_t Generator::write_line(uint64_t index, char* out) const {
  LineWriter line(out);
  Random choice(random(index));
  switch (options_.distribution) {
    case D::sorted:
      line.number(index).words(choice, 1 + choice.below(6));
      break;
    case D::reverse:
      line.number(options_.count - 1 - index).words(choice, 1 + choice.below(6));
      break;
    case D::all_equal: {
      Random same(seed_state_);
      line.words(same, 8);
      break;
    }
    case D::zipf: {
      Random of_rank(mix64(seed_state_ ^ zipf_->rank(choice.next())));
      line.words(of_rank, 1 + of_rank.below(4));
      break;
    }
    case D::common_prefix:
      line.prefix(choice.below(4)).words(choice, choice.below(4));
      break;
    case D::empty_heavy:
      if (choice.below(4) == 0) line.words(choice, 1);
      break;
    default:
      line.text(choice);
  }
  return line.finish();
}

}  // namespace penstock::generate
