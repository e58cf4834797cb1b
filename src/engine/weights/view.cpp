// A tensor over memory that somebody else owns, who is told when the last tensor over it is gone.
// tch can make such tensors only without the telling.

#include <ATen/ops/from_blob.h>

// Never throws. `release(owner)` is called exactly once, also when the result is null.
extern "C" at::Tensor *safelight_tensor_over(void *data, const int64_t *sizes, size_t rank, int8_t scalar_type,
                                             void *owner, void (*release)(void *)) noexcept {
  try {
    return new at::Tensor(at::for_blob(data, at::IntArrayRef(sizes, rank))
                              .context(owner, release)
                              .options(at::TensorOptions().dtype(static_cast<at::ScalarType>(scalar_type)))
                              .make_tensor());
  } catch (...) {
    return nullptr;
  }
}
