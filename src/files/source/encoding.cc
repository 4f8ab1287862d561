// Text in another encoding becomes UTF-8 on its way in, by iconv(3) of the C library. A byte order
// mark at its beginning is removed.

#include "files/source/encoding.h"

#include <fmt/format.h>
#include <iconv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/misuse.h"
#include "base/run_scope.h"
#include "files/source/checked_read.h"
#include "files/source/in_order.h"

namespace penstock::source {
namespace {

constexpr size_t encoded_bytes = 64 * KiB;
constexpr size_t growth_max = 3;  // a byte of windows-1252 becomes at most so many

struct Encoding {
  const char* word;
  const char* iconv_name;
};
constexpr Encoding encodings[] = {{"utf-16", nullptr},          {"utf-16le", "UTF-16LE"},
                                  {"utf-16be", "UTF-16BE"},     {"latin1", "ISO-8859-1"},
                                  {"iso-8859-1", "ISO-8859-1"}, {"windows-1252", "CP1252"},
                                  {"cp1252", "CP1252"},         {"utf-8", "UTF-8"}};

const Encoding* find_encoding(std::string word) {
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto* const found =
      std::ranges::find_if(encodings, [&](const Encoding& one) { return word == one.word; });
  return found == std::end(encodings) ? nullptr : found;
}

// Invariants: encoded_[begin_, end_) follows `base_` bytes that were decoded; text_[passed_, made_)
// was decoded and not passed on.
class DecodedSource final : public Source {
 public:
  DecodedSource(std::unique_ptr<Source> from, std::string name, const Encoding& encoding)
      : from_(std::move(from)), name_(std::move(name)), encoding_(encoding) {}
  DecodedSource(const DecodedSource&) = delete;
  DecodedSource& operator=(const DecodedSource&) = delete;
  ~DecodedSource() override {
    if (is_open_) ::iconv_close(decoder_);
  }

  Result<size_t> read(std::span<std::byte> into) override {
    while (passed_ == made_) {
      if (error_) return std::unexpected(*error_);
      if (is_all_) return 0;
      if (Status more = decode_more(); !more) error_ = more.error();
    }
    const size_t bytes = std::min(into.size(), made_ - passed_);
    std::memcpy(into.data(), text_.data() + passed_, bytes);
    passed_ += bytes;
    return bytes;
  }
  void cancel() override { from_->cancel(); }

 private:
  Status decode_more() {
    std::memmove(encoded_.data(), encoded_.data() + begin_, end_ - begin_);
    base_ += begin_;
    end_ -= std::exchange(begin_, 0);
    const auto got =
        checked_read(*from_, std::as_writable_bytes(std::span(encoded_)).subspan(end_));
    if (!got) return std::unexpected(got.error());
    end_ += *got;
    const bool is_last = *got == 0;
    if (!is_open_) {
      constexpr size_t mark_bytes_max = 3;
      if (!is_last && end_ < mark_bytes_max) return {};
      if (Status opened = open(); !opened) return opened;
    }
    passed_ = 0;
    Status decoded = decode();
    if (!decoded) return decoded;
    is_all_ = is_last;
    if (!is_last || begin_ == end_) return {};
    return failure(ErrorCode::corrupt,
                   fmt::format("read the character at byte {} as {}: the input ends in it",
                               base_ + begin_, encoding_.word),
                   name_, "another --encoding");
  }

  // Chooses the decoder by the mark, and passes it.
  Status open() {
    const std::string_view text(encoded_.data(), end_);
    const bool is_little = text.starts_with("\xff\xfe");
    const bool is_big = text.starts_with("\xfe\xff");
    const std::string_view word = encoding_.word;
    const char* name = encoding_.iconv_name;
    if (word == "utf-16" && !is_little && !is_big && !text.empty())
      return failure(ErrorCode::corrupt, "find the byte order mark of UTF-16", name_,
                     "--encoding UTF-16LE or --encoding UTF-16BE");
    if (name == nullptr) name = is_big ? "UTF-16BE" : "UTF-16LE";
    if ((is_little && std::string_view(name) == "UTF-16LE") ||
        (is_big && std::string_view(name) == "UTF-16BE"))
      begin_ = 2;
    if (word == "utf-8" && text.starts_with("\xef\xbb\xbf")) begin_ = 3;
    decoder_ = ::iconv_open("UTF-8", name);
    if (decoder_ == reinterpret_cast<iconv_t>(-1))
      return failure(ErrorCode::unsupported, "find the C library's converter for it",
                     fmt::format("--encoding {}", encoding_.word), "iconv -l");
    is_open_ = true;
    return {};
  }

  // Decodes all whole characters. A fault is an error once the text before it was passed on.
  Status decode() {
    char* from = encoded_.data() + begin_;
    size_t from_bytes = end_ - begin_;
    char* to = text_.data();
    size_t to_bytes = text_.size();
    const size_t done = ::iconv(decoder_, &from, &from_bytes, &to, &to_bytes);
    const int error = done == static_cast<size_t>(-1) ? errno : 0;
    begin_ = end_ - from_bytes;
    made_ = text_.size() - to_bytes;
    if (error == 0 || error == EINVAL) return {};
    return failure(ErrorCode::corrupt,
                   fmt::format("read the bytes at byte {} as {}", base_ + begin_, encoding_.word),
                   name_, "another --encoding");
  }

  const std::unique_ptr<Source> from_;
  const std::string name_;
  const Encoding& encoding_;
  const MemoryCharge charge_{decoder_bytes};
  iconv_t decoder_ = nullptr;
  bool is_open_ = false;
  std::vector<char> encoded_ = std::vector<char>(encoded_bytes);
  std::vector<char> text_ = std::vector<char>(growth_max * encoded_bytes);
  uint64_t base_ = 0;
  size_t begin_ = 0, end_ = 0;
  size_t passed_ = 0, made_ = 0;
  bool is_all_ = false;
  std::optional<Error> error_;
};

}  // namespace

Result<std::unique_ptr<Source>> decoded(std::unique_ptr<Source> text, std::string name,
                                        const std::string& word) {
  if (word.empty()) return text;
  const Encoding* const encoding = find_encoding(word);
  if (encoding != nullptr)
    return std::make_unique<DecodedSource>(std::move(text), std::move(name), *encoding);
  return misuse("read text in this encoding", "--encoding " + word,
                "UTF-16, UTF-16LE, UTF-16BE, latin1 or windows-1252; iconv -f ENCODING -t UTF-8 "
                "converts others");
}

}  // namespace penstock::source
