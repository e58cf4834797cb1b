//! Post-processing of existing images and videos: requests and their checks, installed networks, and tiles.

mod form;
mod networks;
mod request;
mod retiming;
mod tiles;

#[cfg(test)]
pub(crate) use form::tests::network as test_network;
pub use form::{
    NewRate, PostprocessForm, PostprocessOptions, TargetSize, ending_of, fingerprint, look_at,
};
pub use networks::{
    FoundInterpolator, FoundUpscaler, InstalledNetwork, find_interpolators, find_upscalers,
    interpolator_named, upscaler_named,
};
pub use request::{PostprocessKind, PostprocessRequest};
pub use retiming::{FramePlace, FrameRetiming, MAX_FPS, TIMES};
pub use tiles::{CPU_TILE_BYTES, MAX_HALO, TileSize, room_for_tiles};
