//! A vision transformer over patches of pictures: what CLIP's and SigLIP's have in common.
//!
//! Reads the names of `transformers`. Has no projection, no dropout, and reads pictures of one size only.
//!
//! Shapes: `N` pictures, `L` tokens of each, `C` width.

use safelight_core::networks::{VisionConfig, VisionKind};
use tch::Tensor;

use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::nn::{ClipTower, LayerNorm};
use crate::runtime::disable_miopen;
use crate::weights::{Weights, WeightsError};

pub(super) struct VisionTower {
    class_embedding: Option<Tensor>,
    patch_embedding: Tensor,
    patch_bias: Option<Tensor>,
    position_embedding: Tensor,
    /// The name is misspelled in every published file.
    pre_layrnorm: Option<LayerNorm>,
    layers: ClipTower,
    post_layernorm: LayerNorm,
    image_size: i64,
    patch_size: i64,
}

impl VisionTower {
    /// With a class token there is a norm in front of the layers; without one patches have a bias.
    pub(super) fn new<K: VisionKind>(
        config: &VisionConfig<K>,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let embeddings = &(w / "embeddings");
        // A list of numbers from 0 on, which old versions of `transformers` saved.
        embeddings.ignore("position_ids");
        let (dim, patch) = (config.hidden_size, config.patch_size);
        let norm = |name| LayerNorm::new(dim, config.layer_norm_eps, &(w / name));
        let vector = |name| embeddings.tensor(name, &[dim]);
        let has_class = K::HAS_CLASS_TOKEN;
        Ok(Self {
            class_embedding: has_class.then(|| vector("class_embedding")).transpose()?,
            patch_embedding: embeddings.tensor(
                "patch_embedding.weight",
                &[dim, config.num_channels, patch, patch],
            )?,
            patch_bias: (!has_class)
                .then(|| vector("patch_embedding.bias"))
                .transpose()?,
            position_embedding: embeddings
                .tensor("position_embedding.weight", &[config.num_tokens(), dim])?,
            pre_layrnorm: has_class.then(|| norm("pre_layrnorm")).transpose()?,
            layers: ClipTower::new(&config.layers(), w)?,
            post_layernorm: norm("post_layernorm")?,
            image_size: config.image_size,
            patch_size: patch,
        })
    }

    /// Hidden states after all layers but the last `left`: `pixel_values`: `(N, 3, image_size, image_size)`. Returns
    /// `(N, L, C)`; `None` when cancelled.
    pub(super) fn encode(
        &self,
        pixel_values: &Tensor,
        left: usize,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let xs = self.embed(pixel_values);
        self.layers
            .forward(xs, left, None, FaultSite::Vision, hooks)
    }

    /// The last layer, and the last norm of what it gives of the first token.
    pub(super) fn last(&self, xs: &Tensor) -> (Tensor, Tensor) {
        let last = self.layers.last(xs);
        let first = self.post_layernorm.forward(&last.select(1, 0));
        (last, first.to_kind(xs.kind()))
    }

    pub(super) fn normed(&self, xs: &Tensor) -> Tensor {
        self.post_layernorm.forward_as_kind(xs)
    }

    /// `(N, 3, image_size, image_size)` -> `(N, L, C)`
    fn embed(&self, pixel_values: &Tensor) -> Tensor {
        let (kind, device) = (self.patch_embedding.kind(), self.patch_embedding.device());
        let size = [self.image_size; 2];
        assert_eq!(pixel_values.size()[2..], size, "the processor fits");
        let _guard = disable_miopen(device);
        let patches = pixel_values.to_device(device).to_kind(kind).conv2d(
            &self.patch_embedding,
            self.patch_bias.as_ref(),
            [self.patch_size; 2],
            [0, 0],
            [1, 1],
            1,
        );
        // n c h w -> n (h w) c
        let patches = patches.flatten(2, 3).transpose(1, 2);
        let Some((class, norm)) = self
            .class_embedding
            .as_ref()
            .zip(self.pre_layrnorm.as_ref())
        else {
            return patches + &self.position_embedding;
        };
        let whole = class.expand([patches.size()[0], 1, -1], false);
        let xs = Tensor::cat(&[whole, patches], 1) + &self.position_embedding;
        norm.forward(&xs).to_kind(kind)
    }
}
