// What tch does not wrap: counts of live and reserved bytes, device memory, giving cached memory back, and which
// kernels attention may use.
// Device-neutral: all of it lies in libtorch_cpu, so nothing here links CUDA or HIP.

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <typeinfo>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

// In a namespace that others could add to: of a type that is this file's alone the compiler would conclude that nothing
// has these functions, and call none.
namespace safelight {

// What the allocators of libtorch 2.11 and 2.13 for CUDA and for HIP have beyond c10::DeviceAllocator, in the order of
// c10/cuda/CUDACachingAllocator.h, which itself needs CUDA's headers. Nothing is linked: only the order counts.
struct GpuAllocator : c10::DeviceAllocator {
  virtual void *raw_alloc(size_t) = 0;
  virtual void *raw_alloc_with_stream(size_t, void *) = 0;
  virtual void raw_delete(void *) = 0;
  virtual void init(int) = 0;
  virtual double getMemoryFraction(c10::DeviceIndex) = 0;
  virtual void setMemoryFraction(double, c10::DeviceIndex) = 0;
};

} // namespace safelight

namespace {

using safelight::GpuAllocator;

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};
// What may be alive at once; negative for no limit.
std::atomic<int64_t> limit_bytes{-1};

void count(int64_t size) {
  const int64_t live = live_bytes.fetch_add(size, std::memory_order_relaxed) + size;
  const int64_t limit = limit_bytes.load(std::memory_order_relaxed);
  if (limit >= 0 && live > limit) {
    live_bytes.fetch_sub(size, std::memory_order_relaxed);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "not enough memory: ", size, " bytes were wanted, and ", live - size,
                     " of the ", limit, " that are allowed are in use");
  }
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

// In front of each block stands its size; 64 bytes keep the alignment that vector instructions want.
constexpr size_t kHeader = 64;

void free_counted(void *data) {
  if (data == nullptr) {
    return;
  }
  char *block = static_cast<char *>(data) - kHeader;
  int64_t size = 0;
  std::memcpy(&size, block, sizeof(size));
  live_bytes.fetch_sub(size, std::memory_order_relaxed);
  c10::free_cpu(block);
}

// libtorch's own CPU allocation, with a count of the bytes that are alive.
struct CountingAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    if (size == 0) {
      return {nullptr, nullptr, &free_counted, c10::Device(c10::DeviceType::CPU)};
    }
    const int64_t counted = static_cast<int64_t>(size);
    count(counted);
    char *block = nullptr;
    try {
      block = static_cast<char *>(c10::alloc_cpu(size + kHeader));
    } catch (...) {
      live_bytes.fetch_sub(counted, std::memory_order_relaxed);
      throw;
    }
    std::memcpy(block, &counted, sizeof(counted));
    char *data = block + kHeader;
    return {data, data, &free_counted, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }
  void copy_data(void *to, const void *from, size_t count) const override { default_copy_data(to, from, count); }
};

CountingAllocator counting;

// Before `main`: libtorch frees memory with the allocator of that moment, not with the one that it came from.
const bool is_counting = (c10::SetCPUAllocator(&counting, 255), true);

// The allocator, where it is one of those whose order is known; null for any other.
GpuAllocator *gpu_allocator() {
  auto *allocator = c10::getDeviceAllocator(c10::DeviceType::CUDA);
  const char *name = typeid(*allocator).name();
  for (const char *known : {"NativeCachingAllocator", "CudaMallocAsyncAllocator", "MasqueradingAsCUDA"}) {
    if (std::strstr(name, known) != nullptr) {
      return static_cast<GpuAllocator *>(allocator);
    }
  }
  return nullptr;
}

} // namespace

extern "C" {

int64_t safelight_cpu_live_bytes() noexcept { return live_bytes.load(std::memory_order_relaxed); }

// The most that was alive at once since the last reset.
int64_t safelight_cpu_peak_bytes() noexcept { return peak_bytes.load(std::memory_order_relaxed); }

void safelight_reset_cpu_peak() noexcept { peak_bytes.store(live_bytes.load(std::memory_order_relaxed)); }

// Lets CPU tensors take no more than so many bytes at once; negative for no limit.
void safelight_limit_cpu_tensors(int64_t bytes) noexcept { limit_bytes.store(bytes, std::memory_order_relaxed); }

// Lets libtorch's allocator hold no more than this part of a device. Returns false, and never throws, where that cannot
// be said.
bool safelight_limit_device(int8_t index, double fraction) noexcept {
  try {
    GpuAllocator *allocator = gpu_allocator();
    if (allocator == nullptr) {
      return false;
    }
    const double before = allocator->getMemoryFraction(index);
    if (!(before >= 0.0 && before <= 1.0)) {
      return false;
    }
    allocator->setMemoryFraction(fraction, index);
    const double after = allocator->getMemoryFraction(index);
    return after > fraction - 1e-6 && after < fraction + 1e-6;
  } catch (...) {
    return false;
  }
}

// Fills {live, reserved, free, total} of an accelerator. Returns false, and never throws, when there is none.
bool safelight_device_memory(int8_t index, uint64_t *out) noexcept {
  try {
    const auto stats = at::accelerator::getDeviceStats(index);
    const auto memory = at::accelerator::getMemoryInfo(index);
    out[0] = static_cast<uint64_t>(stats.allocated_bytes[0].current);
    out[1] = static_cast<uint64_t>(stats.reserved_bytes[0].current);
    out[2] = memory.first;
    out[3] = memory.second;
    return true;
  } catch (...) {
    return false;
  }
}

// Fills the peaks of {live, reserved} since the last reset. Returns false, and never throws, when there is no device.
bool safelight_device_peaks(int8_t index, uint64_t *out) noexcept {
  try {
    const auto stats = at::accelerator::getDeviceStats(index);
    out[0] = static_cast<uint64_t>(stats.allocated_bytes[0].peak);
    out[1] = static_cast<uint64_t>(stats.reserved_bytes[0].peak);
    return true;
  } catch (...) {
    return false;
  }
}

void safelight_reset_device_peaks(int8_t index) noexcept {
  try {
    at::accelerator::resetPeakStats(index);
  } catch (...) {
  }
}

// Waits until everything that was given to the device is done. False when the device says that something failed.
bool safelight_synchronize(int8_t index) noexcept {
  try {
    at::accelerator::synchronizeDevice(index);
    return true;
  } catch (...) {
    return false;
  }
}

// Gives what the C library keeps of freed memory back to the system: it keeps up to a heap for every thread.
void safelight_trim_host() noexcept {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

// Gives memory that is cached and not in use back to the driver.
void safelight_empty_cache() noexcept {
  try {
    at::accelerator::emptyCache();
  } catch (...) {
  }
}

// Which fused kernels attention may use in this process.
void safelight_use_fused_attention(bool flash, bool efficient, bool cudnn) noexcept {
  try {
    auto &context = at::globalContext();
    context.setSDPUseFlash(flash);
    context.setSDPUseMemEfficient(efficient);
    context.setSDPUseCuDNN(cudnn);
  } catch (...) {
  }
}

// The library that products of matrices prefer: 0 libtorch's own choice, 1 rocBLAS or cuBLAS, 2 hipBLASLt or cuBLASLt.
// False where another one is taken.
bool safelight_prefer_matrix_library(int8_t library) noexcept {
  try {
    auto &context = at::globalContext();
    static const at::BlasBackend own = context.blasPreferredBackend();
    const auto wanted = library == 1 ? at::BlasBackend::Cublas : library == 2 ? at::BlasBackend::Cublaslt : own;
    context.setBlasPreferredBackend(wanted);
    return library == 0 || context.blasPreferredBackend() == wanted;
  } catch (...) {
    return false;
  }
}
}
