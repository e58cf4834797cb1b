//! Depth maps by Depth Anything V2: near is bright, as ControlNets and VACE know it.
//!
//! The network and its sizes equal `transformers`' `DepthAnythingForDepthEstimation` and `DPTImageProcessor`. A frame's
//! range is spread over all greys; in a video the ends of the range are averaged over a few frames, against flicker.

use std::collections::VecDeque;
use std::path::Path;

use safelight_core::media::RgbPixels;
use safelight_core::networks::{DEPTH_EDGE, DEPTH_FACTORS, DepthConfig, DepthNames};
use tch::{Device, Kind, Tensor};

use super::conv::FinishConv;
use super::run::FinishContext;
use crate::error::EngineError;
use crate::nn::{LayerNorm, Linear, attention, join_heads, split_heads};
use crate::placement::dtype_name;
use crate::runtime::disable_miopen;
use crate::weights::{Weights, WeightsError};

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];
/// Frames whose ranges are averaged.
const SMOOTHED: usize = 8;

/// The frames of the job's source from the order's first one on.
pub(super) fn run(context: &FinishContext<'_>, network: &Path) -> Result<(), EngineError> {
    let (kind, device) = context.placement();
    let mut network = LoadedDepth::open(network, kind, device)?;
    let mut ranges = VecDeque::new();
    let first = context.order.first_frame;
    // Earlier frames count in the range of later ones.
    let begin = first.saturating_sub(SMOOTHED as u32 - 1);
    context.source_frames(begin, &mut |number, image| {
        let size = [image.height, image.width].map(i64::from);
        let (depth, range) = network.depth(context, &image, size)?;
        ranges.push_back(range);
        if ranges.len() > SMOOTHED {
            ranges.pop_front();
        }
        if number >= first {
            let grey = grey(&depth, mean(&ranges));
            let mut rgb = vec![0; 3 * grey.numel()];
            // h w -> h w c
            let bytes = grey.unsqueeze(2).expand([-1, -1, 3], false).contiguous();
            bytes.f_copy_data_u8(&mut rgb, bytes.numel())?;
            let image = RgbPixels::new(image.width, image.height, rgb);
            let image = image.map_err(|err| EngineError::internal(err.to_string()))?;
            context.send_frame(number, image);
        }
        Ok(())
    })
}

fn mean(ranges: &VecDeque<[f64; 2]>) -> [f64; 2] {
    let count = ranges.len().max(1) as f64;
    [0, 1].map(|end| ranges.iter().map(|range| range[end]).sum::<f64>() / count)
}

/// Depth to bytes, `(H, W)` on the CPU: `range` is spread over all greys.
fn grey(depth: &Tensor, [least, most]: [f64; 2]) -> Tensor {
    let unit = (depth - least) / (most - least).max(f64::from(f32::EPSILON));
    let bytes = (unit.clamp(0.0, 1.0) * 255.0).round();
    bytes.to_kind(Kind::Uint8).to_device(Device::Cpu)
}

struct LoadedDepth<'a> {
    place: &'a Path,
    network: DepthNetwork,
    kind: Kind,
    device: Device,
}

impl<'a> LoadedDepth<'a> {
    fn open(place: &'a Path, kind: Kind, device: Device) -> Result<Self, EngineError> {
        Ok(Self {
            place,
            network: DepthNetwork::open(place, kind, device)?,
            kind,
            device,
        })
    }

    /// Depth at the image's size, `(H, W)` in f32, and its least and most. In f32 for good where halves give no numbers.
    fn depth(
        &mut self,
        context: &FinishContext<'_>,
        image: &RgbPixels,
        size: [i64; 2],
    ) -> Result<(Tensor, [f64; 2]), EngineError> {
        loop {
            let pixels = self.network.pixels(image, DEPTH_EDGE.into())?;
            let pixels = pixels.to_device(self.device).to_kind(self.kind);
            let depth = self.network.forward(&pixels).to_kind(Kind::Float);
            // h w -> 1 1 h w
            let depth = depth.unsqueeze(0).unsqueeze(0);
            let depth = depth.upsample_bicubic2d(size, false, None, None);
            let depth = depth.squeeze_dim(0).squeeze_dim(0);
            let (least, most) = depth.aminmax(None::<i64>, false);
            let range = [least, most].map(|it| it.double_value(&[]));
            if range.iter().all(|end| end.is_finite()) {
                return Ok((depth, range));
            }
            if self.kind == Kind::Float {
                return Err(EngineError::InvalidPixels);
            }
            context.warn(format!(
                "the depth network gave invalid numbers (NaN) in {}, so it computes in f32, which takes longer",
                dtype_name(self.kind)
            ));
            *self = Self::open(self.place, Kind::Float, self.device)?;
        }
    }
}

pub struct DepthNetwork {
    config: DepthConfig,
    class_token: Tensor,
    positions: Tensor,
    patch_embedding: [Tensor; 2],
    layers: Vec<DinoLayer>,
    norm: LayerNorm,
    stages: Vec<NeckStage>,
    fusions: Vec<FeatureFusion>,
    head: [FinishConv; 3],
}

impl DepthNetwork {
    /// Reads a weight file.
    pub fn open(place: &Path, kind: Kind, device: Device) -> Result<Self, EngineError> {
        let config = DepthConfig::read(place)?;
        let w = Weights::open(place, kind, device)?;
        Ok(Self::new(config, &w)?)
    }

    pub fn new(config: DepthConfig, w: &Weights) -> Result<Self, WeightsError> {
        let names = config.names;
        let w = &w.translated(move |key| names.file_key(key));
        let backbone = &(w / "backbone");
        let embeddings = &(backbone / "embeddings");
        embeddings.ignore("mask_token");
        let (width, patch, fused) = (config.width, config.patch, config.fused);
        let projection = &(embeddings / "patch_embeddings" / "projection");
        let (layers, neck) = (backbone / "encoder" / "layer", w / "neck");
        let layers = (0..config.layers).map(|layer| DinoLayer::new(&config, &(&layers / layer)));
        let stages = (0..).zip(config.neck);
        let stages = stages.map(|stage| NeckStage::new(&config, stage, &neck));
        let fusions = &(&neck / "fusion_stage" / "layers");
        let fusions = (0..4).map(|layer| FeatureFusion::new(fused, &(fusions / layer)));
        let conv =
            |name: &str, channels, kernel| FinishConv::new(&(w / "head" / name), channels, kernel);
        Ok(Self {
            class_token: embeddings.tensor("cls_token", &[1, 1, width])?,
            positions: embeddings.tensor(
                "position_embeddings",
                &[1, config.edge * config.edge + 1, width],
            )?,
            patch_embedding: [
                projection.tensor("weight", &[width, 3, patch, patch])?,
                projection.tensor("bias", &[width])?,
            ],
            layers: layers.collect::<Result<_, _>>()?,
            norm: LayerNorm::new(width, 1e-6, &(backbone / "layernorm"))?,
            stages: stages.collect::<Result<_, _>>()?,
            fusions: fusions.collect::<Result<_, _>>()?,
            head: [
                conv("conv1", [fused, fused / 2], 3)?,
                conv("conv2", [fused / 2, config.head], 3)?,
                conv("conv3", [config.head, 1], 1)?,
            ],
            config,
        })
    }

    /// An image as the network sees it, `(1, 3, H, W)` in f32 on the CPU: the edge that is scaled less is about `edge`
    /// pixels long, and both are multiples of a patch.
    fn pixels(&self, image: &RgbPixels, edge: f64) -> Result<Tensor, EngineError> {
        let size = [image.height, image.width].map(f64::from);
        let scale = size.map(|side| edge / side);
        let [down, across] = scale.map(|scale| (1.0 - scale).abs());
        let scale = if across < down { scale[1] } else { scale[0] };
        let patch = self.config.patch as f64;
        let seen = size.map(|side| {
            let patches = (side * scale / patch).round_ties_even().max(1.0);
            (patches * patch) as i64
        });
        let bytes = Tensor::f_from_slice(&image.rgb)?;
        let bytes = bytes.view([i64::from(image.height), i64::from(image.width), 3]);
        // h w c -> 1 c h w
        let bytes = bytes.permute([2, 0, 1]).unsqueeze(0).contiguous();
        let bytes = bytes.f_internal_upsample_bicubic2d_aa(seen, false, None, None)?;
        let channels = |numbers: [f32; 3]| Tensor::from_slice(&numbers).view([3, 1, 1]) * 255.0;
        Ok((bytes.to_kind(Kind::Float) - channels(MEAN)) / channels(STD))
    }

    /// `pixels`: `(1, 3, H, W)`. Returns relative depth, `(H, W)`, large where near.
    pub fn forward(&self, pixels: &Tensor) -> Tensor {
        // No probe tries these convolutions, and MIOpen hangs in some.
        let _guard = disable_miopen(pixels.device());
        let patch = self.config.patch;
        let (_, _, height, width) = pixels.size4().expect("an image has four dimensions");
        let grid = [height / patch, width / patch];
        let mut xs = self.embed(pixels, grid);
        let mut features = Vec::new();
        for (number, layer) in (1..).zip(&self.layers) {
            xs = layer.forward(&xs);
            for (stage, _) in self
                .stages
                .iter()
                .zip(self.config.taps)
                .filter(|(_, tap)| *tap == number)
            {
                let tokens = self
                    .norm
                    .forward_as_kind(&xs)
                    .narrow(1, 1, grid[0] * grid[1]);
                // 1 (h w) c -> 1 c h w
                let image =
                    tokens
                        .transpose(1, 2)
                        .reshape([1, self.config.width, grid[0], grid[1]]);
                features.push(stage.forward(&image));
            }
        }
        let mut fused: Option<Tensor> = None;
        for (index, (feature, fusion)) in features.iter().rev().zip(&self.fusions).enumerate() {
            let (_, _, h, w) = feature.size4().expect("an image has four dimensions");
            let next = features
                .len()
                .checked_sub(index + 2)
                .map(|next| &features[next]);
            let size = next.map_or([2 * h, 2 * w], |next| [next.size()[2], next.size()[3]]);
            let (hidden, residual) = match &fused {
                None => (feature, None),
                Some(fused) => (fused, Some(feature)),
            };
            fused = Some(fusion.forward(hidden, residual, size));
        }
        let fused = fused.expect("a network has four fusions");
        let [first, second, last] = &self.head;
        let xs = first
            .forward(&fused)
            .upsample_bilinear2d([height, width], true, None, None);
        let xs = last.forward(&second.forward(&xs).relu_()).relu_();
        xs.squeeze_dim(0).squeeze_dim(0)
    }

    /// Tokens of an image with their positions, `(1, 1 + h w, C)`.
    fn embed(&self, pixels: &Tensor, [height, width]: [i64; 2]) -> Tensor {
        let [weight, bias] = &self.patch_embedding;
        let stride = [self.config.patch; 2];
        let patches = pixels.conv2d(weight, Some(bias), stride, [0, 0], [1, 1], 1);
        // 1 c h w -> 1 (h w) c
        let patches = patches.flatten(2, 3).transpose(1, 2);
        let xs = Tensor::cat(&[&self.class_token, &patches], 1);
        let edge = self.config.edge;
        if [height, width] == [edge; 2] {
            return xs + &self.positions;
        }
        let kind = self.positions.kind();
        let grid = self
            .positions
            .narrow(1, 1, edge * edge)
            .to_kind(Kind::Float);
        // 1 (h w) c -> 1 c h w
        let grid = grid
            .transpose(1, 2)
            .reshape([1, self.config.width, edge, edge]);
        let grid = grid
            .upsample_bicubic2d([height, width], false, None, None)
            .to_kind(kind);
        let grid = grid.flatten(2, 3).transpose(1, 2);
        xs + Tensor::cat(&[self.positions.narrow(1, 0, 1), grid], 1)
    }
}

/// A block of DINOv2.
struct DinoLayer {
    norm1: LayerNorm,
    /// One for all three, or one each.
    qkv: Vec<Linear>,
    out: Linear,
    scale1: Tensor,
    norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
    scale2: Tensor,
    num_heads: i64,
}

impl DinoLayer {
    fn new(config: &DepthConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (width, inner) = (config.width, config.inner);
        let projections = &(w / "attention" / "attention");
        let qkv = match config.names {
            DepthNames::Authors => vec![Linear::new(width, 3 * width, &(projections / "qkv"))?],
            DepthNames::Transformers => ["query", "key", "value"]
                .map(|part| Linear::new(width, width, &(projections / part)))
                .into_iter()
                .collect::<Result<_, _>>()?,
        };
        let norm = |name| LayerNorm::new(width, 1e-6, &(w / name));
        Ok(Self {
            norm1: norm("norm1")?,
            qkv,
            out: Linear::new(width, width, &(w / "attention" / "output" / "dense"))?,
            scale1: w.tensor("layer_scale1.lambda1", &[width])?,
            norm2: norm("norm2")?,
            fc1: Linear::new(width, inner, &(w / "mlp" / "fc1"))?,
            fc2: Linear::new(inner, width, &(w / "mlp" / "fc2"))?,
            scale2: w.tensor("layer_scale2.lambda1", &[width])?,
            num_heads: config.num_heads(),
        })
    }

    /// `xs`: `(1, L, C)`
    fn forward(&self, xs: &Tensor) -> Tensor {
        let normal = self.norm1.forward_as_kind(xs);
        let parts = self
            .qkv
            .iter()
            .flat_map(|linear| linear.forward(&normal).chunk(3 / self.qkv.len() as i64, -1));
        let parts: Vec<Tensor> = parts
            .map(|part| split_heads(&part, self.num_heads))
            .collect();
        let attended = attention(&parts[0], &parts[1], &parts[2], None, None);
        let xs = xs + self.out.forward(&join_heads(&attended)) * &self.scale1;
        let inner = self
            .fc1
            .forward(&self.norm2.forward_as_kind(&xs))
            .gelu("none");
        &xs + self.fc2.forward(&inner) * &self.scale2
    }
}

/// Tokens of one layer to an image of another size and width.
struct NeckStage {
    projection: FinishConv,
    resize: StageResize,
    conv: FinishConv,
}

enum StageResize {
    /// Weight and bias of a convolution that makes so many pixels along an edge of one.
    Larger([Tensor; 2], i64),
    None,
    Half([Tensor; 2]),
}

impl NeckStage {
    fn new(
        config: &DepthConfig,
        (number, channels): (i64, i64),
        neck: &Weights,
    ) -> Result<Self, WeightsError> {
        let w = &(neck / "reassemble_stage" / "layers" / number);
        let resize = |kernel: i64| {
            let w = w / "resize";
            let weight = w.tensor("weight", &[channels, channels, kernel, kernel])?;
            Ok::<_, WeightsError>([weight, w.tensor("bias", &[channels])?])
        };
        Ok(Self {
            projection: FinishConv::new(&(w / "projection"), [config.width, channels], 1)?,
            resize: match number {
                0 | 1 => {
                    let factor = DEPTH_FACTORS[number as usize];
                    StageResize::Larger(resize(factor)?, factor)
                }
                2 => StageResize::None,
                _ => StageResize::Half(resize(3)?),
            },
            conv: FinishConv::without_bias(
                &(neck / "convs" / number),
                [channels, config.fused],
                3,
            )?,
        })
    }

    fn forward(&self, xs: &Tensor) -> Tensor {
        let xs = self.projection.forward(xs);
        let xs = match &self.resize {
            StageResize::Larger([weight, bias], factor) => {
                xs.conv_transpose2d(weight, Some(bias), [*factor; 2], [0, 0], [0, 0], 1, [1, 1])
            }
            StageResize::None => xs,
            StageResize::Half([weight, bias]) => {
                xs.conv2d(weight, Some(bias), [2, 2], [1, 1], [1, 1], 1)
            }
        };
        self.conv.forward(&xs)
    }
}

/// Adds the image of one layer to that of those after it.
struct FeatureFusion {
    residuals: [[FinishConv; 2]; 2],
    projection: FinishConv,
}

impl FeatureFusion {
    fn new(fused: i64, w: &Weights) -> Result<Self, WeightsError> {
        let residual = |name: &str| {
            let conv = |conv: &str| FinishConv::new(&(w / name / conv), [fused; 2], 3);
            Ok::<_, WeightsError>([conv("convolution1")?, conv("convolution2")?])
        };
        Ok(Self {
            residuals: [residual("residual_layer1")?, residual("residual_layer2")?],
            projection: FinishConv::new(&(w / "projection"), [fused; 2], 1)?,
        })
    }

    fn forward(&self, hidden: &Tensor, residual: Option<&Tensor>, size: [i64; 2]) -> Tensor {
        let [first, second] = &self.residuals;
        let activated =
            |xs: &Tensor, [a, b]: &[FinishConv; 2]| xs + b.forward(&a.forward(&xs.relu()).relu_());
        let sum = residual.map(|residual| hidden + activated(residual, first));
        let xs = activated(sum.as_ref().unwrap_or(hidden), second);
        self.projection
            .forward(&xs.upsample_bilinear2d(size, true, None, None))
    }
}

#[cfg(test)]
mod tests;
