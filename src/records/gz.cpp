#include "records/gz.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace dlobd::records {
namespace {

using base::ErrorKind;

constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr int kGzipWindow = 15 + 16;  // the largest window, with a gzip header and checksum

}  // namespace

struct GzFile::Stream {
  z_stream zlib{};
  std::array<Bytef, kBufferBytes> input;
  std::array<std::byte, kBufferBytes> skipped;  // what is inflated only to be passed by
  bool in_member = true;                        // false: between two members, or at the end
};

GzFile::GzFile(std::unique_ptr<storage::File> compressed, std::string path)
    : compressed_(std::move(compressed)),
      path_(std::move(path)),
      stream_(std::make_unique<Stream>()) {
  const int code = inflateInit2(&stream_->zlib, kGzipWindow);
  CHECK(code == Z_OK, "zlib refuses to start: {}", code);
}

GzFile::~GzFile() {
  inflateEnd(&stream_->zlib);
}

void GzFile::rewind() {
  const int code = inflateReset(&stream_->zlib);
  CHECK(code == Z_OK, "zlib refuses to start again: {}", code);
  stream_->zlib.avail_in = 0;
  stream_->in_member = true;
  compressed_position_ = 0;
  position_ = 0;
}

base::Result<std::size_t> GzFile::refill() {
  z_stream& zlib = stream_->zlib;
  if (zlib.avail_in > 0) return std::size_t{zlib.avail_in};
  DLOBD_TRY(got, compressed_->read_at(compressed_position_,
                                      std::as_writable_bytes(std::span(stream_->input))));
  compressed_position_ += got;
  zlib.next_in = stream_->input.data();
  zlib.avail_in = static_cast<uInt>(got);
  return got;
}

base::Result<std::size_t> GzFile::read_on(std::span<std::byte> into) {
  z_stream& zlib = stream_->zlib;
  std::size_t done = 0;
  while (done < into.size()) {
    DLOBD_TRY(available, refill());
    if (!stream_->in_member) {
      if (available == 0) break;
      // gzip files may be joined: another member must follow.
      CHECK(inflateReset(&zlib) == Z_OK, "zlib refuses to start again");
      stream_->in_member = true;
    }
    if (available == 0)
      return base::fail(ErrorKind::corrupt_data, "gzip file ends too early: after " +
                                                     std::to_string(compressed_position_) +
                                                     " compressed bytes: " + path_);
    const std::size_t room = std::min<std::size_t>(into.size() - done, 1U << 30);
    zlib.next_out = reinterpret_cast<Bytef*>(into.data() + done);
    zlib.avail_out = static_cast<uInt>(room);
    const int code = inflate(&zlib, Z_NO_FLUSH);
    const std::size_t made = room - zlib.avail_out;
    done += made;
    position_ += made;
    if (code == Z_STREAM_END) {
      stream_->in_member = false;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      const std::uint64_t at = compressed_position_ - zlib.avail_in;
      return base::fail(ErrorKind::corrupt_data,
                        std::string("gzip file is damaged: ") +
                            (zlib.msg ? zlib.msg : "zlib gives no reason") + ": near byte " +
                            std::to_string(at) + ": " + path_);
    }
  }
  return done;
}

base::Result<void> GzFile::skip_to(std::uint64_t offset) {
  if (offset < position_) rewind();
  while (position_ < offset) {
    const std::size_t step = std::min<std::uint64_t>(offset - position_, kBufferBytes);
    DLOBD_TRY(got, read_on(std::span(stream_->skipped).first(step)));
    if (got < step) break;
  }
  return {};
}

base::Result<std::uint64_t> GzFile::measure(std::uint64_t at_most) {
  DLOBD_TRY_VOID(skipped, skip_to(at_most + 1));
  size_ = position_;
  return size_;
}

base::Result<std::size_t> GzFile::read_at(std::uint64_t offset, std::span<std::byte> into) {
  DLOBD_TRY_VOID(skipped, skip_to(offset));
  if (position_ < offset) return std::size_t{0};
  return read_on(into);
}

}  // namespace dlobd::records
