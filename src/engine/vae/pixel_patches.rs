//! Squares of pixels as channels, in the order of the video autoencoders.

use tch::Tensor;

/// Squares of pixels become channels. `pixels`: `(1, C, T, H, W)` → `(T, H/p, W/p, C · p · p)`
pub(super) fn patchify(pixels: &Tensor, patch: i64) -> Tensor {
    let size = pixels.size();
    let (frames, height, width) = (size[2], size[3] / patch, size[4] / patch);
    // 1 c t (h ph) (w pw) -> t h w (c pw ph): the column of a patch before its row
    let xs = pixels.reshape([size[1], frames, height, patch, width, patch]);
    let xs = xs.permute([1, 2, 4, 0, 5, 3]);
    xs.reshape([frames, height, width, size[1] * patch * patch])
}

/// The way back. `xs`: `(T, h, w, C · p · p)` → `(1, C, T, h · p, w · p)`
pub(super) fn unpatchify(xs: &Tensor, patch: i64) -> Tensor {
    let (frames, height, width, channels) = xs.size4().expect("frames have four dimensions");
    let colours = channels / (patch * patch);
    // t h w (c pw ph) -> 1 c t (h ph) (w pw)
    let xs = xs.view([frames, height, width, colours, patch, patch]);
    let xs = xs.permute([3, 0, 1, 5, 2, 4]);
    xs.reshape([1, colours, frames, height * patch, width * patch])
}
