// Ranks on CPUs: Gloo through c10d, and the store where ranks meet. All of it lies in libtorch_cpu.

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace gloo::transport {
class Device;
} // namespace gloo::transport

namespace c10d {

// What libtorch's ProcessGroupGloo is made from. Its own header includes Gloo's, which libtorch does not ship.
// Everything else is called through Backend; `room` is more than its members take (libtorch 2.11 and 2.13).
class ProcessGroupGloo : public Backend {
public:
  struct Options : public Backend::Options {
    explicit Options(std::chrono::milliseconds timeout);

    std::vector<std::shared_ptr<::gloo::transport::Device>> devices;
    int threads{2};
  };

  static std::shared_ptr<::gloo::transport::Device> createDeviceForHostname(const std::string &hostname,
                                                                            bool lazyInit = false);
  static std::shared_ptr<::gloo::transport::Device> createDeviceForInterface(const std::string &interface,
                                                                             bool lazyInit = false);

  explicit ProcessGroupGloo(const c10::intrusive_ptr<Store> &store, int rank, int size,
                            c10::intrusive_ptr<Options> options);
  ~ProcessGroupGloo() override;

private:
  char room[8192];
};

} // namespace c10d

namespace {

// A rank may load weights for minutes before it takes part.
constexpr std::chrono::milliseconds kTimeout = std::chrono::minutes(30);

using StorePointer = c10::intrusive_ptr<c10d::Store>;
using GroupPointer = c10::intrusive_ptr<c10d::Backend>;

void copy_error(const char *message, char *error, size_t room) {
  const size_t length = std::min(std::strlen(message), room - 1);
  std::memcpy(error, message, length);
  error[length] = '\0';
}

} // namespace

// These functions never throw: they return null or false with a message in `error`.

// The store of all ranks: the first one serves it, at a free port if `*port` is 0, and fills the port.
extern "C" void *safelight_store(const char *host, uint16_t *port, bool is_first, char *error, size_t room) noexcept {
  try {
    c10d::TCPStoreOptions options;
    options.port = *port;
    options.isServer = is_first;
    options.waitWorkers = false;
    options.timeout = kTimeout;
    auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    *port = store->getPort();
    return new StorePointer(std::move(store));
  } catch (const std::exception &err) {
    copy_error(err.what(), error, room);
    return nullptr;
  }
}

extern "C" void safelight_store_drop(void *store) noexcept { delete static_cast<StorePointer *>(store); }

// A group of `ranks` ranks; returns when all have come.
extern "C" void *safelight_gloo(void *store, const char *host, int rank, int ranks, char *error,
                                size_t room) noexcept {
  try {
    auto options = c10::make_intrusive<c10d::ProcessGroupGloo::Options>(kTimeout);
    // As PyTorch does where a computer has several networks.
    const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
    options->devices.push_back(interface == nullptr || *interface == '\0'
                                   ? c10d::ProcessGroupGloo::createDeviceForHostname(host)
                                   : c10d::ProcessGroupGloo::createDeviceForInterface(interface));
    GroupPointer group = c10::make_intrusive<c10d::ProcessGroupGloo>(*static_cast<StorePointer *>(store), rank, ranks,
                                                                     std::move(options));
    // One that leaves early must not break the connections that others still make.
    group->barrier()->wait();
    return new GroupPointer(std::move(group));
  } catch (const std::exception &err) {
    copy_error(err.what(), error, room);
    return nullptr;
  }
}

extern "C" void safelight_gloo_drop(void *group) noexcept { delete static_cast<GroupPointer *>(group); }

// Sends `input_bytes[i]` bytes to rank `peers[i]` and receives `output_bytes[i]` from it.
extern "C" bool safelight_gloo_exchange(void *group, const int *peers, int count, void *const *outputs,
                                        const int64_t *output_bytes, void *const *inputs, const int64_t *input_bytes,
                                        char *error, size_t room) noexcept {
  try {
    const GroupPointer &backend = *static_cast<GroupPointer *>(group);
    std::vector<c10::intrusive_ptr<c10d::Work>> running;
    const auto options = at::TensorOptions().dtype(at::kByte);
    for (int i = 0; i < count; ++i) {
      if (output_bytes[i] > 0) {
        std::vector<at::Tensor> to{at::from_blob(outputs[i], {output_bytes[i]}, options)};
        running.push_back(backend->recv(to, peers[i], 0));
      }
      if (input_bytes[i] > 0) {
        std::vector<at::Tensor> from{at::from_blob(inputs[i], {input_bytes[i]}, options)};
        running.push_back(backend->send(from, peers[i], 0));
      }
    }
    for (const auto &work : running) {
      work->wait();
    }
    return true;
  } catch (const std::exception &err) {
    copy_error(err.what(), error, room);
    return false;
  }
}
