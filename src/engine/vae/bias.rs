//! The bias of a convolution, which on a GPU is added together with something else.

use tch::{Device, Kind, Tensor};

/// Convolution bias, `(O)`. On a GPU, where libtorch adds it in a slow separate pass, it is kept separately in f32 and
/// added by a pass that runs anyway.
#[derive(Debug)]
pub(super) struct ConvBias {
    pub(super) own: Tensor,
    pub(super) apart: Option<Tensor>,
}

impl ConvBias {
    pub(super) fn new(own: Tensor) -> Self {
        let is_on_gpu = own.device() != Device::Cpu;
        Self {
            apart: is_on_gpu.then(|| own.to_kind(Kind::Float)),
            own,
        }
    }

    /// Bias that the convolution adds itself.
    pub(super) fn fused(&self) -> Option<&Tensor> {
        self.apart.is_none().then_some(&self.own)
    }

    /// Bias that has to be added to each channel of the convolution's output.
    pub(super) fn lacking(&self) -> Option<&Tensor> {
        self.apart.as_ref()
    }
}
