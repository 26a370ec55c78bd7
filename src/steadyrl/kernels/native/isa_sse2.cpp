// The kernels for sse2.
#define STEADY_ISA sse2
#define STEADY_LANES 4
#include "isa.inc"
