// Normal noise from generators of their own; tch knows only the one that all threads share.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

extern "C" {

// Never throws; null when there is no memory.
at::Generator *safelight_generator(uint64_t seed) noexcept {
  try {
    return new at::Generator(at::detail::createCPUGenerator(seed));
  } catch (...) {
    return nullptr;
  }
}

// Never throws; null when there is no memory or the size makes no sense.
at::Tensor *safelight_generator_normal(at::Generator *generator, const int64_t *sizes, size_t rank) noexcept {
  try {
    return new at::Tensor(at::randn(at::IntArrayRef(sizes, rank), *generator, at::TensorOptions().dtype(at::kFloat)));
  } catch (...) {
    return nullptr;
  }
}

void safelight_generator_free(at::Generator *generator) noexcept { delete generator; }
}
