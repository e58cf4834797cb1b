//! Convolution backend and compute options of the running stage.
//!
//! They hold for the thread that runs the stage, from [`use_compute_options`] until its guard is dropped. libtorch's
//! switches are global to the process and are only set for a GPU.

use std::cell::Cell;

use safelight_core::compute::conv_backends::ConvBackend;
use safelight_core::compute::{AttentionChoice, ComputeOptions, DecodeChunk, MatrixLibrary};
use tch::{Cuda, Device};

use super::is_rocm;

#[expect(unsafe_code, reason = "declaration of shim.cpp")]
unsafe extern "C" {
    fn safelight_use_fused_attention(flash: bool, efficient: bool, cudnn: bool);
    fn safelight_prefer_matrix_library(library: i8) -> bool;
}

#[derive(Clone, Copy, Debug)]
struct ActiveComputeOptions {
    /// `None` outside of a stage.
    conv_backend: Option<ConvBackend>,
    options: ComputeOptions,
}

thread_local! {
    static ACTIVE: Cell<ActiveComputeOptions> = const {
        Cell::new(ActiveComputeOptions {
            conv_backend: None,
            options: ComputeOptions {
                attention: AttentionChoice::Auto,
                matrices: MatrixLibrary::Auto,
                chunk: DecodeChunk::Auto,
            },
        })
    };
}

/// Returns the backend of 3D convolutions on this thread. The default on AMD's GPUs is the one that needs no probe: some
/// versions of MIOpen hang in 3D convolutions (ROCm/rocm-libraries#2218, #3509).
pub(crate) fn conv_backend() -> ConvBackend {
    let chosen = ACTIVE.get().conv_backend;
    chosen.unwrap_or_else(|| {
        if is_rocm() {
            ConvBackend::Frames
        } else {
            ConvBackend::Direct
        }
    })
}

pub(crate) fn attention_choice() -> AttentionChoice {
    ACTIVE.get().options.attention
}

/// Returns the number of latent frames that video decoders built on this thread take at a time.
pub(crate) fn chunk_frames() -> i64 {
    i64::from(ACTIVE.get().options.chunk.frames())
}

/// Disables fused attention on this thread. Returns `false` if it was disabled already.
pub(crate) fn disable_fused_attention() -> bool {
    let mut active = ACTIVE.get();
    let is_new = active.options.attention != AttentionChoice::Sliced;
    active.options.attention = AttentionChoice::Sliced;
    ACTIVE.set(active);
    is_new
}

/// Disables MIOpen on AMD's GPUs until the guard is dropped, for networks with a few convolutions that no probe covers:
/// previews and image encoders. MIOpen hangs in some, and would with every job.
pub(crate) fn disable_miopen(device: Device) -> Option<ComputeOptionsGuard> {
    disable_miopen_if(is_rocm(), device)
}

fn disable_miopen_if(is_rocm: bool, device: Device) -> Option<ComputeOptionsGuard> {
    let options = ACTIVE.get().options;
    is_rocm.then(|| use_compute_options(device, ConvBackend::NoMiopen, options))
}

/// Restores the options that were active before.
#[derive(Debug)]
#[must_use = "the options are restored when it is dropped"]
pub struct ComputeOptionsGuard {
    before: ActiveComputeOptions,
    device: Device,
}

/// Computes on `device` with these options until the guard is dropped.
pub fn use_compute_options(
    device: Device,
    conv_backend: ConvBackend,
    options: ComputeOptions,
) -> ComputeOptionsGuard {
    let active = ActiveComputeOptions {
        conv_backend: Some(conv_backend),
        options,
    };
    let before = ACTIVE.replace(active);
    switch(device, before, active);
    ComputeOptionsGuard { before, device }
}

impl Drop for ComputeOptionsGuard {
    fn drop(&mut self) {
        let now = ACTIVE.replace(self.before);
        switch(self.device, now, self.before);
    }
}

fn switch(device: Device, before: ActiveComputeOptions, active: ActiveComputeOptions) {
    if device == Device::Cpu {
        return;
    }
    let library = active.options.matrices;
    if library != before.options.matrices && !prefer_matrix_library(library) {
        tracing::warn!(
            "this libtorch does not multiply matrices by {}",
            library.label()
        );
    }
    Cuda::set_user_enabled_cudnn(active.conv_backend != Some(ConvBackend::NoMiopen));
    let allows = |choice| {
        matches!(
            active.options.attention,
            AttentionChoice::Auto | AttentionChoice::Sliced
        ) || active.options.attention == choice
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

/// Sets the library of matrix products for the process. Returns `false` if this libtorch lacks it.
fn prefer_matrix_library(library: MatrixLibrary) -> bool {
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
    fn miopen_is_disabled_on_amds_gpus_alone_and_other_options_are_kept() {
        let options = ComputeOptions {
            attention: AttentionChoice::Sliced,
            ..ComputeOptions::default()
        };
        let _stage = use_compute_options(Device::Cpu, ConvBackend::Frames, options);
        assert!(disable_miopen_if(false, Device::Cpu).is_none());
        let guard = disable_miopen_if(true, Device::Cpu);
        assert_eq!(conv_backend(), ConvBackend::NoMiopen);
        assert_eq!(attention_choice(), AttentionChoice::Sliced);
        drop(guard);
        assert_eq!(conv_backend(), ConvBackend::Frames);
    }

    #[test]
    fn options_hold_for_one_thread_until_their_guard_is_dropped() {
        assert_eq!(conv_backend(), ConvBackend::Direct);
        {
            let options = ComputeOptions {
                attention: AttentionChoice::Flash,
                chunk: DecodeChunk::Four,
                ..ComputeOptions::default()
            };
            let _guard = use_compute_options(Device::Cpu, ConvBackend::Frames, options);
            assert_eq!(chunk_frames(), 4);
            assert_eq!(conv_backend(), ConvBackend::Frames);
            assert_eq!(attention_choice(), AttentionChoice::Flash);
            let elsewhere =
                std::thread::scope(|scope| scope.spawn(attention_choice).join().unwrap());
            assert_eq!(elsewhere, AttentionChoice::Auto);
            assert!(disable_fused_attention() && !disable_fused_attention());
            assert_eq!(attention_choice(), AttentionChoice::Sliced);
        }
        assert_eq!(conv_backend(), ConvBackend::Direct);
        assert_eq!(ACTIVE.get().options, ComputeOptions::default());
    }
}
