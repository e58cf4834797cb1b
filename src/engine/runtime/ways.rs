//! How a stage computes where there is a choice: its tier of convolutions, and what differs in time alone.
//!
//! Both hold for the thread that runs the stage, from [`enter`] until what that gives is dropped. The switches of
//! libtorch that go with them are the process's, and are touched on a GPU only.

use std::cell::Cell;

use safelight_core::memory::choices::{Choices, Chunk, CopyPath, MatrixLayout, MatrixLibrary};
use safelight_core::memory::tiers::{AttentionChoice, ConvolutionTier};
use tch::{Cuda, Device};

use super::is_rocm;

#[expect(unsafe_code, reason = "declaration of shim.cpp")]
unsafe extern "C" {
    fn safelight_use_fused_attention(flash: bool, efficient: bool, cudnn: bool);
    fn safelight_prefer_matrix_library(library: i8) -> bool;
}

#[derive(Clone, Copy, Debug)]
struct Ways {
    /// `None`: nobody chose.
    convolution: Option<ConvolutionTier>,
    choices: Choices,
}

const AS_BEFORE: Choices = Choices {
    attention: AttentionChoice::Auto,
    matrices: MatrixLibrary::Auto,
    layout: MatrixLayout::Auto,
    chunk: Chunk::Auto,
    copies: CopyPath::Auto,
};

thread_local! {
    static WAYS: Cell<Ways> = const {
        Cell::new(Ways {
            convolution: None,
            choices: AS_BEFORE,
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
    WAYS.get().choices.attention
}

/// How the matrices of linear layers that this thread loads lie on a GPU.
pub(crate) fn matrix_layout() -> MatrixLayout {
    WAYS.get().choices.layout
}

/// Latent frames that decoders of clips which this thread builds take at a time.
pub(crate) fn chunk_frames() -> i64 {
    i64::from(WAYS.get().choices.chunk.frames())
}

/// How the weights that this thread asks for come to a GPU.
pub(crate) fn copy_path() -> CopyPath {
    WAYS.get().choices.copies
}

/// From here on no fused attention on this thread. `false` where that is so already.
pub(crate) fn distrust_fused_attention() -> bool {
    let ways = WAYS.get();
    let is_new = ways.choices.attention != AttentionChoice::Sliced;
    WAYS.set(Ways {
        choices: Choices {
            attention: AttentionChoice::Sliced,
            ..ways.choices
        },
        ..ways
    });
    is_new
}

/// For networks with a few convolutions, which no probe tries: previews and what looks at pictures. On AMD's GPUs MIOpen
/// is left out of them until what is given back is dropped: it hangs in some, and would with every job.
pub(crate) fn without_miopen(device: Device) -> Option<Entered> {
    left_out(device, is_rocm())
}

fn left_out(device: Device, is_rocm: bool) -> Option<Entered> {
    is_rocm.then(|| enter(device, ConvolutionTier::NoMiopen, WAYS.get().choices))
}

/// Ends what [`enter`] began.
#[derive(Debug)]
#[must_use = "the ways end with it"]
pub struct Entered {
    before: Ways,
    device: Device,
}

/// Computes on `device` in these ways until what is given back is dropped.
pub fn enter(device: Device, convolution: ConvolutionTier, choices: Choices) -> Entered {
    let before = WAYS.replace(Ways {
        convolution: Some(convolution),
        choices: choices.plain(),
    });
    switch(device, before, WAYS.get());
    Entered { before, device }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let now = WAYS.replace(self.before);
        switch(self.device, now, self.before);
    }
}

fn switch(device: Device, before: Ways, ways: Ways) {
    if device == Device::Cpu {
        return;
    }
    let library = ways.choices.matrices;
    if library != before.choices.matrices && !prefer(library) {
        tracing::warn!(
            "this libtorch does not multiply matrices by {}",
            library.label()
        );
    }
    Cuda::set_user_enabled_cudnn(ways.convolution != Some(ConvolutionTier::NoMiopen));
    let allows = |choice| {
        matches!(
            ways.choices.attention,
            AttentionChoice::Auto | AttentionChoice::Sliced
        ) || ways.choices.attention == choice
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

/// Lets libtorch multiply matrices by a library of the process's choice; `false` where it does not.
pub(crate) fn prefer(library: MatrixLibrary) -> bool {
    let number = match library {
        MatrixLibrary::Auto => 0,
        MatrixLibrary::Classic => 1,
        MatrixLibrary::Lt => 2,
    };
    #[expect(unsafe_code, reason = "a C function with a number")]
    // SAFETY: sets a value of libtorch's global context, or refuses to.
    unsafe {
        safelight_prefer_matrix_library(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_convolutions_are_computed_without_miopen_on_amds_gpus_alone() {
        let choices = Choices {
            attention: AttentionChoice::Sliced,
            ..Choices::default()
        };
        let _stage = enter(Device::Cpu, ConvolutionTier::Frames, choices);
        assert!(left_out(Device::Cpu, false).is_none());
        let few = left_out(Device::Cpu, true);
        assert_eq!(convolution_tier(), ConvolutionTier::NoMiopen);
        assert_eq!(attention_choice(), AttentionChoice::Sliced);
        drop(few);
        assert_eq!(convolution_tier(), ConvolutionTier::Frames);
    }

    #[test]
    fn ways_hold_for_a_stage_and_its_thread_and_end_with_it() {
        assert_eq!(convolution_tier(), ConvolutionTier::Direct);
        {
            let choices = Choices {
                attention: AttentionChoice::Flash,
                chunk: Chunk::Four,
                ..Choices::default()
            };
            let _ways = enter(Device::Cpu, ConvolutionTier::Frames, choices);
            assert_eq!(chunk_frames(), 4);
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
        assert_eq!(chunk_frames(), 1);
        assert_eq!(AS_BEFORE, Choices::default());
    }
}
