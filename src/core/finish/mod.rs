//! Post-processing of existing images and videos: requests and their checks, installed networks, and tiles.

mod form;
mod networks;
mod retiming;

#[cfg(test)]
pub(crate) use form::tests::network as test_network;
pub use form::{
    NewRate, PostprocessForm, PostprocessOptions, TargetSize, ending_of, fingerprint, look_at,
};
pub use networks::{
    FoundDepth, FoundInterpolator, FoundUpscaler, InstalledNetwork, chosen_depth,
    chosen_interpolator, chosen_upscaler, find_depth, find_interpolators, find_upscalers,
    read_depth, read_interpolator, read_upscaler,
};
pub use retiming::{FramePlace, FrameRetiming, MAX_FPS, TIMES};
