// Normal noise from a generator of its own; tch knows only the one that all threads share.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

// Never throws; null when there is no memory.
extern "C" at::Tensor *safelight_noise(const int64_t *sizes, size_t rank, uint64_t seed) noexcept {
  try {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    return new at::Tensor(at::randn(at::IntArrayRef(sizes, rank), generator, at::TensorOptions().dtype(at::kFloat)));
  } catch (...) {
    return nullptr;
  }
}
