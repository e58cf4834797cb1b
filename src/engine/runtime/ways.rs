//! How a stage computes where there is a choice: its tier of convolutions and its kind of attention.
//!
//! Both hold for the thread that runs the stage, from [`enter`] until what that gives is dropped. The switches of
//! libtorch that go with them are the process's, and are touched on a GPU only.

use std::cell::Cell;

use safelight_core::memory::tiers::{AttentionChoice, ConvolutionTier};
use tch::{Cuda, Device};

use super::is_rocm;

#[expect(unsafe_code, reason = "declaration of shim.cpp")]
unsafe extern "C" {
    fn safelight_use_fused_attention(flash: bool, efficient: bool, cudnn: bool);
}

#[derive(Clone, Copy, Debug)]
struct Ways {
    /// `None`: nobody chose.
    convolution: Option<ConvolutionTier>,
    attention: AttentionChoice,
}

thread_local! {
    static WAYS: Cell<Ways> = const {
        Cell::new(Ways {
            convolution: None,
            attention: AttentionChoice::Auto,
        })
    };
}

/// How convolutions over time are computed on this thread. Where nobody chose, AMD's GPUs get what no probe is needed
/// for: some versions of MIOpen hang in convolutions of volumes (ROCm/rocm-libraries#2218, #3509).
pub(crate) fn convolution_tier() -> ConvolutionTier {
    let chosen = WAYS.get().convolution;
    chosen.unwrap_or_else(|| {
        if is_rocm() {
            ConvolutionTier::Frames
        } else {
            ConvolutionTier::Direct
        }
    })
}

/// How attention is computed on this thread.
pub(crate) fn attention_choice() -> AttentionChoice {
    WAYS.get().attention
}

/// From here on no fused attention on this thread. `false` where that is so already.
pub(crate) fn distrust_fused_attention() -> bool {
    let ways = WAYS.get();
    let is_new = ways.attention != AttentionChoice::Sliced;
    WAYS.set(Ways {
        attention: AttentionChoice::Sliced,
        ..ways
    });
    is_new
}

/// Ends what [`enter`] began.
#[derive(Debug)]
#[must_use = "the ways end with it"]
pub struct Entered {
    before: Ways,
    device: Device,
}

/// Computes on `device` in these ways until what is given back is dropped.
pub fn enter(device: Device, convolution: ConvolutionTier, attention: AttentionChoice) -> Entered {
    let before = WAYS.replace(Ways {
        convolution: Some(convolution),
        attention,
    });
    switch(device, WAYS.get());
    Entered { before, device }
}

impl Drop for Entered {
    fn drop(&mut self) {
        WAYS.set(self.before);
        switch(self.device, self.before);
    }
}

fn switch(device: Device, ways: Ways) {
    if device == Device::Cpu {
        return;
    }
    Cuda::set_user_enabled_cudnn(ways.convolution != Some(ConvolutionTier::NoMiopen));
    let allows = |choice| {
        matches!(
            ways.attention,
            AttentionChoice::Auto | AttentionChoice::Sliced
        ) || ways.attention == choice
    };
    #[expect(unsafe_code, reason = "a C function with three flags")]
    // SAFETY: sets flags of libtorch's global context.
    unsafe {
        safelight_use_fused_attention(
            allows(AttentionChoice::Flash),
            allows(AttentionChoice::Efficient),
            allows(AttentionChoice::Auto),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_hold_for_a_stage_and_its_thread_and_end_with_it() {
        assert_eq!(convolution_tier(), ConvolutionTier::Direct);
        {
            let _ways = enter(Device::Cpu, ConvolutionTier::Frames, AttentionChoice::Flash);
            assert_eq!(convolution_tier(), ConvolutionTier::Frames);
            assert_eq!(attention_choice(), AttentionChoice::Flash);
            let elsewhere =
                std::thread::scope(|scope| scope.spawn(attention_choice).join().unwrap());
            assert_eq!(elsewhere, AttentionChoice::Auto);
            assert!(distrust_fused_attention() && !distrust_fused_attention());
            assert_eq!(attention_choice(), AttentionChoice::Sliced);
        }
        assert_eq!(convolution_tier(), ConvolutionTier::Direct);
        assert_eq!(attention_choice(), AttentionChoice::Auto);
    }
}
