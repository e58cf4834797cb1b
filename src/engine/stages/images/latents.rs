//! Latents of single images: their size, noise from seeds, masks at latent resolution, packing into tokens.

use safelight_core::job::GenerateRequest;
use tch::{Device, Kind, Tensor};

use crate::EngineError;
use crate::denoise::fits;
use crate::nn::{PatchOrder, from_patches, patches};
use crate::pixels::check_multiples;
use crate::sampling::{CpuGenerator, NoiseSpace};

/// Pixels of a token along each edge, in every model.
const TOKEN_PIXELS: u32 = 16;

/// Latents of a token along each edge, in most models.
const PATCH: i64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLatentShape {
    pub channels: i64,
    pub height: i64,
    pub width: i64,
    /// Latents of a token along each edge.
    pub patch: i64,
}

impl ImageLatentShape {
    /// `width` and `height` in pixels: multiples of 16. Two by two latents are a token.
    pub fn new(channels: i64, width: u32, height: u32) -> Result<Self, EngineError> {
        Self::with_patch(PATCH, channels, width, height)
    }

    /// Like [`Self::new`], with `patch` latents along the edges of a token.
    pub fn with_patch(
        patch: i64,
        channels: i64,
        width: u32,
        height: u32,
    ) -> Result<Self, EngineError> {
        check_multiples(width, height, TOKEN_PIXELS)?;
        let latents = |edge: u32| i64::from(edge / TOKEN_PIXELS) * patch;
        Ok(Self {
            channels,
            height: latents(height),
            width: latents(width),
            patch,
        })
    }

    /// `(1, C, h, w)`: those of one image.
    pub fn size(&self) -> [i64; 4] {
        [1, self.channels, self.height, self.width]
    }

    /// Rows and columns of tokens.
    pub fn grid(&self) -> [i64; 2] {
        [self.height / self.patch, self.width / self.patch]
    }

    pub fn tokens(&self) -> i64 {
        self.grid().iter().product()
    }

    /// Shape with two by two latents as channels: `(1, 4 C, h / 2, w / 2)`, as some pipelines draw noise.
    pub fn folded(&self) -> Self {
        let [rows, columns] = self.grid();
        Self {
            channels: self.patch * self.patch * self.channels,
            height: rows,
            width: columns,
            patch: 1,
        }
    }

    /// Shape of other latents, `(B, C, h', w')`, whose tokens are as large.
    pub fn like(&self, latents: &Tensor) -> Result<Self, EngineError> {
        let (_, channels, height, width) = latents.size4()?;
        Ok(Self {
            channels,
            height,
            width,
            patch: self.patch,
        })
    }

    /// `(B, C, h, w)` -> `(B, 4 C, h / 2, w / 2)`
    pub fn fold(latents: &Tensor) -> Tensor {
        latents.pixel_unshuffle(PATCH)
    }

    /// `(B, 4 C, h / 2, w / 2)` -> `(B, C, h, w)`
    pub fn unfolded(&self, folded: &Tensor) -> Tensor {
        folded.pixel_shuffle(PATCH)
    }

    /// `(B, C, h, w)` -> `(B, tokens, 4 C)`; `C` may be another number than that of the latents, as masks have it
    pub fn pack(&self, latents: &Tensor) -> Tensor {
        patches(
            &latents.unsqueeze(2),
            self.token(),
            PatchOrder::ChannelsFirst,
        )
    }

    fn token(&self) -> [i64; 3] {
        [1, self.patch, self.patch]
    }

    /// `(B, tokens, 4 C)` -> `(B, C, h, w)`
    pub fn unpack(&self, tokens: &Tensor) -> Tensor {
        let size = [1, self.height, self.width];
        from_patches(tokens, size, self.token(), PatchOrder::ChannelsFirst).squeeze_dim(2)
    }
}

/// Noise from the seeds of `B` images, in the order of diffusers.
#[derive(Debug)]
pub struct NoiseDraws {
    /// For samples of control images, before all others: each `(B, C, h, w)`.
    pub controls: Vec<Tensor>,
    /// For the sample of a start image, drawn before the noise: `(B, C, h, w)`.
    pub posterior: Option<Tensor>,
    /// `(B, C, h, w)`
    pub noise: Tensor,
    /// As `posterior`, for the image outside its mask.
    pub masked: Option<Tensor>,
}

impl NoiseDraws {
    /// `per_seed`: 1 for noise alone, 2 with a start image, 3 with one that has a mask; `seeds`: one per image, so that each
    /// can be made again alone.
    pub fn new(
        shape: ImageLatentShape,
        per_seed: usize,
        seeds: impl Iterator<Item = u64>,
    ) -> Result<Self, EngineError> {
        Self::after_controls(0, shape, per_seed, seeds)
    }

    /// Draws for `num_controls` control images first.
    pub fn after_controls(
        num_controls: usize,
        shape: ImageLatentShape,
        per_seed: usize,
        seeds: impl Iterator<Item = u64>,
    ) -> Result<Self, EngineError> {
        let mut controls: Vec<Vec<Tensor>> = (0..num_controls).map(|_| Vec::new()).collect();
        let mut drawn: [Vec<Tensor>; 3] = Default::default();
        for seed in seeds {
            let mut generator = CpuGenerator::new(seed);
            for draws in &mut controls {
                draws.push(generator.normal(&shape.size())?);
            }
            for draws in drawn.iter_mut().take(per_seed) {
                draws.push(generator.normal(&shape.size())?);
            }
        }
        let [first, second, masked] =
            drawn.map(|draws| (!draws.is_empty()).then(|| Tensor::cat(&draws, 0)));
        let (posterior, noise) = match second {
            Some(second) => (first, Some(second)),
            None => (None, first),
        };
        Ok(Self {
            controls: controls.iter().map(|draws| Tensor::cat(draws, 0)).collect(),
            posterior,
            noise: noise.ok_or_else(|| EngineError::internal("no image was asked for"))?,
            masked,
        })
    }
}

pub fn seeds(request: &GenerateRequest) -> impl Iterator<Item = u64> {
    let first = request.seed;
    (0..u64::from(request.batch_size)).map(move |i| first.wrapping_add(i))
}

/// A mask as the autoencoder's image has it, `(1, 1, H, W)`, at the latents' places: the upper left of the pixels that
/// make one latent, for all channels: `(1, 1, h, w)`; `height`: `h`
pub fn corner_mask(mask: &Tensor, height: i64) -> Tensor {
    let step = mask.size()[2] / height;
    mask.slice(2, None, None, step).slice(3, None, None, step)
}

/// All pixels of a mask, `(1, 1, H, W)`, folded into the tokens that they are below: `(1, tokens, 256)`
pub fn folded_mask(mask: &Tensor, shape: ImageLatentShape) -> Tensor {
    let step = mask.size()[2] / shape.height;
    // (h p) (w q) -> (p q) h w
    let folded = mask
        .reshape([shape.height, step, shape.width, step])
        .permute([1, 3, 0, 2])
        .reshape([1, step * step, shape.height, shape.width]);
    shape.pack(&folded)
}

/// Original latents, noise and mask, blended back after each step: each in the form of the latents.
pub struct InpaintBlend {
    pub image: Tensor,
    pub noise: Tensor,
    /// 1 for what is denoised; may be one for all images and channels.
    pub mask: Tensor,
}

impl InpaintBlend {
    pub fn map(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        Self {
            image: change(&self.image),
            noise: change(&self.noise),
            mask: change(&self.mask),
        }
    }

    /// Returns whether it belongs to latents of this size.
    pub fn fits(&self, size: &[i64]) -> bool {
        let mask = self.mask.size();
        let mut edges = mask.iter().zip(size);
        fits(&self.image, size)
            && fits(&self.noise, size)
            && mask.len() == size.len()
            && edges.all(|(found, wanted)| [1, *wanted].contains(found))
    }

    pub fn to_device(&self, device: Device) -> Self {
        self.map(|xs| xs.to_device(device).to_kind(Kind::Float))
    }

    /// `latents` with the original's outside the mask, noised to `sigma`.
    pub fn blend(&self, latents: &Tensor, sigma: f32, space: NoiseSpace) -> Tensor {
        let image = space.noised(&self.image, &self.noise, sigma);
        (1.0 - &self.mask) * image + &self.mask * latents
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn a_token_has_two_by_two_latents_of_each_channel() {
        let shape = ImageLatentShape::new(3, 48, 32).unwrap();
        assert_eq!((shape.size(), shape.tokens()), ([1, 3, 4, 6], 6));
        let latents = Tensor::arange(3 * 4 * 6, (Kind::Float, Device::Cpu)).view([1, 3, 4, 6]);
        let tokens = shape.pack(&latents);
        assert_eq!(tokens.size(), [1, 6, 12]);
        // Second row, third column; second channel, lower left.
        let found = tokens.double_value(&[0, 5, 6]);
        assert_eq!(found, latents.double_value(&[0, 1, 3, 4]));
        assert_eq!(shape.unpack(&tokens), latents);
        // Tokens in the order of rows, channels before them.
        let folded = tokens.transpose(1, 2).reshape(shape.folded().size());
        assert_eq!(shape.unfolded(&folded), latents);
        assert_eq!(ImageLatentShape::fold(&latents), folded);
    }

    #[test]
    fn a_mask_is_read_at_the_corner_of_a_latent_or_with_all_its_pixels() {
        let shape = ImageLatentShape::new(2, 32, 16).unwrap();
        let mask = Tensor::arange(16 * 32, (Kind::Float, Device::Cpu)).view([1, 1, 16, 32]);
        let pixel = |row: i64, column: i64| mask.double_value(&[0, 0, row, column]);
        let corners = corner_mask(&mask, shape.height);
        assert_eq!(corners.size(), [1, 1, 2, 4]);
        assert_eq!(corners.double_value(&[0, 0, 1, 3]), pixel(8, 24));
        let folded = folded_mask(&mask, shape);
        assert_eq!(folded.size(), [1, 2, 256]);
        // Second token, pixel (3, 5) of its lower left latent.
        let place = (3 * 8 + 5) * 4 + 2;
        assert_eq!(folded.double_value(&[0, 1, place]), pixel(8 + 3, 16 + 5));
    }

    #[test]
    fn sizes_are_multiples_of_sixteen() {
        for (width, height) in [(0, 16), (24, 32), (32, 40), (1023, 1024)] {
            let err = ImageLatentShape::new(16, width, height).unwrap_err();
            assert!(err.to_string().contains("multiples of 16"), "{err}");
        }
        let found = ImageLatentShape::new(16, 1024, 1024).unwrap().tokens();
        assert_eq!(found, 4096);
    }
}
