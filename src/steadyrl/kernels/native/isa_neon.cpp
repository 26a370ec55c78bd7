// The kernels for neon.
#define STEADY_ISA neon
#define STEADY_LANES 4
#include "isa.inc"
