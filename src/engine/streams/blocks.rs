//! Double-stream and single-stream blocks, and the token ranges of the streams.

use safelight_core::networks::stream_blocks::StreamShape;
use tch::{Kind, Tensor};

use super::EPS;
use crate::nn::{
    FusedNorm, GateArgs, Linear, QkNorm, Rope, TokenRows, gated_add, gated_add_norm, gelu_tanh,
    layer_norm, silu_times, spread_qkv_attention,
};
use crate::parallel::TokenShards;
use crate::{Weights, WeightsError};

/// Largest number in f16, which activations exceed.
const LARGEST_HALF: f64 = 65504.0;

/// Start and length of the tokens of all texts and of all images.
pub struct TokenRanges {
    pub txt: (i64, i64),
    pub img: (i64, i64),
    pub images: i64,
    /// Added to the attention scores of one image and its text, `(1, 1, l, l)`, in models that distinguish padding.
    pub bias: Option<Tensor>,
    /// Ranks that the tokens of one image and its text are split over.
    pub shards: TokenShards,
}

impl TokenRanges {
    /// Ranges of texts followed by images: `img`: `(B, I, ..)`, `txt`: `(1, T, ..)`
    pub fn of(img: &Tensor, txt: &Tensor) -> Self {
        let (images, own) = (img.size()[0], img.size()[1]);
        let txt_len = images * txt.size()[1];
        Self {
            txt: (0, txt_len),
            img: (txt_len, images * own),
            images,
            bias: None,
            shards: TokenShards::whole(),
        }
    }

    /// Those on this rank; `parts`: lengths of the parts of one image's tokens, each of which is split
    pub fn spread(&self, parts: &[i64]) -> Self {
        let txt_len = self.txt.1 / self.images;
        let shards = TokenShards::new([&[txt_len], parts].concat());
        let own = shards.ranges();
        let [txt, all] = [own[0].1, own.iter().map(|(_, len)| len).sum()];
        Self {
            txt: (0, self.images * txt),
            img: (self.images * txt, self.images * (all - txt)),
            images: self.images,
            bias: self.bias.as_ref().map(|bias| shards.bias(bias)),
            shards,
        }
    }

    /// Ranks of the tokens of all images.
    pub fn all_shards(&self) -> TokenShards {
        let (txt, img) = self.shards.parts().split_at(1);
        let images = self.images as usize;
        self.shards
            .of([txt.repeat(images), img.repeat(images)].concat())
    }

    /// Start and number of the tokens of each image's last part, where there is one image or one part.
    pub(super) fn last(&self) -> (i64, i64) {
        let len = self.shards.ranges().last().map_or(0, |(_, len)| *len);
        let len = self.images * len;
        (self.count() - len, len)
    }

    pub fn count(&self) -> i64 {
        self.txt.1 + self.img.1
    }

    pub(super) fn streams(&self) -> [(i64, i64); 2] {
        [self.txt, self.img]
    }

    /// Ranges of one image and its text.
    fn of_image(&self, index: i64) -> [(i64, i64); 2] {
        self.streams().map(|(start, len)| {
            let own = len / self.images;
            (start + index * own, own)
        })
    }

    /// `(1, L, ..)` -> a view, `(1, T, ..)`
    pub fn of_txt(&self, xs: &Tensor) -> Tensor {
        xs.narrow(1, self.txt.0, self.txt.1)
    }

    /// `(1, L, ..)` -> a view, `(1, I, ..)`
    pub fn of_img(&self, xs: &Tensor) -> Tensor {
        xs.narrow(1, self.img.0, self.img.1)
    }

    /// Separate layers for text and images: `(1, L, ..)` -> with the layers' output width
    fn forward(&self, txt: &Linear, img: &Linear, xs: &Tensor) -> Tensor {
        let size = [1, self.count(), img.out_features()];
        let out = Tensor::empty(size, (xs.kind(), xs.device()));
        txt.forward_into(&self.of_txt(xs), &self.of_txt(&out));
        img.forward_into(&self.of_img(xs), &self.of_img(&out));
        out
    }
}

/// `xs += ys * gate` in place, with vector `gate` of `rows` -> `next` norm of `xs`
pub fn add_norm(
    xs: &mut Tensor,
    ys: &Tensor,
    rows: TokenRows<'_>,
    gate: i64,
    next: &FusedNorm<'_>,
) -> Tensor {
    let gate = Some(GateArgs { rows, index: gate });
    if xs.kind() != Kind::Half {
        return gated_add_norm(xs, ys, gate, next, EPS);
    }
    // As diffusers does: with f16 some numbers are too large in every image.
    gated_add(xs, ys, gate);
    drop(xs.clamp_(-LARGEST_HALF, LARGEST_HALF));
    layer_norm(xs, next, EPS)
}

/// A layer, with a bias if blocks of this shape have them.
pub(super) fn layer(
    shape: &StreamShape,
    input: i64,
    output: i64,
    w: &Weights,
) -> Result<Linear, WeightsError> {
    Linear::biased(!shape.is_shared, input, output, w)
}

/// Activation between feed-forward layers, in place: GELU, or values gated by SiLU.
fn activated(ys: Tensor, is_gated: bool) -> Tensor {
    if !is_gated {
        return gelu_tanh(ys);
    }
    let wide = ys.size()[2] / 2;
    silu_times(ys.narrow(-1, 0, wide), &ys.narrow(-1, wide, wide))
}

/// Block with separate weights for text and images and joint attention.
pub(super) struct DoubleBlock {
    img_attn: StreamAttention,
    img_mlp: (Linear, Linear),
    txt_attn: StreamAttention,
    txt_mlp: (Linear, Linear),
    is_gated: bool,
}

struct StreamAttention {
    qkv: Linear,
    norm: QkNorm,
    proj: Linear,
}

impl StreamAttention {
    fn new(shape: &StreamShape, w: &Weights) -> Result<Self, WeightsError> {
        let dim = shape.dim;
        let parts = [("q", dim), ("k", dim), ("v", dim)];
        Ok(Self {
            qkv: Linear::fused(!shape.is_shared, dim, &parts, &(w / "qkv"))?,
            norm: QkNorm::new(shape.head_dim, EPS, &(w / "norm"))?,
            proj: layer(shape, dim, dim, &(w / "proj"))?,
        })
    }
}

impl DoubleBlock {
    pub(super) fn new(shape: &StreamShape, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, mlp_dim) = (shape.dim, shape.mlp_dim);
        let mlp = |name: &str| {
            let first = layer(shape, dim, shape.mlp_in(), &(w / name / 0))?;
            Ok::<_, WeightsError>((first, layer(shape, mlp_dim, dim, &(w / name / 2))?))
        };
        Ok(Self {
            img_attn: StreamAttention::new(shape, &(w / "img_attn"))?,
            img_mlp: mlp("img_mlp")?,
            txt_attn: StreamAttention::new(shape, &(w / "txt_attn"))?,
            txt_mlp: mlp("txt_mlp")?,
            is_gated: shape.is_shared,
        })
    }

    /// `xs`: `(1, L, C)`, changed in place; `normed`: this block's first norm of `xs`; `rows`: modulation of both streams,
    /// `next`: the next block's first norm -> that norm of `xs`
    pub(super) fn forward(
        &self,
        xs: &mut Tensor,
        normed: Tensor,
        rows: TokenRows<'_>,
        next: &FusedNorm<'_>,
        tokens: &TokenRanges,
        rope: &Rope,
    ) -> Tensor {
        let (txt, img) = (&self.txt_attn, &self.img_attn);
        let normed = {
            let qkv = tokens.forward(&txt.qkv, &img.qkv, &normed);
            drop(normed);
            let qkv = img.norm.heads_of(&qkv);
            for (norm, (start, len)) in [(&txt.norm, tokens.txt), (&img.norm, tokens.img)] {
                let mut qk = queries_and_keys(&qkv).narrow(1, start, len);
                norm.forward_rope(&mut qk, &rope.narrow(start, len));
            }
            let ys = tokens.forward(&txt.proj, &img.proj, &attend(&qkv, tokens, || ()));
            add_norm(xs, &ys, rows, 2, &FusedNorm::modulated(rows, 3))
        };
        let ys = tokens.forward(&self.txt_mlp.0, &self.img_mlp.0, &normed);
        drop(normed);
        let ys = activated(ys, self.is_gated);
        let ys = tokens.forward(&self.txt_mlp.1, &self.img_mlp.1, &ys);
        add_norm(xs, &ys, rows, 5, next)
    }
}

pub(super) struct SingleBlock {
    /// Queries, keys and values, and the first feed-forward layer.
    linear1: Linear,
    /// Of attention and feed-forward layers together.
    pub(super) linear2: Linear,
    norm: QkNorm,
    dim: i64,
    mlp_dim: i64,
    is_gated: bool,
}

impl SingleBlock {
    pub(super) fn new(shape: &StreamShape, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, mlp_dim) = (shape.dim, shape.mlp_dim);
        let parts = [("q", dim), ("k", dim), ("v", dim), ("mlp", shape.mlp_in())];
        Ok(Self {
            linear1: Linear::fused(!shape.is_shared, dim, &parts, &(w / "linear1"))?,
            linear2: layer(shape, dim + mlp_dim, dim, &(w / "linear2"))?,
            norm: QkNorm::new(shape.head_dim, EPS, &(w / "norm"))?,
            dim,
            mlp_dim,
            is_gated: shape.is_shared,
        })
    }

    /// `normed`: `(1, L, C)` -> what `linear2` reads, a view of `(1, L, C + M)`
    pub(super) fn attend(&self, normed: Tensor, tokens: &TokenRanges, rope: &Rope) -> Tensor {
        let dim = self.dim;
        let products = self.linear1.forward(&normed); // (1, L, 3 C + M), or 2 M with gates
        drop(normed);
        let qkv = self.norm.heads_of(&products.narrow(-1, 0, 3 * dim));
        self.norm.forward_rope(&mut queries_and_keys(&qkv), rope);
        let rest = products.size()[2] - 3 * dim;
        let activate = || drop(activated(products.narrow(-1, 3 * dim, rest), self.is_gated));
        // The values have been read: the attention output overwrites them, adjacent to the rest.
        let ys = attend(&qkv, tokens, activate);
        products.narrow(-1, 2 * dim, dim).copy_(&ys);
        products.narrow(-1, 2 * dim, dim + self.mlp_dim)
    }
}

/// Queries and keys of a product: `qkv`: `(1, L, 3 H, D)` -> a view, `(1, L, 2 H, D)`
fn queries_and_keys(qkv: &Tensor) -> Tensor {
    qkv.narrow(2, 0, qkv.size()[2] / 3 * 2)
}

/// Attention within each image and its text: `qkv`: `(1, L, 3 H, D)` -> `(1, L, C)`; `meanwhile`: other work
fn attend(qkv: &Tensor, tokens: &TokenRanges, meanwhile: impl FnOnce()) -> Tensor {
    let (bias, shards) = (tokens.bias.as_ref(), &tokens.shards);
    if tokens.images == 1 {
        return spread_qkv_attention(qkv, bias, shards, meanwhile);
    }
    meanwhile();
    let size = qkv.size();
    let size = [1, size[1], size[2] / 3 * size[3]];
    let out = Tensor::empty(size, (qkv.kind(), qkv.device()));
    for index in 0..tokens.images {
        let own = tokens.of_image(index);
        let parts = own.map(|(start, len)| qkv.narrow(1, start, len));
        let ys = spread_qkv_attention(&Tensor::cat(&parts, 1), bias, shards, || ());
        let mut done = 0;
        for (start, len) in own {
            out.narrow(1, start, len).copy_(&ys.narrow(1, done, len));
            done += len;
        }
    }
    out
}
