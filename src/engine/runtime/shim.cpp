// What tch does not wrap: counts of live and reserved bytes, device memory, and giving cached memory back.
// Device-neutral: all of it lies in libtorch_cpu, so nothing here links CUDA or HIP.

#include <ATen/DeviceAccelerator.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

void count(int64_t size) {
  const int64_t live = live_bytes.fetch_add(size, std::memory_order_relaxed) + size;
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
    char *block = static_cast<char *>(c10::alloc_cpu(size + kHeader));
    const int64_t counted = static_cast<int64_t>(size);
    std::memcpy(block, &counted, sizeof(counted));
    count(counted);
    char *data = block + kHeader;
    return {data, data, &free_counted, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }
  void copy_data(void *to, const void *from, size_t count) const override { default_copy_data(to, from, count); }
};

CountingAllocator counting;

} // namespace

extern "C" {

// Before the first tensor: from here on every CPU tensor is counted.
void safelight_count_cpu_tensors() noexcept { c10::SetCPUAllocator(&counting, 255); }

int64_t safelight_cpu_live_bytes() noexcept { return live_bytes.load(std::memory_order_relaxed); }

// The most that was alive at once since the last reset.
int64_t safelight_cpu_peak_bytes() noexcept { return peak_bytes.load(std::memory_order_relaxed); }

void safelight_reset_cpu_peak() noexcept { peak_bytes.store(live_bytes.load(std::memory_order_relaxed)); }

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
}
