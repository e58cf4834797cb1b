// The stream and the device that libtorch computes on, which tch does not know. All of it lies in libc10: nothing links CUDA or HIP.

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <optional>

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

namespace {

// One more stream of a device, for this thread.
c10::Stream side_stream(c10::Device device) {
  thread_local std::optional<c10::Stream> side;
  if (!side || side->device() != device) {
    side = c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  }
  return *side;
}

void wait_for(c10::Stream later, c10::Stream earlier) {
  c10::Event event(c10::DeviceType::CUDA);
  event.record(earlier);
  event.block(later);
}

} // namespace

// Fills the driver's handle of the side stream, whose work from here on waits for what libtorch's stream has now.
extern "C" bool safelight_fork_stream(int8_t index, void **handle) noexcept {
  try {
    const c10::Device device(c10::DeviceType::CUDA, index);
    const c10::Stream side = side_stream(device);
    wait_for(side, c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(device));
    *handle = side.native_handle();
    return true;
  } catch (...) {
    return false;
  }
}

// A mark after what the side stream has now, or null.
extern "C" void *safelight_mark_side_stream(int8_t index) noexcept {
  try {
    auto mark = std::make_unique<c10::Event>(c10::DeviceType::CUDA);
    mark->record(side_stream(c10::Device(c10::DeviceType::CUDA, index)));
    return mark.release();
  } catch (...) {
    return nullptr;
  }
}

// Work of libtorch's stream from here on waits for a mark.
extern "C" bool safelight_wait_for_mark(int8_t index, void *mark) noexcept {
  try {
    const c10::Device device(c10::DeviceType::CUDA, index);
    static_cast<c10::Event *>(mark)->block(c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(device));
    return true;
  } catch (...) {
    return false;
  }
}

extern "C" void safelight_drop_mark(void *mark) noexcept { delete static_cast<c10::Event *>(mark); }

// Selects a device for the calling thread, as libraries other than libtorch expect. Never throws.
extern "C" bool safelight_use_device(int8_t index) noexcept {
  try {
    c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).setDevice(c10::Device(c10::DeviceType::CUDA, index));
    return true;
  } catch (...) {
    return false;
  }
}
