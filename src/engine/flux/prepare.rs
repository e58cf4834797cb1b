//! What goes into the denoising loop: sizes, noise, a given picture, tokens and their places.

use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::sampling::Generator;

/// Pixels that make one latent, along each edge.
const PIXELS: u32 = 8;

/// Latents that make one token, along each edge.
const PATCH: i64 = 2;

/// The sizes of one picture's latents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatentShape {
    pub channels: i64,
    pub height: i64,
    pub width: i64,
}

impl LatentShape {
    /// `width` and `height` in pixels: multiples of 16.
    pub fn new(channels: i64, width: u32, height: u32) -> Result<Self, EngineError> {
        let step = PIXELS * PATCH as u32;
        if [width, height]
            .iter()
            .any(|&n| n == 0 || !n.is_multiple_of(step))
        {
            return Err(EngineError::Request {
                reason: format!(
                    "this model makes widths and heights that are multiples of {step}, not {width}×{height}"
                ),
            });
        }
        Ok(Self {
            channels,
            height: i64::from(height / PIXELS),
            width: i64::from(width / PIXELS),
        })
    }

    /// `(1, C, h, w)`
    pub fn size(&self) -> [i64; 4] {
        [1, self.channels, self.height, self.width]
    }

    pub fn tokens(&self) -> i64 {
        (self.height / PATCH) * (self.width / PATCH)
    }

    /// `(1, C, h, w)` -> `(1, tokens, 4 C)`; `C` may be another number than that of the latents, as masks have it
    pub fn pack(&self, latents: &Tensor) -> Tensor {
        let (rows, columns) = (self.height / PATCH, self.width / PATCH);
        // b c (h p) (w q) -> b (h w) (c p q)
        latents
            .reshape([1, -1, rows, PATCH, columns, PATCH])
            .permute([0, 2, 4, 1, 3, 5])
            .reshape([1, rows * columns, -1])
    }

    /// `(1, tokens, 4 C)` -> `(1, C, h, w)`
    pub fn unpack(&self, tokens: &Tensor) -> Tensor {
        let (rows, columns) = (self.height / PATCH, self.width / PATCH);
        // b (h w) (c p q) -> b c (h p) (w q)
        tokens
            .reshape([1, rows, columns, -1, PATCH, PATCH])
            .permute([0, 3, 1, 4, 2, 5])
            .reshape([1, -1, self.height, self.width])
    }
}

/// The places of text tokens, which have none: `(tokens, 3)`
pub fn text_ids(tokens: i64) -> Tensor {
    Tensor::zeros([tokens, 3], (Kind::Float, Device::Cpu))
}

/// The places of a picture's tokens: 0, row and column: `(tokens, 3)`
pub fn image_ids(shape: LatentShape) -> Tensor {
    let f32s = (Kind::Float, Device::Cpu);
    let (rows, columns) = (shape.height / PATCH, shape.width / PATCH);
    let row = Tensor::arange(rows, f32s).view([rows, 1]);
    let column = Tensor::arange(columns, f32s).view([1, columns]);
    let [row, column] = [row, column].map(|ids| ids.expand([rows, columns], false));
    Tensor::stack(&[row.zeros_like(), row, column], -1).flatten(0, 1)
}

/// What a seed draws for one picture, in the order of diffusers.
#[derive(Debug)]
pub struct Draws {
    /// Where a given picture's latents are drawn around their mean: `(1, C, h, w)`. Always the first draw.
    pub posterior: Option<Tensor>,
    /// `(1, C, h, w)`
    pub noise: Tensor,
}

impl Draws {
    pub fn new(shape: LatentShape, has_image: bool, seed: u64) -> Result<Self, EngineError> {
        let mut generator = Generator::new(seed);
        let mut draw = || generator.normal(&shape.size());
        Ok(Self {
            posterior: has_image.then(&mut draw).transpose()?,
            noise: draw()?,
        })
    }
}

/// The first step that is made of a given picture: the less `strength`, 0 to 1, the later. `num_steps`, which is no
/// step at all, where the strength is too small for one.
pub fn first_step(num_steps: usize, strength: f64) -> usize {
    let all = num_steps as f64;
    let made = (all * strength).min(all);
    (all - made).max(0.0) as usize
}

/// A given picture's latents as they are on the way at `sigma`.
pub fn noised(image_latents: &Tensor, noise: &Tensor, sigma: f32) -> Tensor {
    noise * f64::from(sigma) + image_latents * f64::from(1.0 - sigma)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_two_by_two_latents_of_each_channel() {
        let shape = LatentShape::new(3, 48, 32).unwrap();
        assert_eq!((shape.size(), shape.tokens()), ([1, 3, 4, 6], 6));
        let latents = Tensor::arange(3 * 4 * 6, (Kind::Float, Device::Cpu)).view([1, 3, 4, 6]);
        let tokens = shape.pack(&latents);
        assert_eq!(tokens.size(), [1, 6, 12]);
        // Second row, third column; second channel, lower left.
        assert_eq!(
            tokens.double_value(&[0, 5, 6]),
            latents.double_value(&[0, 1, 3, 4])
        );
        assert_eq!(shape.unpack(&tokens), latents);
        let ids: Vec<f32> = image_ids(shape).get(5).try_into().unwrap();
        assert_eq!(ids, [0.0, 1.0, 2.0]);
    }

    #[test]
    fn sizes_are_multiples_of_sixteen() {
        for (width, height) in [(0, 16), (24, 32), (32, 40), (1023, 1024)] {
            let err = LatentShape::new(16, width, height).unwrap_err();
            assert!(err.to_string().contains("multiples of 16"), "{err}");
        }
        assert_eq!(LatentShape::new(16, 1024, 1024).unwrap().tokens(), 4096);
    }

    #[test]
    fn strength_says_how_many_of_the_last_steps_are_made() {
        for (num_steps, strength, expected) in [
            (5, 0.7, 1),
            (4, 0.6, 1),
            (28, 0.6, 11),
            (28, 1.0, 0),
            (10, 0.05, 9),
            (10, 2.0, 0),
            (10, 0.0, 10),
        ] {
            assert_eq!(
                first_step(num_steps, strength),
                expected,
                "{num_steps} {strength}"
            );
        }
    }
}
