#include "compute/blas_product.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "base/random.h"

namespace dlobd::compute {
namespace {

// The last two are the lengths of the texts, which Fortran's convention passes unseen.
using Sgemm = void (*)(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc,
                       std::size_t, std::size_t);

struct Sizes {
  int m, n, k;
};

std::vector<float> numbers(base::Random& random, int count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = 2 * random.unit() - 1;
  return values;
}

// Column by column, as Fortran stores: element (row, column) of a matrix with `rows` rows; of its
// transpose when `transposed`.
float at(const std::vector<float>& matrix, int rows, int row, int column, bool transposed) {
  const int index = transposed ? column + row * rows : row + column * rows;
  return matrix[static_cast<std::size_t>(index)];
}

bool product_is_right(Sgemm sgemm, Sizes sizes, bool transpose_a, bool transpose_b) {
  base::Random random(17);
  const auto [m, n, k] = sizes;
  const std::vector<float> a = numbers(random, m * k);
  const std::vector<float> b = numbers(random, k * n);
  std::vector<float> c(static_cast<std::size_t>(m * n), 0.5F);
  const int lda = transpose_a ? k : m;
  const int ldb = transpose_b ? n : k;
  const float alpha = 1;
  const float beta = 2;
  sgemm(transpose_a ? "T" : "N", transpose_b ? "T" : "N", &m, &n, &k, &alpha, a.data(), &lda,
        b.data(), &ldb, &beta, c.data(), &m, 1, 1);
  for (int column = 0; column < n; ++column) {
    for (int row = 0; row < m; ++row) {
      double want = 1;  // beta * 0.5
      for (int i = 0; i < k; ++i) {
        want += double{at(a, lda, row, i, transpose_a)} * at(b, ldb, i, column, transpose_b);
      }
      const double got = c[static_cast<std::size_t>(row + column * m)];
      if (!(std::abs(got - want) < 1e-6 * k)) return false;
    }
  }
  return true;
}

}  // namespace

bool multiplies_correctly(void* sgemm_symbol) {
  const auto sgemm = reinterpret_cast<Sgemm>(sgemm_symbol);
  for (const Sizes sizes : {Sizes{67, 45, 83}, Sizes{1, 130, 19}, Sizes{50, 64, 500}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        if (!product_is_right(sgemm, sizes, transpose_a, transpose_b)) return false;
      }
    }
  }
  return true;
}

}  // namespace dlobd::compute
