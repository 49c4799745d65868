#include "cluster/gathers.h"

#include <fmt/format.h>

#include <utility>

namespace dlobd::cluster {

bool Gathers::in_order(int rank, const Gather& gather) const {
  return gather.sequence == begun_[static_cast<std::size_t>(rank)];
}

std::optional<std::string> Gathers::add(int rank, Gather gather) {
  ++begun_[static_cast<std::size_t>(rank)];
  Collection& collection = collections_[gather.sequence];
  if (collection.blobs.empty()) {
    collection.blobs.resize(begun_.size());
    collection.what = std::move(gather.what);
    collection.first = rank;
  } else if (gather.what != collection.what) {
    return fmt::format("it gathers \"{}\" while rank {} gathers \"{}\"", gather.what,
                       collection.first, collection.what);
  }
  collection.blobs[static_cast<std::size_t>(rank)] = std::move(gather.blob);
  return std::nullopt;
}

std::vector<Gathered> Gathers::take_complete() {
  std::vector<Gathered> complete;
  while (!collections_.empty()) {
    const auto first = collections_.begin();  // each rank gathers in order
    for (std::size_t rank = 0; rank < begun_.size(); ++rank) {
      if (!aside_[rank] && begun_[rank] <= first->first) return complete;
    }
    Gathered gathered;
    gathered.sequence = first->first;
    gathered.blobs = std::move(first->second.blobs);
    complete.push_back(std::move(gathered));
    collections_.erase(first);
  }
  return complete;
}

bool Gathers::lacks(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return !collections_.empty() && !aside_[at] && begun_[at] <= collections_.rbegin()->first;
}

}  // namespace dlobd::cluster
