//! Squares of pixels as channels, in the order of the video autoencoders.

use tch::Tensor;

/// Squares of pixels become channels. `pixels`: `(1, 3, T, H, W)` → `(T, H/p, W/p, 3 · p · p)`
pub(super) fn patchify(pixels: &Tensor, patch: i64) -> Tensor {
    let size = pixels.size();
    let (frames, height, width) = (size[2], size[3] / patch, size[4] / patch);
    // 1 c t (h ph) (w pw) -> t h w (c pw ph): the column of a patch before its row
    let xs = pixels.reshape([3, frames, height, patch, width, patch]);
    let xs = xs.permute([1, 2, 4, 0, 5, 3]);
    xs.reshape([frames, height, width, 3 * patch * patch])
}

/// The way back. `xs`: `(T, h, w, 3 · p · p)` → `(1, 3, T, h · p, w · p)`
pub(super) fn unpatchify(xs: &Tensor, patch: i64) -> Tensor {
    let (frames, height, width, _) = xs.size4().expect("frames have four dimensions");
    // t h w (c pw ph) -> 1 c t (h ph) (w pw)
    let xs = xs.view([frames, height, width, 3, patch, patch]);
    let xs = xs.permute([3, 0, 1, 5, 2, 4]);
    xs.reshape([1, 3, frames, height * patch, width * patch])
}
