#include "exchange/shard_pieces.h"

#include <algorithm>

namespace dlobd::exchange {

compute::Range shard_of(const ShardPushOptions& options, std::size_t elements, int workers,
                        int owner) {
  return options.front_loaded ? front_loaded_slice(elements, workers, owner)
                              : slice(elements, workers, owner);
}

std::vector<Piece> pieces_of(const ShardPushOptions& options,
                             const std::vector<compute::ParameterView>& views, int workers) {
  std::size_t elements = 0;
  for (const compute::ParameterView& view : views) elements += view.size;
  const std::vector<Bucket> all = buckets(views, options.bucket_bytes);
  std::vector<Piece> pieces;
  for (std::size_t bucket = 0; bucket < all.size(); ++bucket) {
    for (int owner = 0; owner < workers; ++owner) {
      const compute::Range owned = shard_of(options, elements, workers, owner);
      std::size_t begin = std::max(owned.begin, all[bucket].range.begin);
      const std::size_t end = std::min(owned.end, all[bucket].range.end);
      while (begin < end) {
        Piece piece;
        piece.range = {begin, std::min(end, begin + options.piece_elements)};
        piece.owner = owner;
        piece.bucket = bucket;
        pieces.push_back(piece);
        begin = piece.range.end;
      }
    }
  }
  return pieces;
}

std::vector<int> order_of_addition(const ShardPushOptions& options, int workers, int owner) {
  std::vector<int> order;
  const int first = options.in_rank_order ? 0 : owner;
  for (int i = 0; i < workers; ++i) order.push_back((first + i) % workers);
  return order;
}

}  // namespace dlobd::exchange
