// A persistent thread pool for regions made of a few phases of tasks, cheap enough for work of 10 us.
//
// Every thread runs the same body; each call of tasks() or chunks() in it is a phase, whose tasks go to whoever is
// free and which all threads leave together. The caller never waits for a worker that has not begun: on a busy machine
// it does all tasks itself, and who comes late finds the region closed. What a task computes must not depend on its
// thread.
//
// Workers spin a little between regions and then sleep. One region runs at a time: kernels hold the GIL, so no second
// caller can be inside. A fork leaves the child without workers; it notices by its process id and starts its own.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(_WIN32)
#include <process.h>
#else
#include <unistd.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace steady {

inline void pause_cpu() {
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

inline int process_id() {
#if defined(_WIN32)
    return _getpid();
#else
    return static_cast<int>(getpid());
#endif
}

// Flushes denormals to zero while it lives (they make Adam twice as slow), then restores the caller's mode.
class FlushDenormals {
public:
#if defined(__x86_64__) || defined(_M_X64)
    FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
    ~FlushDenormals() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
    FlushDenormals() {
        asm volatile("mrs %0, fpcr" : "=r"(saved_));
        asm volatile("msr fpcr, %0" ::"r"(saved_ | (1ull << 24)));
    }
    ~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }
#endif
    FlushDenormals(const FlushDenormals&) = delete;
    FlushDenormals& operator=(const FlushDenormals&) = delete;

private:
#if defined(__x86_64__) || defined(_M_X64)
    unsigned saved_;
#elif defined(__aarch64__)
    uint64_t saved_;
#endif
};

// Floats at a multiple of 64 bytes, zero at first; growing forgets the contents.
class FloatBuffer {
public:
    float* reserve(size_t count) {
        if (count > capacity_) {
            memory_.reset(new (std::align_val_t(64)) float[count]());
            capacity_ = count;
        }
        return memory_.get();
    }
    float* data() const { return memory_.get(); }

private:
    struct Release {
        void operator()(float* p) const { ::operator delete[](p, std::align_val_t(64)); }
    };
    std::unique_ptr<float[], Release> memory_;
    size_t capacity_ = 0;
};

class Pool;

// What one thread knows inside a region.
class Region {
public:
    Region(Pool& pool, int thread, int threads) : pool_(pool), thread_(thread), threads_(threads) {}

    int threads() const { return threads_; }
    float* scratch() const;  // Pool::SCRATCH floats of this thread's own

    // Runs body(i) once for every i < count, on any thread; returns when all are done.
    template <class Body>
    void tasks(int count, Body&& body);

    // The same for body(first, last) over pieces of [0, count), one for each thread, cut at multiples of `grain`.
    template <class Body>
    void chunks(int64_t count, int64_t grain, Body&& body) {
        const int64_t grains = (count + grain - 1) / grain, size = (grains + threads_ - 1) / threads_ * grain;
        tasks(size == 0 ? 0 : static_cast<int>((count + size - 1) / size), [&](int i) {
            body(i * size, (i + 1) * size < count ? (i + 1) * size : count);
        });
    }

private:
    Pool& pool_;
    int thread_, threads_, phase_ = 0;
};

class Pool {
public:
    static constexpr int SCRATCH = 16384;  // floats
    static constexpr int MAX_PHASES = 4;   // of a region
    static constexpr int MAX_THREADS = 64;

    // Leaked on purpose: its threads may outlive every destructor that runs at exit.
    static Pool& get() {
        static Pool* pool = new Pool;
        return *pool;
    }

    int threads() const { return threads_; }

    void set_threads(int wanted) {
        const int threads = wanted < 1 ? 1 : wanted > MAX_THREADS ? MAX_THREADS : wanted;
        if (threads == threads_) return;
        stop_workers();
        threads_ = threads;
    }

    // Runs body(Region&) on up to `wanted` threads, the calling one among them, with denormals flushed.
    template <class Body>
    void run(int wanted, Body&& body) {
        const int threads = wanted < threads_ ? wanted : threads_;
        if (threads > 1) open_region(threads, body);
        {
            const FlushDenormals flushed;
            Region region(*this, 0, threads < 1 ? 1 : threads);
            body(region);
        }
        if (threads > 1) close_region();
    }

private:
    friend class Region;
    static constexpr int SPINS_BEFORE_YIELD = 20000;
    static constexpr std::chrono::microseconds SPIN_TIME{60};
    static constexpr uint32_t CLOSED = ~0u;

    struct alignas(64) Phase {
        std::atomic<int> next{0}, done{0};
    };

    Pool() = default;

    template <class Ready>
    static void spin_until(Ready&& ready) {
        int spins = 0;
        while (!ready()) {
            pause_cpu();
            // Another program may hold the core that the awaited thread needs.
            if (++spins > SPINS_BEFORE_YIELD) {
                std::this_thread::yield();
                spins = 0;
            }
        }
    }

    template <class Body>
    void open_region(int threads, Body& body) {
        if (workers_ == nullptr || owner_ != process_id()) start_workers();
        call_ = [](void* body_, Region& region) { (*static_cast<std::remove_reference_t<Body>*>(body_))(region); };
        body_ = const_cast<void*>(static_cast<const void*>(std::addressof(body)));
        active_ = threads;
        for (Phase& phase : phases_) {
            phase.next.store(0, std::memory_order_relaxed);
            phase.done.store(0, std::memory_order_relaxed);
        }
        left_.store(0, std::memory_order_relaxed);
        joined_.store(0, std::memory_order_release);
        epoch_.fetch_add(1, std::memory_order_seq_cst);
        if (sleeping_.load(std::memory_order_seq_cst) > 0) epoch_.notify_all();
    }

    // All work is done; who has joined may still be on the way out.
    void close_region() {
        const uint32_t joined = joined_.exchange(CLOSED, std::memory_order_acq_rel);
        spin_until([&] { return left_.load(std::memory_order_acquire) == joined; });
    }

    // Joins the region that is open, if there is room.
    void take_part() {
        uint32_t joined = joined_.load(std::memory_order_acquire);
        do {
            // active_ is read only while the region cannot end: CLOSED is larger than any count.
            if (joined == CLOSED || static_cast<int>(joined) >= threads_ - 1) return;
        } while (!joined_.compare_exchange_weak(joined, joined + 1, std::memory_order_acq_rel));
        const int thread = static_cast<int>(joined) + 1;
        if (thread < active_) {
            const FlushDenormals flushed;
            Region region(*this, thread, active_);
            call_(body_, region);
        }
        left_.fetch_add(1, std::memory_order_release);
    }

    void start_workers() {
        // In a forked child the old threads do not exist: their handles are abandoned, never joined.
        (void)workers_.release();
        sleeping_ = 0;
        joined_ = CLOSED;
        stopping_ = false;
        owner_ = process_id();
        workers_ = std::make_unique<std::vector<std::thread>>();
        const uint32_t seen = epoch_.load();
        for (int i = 1; i < threads_; i++) workers_->emplace_back([this, seen] { work(seen); });
    }

    void stop_workers() {
        if (workers_ != nullptr && owner_ == process_id()) {
            stopping_ = true;
            epoch_.fetch_add(1);
            epoch_.notify_all();
            for (std::thread& worker : *workers_) worker.join();
            workers_.reset();
        } else {
            (void)workers_.release();
        }
        stopping_ = false;
    }

    void await_region(uint32_t seen) {
        const auto start = std::chrono::steady_clock::now();
        for (int spins = 1; epoch_.load(std::memory_order_acquire) == seen; spins++) {
            pause_cpu();
            if (spins % 32 != 0 || std::chrono::steady_clock::now() - start < SPIN_TIME) continue;
            sleeping_.fetch_add(1);
            while (epoch_.load() == seen) epoch_.wait(seen);
            sleeping_.fetch_sub(1);
            return;
        }
    }

    void work(uint32_t seen) {
        for (;;) {
            await_region(seen);
            seen = epoch_.load(std::memory_order_acquire);
            if (stopping_.load()) return;
            take_part();
        }
    }

    int threads_ = 1;  // changed only while there are no workers
    int owner_ = 0;
    FloatBuffer scratch_[MAX_THREADS];
    std::unique_ptr<std::vector<std::thread>> workers_;
    // Written by the caller before the region opens, read by those who joined it.
    void (*call_)(void*, Region&) = nullptr;
    void* body_ = nullptr;
    int active_ = 1;
    Phase phases_[MAX_PHASES];
    std::atomic<bool> stopping_{false};
    alignas(64) std::atomic<uint32_t> epoch_{0};
    alignas(64) std::atomic<int> sleeping_{0};
    alignas(64) std::atomic<uint32_t> joined_{CLOSED};
    alignas(64) std::atomic<uint32_t> left_{0};
};

inline float* Region::scratch() const { return pool_.scratch_[thread_].reserve(Pool::SCRATCH); }

template <class Body>
void Region::tasks(int count, Body&& body) {
    if (threads_ == 1) {
        for (int i = 0; i < count; i++) body(i);
        return;
    }
    Pool::Phase& phase = pool_.phases_[phase_++];
    for (int i; (i = phase.next.fetch_add(1, std::memory_order_relaxed)) < count;) {
        body(i);
        phase.done.fetch_add(1, std::memory_order_acq_rel);
    }
    Pool::spin_until([&] { return phase.done.load(std::memory_order_acquire) == count; });
}

// Below this many floating point operations a second thread costs more than it brings.
constexpr double OPERATIONS_WORTH_THREADS = 1e6;

// As many threads as have that much to do, so that sixty cores do not share four rows each.
inline int threads_for(double operations) {
    const double worth = 1 + operations / OPERATIONS_WORTH_THREADS;
    return worth >= Pool::get().threads() ? Pool::get().threads() : static_cast<int>(worth);
}

}  // namespace steady
