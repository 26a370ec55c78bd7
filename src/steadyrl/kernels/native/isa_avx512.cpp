// The kernels for avx512.
#define STEADY_ISA avx512
#define STEADY_LANES 16
#include "isa.inc"
