// Chooses the instruction set at run time.
#include "isa.h"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(_WIN32)
#include <intrin.h>
#endif

namespace steady {

#define STEADY_DECLARE(name) namespace name { extern const Ops ops; extern const TapeOps tape_ops; }
#define STEADY_ENTRY(name) Isa{#name, &name::ops, &name::tape_ops}

#if defined(__aarch64__)
STEADY_DECLARE(neon)
#else
STEADY_DECLARE(sse2)
STEADY_DECLARE(avx2)
STEADY_DECLARE(avx512)
#endif

namespace {

#if !defined(__aarch64__)
#if defined(_WIN32)
// clang-cl has no run-time library for __builtin_cpu_supports.
bool has_bits(int leaf, int word, unsigned bits) {
    int words[4];
    __cpuidex(words, leaf, 0);
    return (static_cast<unsigned>(words[word]) & bits) == bits;
}
__attribute__((target("xsave"))) bool system_saves(unsigned long long state) { return (_xgetbv(0) & state) == state; }
bool has_avx2() {
    return has_bits(1, 2, 1u << 27 | 1u << 28 | 1u << 12) && system_saves(0x6) && has_bits(7, 1, 1u << 5);
}
bool has_avx512() { return has_avx2() && system_saves(0xe6) && has_bits(7, 1, 1u << 16 | 1u << 17 | 1u << 31); }
#else
bool has_avx2() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif
#endif

// Best first.
std::vector<Isa> usable() {
#if defined(__aarch64__)
    return {STEADY_ENTRY(neon)};
#else
    std::vector<Isa> found;
    if (has_avx512()) found.push_back(STEADY_ENTRY(avx512));
    if (has_avx2()) found.push_back(STEADY_ENTRY(avx2));
    found.push_back(STEADY_ENTRY(sse2));
    return found;
#endif
}

Isa choose() {
    const std::vector<Isa> found = usable();
    const char* wanted = std::getenv("STEADYRL_ISA");
    if (wanted == nullptr || *wanted == '\0') return found.front();
    std::string names;
    for (const Isa& each : found) {
        if (std::string(wanted) == each.name) return each;
        names += (names.empty() ? "" : ", ") + std::string(each.name);
    }
    throw std::runtime_error("STEADYRL_ISA is '" + std::string(wanted) + "', but this CPU has: " + names + ".");
}

}  // namespace

const Isa& isa() {
    static const Isa chosen = choose();
    return chosen;
}

std::vector<const char*> usable_isas() {
    std::vector<const char*> names;
    for (const Isa& each : usable()) names.push_back(each.name);
    return names;
}

}  // namespace steady
