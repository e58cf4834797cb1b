// The stream that libtorch computes on, which tch does not know. All of it lies in libc10: nothing links CUDA or HIP.

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

// Fills the driver's handle of the current stream. Returns false, and never throws, when there is none to be had.
extern "C" bool safelight_current_stream(int8_t index, void **handle) noexcept {
  try {
    const c10::Device device(c10::DeviceType::CUDA, index);
    const c10::Stream stream = c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(device);
    if (stream.id() == 0) {
      *handle = nullptr; // The default stream, which every driver takes as null.
    } else {
      *handle = stream.native_handle();
    }
    return true;
  } catch (...) {
    return false;
  }
}
