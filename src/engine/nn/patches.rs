//! Latents as tokens of several latents each, and back.

use tch::Tensor;

/// Order of the numbers of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchOrder {
    ChannelsFirst,
    ChannelsLast,
}

/// `patch`: frames, rows and columns of latents in a token; `(B, C, f, h, w)` -> `(B, tokens, C * patch)`
pub fn patches(latents: &Tensor, [pt, ph, pw]: [i64; 3], order: PatchOrder) -> Tensor {
    let (b, c, f, h, w) = latents.size5().expect("latents have five dimensions");
    let split = latents.reshape([b, c, f / pt, pt, h / ph, ph, w / pw, pw]);
    // b c (f pt) (h ph) (w pw) -> b (f h w) and c, pt, ph, pw
    let split = match order {
        PatchOrder::ChannelsFirst => split.permute([0, 2, 4, 6, 1, 3, 5, 7]),
        PatchOrder::ChannelsLast => split.permute([0, 2, 4, 6, 3, 5, 7, 1]),
    };
    split.reshape([b, (f / pt) * (h / ph) * (w / pw), c * pt * ph * pw])
}

/// The way back, to latents of these frames, rows and columns: `(B, tokens, C * patch)` -> `(B, C, f, h, w)`
pub fn from_patches(
    tokens: &Tensor,
    [f, h, w]: [i64; 3],
    [pt, ph, pw]: [i64; 3],
    order: PatchOrder,
) -> Tensor {
    let b = tokens.size()[0];
    let grid = [b, f / pt, h / ph, w / pw];
    let latents = match order {
        PatchOrder::ChannelsFirst => tokens
            .reshape([&grid[..], &[-1, pt, ph, pw]].concat())
            .permute([0, 4, 1, 5, 2, 6, 3, 7]),
        PatchOrder::ChannelsLast => tokens
            .reshape([&grid[..], &[pt, ph, pw, -1]].concat())
            .permute([0, 7, 1, 4, 2, 5, 3, 6]),
    };
    latents.reshape([b, -1, f, h, w])
}
