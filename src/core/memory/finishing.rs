//! The plan of a job that finishes something: what its network takes and what one frame does, in tiles where it has to be.
//!
//! Frames come one after the other, so that one of them is all that counts. Reads a header; asks no device.

use super::device::DeviceFacts;
use super::parts::PartName;
use super::plan::{MARGIN, Plan, StagePlan};
use super::{DeviceClass, verdict};
use crate::finish::{CPU_TILE_BYTES, FinishRequest, FinishWork, TileSize, room_for_tiles};
use crate::formats::weights::WeightSet;
use crate::job::{DtypeChoice, JobError};
use crate::networks::{IfnetConfig, UpscalerConfig};
use crate::units::gib_text;

/// Frames of the source, and of the result, that are in main memory at a time: read ahead, computed, and on their way to
/// the file.
const FRAMES_IN_HAND: [u64; 2] = [4, 6];

/// The f32 in the widest vectors that processors have.
const WIDEST_VECTOR: u32 = 16;

/// What plans of one network are made from.
#[derive(Clone, Debug)]
pub struct FinishPlanner {
    /// Numbers of all its tensors.
    num_weights: u64,
    network: Network,
}

#[derive(Clone, Debug)]
enum Network {
    Upscaler(UpscalerConfig),
    Interpolator(IfnetConfig),
}

/// What a frame takes at the worst moment, in bytes.
struct Frame {
    bytes: u64,
    /// Without tiles.
    whole_bytes: u64,
    /// The longest edge of tiles, in pixels.
    tile: Option<u32>,
}

impl FinishPlanner {
    /// Reads the header of the request's network.
    pub fn read(request: &FinishRequest) -> Result<Self, JobError> {
        let place = request.network();
        let read = || {
            let network = match &request.work {
                FinishWork::Upscale { .. } => Network::Upscaler(UpscalerConfig::read(place)?),
                FinishWork::Interpolate { .. } => Network::Interpolator(IfnetConfig::read(place)?),
            };
            let tensors = WeightSet::at(place)?.tensors;
            let numbers = tensors.values().map(|it| it.shape.iter().product::<u64>());
            Ok::<_, crate::model::CatalogError>(Self {
                num_weights: numbers.fold(0, u64::saturating_add),
                network,
            })
        };
        read().map_err(|err| JobError::from(&err))
    }

    /// The plan of this network's job on such a device.
    pub fn plan(&self, request: &FinishRequest, facts: DeviceFacts) -> Plan {
        let budget = facts.budget(&request.memory);
        let is_cpu = facts.class == DeviceClass::Cpu;
        let is_wide = is_cpu || request.dtype == DtypeChoice::F32;
        let number_bytes = if is_wide { 4 } else { 2 };
        let weights_bytes = self.num_weights.saturating_mul(number_bytes);
        let room = if is_cpu {
            CPU_TILE_BYTES
        } else {
            room_for_tiles(budget.available_bytes, weights_bytes)
        };
        let frame = match &self.network {
            Network::Upscaler(config) => upscaled(request, config, number_bytes, room, is_cpu),
            Network::Interpolator(config) => between(request, config, number_bytes, is_cpu),
        };
        let peak_bytes = weights_bytes.saturating_add(frame.bytes);
        let margin_bytes = MARGIN.of(frame.bytes as f64) as u64;
        let stage = StagePlan {
            part: Some(PartName::Finisher),
            weights_bytes,
            activation_bytes: frame.bytes,
            peak_bytes,
            margin_bytes,
            whole_bytes: weights_bytes.saturating_add(frame.whole_bytes),
            resident_bytes: weights_bytes,
            tile: frame.tile,
            fits: peak_bytes.saturating_add(margin_bytes) <= budget.available_bytes,
            formula_bytes: frame.bytes,
            ..StagePlan::empty(request.stage())
        };
        let stages = vec![stage];
        let mut verdict = verdict::of(&facts, &budget, &stages, peak_bytes);
        if !is_cpu {
            let host = gib_text(host_bytes(request));
            verdict.text = format!(
                "{}; about {host} GiB of main memory for frames",
                verdict.text
            );
        }
        Plan {
            device: facts,
            budget,
            stages,
            keeps_loaded: false,
            peak_bytes,
            suggested_preserved_bytes: 0,
            verdict,
        }
    }
}

/// Main memory for frames, of three bytes a pixel.
fn host_bytes(request: &FinishRequest) -> u64 {
    let [before, after] = [&request.before, &request.after]
        .map(|info| 3 * u64::from(info.width) * u64::from(info.height));
    let [of_source, of_result] = FRAMES_IN_HAND;
    of_source * before + of_result * after
}

/// The last pass, which makes the most of all.
fn upscaled(
    request: &FinishRequest,
    config: &UpscalerConfig,
    number_bytes: u64,
    room: u64,
    is_cpu: bool,
) -> Frame {
    let passes = match request.work {
        FinishWork::Upscale { passes, .. } => passes.max(1),
        FinishWork::Interpolate { .. } => 1,
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
    Frame {
        bytes: bytes_in(&tiles),
        whole_bytes: bytes_in(&whole),
        tile: (tiles.halo > 0).then_some(edge),
    }
}

/// The f32 in a vector of this processor: as many channels as oneDNN lays out together.
fn vector_numbers() -> u32 {
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return WIDEST_VECTOR / 2;
    }
    WIDEST_VECTOR
}

/// A frame between two, whole.
fn between(
    request: &FinishRequest,
    config: &IfnetConfig,
    number_bytes: u64,
    is_cpu: bool,
) -> Frame {
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
    Frame {
        bytes,
        whole_bytes: bytes,
        tile: None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::finish::{FinishForm, FinishWish, TargetSize};
    use crate::media::{Picture, write_png};
    use crate::memory::MemoryChoice;
    use crate::networks::{RrdbConfig, RrdbNames, UpscalerLayers};

    const GIB: u64 = 1 << 30;

    /// A full Real-ESRGAN for ×4, of whose file nothing is read.
    fn real() -> FinishPlanner {
        FinishPlanner {
            num_weights: 16_700_000,
            network: Network::Upscaler(UpscalerConfig {
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
            }),
        }
    }

    fn request(folder: &Path, cap_bytes: Option<u64>) -> FinishRequest {
        let source = folder.join("small.png");
        write_png(
            &source,
            &Picture::from_fn(1024, 1024, |_, _| [9; 3]).unwrap(),
        )
        .unwrap();
        let form = FinishForm {
            source,
            network: crate::finish::test_network(folder, "body_x2"),
            wish: FinishWish::Upscale {
                size: TargetSize::Factor(2.0),
                tile: None,
            },
            out: folder.join("large.png"),
            is_out_automatic: false,
            dtype: DtypeChoice::Auto,
            memory: MemoryChoice {
                cap_bytes,
                ..MemoryChoice::default()
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
        let planner = real();
        let plan_within = |cap| planner.plan(&request(folder.path(), cap), card());
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
            let told = format!("the network runs in tiles of {tile} pixels");
            assert!(plan.verdict.text.contains(&told), "{}", plan.verdict.text);
            last = tile;
        }
        assert!(!plan_within(Some(GIB)).fits());
    }
}
