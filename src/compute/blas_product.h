// A product by a BLAS against a plain loop. Some kernels of some OpenBLAS versions are wrong on
// CPUs that came after them: better to know before the training starts than from a strange loss.
#pragma once

namespace dlobd::compute {

// Multiplies matrices of odd sizes, plain and transposed, by the library's sgemm_ (the Fortran
// symbol, as dlsym gives it). True if every element is close to the plain loop's.
bool multiplies_correctly(void* sgemm_symbol);

}  // namespace dlobd::compute
