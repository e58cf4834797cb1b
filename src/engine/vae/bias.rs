//! The bias of a convolution, which on a GPU is added together with something else.

use tch::{Device, Kind, Tensor};

/// `(O)`. On a GPU, where libtorch adds it in a slow pass of its own, it stands apart in f32, for a pass that has to be
/// made anyway.
#[derive(Debug)]
pub(super) struct Bias {
    pub(super) own: Tensor,
    pub(super) apart: Option<Tensor>,
}

impl Bias {
    pub(super) fn new(own: Tensor) -> Self {
        let is_on_gpu = own.device() != Device::Cpu;
        Self {
            apart: is_on_gpu.then(|| own.to_kind(Kind::Float)),
            own,
        }
    }

    /// Where the convolution adds it.
    pub(super) fn fused(&self) -> Option<&Tensor> {
        self.apart.is_none().then_some(&self.own)
    }

    /// What has to be added to each channel of what the convolution gives.
    pub(super) fn lacking(&self) -> Option<&Tensor> {
        self.apart.as_ref()
    }
}
