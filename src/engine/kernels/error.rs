//! Why the kernels are not used. None of these ends a job: libtorch's own operations do the work then.

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KernelError {
    #[error("this libtorch has no GPU part")]
    NoGpuHalf,

    #[error(
        "expected the function {name}, found none in the driver and the compiler of this libtorch"
    )]
    MissingFunction { name: &'static str },

    #[error("{call} failed with code {code}")]
    Call { call: &'static str, code: i32 },

    #[error("{call} gave a version or name that makes no sense")]
    Nonsense { call: &'static str },

    #[error("the compiler refused them: {log}")]
    Compile { log: String },

    #[error("AMD's compiler ended by signal {signal}, as it does for a GPU that it does not know")]
    CompilerEnded { signal: i32 },

    #[error("libtorch has no stream on this device")]
    NoStream,

    #[error("{kernel} was {off:.1} times as far from libtorch as rounding goes")]
    Mismatch { kernel: String, off: f64 },

    #[error("libtorch failed while they were checked: {reason}")]
    Torch { reason: String },

    #[error("the engine ended {tries} times while they were checked")]
    Crashed { tries: u32 },
}
