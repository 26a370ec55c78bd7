// One vector type of STEADY_LANES floats and the elementary functions on it, the same text for every instruction set.
//
// Included only by isa_*.cpp, which sets STEADY_ISA and STEADY_LANES. Everything here is in an anonymous namespace: an
// inline function shared by name between objects compiled for different instruction sets would be merged by the linker,
// and a CPU without AVX-512 might then run the AVX-512 copy. For the same reason no standard header with inline
// functions is included by these files.
//
// Special values: NaN passes through every function, infinities behave as in libm, denormal results may be zero.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define STEADY_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define STEADY_UNROLL _Pragma("clang loop unroll(full)")
#else
#define STEADY_UNROLL _Pragma("GCC unroll 32")
#endif

namespace steady::STEADY_ISA {
namespace {

constexpr int LANES = STEADY_LANES;

typedef float Vec __attribute__((vector_size(LANES * 4)));
typedef int32_t Mask __attribute__((vector_size(LANES * 4)));  // lanes of all ones (true) or zero; also plain integers
typedef float VecUnaligned __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

template <class T>
STEADY_INLINE T smaller(T a, T b) {
    return a < b ? a : b;
}

STEADY_INLINE Vec load(const float* from) { return *reinterpret_cast<const VecUnaligned*>(from); }
STEADY_INLINE void store(float* to, Vec x) { *reinterpret_cast<VecUnaligned*>(to) = x; }

STEADY_INLINE Vec splat(float value) {
    Vec all;
    STEADY_UNROLL
    for (int i = 0; i < LANES; i++) all[i] = value;
    return all;
}

// The first `count` lanes from memory, zeros behind them; reads nothing beyond them.
STEADY_INLINE Vec load_some(const float* from, int count) {
    float lanes[LANES] = {};
    std::memcpy(lanes, from, count * sizeof(float));
    return load(lanes);
}

STEADY_INLINE void store_some(float* to, Vec x, int count) {
    float lanes[LANES];
    store(lanes, x);
    std::memcpy(to, lanes, count * sizeof(float));
}

// Lanes `stride` floats apart; stride 0 repeats one number.
STEADY_INLINE Vec load_strided(const float* from, int64_t stride, int count) {
    float lanes[LANES] = {};
    for (int i = 0; i < count; i++) lanes[i] = from[i * stride];
    return load(lanes);
}

STEADY_INLINE void store_strided(float* to, int64_t stride, Vec x, int count) {
    float lanes[LANES];
    store(lanes, x);
    for (int i = 0; i < count; i++) to[i * stride] = lanes[i];
}

STEADY_INLINE Vec select(Mask where, Vec yes, Vec no) { return where ? yes : no; }
STEADY_INLINE Vec as_float(Mask where) { return where ? splat(1.f) : splat(0.f); }  // 1 where true
STEADY_INLINE Mask bits_of(Vec x) { return reinterpret_cast<Mask>(x); }
STEADY_INLINE Vec from_bits(Mask x) { return reinterpret_cast<Vec>(x); }
STEADY_INLINE Mask is_nan(Vec x) { return x != x; }

// NaN in either argument gives NaN, as torch.minimum, torch.maximum and clamp do.
STEADY_INLINE Vec minimum(Vec a, Vec b) { return ((a < b) | is_nan(a)) ? a : b; }
STEADY_INLINE Vec maximum(Vec a, Vec b) { return ((a > b) | is_nan(a)) ? a : b; }

STEADY_INLINE Vec absolute(Vec x) { return from_bits(bits_of(x) & 0x7fffffff); }
STEADY_INLINE Vec negate(Vec x) { return -x; }
// -1, 0 or 1; torch.sign(NaN) is NaN only on some devices, here it always is.
STEADY_INLINE Vec sign(Vec x) { return is_nan(x) ? x : as_float(x > 0.f) - as_float(x < 0.f); }

STEADY_INLINE Vec square_root(Vec x) {
#if STEADY_LANES == 16
    return reinterpret_cast<Vec>(_mm512_sqrt_ps(reinterpret_cast<__m512>(x)));
#elif STEADY_LANES == 8
    return reinterpret_cast<Vec>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#elif defined(__SSE2__)
    return reinterpret_cast<Vec>(_mm_sqrt_ps(reinterpret_cast<__m128>(x)));
#elif defined(__aarch64__)
    return reinterpret_cast<Vec>(vsqrtq_f32(reinterpret_cast<float32x4_t>(x)));
#endif
}

constexpr float ROUND = 12582912.f;  // 1.5 * 2^23: adding and subtracting it rounds to the nearest integer
constexpr float LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f, LOG2_E = 1.44269504088896341f;

// x = n ln 2 + r with |r| <= ln 2 / 2; gives exp(r) - 1 and n as integers. x is within [-105, 90], or NaN.
STEADY_INLINE Vec reduced_exp(Vec x, Mask& n) {
    // A NaN has no integer: its n is set to 0, since what the conversion would give differs between CPUs.
    const Vec rounded = is_nan(x) ? splat(0.f) : (x * LOG2_E + ROUND) - ROUND;
    n = __builtin_convertvector(rounded, Mask);
    Vec r = x - rounded * LN2_HIGH;
    r = r - rounded * LN2_LOW;
    Vec y = r * 1.9875691500e-4f + 1.3981999507e-3f;  // coefficients of Cephes expf
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    return y * (r * r) + r;
}

STEADY_INLINE Vec power_of_two(Mask n) { return from_bits((n + 127) << 23); }  // -127 < n < 128

STEADY_INLINE Vec exponential(Vec x) {
    x = x > splat(90.f) ? splat(90.f) : x;
    x = x < splat(-105.f) ? splat(-105.f) : x;
    Mask n;
    const Vec y = reduced_exp(x, n) + 1.f;
    const Mask half = n >> 1;  // in two steps, since 2^n alone would overflow before the product does
    return y * power_of_two(half) * power_of_two(n - half);
}

STEADY_INLINE Vec exponential_minus_one(Vec x) {
    const Vec bounded = x < splat(-20.f) ? splat(-20.f) : x;
    const Mask large = bounded > splat(80.f);
    Mask n;
    const Vec y = reduced_exp(large ? splat(0.f) : bounded, n);
    const Vec scale = power_of_two(n);
    return large ? exponential(x) : scale * y + (scale - 1.f);
}

STEADY_INLINE Vec logarithm(Vec x) {
    const Mask bits = bits_of(x);
    const Mask exponent = ((bits >> 23) & 255) - 126;
    Vec m = from_bits((bits & 0x007fffff) | 0x3f000000);  // [0.5, 1)
    const Mask low = m < 0.707106781186547524f;
    const Vec e = __builtin_convertvector(exponent + low, Vec);  // a true lane is -1
    m = low ? m + m - 1.f : m - 1.f;
    const Vec z = m * m;
    Vec y = m * 7.0376836292e-2f + -1.1514610310e-1f;  // coefficients of Cephes logf
    y = y * m + 1.1676998740e-1f;
    y = y * m + -1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f;
    y = y * m + -1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f;
    y = y * m + -2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    y = y * m * z;
    y = y + e * LN2_LOW - z * 0.5f;
    y = m + y + e * LN2_HIGH;
    const float infinity = __builtin_inff();
    y = x == splat(0.f) ? splat(-infinity) : y;
    y = x < splat(0.f) ? splat(__builtin_nanf("")) : y;
    return ((x == splat(infinity)) | is_nan(x)) ? x : y;
}

STEADY_INLINE Vec logarithm_one_plus(Vec x) {
    // log(u) * x / (u - 1) repairs what rounding 1 + x lost (Kahan).
    const Vec u = 1.f + x;
    const Vec repaired = logarithm(u) * (x / (u - 1.f));
    return ((u == splat(1.f)) | (u == splat(__builtin_inff()))) ? x : repaired;
}

STEADY_INLINE Vec hyperbolic_tangent(Vec x) {
    // Odd rational function, numerator of degree 13 over denominator of degree 6, as in Eigen; 1 where it rounds to 1.
    const Vec bound = splat(7.90531110763549805f);
    Vec c = x > bound ? bound : x;
    c = c < -bound ? -bound : c;
    const Vec z = c * c;
    Vec p = z * -2.76076847742355e-16f + 2.00018790482477e-13f;
    p = p * z + -8.60467152213735e-11f;
    p = p * z + 5.12229709037114e-08f;
    p = p * z + 1.48572235717979e-05f;
    p = p * z + 6.37261928875436e-04f;
    p = p * z + 4.89352455891786e-03f;
    p = p * c;
    Vec q = z * 1.19825839466702e-06f + 1.18534705686654e-04f;
    q = q * z + 2.26843463243900e-03f;
    q = q * z + 4.89352518554385e-03f;
    const Vec y = p / q;
    Vec result = x > splat(9.02f) ? splat(1.f) : y;
    result = x < splat(-9.02f) ? splat(-1.f) : result;
    return absolute(x) < splat(4e-4f) ? x : result;  // below it tanh(x) rounds to x, and p might be a denormal number
}

STEADY_INLINE Vec sigmoid(Vec x) { return 1.f / (1.f + exponential(-x)); }

STEADY_INLINE Vec softplus(Vec x) { return maximum(x, splat(0.f)) + logarithm_one_plus(exponential(-absolute(x))); }

}  // namespace
}  // namespace steady::STEADY_ISA
