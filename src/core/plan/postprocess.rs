//! Memory plan of a post-processing job: its network, and one frame at a time, in tiles if needed.

use std::any::Any;
use std::sync::Arc;

use super::planner::{MemoryPlan, MemoryPlanner, StagePlan};
use crate::footprint::{
    CPU_TILE_BYTES, ModelFootprint, NetworkFootprint, PlannedNetwork, StageFootprint, TileSize,
    room_for_tiles,
};
use crate::formats::weights::WeightSet;
use crate::job::{DtypeChoice, PostprocessKind, PostprocessRequest};
use crate::memory::DeviceClass;
use crate::model::CatalogError;
use crate::networks::{DEPTH_EDGE, DepthConfig, IfnetConfig, UpscalerConfig};
use crate::units::gib_text;

/// Frames of the source and of the result that main memory holds at a time: read ahead, computed, and waiting to be
/// encoded.
const FRAMES_IN_HAND: [u64; 2] = [4, 6];

/// f32 in the widest vectors of x86-64 processors.
const WIDEST_VECTOR: u32 = 16;

/// Peak of one frame, in bytes.
struct FramePeak {
    bytes: u64,
    /// Without tiles.
    whole_bytes: u64,
    /// Longest edge of tiles, in pixels.
    tile: Option<u32>,
}

impl ModelFootprint {
    /// Reads the header of the request's network.
    pub fn of_postprocess(request: &PostprocessRequest) -> Result<Self, CatalogError> {
        let path = request.network();
        let num_weights = WeightSet::open(path)?.parameters();
        let config: Arc<dyn Any + Send + Sync> = match &request.work {
            PostprocessKind::Upscale { .. } => Arc::new(UpscalerConfig::read(path)?),
            PostprocessKind::Interpolate { .. } => Arc::new(IfnetConfig::read(path)?),
            PostprocessKind::Depth { .. } => Arc::new(DepthConfig::read(path)?),
        };
        let network = NetworkFootprint::about(num_weights, false, config);
        Ok(Self::about([(PlannedNetwork::Finisher, network)]))
    }
}

impl MemoryPlanner<'_> {
    /// Plan of a post-processing job, whose weights are [`ModelFootprint::of_postprocess`].
    pub fn plan_postprocess(&self, request: &PostprocessRequest) -> MemoryPlan {
        let budget = self.facts.budget(&request.memory);
        let stages = self.weights.part(PlannedNetwork::Finisher).map(|network| {
            let is_cpu = self.facts.class == DeviceClass::Cpu;
            let is_wide = is_cpu || request.dtype == DtypeChoice::F32;
            let number_bytes = if is_wide { 4 } else { 2 };
            let room = if is_cpu {
                CPU_TILE_BYTES
            } else {
                room_for_tiles(budget.available_bytes, network.bytes(number_bytes))
            };
            let frame = if let Some(config) = network.config::<UpscalerConfig>() {
                upscaled(request, config, number_bytes, room, is_cpu)
            } else if let Some(config) = network.config::<IfnetConfig>() {
                interpolated(request, config, number_bytes, is_cpu)
            } else if let Some(config) = network.config::<DepthConfig>() {
                mapped(request, config, number_bytes)
            } else {
                return StagePlan::empty(request.stage());
            };
            let need = StageFootprint {
                part: PlannedNetwork::Finisher,
                number_bytes,
                activation_bytes: frame.bytes as f64,
                calls: 1,
                operations: 0.0,
                attended: 0.0,
                streams: false,
                tiles: false,
            };
            let stage = request.stage();
            let plan = self.network(
                (request.memory.preserved_bytes, 1),
                1,
                &budget,
                stage,
                network,
                &need,
                1.0,
            );
            StagePlan {
                whole_bytes: plan.weights_bytes.saturating_add(frame.whole_bytes),
                tile: frame.tile,
                ..plan
            }
        });
        let mut plan = self.plan_of(budget, stages.into_iter().collect(), false, 0);
        if self.facts.class != DeviceClass::Cpu {
            let host = gib_text(host_bytes(request));
            let text = &mut plan.verdict.text;
            *text = format!("{text}; about {host} GiB of main memory for frames");
        }
        plan
    }
}

/// Main memory for frames, three bytes a pixel.
fn host_bytes(request: &PostprocessRequest) -> u64 {
    let [before, after] = [&request.before, &request.after]
        .map(|info| 3 * u64::from(info.width) * u64::from(info.height));
    let [of_source, of_result] = FRAMES_IN_HAND;
    of_source * before + of_result * after
}

/// Peak of the last pass, which is the largest.
fn upscaled(
    request: &PostprocessRequest,
    config: &UpscalerConfig,
    number_bytes: u64,
    room: u64,
    is_cpu: bool,
) -> FramePeak {
    let passes = match request.work {
        PostprocessKind::Upscale { passes, .. } => passes.max(1),
        PostprocessKind::Interpolate { .. } | PostprocessKind::Depth { .. } => 1,
    };
    let before = config.scale().saturating_pow(passes - 1);
    let info = &request.before;
    let size = [info.width, info.height].map(|side| side.saturating_mul(before));
    let pixels = size.map(u64::from).iter().product::<u64>();
    // The pixels in f32; on the CPU the bytes of what is made are tensors too.
    let scale = u64::from(config.scale());
    let made = if is_cpu { 3 * scale * scale } else { 0 };
    let beside = pixels * (12 + made);
    let bytes_in = |tiles: &TileSize| {
        let peak = tiles.peak_bytes(config, size, number_bytes);
        peak.saturating_add(beside)
    };
    let tiles = TileSize::within(room, config, size, number_bytes, request.tile);
    let whole = TileSize::within(u64::MAX, config, size, number_bytes, None);
    let edge = tiles.rows.max(tiles.columns) * config.unit();
    FramePeak {
        bytes: bytes_in(&tiles),
        whole_bytes: bytes_in(&whole),
        tile: (tiles.halo > 0).then_some(edge),
    }
}

/// f32 in a vector of this processor: the channels that oneDNN lays out together.
fn vector_numbers() -> u32 {
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return WIDEST_VECTOR / 2;
    }
    WIDEST_VECTOR
}

/// Peak of one interpolated frame, never in tiles.
fn interpolated(
    request: &PostprocessRequest,
    config: &IfnetConfig,
    number_bytes: u64,
    is_cpu: bool,
) -> FramePeak {
    let step = config.alignment() as u64;
    let sides = [request.before.width, request.before.height];
    let pixels: u64 = sides
        .iter()
        .map(|side| u64::from(*side).next_multiple_of(step))
        .product();
    let block = if is_cpu {
        vector_numbers()
    } else {
        WIDEST_VECTOR
    };
    let bytes = pixels.saturating_mul(config.bytes_of_pixel(number_bytes, block));
    FramePeak {
        bytes,
        whole_bytes: bytes,
        tile: None,
    }
}

/// Peak of one depth map, never in tiles: the network sees every image about equally large.
fn mapped(request: &PostprocessRequest, config: &DepthConfig, number_bytes: u64) -> FramePeak {
    let sides = [request.before.width, request.before.height].map(u64::from);
    let [short, long] = [sides[0].min(sides[1]).max(1), sides[0].max(sides[1])];
    let patches = u64::from(DEPTH_EDGE) / config.patch.unsigned_abs().max(1);
    let tokens = patches * (patches * long).div_ceil(short);
    // The map at the image's size, in f32, with what becomes of it.
    let whole = 12 * sides[0] * sides[1];
    let bytes = config.bytes(tokens, number_bytes).saturating_add(whole);
    FramePeak {
        bytes,
        whole_bytes: bytes,
        tile: None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::finish::{PostprocessForm, PostprocessOptions, TargetSize};
    use crate::media::{RgbPixels, write_png};
    use crate::memory::{DeviceFacts, MemoryOptions};
    use crate::networks::{RrdbConfig, RrdbNames, UpscalerLayers};
    use crate::plan::PeakCorrections;

    const GIB: u64 = 1 << 30;

    /// A full Real-ESRGAN ×4.
    fn real() -> ModelFootprint {
        let config = UpscalerConfig {
            prefix: String::new(),
            width: 64,
            layers: UpscalerLayers::Rrdb(RrdbConfig {
                names: RrdbNames::Body,
                growth: 32,
                num_blocks: 23,
                num_doublings: 2,
                unshuffle: 1,
                has_shortcuts: false,
            }),
        };
        let network = NetworkFootprint::about(16_700_000, false, Arc::new(config));
        ModelFootprint::about([(PlannedNetwork::Finisher, network)])
    }

    fn request(folder: &Path, cap_bytes: Option<u64>) -> PostprocessRequest {
        let source = folder.join("small.png");
        write_png(
            &source,
            &RgbPixels::from_fn(1024, 1024, |_, _| [9; 3]).unwrap(),
        )
        .unwrap();
        let form = PostprocessForm {
            source,
            network: crate::finish::test_network(folder, "body_x2"),
            options: PostprocessOptions::Upscale {
                size: TargetSize::Factor(2.0),
                tile: None,
            },
            out: folder.join("large.png"),
            is_out_automatic: false,
            dtype: DtypeChoice::Auto,
            memory: MemoryOptions {
                cap_bytes,
                ..MemoryOptions::default()
            },
            crf: 16,
        };
        form.validate().unwrap()
    }

    fn card() -> DeviceFacts {
        DeviceFacts {
            class: DeviceClass::Discrete,
            total_bytes: 24 * GIB,
            used_bytes: GIB / 2,
            host_available_bytes: 32 * GIB,
        }
    }

    #[test]
    fn a_smaller_cap_gives_smaller_tiles_that_keep_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let (weights, corrections) = (real(), PeakCorrections::default());
        let planner = MemoryPlanner {
            weights: &weights,
            facts: card(),
            device: "a card",
            corrections: &corrections,
        };
        let plan_within = |cap| planner.plan_postprocess(&request(folder.path(), cap));
        let whole = plan_within(None);
        assert!(whole.fits() && whole.stages[0].tile.is_none());
        assert!(whole.verdict.text.contains("GiB of main memory for frames"));
        let mut last = u32::MAX;
        for cap in [5 * GIB / 2, 2 * GIB, 7 * GIB / 4] {
            let plan = plan_within(Some(cap));
            let stage = plan.stages[0];
            assert!(plan.fits(), "{}", plan.verdict.text);
            assert!(stage.required_bytes() <= plan.budget.available_bytes);
            let tile = stage.tile.unwrap();
            assert!(tile < last, "{tile} {last}");
            assert!(stage.peak_bytes < stage.whole_bytes);
            let carried = format!("the network runs in tiles of {tile} pixels");
            assert!(
                plan.verdict.text.contains(&carried),
                "{}",
                plan.verdict.text
            );
            last = tile;
        }
        assert!(!plan_within(Some(GIB)).fits());
    }
}
