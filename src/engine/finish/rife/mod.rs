//! RIFE: frames between two frames, by IFNet of Practical-RIFE 4.5 to 4.26.
//!
//! Each block sees both frames as far as they are moved already, smaller at first, and says how to move them farther and
//! which of both counts where. Frames are extended to what blocks can halve as ComfyUI's node does it: reflected at the
//! right and at the bottom. After <https://github.com/hzwer/Practical-RIFE>.

#[cfg(test)]
mod tests;

use std::path::Path;

use safelight_core::networks::{IFNET_CONVS, IfnetConfig, IfnetHead};
use tch::{Device, Kind, Tensor};

use crate::error::EngineError;
use crate::finish::conv::LeakyRelu;
use crate::runtime::disable_miopen;
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct IfnetNetwork {
    config: IfnetConfig,
    head: Option<FeatureHead>,
    blocks: Vec<FlowBlock>,
    kind: Kind,
    device: Device,
}

/// A frame as the network sees it; that of one pair is that of the next one.
#[derive(Debug)]
pub struct SeenFrame {
    /// `(1, 3, H, W)`, extended to whole blocks
    pixels: Tensor,
    /// `(1, features, H, W)`
    features: Option<Tensor>,
    /// Before it was extended: height and width.
    size: [i64; 2],
}

/// Features of a frame in addition to its colours.
#[derive(Debug)]
struct FeatureHead {
    convs: Vec<RifeConv>,
    last: DoublingDeconv,
    /// Between convolutions, where there are more than two.
    relu: Option<LeakyRelu>,
}

/// Flow of both frames, `(1, 2, H, W)` each, and their blend mask.
struct FrameMotion {
    /// `(1, 4, H, W)` in pixels
    flow: Tensor,
    /// `(1, 1, H, W)`: the first frame counts where it is large.
    mask: Tensor,
    /// `(1, C, H, W)`
    carried: Tensor,
}

/// libtorch's numbers for how pixels between others are made, and those beyond the border.
const BILINEAR: i64 = 0;
const BORDER: i64 = 1;

/// Places of pixels in -1..1, for moving frames.
struct PixelGrid {
    /// `(1, 2, H, W)` in f32
    grid: Tensor,
    /// Size of one pixel, `(1, 2, 1, 1)`
    half: Tensor,
}

impl IfnetNetwork {
    /// Reads a weight file.
    pub fn open(place: &Path, kind: Kind, device: Device) -> Result<Self, EngineError> {
        let config = IfnetConfig::read(place)?;
        let w = Weights::open(place, kind, device)?;
        Ok(Self::new(&config, &w)?)
    }

    pub fn new(config: &IfnetConfig, w: &Weights) -> Result<Self, WeightsError> {
        let prefix = config.prefix.clone();
        let w = &w.translated(move |name| format!("{prefix}{name}"));
        let head = config.head.as_ref().map(|head| FeatureHead::new(head, w));
        let blocks = (0..config.widths.len()).map(|number| FlowBlock::new(config, number, w));
        Ok(Self {
            head: head.transpose()?,
            blocks: blocks.collect::<Result<_, _>>()?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn device(&self) -> Device {
        self.device
    }

    /// `frame`: `(1, 3, H, W)` in 0..1, anywhere and in any numbers.
    pub fn see(&self, frame: &Tensor) -> SeenFrame {
        tch::no_grad(|| {
            let frame = frame.to_device(self.device).to_kind(self.kind);
            let [height, width] = [2, 3].map(|axis| frame.size()[axis]);
            let step = self.config.alignment();
            let rest = |edge: i64| (step - edge % step) % step;
            let (below, right) = (rest(height), rest(width));
            // A padding too small for reflection repeats the edge.
            let mode = if below < height && right < width {
                "reflect"
            } else {
                "replicate"
            };
            let pixels = frame.pad([0, right, 0, below], mode, None);
            SeenFrame {
                features: self.head.as_ref().map(|head| head.forward(&pixels)),
                pixels,
                size: [height, width],
            }
        })
    }

    /// The frame between two of one size, at `time` from 0, the first, to 1, the second: `(1, 3, H, W)`, nominally in
    /// 0..1. `None` when cancelled.
    pub fn between(
        &self,
        first: &SeenFrame,
        second: &SeenFrame,
        time: f64,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Option<Tensor> {
        tch::no_grad(|| {
            let pair = [first, second];
            let size = first.pixels.size();
            let places = PixelGrid::new([size[2], size[3]], self.device);
            let time =
                first
                    .pixels
                    .new_full([1, 1, size[2], size[3]], time, (self.kind, self.device));
            let mut moved = pair.map(|frame| frame.pixels.shallow_clone());
            let mut motion: Option<FrameMotion> = None;
            let scales = self.config.scales();
            for (block, &scale) in self.blocks.iter().zip(scales) {
                if is_cancelled() {
                    return None;
                }
                let found = self.step(block, scale, pair, &moved, &time, motion, &places);
                moved = places.moved([&first.pixels, &second.pixels], &found.flow);
                motion = Some(found);
            }
            let share = motion?.mask.sigmoid();
            let [first_moved, second_moved] = moved;
            let made: Tensor = first_moved * &share + second_moved * (1.0 - &share);
            let [height, width] = first.size;
            Some(made.narrow(2, 0, height).narrow(3, 0, width))
        })
    }

    /// One block: the motion that was found before it, farther.
    fn step(
        &self,
        block: &FlowBlock,
        scale: i64,
        pair: [&SeenFrame; 2],
        moved: &[Tensor; 2],
        time: &Tensor,
        motion: Option<FrameMotion>,
        places: &PixelGrid,
    ) -> FrameMotion {
        let features = pair.map(|frame| frame.features.as_ref());
        let features = match features {
            [Some(first), Some(second)] => Some([first, second]),
            _ => None,
        };
        let mut seen: Vec<Tensor> = moved.iter().map(Tensor::shallow_clone).collect();
        if let Some(features) = features {
            seen.extend(match &motion {
                Some(motion) => places.moved(features, &motion.flow),
                None => features.map(Tensor::shallow_clone),
            });
        }
        seen.push(time.shallow_clone());
        if let Some(motion) = &motion {
            seen.push(motion.mask.shallow_clone());
            if self.config.carried > 0 {
                seen.push(motion.carried.shallow_clone());
            }
        }
        let flow = motion.as_ref().map(|motion| &motion.flow);
        let found = block.forward(&Tensor::cat(&seen, 1), flow, scale);
        let Some(before) = motion else {
            return found;
        };
        let mask = match self.head {
            Some(_) => found.mask,
            // Up to 4.6 a block says how the mask changes.
            None => before.mask + found.mask,
        };
        FrameMotion {
            flow: before.flow + found.flow,
            mask,
            carried: found.carried,
        }
    }
}

impl FeatureHead {
    fn new(head: &IfnetHead, w: &Weights) -> Result<Self, WeightsError> {
        let (last, others) = head.layers.split_last().unzip();
        let others = others.unwrap_or_default().iter().enumerate();
        let convs = others.map(|(number, layer)| {
            let (inputs, stride) = if number == 0 { (3, 2) } else { (head.width, 1) };
            RifeConv::new(&(w / layer), [inputs, head.width], stride)
        });
        let convs = convs.collect::<Result<Vec<_>, _>>()?;
        let last = last.cloned().unwrap_or_default();
        Ok(Self {
            relu: (convs.len() > 1).then(|| LeakyRelu::new(SLOPE, w)),
            last: DoublingDeconv::new(&(w / &last), [head.width, head.features])?,
            convs,
        })
    }

    /// `(1, 3, H, W)` -> `(1, features, H, W)`
    fn forward(&self, pixels: &Tensor) -> Tensor {
        let mut xs = pixels.shallow_clone();
        for conv in &self.convs {
            xs = conv.forward(&xs);
            if let Some(relu) = &self.relu {
                xs = relu.forward(&xs);
            }
        }
        self.last.forward(&xs)
    }
}

impl PixelGrid {
    fn new([height, width]: [i64; 2], device: Device) -> Self {
        let options = (Kind::Float, device);
        let across = Tensor::linspace(-1.0, 1.0, width, options).view([1, 1, 1, width]);
        let down = Tensor::linspace(-1.0, 1.0, height, options).view([1, 1, height, 1]);
        let whole = [-1, -1, height, width];
        let half = [width, height].map(|edge| (edge as f32 - 1.0) / 2.0);
        Self {
            grid: Tensor::cat(&[across.expand(whole, false), down.expand(whole, false)], 1),
            half: Tensor::from_slice(&half)
                .view([1, 2, 1, 1])
                .to_device(device),
        }
    }

    /// Both of a pair, each by its own half of `flow`. In f32, whatever they are in: places need its digits.
    fn moved(&self, pair: [&Tensor; 2], flow: &Tensor) -> [Tensor; 2] {
        [0, 1].map(|number| {
            let xs = pair[number];
            let flow = flow.narrow(1, 2 * number as i64, 2).to_kind(Kind::Float);
            let places = (&self.grid + flow / &self.half).permute([0, 2, 3, 1]);
            xs.to_kind(Kind::Float)
                .grid_sampler(&places, BILINEAR, BORDER, true)
                .to_kind(xs.kind())
        })
    }
}

/// Slope of the leaky ReLU below 0.
const SLOPE: f64 = 0.2;
const FLOWS: i64 = 4;

/// Three by three.
#[derive(Debug)]
struct RifeConv {
    /// `(O, C / groups, 3, 3)`
    weight: Tensor,
    bias: Tensor,
    stride: i64,
    groups: i64,
}

impl RifeConv {
    /// `stride`: 2 halves edges
    fn new(w: &Weights, [inputs, outputs]: [i64; 2], stride: i64) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[outputs, inputs, 3, 3])?,
            bias: w.tensor("bias", &[outputs])?,
            stride,
            groups: 1,
        })
    }

    /// Grouped convolution that keeps the width.
    fn grouped(w: &Weights, width: i64, groups: i64) -> Result<Self, WeightsError> {
        Ok(Self {
            groups,
            ..Self::new(w, [width / groups, width], 1)?
        })
    }

    fn forward(&self, xs: &Tensor) -> Tensor {
        // No probe tries them, and MIOpen hangs in some.
        let _guard = disable_miopen(xs.device());
        let stride = [self.stride, self.stride];
        let bias = Some(&self.bias);
        xs.conv2d(&self.weight, bias, stride, [1, 1], [1, 1], self.groups)
    }
}

#[derive(Debug)]
struct DoublingDeconv {
    /// `(C, O, 4, 4)`
    weight: Tensor,
    bias: Tensor,
}

impl DoublingDeconv {
    fn new(w: &Weights, [inputs, outputs]: [i64; 2]) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[inputs, outputs, 4, 4])?,
            bias: w.tensor("bias", &[outputs])?,
        })
    }

    fn forward(&self, xs: &Tensor) -> Tensor {
        let _guard = disable_miopen(xs.device());
        let bias = Some(&self.bias);
        xs.conv_transpose2d(&self.weight, bias, [2, 2], [1, 1], [0, 0], 1, [1, 1])
    }
}

#[derive(Debug)]
struct FlowBlock {
    halving: [RifeConv; 2],
    /// Each with how much of it counts, `(1, C, 1, 1)`.
    convs: Vec<(RifeConv, Tensor)>,
    last: DoublingDeconv,
    relu: LeakyRelu,
}

impl FlowBlock {
    /// The block of this number, from 0.
    fn new(config: &IfnetConfig, number: usize, w: &Weights) -> Result<Self, WeightsError> {
        let w = &(w / &config.block(number));
        let width = config.widths[number];
        let convs = (0..IFNET_CONVS).map(|conv| {
            let w = &(w / &format!("convblock.{conv}"));
            let beta = w.tensor("beta", &[1, width, 1, 1])?;
            let groups = config.groups.clamp(1, width);
            Ok((RifeConv::grouped(&(w / "conv"), width, groups)?, beta))
        });
        let half = width / 2;
        Ok(Self {
            halving: [
                RifeConv::new(&(w / "conv0.0.0"), [config.inputs(number), half], 2)?,
                RifeConv::new(&(w / "conv0.1.0"), [half, width], 2)?,
            ],
            convs: convs.collect::<Result<_, WeightsError>>()?,
            last: DoublingDeconv::new(&(w / "lastconv.0"), [width, config.shuffled()])?,
            relu: LeakyRelu::new(SLOPE, w),
        })
    }

    /// `seen`: `(1, C, H, W)`; `flow`: `(1, 4, H, W)`, what was found before; `scale`: by how much smaller both are
    /// seen -> what is to be added to it, and the rest as it is
    fn forward(&self, seen: &Tensor, flow: Option<&Tensor>, scale: i64) -> FrameMotion {
        let smaller = 1.0 / scale as f64;
        let mut xs = resized(seen, smaller);
        if let Some(flow) = flow {
            xs = Tensor::cat(&[xs, resized(flow, smaller) / scale as f64], 1);
        }
        for conv in &self.halving {
            xs = self.relu.forward(&conv.forward(&xs));
        }
        for (conv, beta) in &self.convs {
            xs = self.relu.forward(&(conv.forward(&xs) * beta + xs));
        }
        let made = self.last.forward(&xs).pixel_shuffle(2);
        let made = resized(&made, scale as f64);
        let rest = made.size()[1] - FLOWS - 1;
        FrameMotion {
            flow: made.narrow(1, 0, FLOWS) * scale as f64,
            mask: made.narrow(1, FLOWS, 1),
            carried: made.narrow(1, FLOWS + 1, rest),
        }
    }
}

/// Edges by this factor, without smoothing.
fn resized(xs: &Tensor, factor: f64) -> Tensor {
    let size = xs.size();
    let edges = [2, 3].map(|axis| (size[axis] as f64 * factor).round() as i64);
    if edges == size[2..] {
        return xs.shallow_clone();
    }
    xs.upsample_bilinear2d(edges, false, factor, factor)
}
