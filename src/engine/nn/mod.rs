//! Layers that several families share, built from a [`Weights`](crate::weights::Weights) cursor.
//!
//! Only leaf layers and small formulas live here; whole blocks belong to their families.
//! Nothing here trains, drops out or initialises. Passes between matrix products come from
//! [`kernels`](crate::kernels), which fuses them where it can.

mod adapter;
mod attention;
mod clip;
mod conv;
mod linear;
mod norm;
mod patches;
mod rope;
#[cfg(test)]
mod tests;

pub use crate::kernels::{
    FusedNorm, GateArgs, RopePairing, TokenRows, gated_add, gated_add_norm, gelu_tanh, gelu_times,
    layer_norm, pixel_norm_silu_into, rms_norm, rms_norm_in_place, rms_norm_shifted, silu,
    silu_times, times_sigmoid,
};
pub use attention::{
    SpreadHeads, attention, join_heads, lowest, pixel_attention, qkv_attention, shared_attention,
    split_heads, spread_qkv_attention, wide_attention,
};
pub use clip::ClipTower;
pub use conv::{ConvBias, ImageConv, channels_innermost, convolve_images, convolve_strided};
pub use linear::{Linear, Mlp, SwiGlu};
pub use norm::{LayerNorm, QkNorm, T5Norm, TokenRmsNorm};
pub use patches::{PatchOrder, from_patches, patches};
pub use rope::{
    NUM_TIMESTEPS, Rope, angles_at, angles_of_ids, image_ids, rounded_timesteps,
    scaled_timestep_embedding, timestep_embedding,
};
