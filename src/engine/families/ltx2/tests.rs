//! Transformer and connectors against `tests/fixtures/ltx2`, and a run of the distilled pipeline in two stages.

use safelight_core::families::ltx2::{DISTILLED_SIGMAS, SECOND_STAGE_SIGMAS};
use safelight_core::job::SamplerKind;
use safelight_core::networks::NetworkConfig as _;
use safelight_core::networks::ltx2::{
    LatentUpscalerConfig, Ltx2ConnectorsConfig, Ltx2TransformerConfig, Ltx2VaeConfig,
};
use tch::{Device, Kind, Tensor};

use super::*;
use crate::StageCapture;
use crate::closeness::assert_close;
use crate::denoise::walk;
use crate::hooks::{DenoiseState, NoHooks};
use crate::parallel::tests::on_ranks;
use crate::placement::ComputePlacement;
use crate::sampling::{CpuGenerator, NoiseSchedule, SamplerAlgorithm, Solver, UniPcOptions};
use crate::vae::{LatentUpscaler, Ltx2VaeDecoder};
use crate::weights::tests::fixtures::{
    Cancelled, given, open, recorded, tiny_network, tiny_output,
};
use crate::weights::tests::made_up::made_up;

const CALL_LIMIT: f64 = 1e-5;
const FINAL_LIMIT: f64 = 2e-5;
const FPS: f64 = 24.0;
/// Frames, rows and columns of the latents.
const LATENTS: [i64; 3] = [3, 2, 3];

#[test]
fn texts_of_both_streams_are_those_of_diffusers() {
    let (config, _folder, path) = tiny_network("connectors");
    let config: Ltx2ConnectorsConfig = serde_json::from_value(config).unwrap();
    config.check().unwrap();
    let weights = open(&path, Kind::Float);
    let connectors = Ltx2TextConnectors::new(&config, &weights, &weights).unwrap();
    assert_eq!(weights.finish(), [""; 0]);
    let states = tiny_output("text_encoder.states");
    let texts = connectors.forward(&states, 256, &NoHooks).unwrap();
    for (text, name) in texts.iter().zip(["connectors.video", "connectors.audio"]) {
        assert_close(name, text, &tiny_output(name), CALL_LIMIT);
    }
    assert!(connectors.forward(&states, 256, &Cancelled).is_none());
}

#[test]
fn velocities_of_video_and_sound_are_those_of_diffusers() {
    let (config, _folder, path) = tiny_network("transformer");
    let config: Ltx2TransformerConfig = serde_json::from_value(config).unwrap();
    config.check().unwrap();
    let weights = open(&path, Kind::Float);
    let transformer = Ltx2Transformer::new(&config, &weights).unwrap();
    assert_eq!(weights.finish(), [""; 0]);
    let audio = audio_tokens(17, FPS);
    assert_eq!(audio, 18);
    let positions = Ltx2Positions::new(&config, LATENTS, FPS, audio, Device::Cpu);
    let latents = [given("video", &[1, 18, 128]), given("audio", &[1, 18, 16])];
    let texts = [
        given("video_text", &[1, 7, 64]),
        given("audio_text", &[1, 7, 32]),
    ];
    // Without a given image, and with one that is the first latent frame.
    for (name, given) in [("plain", 0), ("started", 6)] {
        let inputs = Ltx2Inputs {
            latents: [&latents[0], &latents[1]],
            texts: [&texts[0], &texts[1]],
            positions: &positions,
            timestep: 937.5,
            given,
        };
        let velocities = transformer.forward(&inputs, &NoHooks).unwrap();
        for (velocity, stream) in velocities.iter().zip(["video", "audio"]) {
            let name = format!("transformer.{name}.{stream}");
            assert_close(&name, velocity, &tiny_output(&name), CALL_LIMIT);
        }
        assert!(transformer.forward(&inputs, &Cancelled).is_none());
    }
}

#[test]
fn several_ranks_give_the_velocities_of_one() {
    let audio = audio_tokens(17, FPS);
    let velocities = |given: i64| {
        let (config, transformer) = transformer();
        let positions = Ltx2Positions::new(&config, LATENTS, FPS, audio, Device::Cpu);
        let made = |name: &str, size: &[i64]| made_up(name, size);
        let latents = [made("video", &[1, 18, 128]), made("audio", &[1, 18, 16])];
        let texts = [
            made("video_text", &[1, 7, 64]),
            made("audio_text", &[1, 7, 32]),
        ];
        let inputs = Ltx2Inputs {
            latents: [&latents[0], &latents[1]],
            texts: [&texts[0], &texts[1]],
            positions: &positions,
            timestep: 937.5,
            given,
        };
        transformer.forward(&inputs, &NoHooks).unwrap()
    };
    for given in [0, 6] {
        let whole = velocities(given);
        for ranks in [2, 3, 4, 8] {
            for found in on_ranks(ranks, || velocities(given)) {
                for (found, whole) in found.iter().zip(&whole) {
                    assert_close(&format!("{given} on {ranks}"), found, whole, CALL_LIMIT);
                }
            }
        }
    }
}

fn transformer() -> (Ltx2TransformerConfig, Ltx2Transformer) {
    let (config, _folder, path) = tiny_network("transformer");
    let config: Ltx2TransformerConfig = serde_json::from_value(config).unwrap();
    let transformer = Ltx2Transformer::new(&config, &open(&path, Kind::Float)).unwrap();
    (config, transformer)
}

/// Latents after all steps along `sigmas`, with the recorded texts.
fn sampled(shape: JointShape, sigmas: &[f32], given_frames: i64, latents: Tensor) -> Tensor {
    let (config, transformer) = transformer();
    let denoiser = Ltx2Denoiser {
        transformer: &transformer,
        texts: [
            run("connectors.prompt.video"),
            run("connectors.prompt.audio"),
        ],
        positions: Ltx2Positions::new(&config, shape.video, FPS, shape.audio, Device::Cpu),
        shape,
        given_frames,
        hooks: &NoHooks,
    };
    let schedule = NoiseSchedule::of_sigmas(sigmas.to_vec(), 1000);
    let euler = SamplerAlgorithm::new(SamplerKind::Euler, schedule, UniPcOptions::default(), 0);
    let mut solver = Solver::new(euler, 0..sigmas.len()).unwrap();
    let state = DenoiseState::first(&solver, latents);
    let place = ComputePlacement::new(Device::Cpu, Kind::Float);
    let mut capture = StageCapture::off();
    let end = walk(
        &denoiser,
        &state,
        sigmas.len(),
        &mut solver,
        place,
        &mut capture,
        &NoHooks,
    );
    end.unwrap().latents
}

fn run(name: &str) -> Tensor {
    recorded("ltx2/two_stages.safetensors", name)
}

const FIRST: JointShape = JointShape {
    video: LATENTS,
    audio: 18,
    channels: [128, 16],
    bins: 2,
};

#[test]
fn a_distilled_video_in_two_stages_is_that_of_diffusers_seed_for_seed() {
    let mut generator = CpuGenerator::new(7);
    let assert_streams = |shape: &JointShape, latents: &Tensor, names: [&str; 2], limit| {
        for (found, name) in shape.parted(latents).iter().zip(names) {
            assert_close(name, found, &run(name), limit);
        }
    };
    let noise = FIRST.first_noise(&mut generator).unwrap();
    let names = ["stage1.latents.initial", "stage1.audio_latents.initial"];
    assert_streams(&FIRST, &noise, names, 0.0);
    let latents = sampled(FIRST, &DISTILLED_SIGMAS[..3], 0, noise);
    let names = ["stage1.latents.final", "stage1.step.02.audio_latents"];
    assert_streams(&FIRST, &latents, names, FINAL_LIMIT);

    let (config, _folder, path) = tiny_network("vae");
    let config: Ltx2VaeConfig = serde_json::from_value(config).unwrap();
    let vae = Ltx2VaeDecoder::new(&config, &open(&path, Kind::Float)).unwrap();
    let (config, _folder, path) = tiny_network("latent_upsampler");
    let config: LatentUpscalerConfig = serde_json::from_value(config).unwrap();
    let upscaler = LatentUpscaler::new(&config, &open(&path, Kind::Float)).unwrap();
    let [video, audio] = FIRST.parted(&latents);
    let small = vae.statistics.denormalize(&FIRST.volume(&video));
    assert_close(
        "upscaler's input",
        &small,
        &run("upsampler.in"),
        FINAL_LIMIT,
    );
    let larger = upscaler.forward(&small, &|| false).unwrap();
    assert_close(
        "upscaler's output",
        &larger,
        &run("upsampler.out"),
        FINAL_LIMIT,
    );

    let second = JointShape {
        video: [3, 4, 6],
        ..FIRST
    };
    let video = second.tokens_of(&vae.statistics.normalize(&larger));
    let noise = second.second_noise(&mut generator, false).unwrap();
    let latents = second.joined([&video, &audio]);
    let latents = renoised(&latents, &noise, SECOND_STAGE_SIGMAS[0]);
    let names = ["latents.initial", "audio_latents.initial"];
    assert_streams(&second, &latents, names, FINAL_LIMIT);
    let latents = sampled(second, &SECOND_STAGE_SIGMAS, 0, latents);
    let names = ["latents.final", "step.02.audio_latents"];
    assert_streams(&second, &latents, names, FINAL_LIMIT);
}

#[test]
fn a_given_first_frame_stays_as_it_is_while_the_rest_is_sampled() {
    let first = given("start", &[1, 18 * 128 + 18 * 16]);
    let (one, all) = (6 * 128, 18 * 128 + 18 * 16);
    let latents = first.narrow(1, 0, all);
    let made = sampled(FIRST, &[1.0, 0.5], 1, latents.shallow_clone());
    assert!(made.narrow(1, 0, one).equal(&latents.narrow(1, 0, one)));
    let rest = all - one;
    assert!(
        !made
            .narrow(1, one, rest)
            .allclose(&latents.narrow(1, one, rest), 0.1, 0.1, false)
    );
}
