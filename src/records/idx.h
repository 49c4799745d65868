// IDX, the format of MNIST: one file of images, one of labels, raw or gzip. A path that is not
// there is looked for with ".gz" behind it. Opening checks both headers against the sizes of their
// files, the two counts against each other and every label against the number of classes; so next()
// fails only when the disk does, or a file is changed meanwhile. Errors: not_found; io_error;
// corrupt_data (truncated, trailing bytes, magic, counts, labels).
#pragma once

#include <memory>

#include "records/reader.h"
#include "storage/store.h"

namespace dlobd::records {

// A Reader over the records of `images` that begin in its byte range (offsets count bytes of the
// uncompressed file; a range of 0 bytes goes to the end). Labels are bytes below `classes`.
// `store` is used only within this call.
base::Result<std::unique_ptr<Reader>> open_idx(storage::Store& store, const Split& images,
                                               const std::string& labels_path, int classes);

}  // namespace dlobd::records
