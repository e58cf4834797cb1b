//! Shared tests of whole jobs of image models: tiny synthetic models, recorded runs, every layout of files, and
//! batches, masks, cancellation and second passes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use tch::Tensor;

use super::jobs::{
    self, Job, Run, assert_goes_on, assert_stops, fixtures, json_of, merge, try_stage,
};
use super::*;
use crate::closeness::distance;
use crate::families::tests::TinyFamily;
use crate::weights::tests::as_fp8::{FORMS, write_fp8};
use crate::weights::tests::made_up::made_up;
use crate::weights::tests::made_up_gguf::both_forms;

/// Names and shapes of the tensors of each component.
pub(super) type Shapes = BTreeMap<String, BTreeMap<String, Vec<i64>>>;

/// The components with weights, and what their weights are called in a diffusers folder.
const COMPONENTS: [(&str, &str); 3] = [
    ("transformer", "diffusion_pytorch_model.safetensors"),
    ("vae", "diffusion_pytorch_model.safetensors"),
    ("text_encoder", "model.safetensors"),
];

/// A family of images with a tiny model, whose fixtures lie in the folder of `tests/fixtures` that has its name.
pub(super) trait TinyJobs: TinyFamily {
    /// What diffusers and transformers call the pipeline, its transformer, autoencoder, text encoder and tokenizer.
    fn classes(&self) -> [&'static str; 5];

    /// The models whose jobs are tried: one that makes images as it comes, and one that is guided.
    fn variants(&self) -> [&'static str; 2];

    /// What `model_index.json` says of a variant beside its classes.
    fn marks(&self, _variant: &str) -> Value {
        json!({})
    }

    /// The scheduler of a variant, without its class.
    fn scheduler(&self, variant: &str) -> Value;

    /// A component's `config.json`.
    fn config(&self, component: &str, _variant: &str) -> Value {
        json_of(format!("{}/{component}.json", self.id()))
    }

    /// `size`: `tiny`, or `wide` with heads as large as the published ones, of which files without configs can be read.
    fn shapes(&self, size: &str) -> Shapes {
        let mut all = json_of(format!("{}/shapes.json", self.id()));
        serde_json::from_value(all[size].take()).unwrap()
    }

    /// Changes what a formula alone would make of a component's tensors, in a variant.
    fn adjust(&self, _component: &str, _variant: &str, _tensors: &mut Vec<(String, Tensor)>) {}

    /// A component that reads what the text encoder gives, and the prefix of its names in the transformer's file.
    fn adapter(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// The tokenizer with which the runs were made.
    fn write_tokenizer(&self, place: &Path) {
        fs::copy(fixtures().join("text/qwen/tokenizer.json"), place).unwrap();
    }

    /// What requests for the tiny model ask for beside what all do.
    fn request_fields(&self) -> Value {
        json!({})
    }

    /// Returns true if latents of input images are means instead of samples.
    fn takes_means(&self) -> bool {
        false
    }

    /// Prefix of the text encoder's names in a whole checkpoint.
    fn text_prefix(&self) -> &'static str;
}

/// The shapes of a family's own components, and of FLUX.1's autoencoder.
pub(super) fn with_kl_vae(mut own: Value, size: &str) -> Shapes {
    own[size]["vae"] = match size {
        "wide" => json_of("flux/stages/wide.json")["vae"].take(),
        _ => json_of("vae/kl/flux/shapes.json"),
    };
    serde_json::from_value(own[size].take()).unwrap()
}

fn tensors_of(
    family: &dyn TinyJobs,
    [component, variant]: [&str; 2],
    shapes: &Shapes,
) -> Vec<(String, Tensor)> {
    let mut tensors = made_up_of(component, shapes);
    family.adjust(component, variant, &mut tensors);
    tensors
}

/// A component's tensors, made up of their names.
pub(super) fn made_up_of(component: &str, shapes: &Shapes) -> Vec<(String, Tensor)> {
    let named = shapes[component].iter();
    named
        .map(|(name, shape)| (name.clone(), made_up(&format!("{component}.{name}"), shape)))
        .collect()
}

/// Writes JSON files of these names below a folder.
pub(super) fn write_configs<N: AsRef<Path>>(
    folder: &Path,
    configs: impl IntoIterator<Item = (N, Value)>,
) {
    for (name, value) in configs {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    }
}

/// A whole diffusers folder.
fn write_model(family: &dyn TinyJobs, variant: &str, folder: &Path) {
    let [pipeline, transformer, vae, text, tokenizer] = family.classes();
    let mut index = json!({
        "_class_name": pipeline,
        "transformer": ["diffusers", transformer],
        "vae": ["diffusers", vae],
        "text_encoder": ["transformers", text],
        "tokenizer": ["transformers", tokenizer],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
    });
    merge(&mut index, family.marks(variant));
    let mut scheduler = family.scheduler(variant);
    scheduler["_class_name"] = json!("FlowMatchEulerDiscreteScheduler");
    let adapter = family
        .adapter()
        .map(|(component, _)| (component, COMPONENTS[0].1));
    let components: Vec<_> = COMPONENTS.into_iter().chain(adapter).collect();
    let configs = components.iter().map(|(component, _)| {
        let config = family.config(component, variant);
        (format!("{component}/config.json"), config)
    });
    let others = [
        ("model_index.json".to_owned(), index),
        ("scheduler/scheduler_config.json".to_owned(), scheduler),
    ];
    write_configs(folder, configs.chain(others));
    fs::create_dir_all(folder.join("tokenizer")).unwrap();
    family.write_tokenizer(&folder.join("tokenizer/tokenizer.json"));
    let shapes = family.shapes("tiny");
    for (component, stem) in components {
        let tensors = tensors_of(family, [component, variant], &shapes);
        Tensor::write_safetensors(&tensors, folder.join(component).join(stem)).unwrap();
    }
}

/// `facts`: fields of the request besides the model; images as pixels, `(H, W, 3)`.
pub(super) fn job(
    family: &dyn TinyJobs,
    variant: &str,
    facts: &Value,
    [image, mask]: [Option<&Tensor>; 2],
) -> Job {
    let mut request = json!({
        "model": "tiny", "family": family.id(), "out": "a.png", "fps": 1.0, "num_frames": 1, "image_role": "base",
        "sampler": "euler", "prompt": "a red boat", "negative_prompt": "", "width": 32, "height": 32,
        "num_steps": 2, "guidance_scale": 1.0, "seed": 5,
    });
    merge(&mut request, family.request_fields());
    merge(&mut request, facts.clone());
    let write = |folder: &Path| write_model(family, variant, folder);
    Job::of(write, request, image, mask)
}

/// Makes a job from the other fields of its request, an image and a mask.
pub(super) type Make<'a> = &'a dyn Fn(&Value, [Option<&Tensor>; 2]) -> Job;

/// The same job as a recorded run of the reference.
pub(super) fn recorded(family: &dyn TinyJobs, run: &Run) -> Job {
    let mut facts = run.facts.clone();
    for ours in ["same", "unchecked", "variant"] {
        facts.as_object_mut().unwrap().remove(ours);
    }
    let variant = run.facts["variant"].as_str();
    let variant = variant.unwrap_or_else(|| family.variants()[0]);
    let given = ["image", "mask"].map(|name| run.given(name));
    let references = (0..).map_while(|index| run.given(&format!("reference.{index}")));
    job(family, variant, &facts, given).with_references(references)
}

/// Compares recorded runs of the reference with the same jobs here.
pub(super) fn check(family: &dyn TinyJobs, runs: &[&str]) {
    for run in runs {
        jobs::check(&format!("{}/{run}", family.id()), |run| {
            recorded(family, run)
        });
    }
}

/// A component's tensors as single files have them. The sizes that shapes alone cannot say are the published ones.
fn single(family: &dyn TinyJobs, component: &str) -> Vec<(String, Tensor)> {
    let (variant, shapes) = (family.variants()[0], family.shapes("wide"));
    let all = tensors_of(family, [component, variant], &shapes);
    match component {
        "transformer" => {
            let mut originals = family.originals(&all.into_iter().collect());
            if let Some((adapter, prefix)) = family.adapter() {
                let own = tensors_of(family, [adapter, variant], &shapes).into_iter();
                originals.extend(own.map(|(name, tensor)| (format!("{prefix}{name}"), tensor)));
            }
            originals.into_iter().collect()
        }
        _ => all,
    }
}

/// Asserts that the same weights make the same image in separate files, in one checkpoint and in GGUF, and nearly the
/// same in fp8.
pub(super) fn assert_layouts(family: &dyn TinyJobs) {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let with_files = |[transformer, vae, text_encoder]: [PathBuf; 3]| {
        let facts = json!({"width": 48, "num_steps": 2});
        let mut job = job(family, family.variants()[0], &facts, [None; 2]);
        let files = &mut job.request.files;
        files.text_encoder_2 = family.adapter().map(|_| transformer.clone());
        (files.transformer, files.vae, files.text_encoder) = (transformer, vae, text_encoder);
        files.scheduler = None;
        job
    };
    let prefixes = ["model.diffusion_model.", "vae.", family.text_prefix()];
    let mut everything = Vec::new();
    let parts = COMPONENTS.map(|(component, _)| component);
    let places = parts.map(|component| place(&format!("{component}.safetensors")));
    for ((component, place), prefix) in parts.iter().zip(&places).zip(prefixes) {
        let own = single(family, component);
        Tensor::write_safetensors(&own, place).unwrap();
        let behind = own.into_iter();
        everything.extend(behind.map(|(name, tensor)| (format!("{prefix}{name}"), tensor)));
    }
    let own = with_files(places.clone());
    let expected = one_image(&own);
    let all = place("everything.safetensors");
    Tensor::write_safetensors(&everything, &all).unwrap();
    let one = with_files([all.clone(), all.clone(), all]);
    let holds = one_image(&one) == expected;
    assert!(holds, "one file makes another image");

    let [_, vae, text] = places;
    let with = |transformer: &Path| with_files([transformer.to_owned(), vae.clone(), text.clone()]);
    let weights = single(family, "transformer");
    let blocks = both_forms(folder.path(), &weights, str::to_owned);
    let [blocks, exact] = blocks.map(|place| with(&place));
    let holds = one_image(&blocks) == one_image(&exact);
    assert!(holds, "GGUF makes another image");
    assert!(distance(&blocks.latents(), &own.latents()) < 0.1);

    let fp8 = place("fp8.safetensors");
    let weights = weights.into_iter().collect();
    for (kind, scales, name) in [FORMS[0], FORMS[2], FORMS[3]] {
        write_fp8(&fp8, &weights, kind, scales);
        let job = with(&fp8);
        one_image(&job);
        let far = distance(&job.latents(), &own.latents());
        assert!((1e-4..0.4).contains(&far), "{name}: {far}");
    }
}

/// The bytes of the one image that a job makes.
pub(super) fn one_image(job: &Job) -> Vec<u8> {
    let mut frames = job.run(false).frames;
    assert_eq!(frames.len(), 1);
    frames.remove(0).2
}

/// Colours of a frame, `(H, W, 3)`, which may have its alpha after them.
fn colours_of(bytes: &[u8], [height, width]: [i64; 2]) -> Tensor {
    let count = (height * width * 3) as usize;
    assert!(bytes.len() == count || bytes.len() == count / 3 * 4);
    Tensor::from_slice(&bytes[..count]).view([height, width, 3])
}

/// Pixels of an image that no other test uses.
pub(super) fn pixels(name: &str, height: i64, width: i64) -> Tensor {
    let unit = made_up(name, &[height, width, 3]).clamp(-1.0, 1.0);
    ((unit + 1.0) * 127.5).to_kind(Kind::Uint8)
}

/// White in its right half.
pub(super) fn mask(height: i64, width: i64) -> Tensor {
    let mask = Tensor::zeros([height, width, 3], (Kind::Uint8, Device::Cpu));
    drop(mask.narrow(1, width / 2, width / 2).fill_(255));
    mask
}

/// Asserts that every image of a batch equals the one of its seed alone.
pub(super) fn assert_batches(family: &dyn TinyJobs) {
    let image = pixels("pixels", 20, 30);
    for (sampler, guidance) in [("euler", 3.0), ("lcm", 1.0)] {
        let mask = mask(32, 32);
        let mask = Some(&mask).filter(|_| sampler == "lcm");
        let made = |seed: u64, batch_size: u32| {
            let facts = json!({
                "seed": seed, "batch_size": batch_size, "num_steps": 3, "strength": 0.7, "sampler": sampler,
                "guidance_scale": guidance, "negative_prompt": "grey",
            });
            let job = job(family, family.variants()[1], &facts, [Some(&image), mask]);
            let output = job.run(false);
            (job.latents(), output)
        };
        let (batch, output) = made(u64::MAX - 1, 3);
        assert_eq!(output.frames.len(), 3);
        for index in 0..3 {
            // Seeds go round.
            let (alone, _) = made((u64::MAX - 1).wrapping_add(index), 1);
            assert_eq!(batch.narrow(0, index as i64, 1), alone, "{sampler} {index}");
        }
        let others = distance(&batch.narrow(0, 0, 1), &batch.narrow(0, 1, 1));
        assert!(others > 0.1, "{sampler}: all images are the same");
    }
}

/// Asserts that the start image is unchanged outside of the mask, and regenerated inside.
pub(super) fn assert_mask_keeps(family: &dyn TinyJobs) {
    let (image, mask) = (pixels("pixels", 32, 48), mask(32, 48));
    let facts = json!({"width": 48, "num_steps": 3, "strength": 1.0, "batch_size": 2});
    let given = [Some(&image), Some(&mask)];
    let job = job(family, family.variants()[0], &facts, given);
    let output = job.run(false);
    assert_eq!(output.frames.len(), 2);
    for (_, _, bytes) in &output.frames {
        let made = colours_of(bytes, [32, 48]);
        let half = |xs: &Tensor, from: i64| xs.narrow(1, from, 24).copy();
        assert_eq!(half(&made, 0), half(&image, 0));
        let changed = half(&made, 24).ne_tensor(&half(&image, 24));
        let share = changed.to_kind(Kind::Float).mean(Kind::Float);
        assert!(share.double_value(&[]) > 0.5);
    }
    assert_ne!(output.frames[0].2, output.frames[1].2);
}

/// Asserts that every stage of a guided job with an image and a mask can be cancelled.
pub(super) fn assert_guided_stops(family: &dyn TinyJobs) {
    let (image, mask) = (pixels("pixels", 32, 32), mask(32, 32));
    let facts = json!({"guidance_scale": 2.0});
    let given = [Some(&image), Some(&mask)];
    assert_stops(&job(family, family.variants()[1], &facts, given));
}

/// That a streamed job makes the latents of one that stays, bit for bit.
pub(super) fn assert_streams(family: &dyn TinyJobs) {
    let facts = json!({"num_steps": 2, "guidance_scale": 3.0, "negative_prompt": "grey"});
    let job = job(family, family.variants()[1], &facts, [None; 2]);
    job.stage(Stage::EncodeText, false);
    job.assert_streams();
}

/// Asserts that a second pass starts from the first one's image and gives the same result when it is run again.
///
/// `is_exact`: whether the family takes means of given images, so that it is to the last bit another job from that
/// image.
pub(super) fn assert_second_pass(make: Make<'_>, is_exact: bool) {
    let first_size = json!({"width": 32, "height": 48, "num_steps": 4});
    let alone = make(&first_size, [None; 2]);
    let output = alone.run(false);
    let both = json!({
        "width": 48, "height": 80, "num_steps": 4,
        "second_pass": {"scale": 1.6, "strength": 0.5, "first_width": 32, "first_height": 48},
    });
    let job = make(&both, [None; 2]);
    let made = job.run(false);
    assert_eq!(job.latents(), alone.latents());
    assert_eq!(made.frames.len(), 1);
    assert_eq!(colours_of(&made.frames[0].2, [80, 48]).numel(), 48 * 80 * 3);
    let folder = JobFolder::open(job.folder.path());
    let behind = folder.section_result(Stage::Denoise, 1).unwrap();
    let latents = |path: &Path| tensor_files::read_one(path, "latents").unwrap();
    let second = latents(&behind);
    fs::remove_file(&behind).unwrap();
    let (done, told_again) = try_stage(&job.order_of((Stage::Denoise, 1), false), &|_, _| {});
    done.unwrap();
    assert_eq!(latents(&behind), second);
    let num_made = told_again.steps.len();
    assert!((1..4).contains(&num_made), "{num_made} of 4 steps");
    let image = colours_of(&output.frames[0].2, [48, 32]);
    let other = json!({"width": 48, "height": 80, "num_steps": 4, "strength": 0.5});
    let other = make(&other, [Some(&image), None]);
    other.run(false);
    let distance = distance(&second, &other.latents());
    if is_exact {
        assert_eq!(second, other.latents(), "{distance}");
    } else {
        // Another draw of the noise alone.
        assert!(distance < 1.0, "{distance}");
    }
}

/// The same of a family's first variant.
pub(super) fn assert_passes(family: &dyn TinyJobs) {
    let make = |facts: &Value, given: [Option<&Tensor>; 2]| {
        job(family, family.variants()[0], facts, given)
    };
    assert_second_pass(&make, family.takes_means());
}

/// That a strength that leaves no step is refused.
pub(super) fn assert_strength_leaves_steps(family: &dyn TinyJobs) {
    let facts = json!({"strength": 0.0, "num_steps": 4});
    let image = pixels("pixels", 32, 32);
    let job = job(family, family.variants()[0], &facts, [Some(&image), None]);
    for stage in [Stage::EncodeText, Stage::EncodeImage] {
        job.stage(stage, false);
    }
    let (done, _) = try_stage(&job.order(Stage::Denoise, false), &|_, _| {});
    let text = done.unwrap_err().to_string();
    assert!(text.contains("leaves none of 4 steps"), "{text}");
}

/// That jobs go on bit for bit: as the model comes, and guided with a sampler that remembers steps.
pub(super) fn assert_both_go_on(family: &dyn TinyJobs) {
    let ways = [(1.0, "euler"), (4.0, "dpmpp_2m")];
    for (variant, (guidance, sampler)) in family.variants().into_iter().zip(ways) {
        let facts = json!({"num_steps": 7, "batch_size": 2, "sampler": sampler, "guidance_scale": guidance});
        assert_goes_on(&job(family, variant, &facts, [None; 2]), sampler);
    }
}

/// The tests of whole jobs: recorded runs, and what jobs promise.
macro_rules! jobs_of {
    ($family:expr, $runs:expr) => {
        #[test]
        fn recorded_runs_are_those_of_the_reference() {
            crate::stages::tests::images::check(&$family, &$runs);
        }

        #[test]
        fn every_layout_makes_the_image_of_its_numbers() {
            crate::stages::tests::images::assert_layouts(&$family);
        }

        #[test]
        fn every_image_of_a_batch_is_the_one_that_its_seed_alone_makes() {
            crate::stages::tests::images::assert_batches(&$family);
        }

        #[test]
        fn masked_area_is_regenerated_and_the_rest_kept_byte_for_byte() {
            crate::stages::tests::images::assert_mask_keeps(&$family);
        }

        #[test]
        fn cancelled_or_crashed_job_resumes_bit_for_bit() {
            crate::stages::tests::images::assert_both_go_on(&$family);
        }

        #[test]
        fn every_stage_stops_after_cancellation() {
            crate::stages::tests::images::assert_guided_stops(&$family);
        }

        #[test]
        fn a_streamed_job_makes_the_latents_of_one_that_stays_bit_for_bit() {
            crate::stages::tests::images::assert_streams(&$family);
        }

        #[test]
        fn a_strength_that_leaves_no_step_is_refused() {
            crate::stages::tests::images::assert_strength_leaves_steps(&$family);
        }

        #[test]
        fn second_pass_starts_from_the_image_of_the_first_pass() {
            crate::stages::tests::images::assert_passes(&$family);
        }
    };
}
pub(super) use jobs_of;
