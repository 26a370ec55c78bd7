// The kernels for avx2.
#define STEADY_ISA avx2
#define STEADY_LANES 8
#include "isa.inc"
