//! Whole jobs, stage by stage as the worker orders them, and recorded runs of diffusers that they are compared with.
//! What the models are is in each family's tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use safelight_core::job::{ControlInput, ControlSettings, GenerateRequest, Recipe};
use safelight_core::media::{self, RgbPixels};
use safelight_core::memory::StageMemory;
use safelight_core::model::ImageRole;
use safelight_core::protocol::EngineMessage;
use serde_json::{Value, json};
use tch::Tensor;
use tempfile::TempDir;

use super::*;
use crate::closeness::{assert_close, assert_same_pixels, limit, with_both_frequencies};
use crate::stages::images::soft_mask;
use crate::stages::job_images;
use crate::weights::tests::fixtures::tensors_in;

pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

pub(super) fn json_of(path: impl AsRef<Path>) -> Value {
    let path = fixtures().join(path);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Sets values of an object.
pub(super) fn merge(into: &mut Value, others: Value) {
    let Value::Object(others) = others else {
        panic!("not an object: {others}");
    };
    for (name, value) in others {
        into[name] = value;
    }
}

/// A job with its folder and its model.
pub(super) struct Job {
    pub(super) request: GenerateRequest,
    pub(super) folder: TempDir,
    pub(super) model: TempDir,
}

/// Messages of a stage while it ran.
#[derive(Default, PartialEq)]
pub(super) struct StageOutput {
    pub(super) frames: Vec<(u32, u32, Vec<u8>)>,
    pub(super) previews: Vec<(u32, u32)>,
    pub(super) steps: Vec<(u32, u32)>,
    pub(super) warnings: Vec<String>,
    pub(super) boundaries: Vec<String>,
    /// Channels, rate and samples.
    pub(super) sounds: Vec<(u16, u32, Vec<u8>)>,
}

impl StageOutput {
    /// The only warning.
    pub(super) fn warning(&self) -> &str {
        assert_eq!(self.warnings.len(), 1, "{:?}", self.warnings);
        &self.warnings[0]
    }
}

/// The order of a stage the time that is counted from 0, of the job in a folder.
pub(super) fn order_in(
    folder: &Path,
    (stage, section): (Stage, u32),
    request: &GenerateRequest,
) -> StageOrder {
    StageOrder {
        job: JobId(1),
        stage,
        folder: folder.to_owned(),
        request: request.clone().into(),
        section,
        first_frame: 0,
        memory: StageMemory::default(),
        devices: 1,
        capture: false,
    }
}

impl Job {
    /// A job with the model that `write_model` writes. `request`: its other members; images by their pixels,
    /// `(H, W, 3)`.
    pub(super) fn of(
        write_model: impl FnOnce(&Path),
        mut request: Value,
        start: Option<&Tensor>,
        mask: Option<&Tensor>,
    ) -> Self {
        let model = tempfile::tempdir().unwrap();
        write_model(model.path());
        let folder = tempfile::tempdir().unwrap();
        let files = safelight_core::model::ModelFiles::of_folder(model.path()).unwrap();
        request["files"] = json!(files);
        request["capture"] = json!(folder.path().join("delivered"));
        let job = JobFolder::open(folder.path());
        for (name, pixels, place) in [
            ("image", start, job.start_image()),
            ("mask", mask, job.mask()),
        ] {
            if let Some(pixels) = pixels {
                media::write_png(&place, &image(pixels)).unwrap();
                request[name] = json!("given.png");
            }
        }
        Self {
            request: serde_json::from_value(request).unwrap(),
            folder,
            model,
        }
    }

    /// Adds reference images by their pixels, `(H, W, 3)`.
    pub(super) fn with_references<'a>(mut self, pixels: impl Iterator<Item = &'a Tensor>) -> Self {
        let folder = JobFolder::open(self.folder.path());
        for (index, pixels) in pixels.enumerate() {
            media::write_png(&folder.reference(index), &image(pixels)).unwrap();
            self.request.references.push("given.png".into());
        }
        self
    }

    /// Adds control images by their pixels, `(H, W, 3)`.
    pub(super) fn with_controls<'a>(mut self, pixels: impl Iterator<Item = &'a Tensor>) -> Self {
        let folder = JobFolder::open(self.folder.path());
        for (index, pixels) in pixels.enumerate() {
            media::write_png(&folder.control(index), &image(pixels)).unwrap();
            self.request.controls.push(ControlInput {
                file: "given.png".into(),
                mask: None,
                settings: ControlSettings::default(),
            });
        }
        self
    }

    pub(super) fn order(&self, stage: Stage, capture: bool) -> StageOrder {
        self.order_of((stage, 0), capture)
    }

    pub(super) fn order_of(&self, part: (Stage, u32), capture: bool) -> StageOrder {
        let order = order_in(self.folder.path(), part, &self.request);
        on_its_rung(StageOrder { capture, ..order })
    }

    pub(super) fn stage(&self, stage: Stage, capture: bool) -> StageOutput {
        self.stage_of((stage, 0), capture)
    }

    fn stage_of(&self, (stage, section): (Stage, u32), capture: bool) -> StageOutput {
        let order = self.order_of((stage, section), capture);
        let (done, output) = try_stage(&order, &|_, _| {});
        done.unwrap_or_else(|err| panic!("{stage:?}: {err}"));
        // Recorded runs read fewer tokens than their prompts have, to be small.
        let is_known = |text: &String| text.ends_with("are cut off");
        assert!(
            output.warnings.iter().all(is_known),
            "{:?}",
            output.warnings
        );
        output
    }

    /// All stages that the worker orders of the engine -> the messages of the last one.
    pub(super) fn run(&self, capture: bool) -> StageOutput {
        let mut last = StageOutput::default();
        let recipe = Recipe::from_request(&self.request);
        for (position, &stage) in recipe.stages.iter().enumerate() {
            if stage != Stage::Save {
                last = self.stage_of((stage, recipe.section(position)), capture);
            }
        }
        last
    }

    pub(super) fn latents(&self) -> Tensor {
        tensor_files::read_one(&self.result(Stage::Denoise), "latents").unwrap()
    }

    pub(super) fn result(&self, stage: Stage) -> PathBuf {
        JobFolder::open(self.folder.path()).result(stage).unwrap()
    }

    /// Tensors captured by a job.
    pub(super) fn captured(&self) -> BTreeMap<String, Tensor> {
        let delivered = self.request.options.capture.as_ref().unwrap();
        tensors_in(&delivered.join("capture.safetensors"))
    }

    /// The latents of the whole model, which a job whose weights are streamed makes again to the last bit.
    pub(super) fn assert_streams(&self) {
        self.stage(Stage::Denoise, false);
        let whole = self.latents();
        for resident_bytes in [0, 100_000] {
            let mut order = self.order(Stage::Denoise, false);
            order.memory.resident_bytes = Some(resident_bytes);
            try_stage(&order, &|_, _| {}).0.unwrap();
            assert_eq!(self.latents(), whole, "{resident_bytes}");
        }
    }
}

/// Runs a stage while `watch` sees each message, with the token that cancels it.
pub(super) fn try_stage(
    order: &StageOrder,
    watch: &(dyn Fn(&EngineMessage, &CancelToken) + Sync),
) -> (Result<(), EngineError>, StageOutput) {
    try_stage_with(order, &CancelToken::default(), watch)
}

pub(super) fn try_stage_with(
    order: &StageOrder,
    cancel: &CancelToken,
    watch: &(dyn Fn(&EngineMessage, &CancelToken) + Sync),
) -> (Result<(), EngineError>, StageOutput) {
    // A message is taken only when the one before it has been seen.
    let (messages, received) = crossbeam_channel::bounded(0);
    let context = StageContext {
        order,
        request: order.request.generate().unwrap(),
        device: Device::Cpu,
        // Other tests' tensors are counted too.
        baseline: u64::MAX,
        cancel: cancel.clone(),
        ticks: Arc::default(),
        messages,
    };
    std::thread::scope(|scope| {
        let output = scope.spawn(move || {
            let mut output = StageOutput::default();
            for (message, payload) in received {
                watch(&message, cancel);
                match message {
                    EngineMessage::Frame(header) => {
                        output.frames.push((header.index, header.count, payload));
                    }
                    EngineMessage::Preview(header) => {
                        output.previews.push((header.index, header.count));
                    }
                    EngineMessage::Step { step, num_steps } => {
                        output.steps.push((step, num_steps));
                    }
                    EngineMessage::Warning { text } => output.warnings.push(text),
                    EngineMessage::Sound { channels, rate } => {
                        output.sounds.push((channels, rate, payload));
                    }
                    EngineMessage::Reclaimed(reclaim) => output.boundaries.push(reclaim.boundary),
                    _ => {}
                }
            }
            output
        });
        let done = run(&context, families::run);
        let ticks = Arc::clone(&context.ticks);
        drop(context);
        let is_stopped = matches!(done, Err(EngineError::Cancelled));
        assert!(!is_stopped || ticks.load(Ordering::Relaxed) > 0);
        (done, output.join().unwrap())
    })
}

/// Asserts that denoising two images in seven steps resumes bit for bit: after its last step when it was cancelled,
/// and from its checkpoint when its process died.
pub(super) fn assert_goes_on(job: &Job, what: &str) {
    job.stage(Stage::EncodeText, false);
    if !job.request.controls.is_empty() {
        job.stage(Stage::EncodeImage, false);
    }
    let output = job.stage(Stage::Denoise, false);
    let steps: Vec<_> = (1..=7).map(|step| (step, 7)).collect();
    assert_eq!(output.steps, steps, "{what}");
    // The first and the last step show all images, those between where anybody would see them.
    let all = output.previews.chunks(2);
    assert!((2..=7).contains(&all.len()), "{what}");
    assert!(all.into_iter().all(|both| both == [(0, 2), (1, 2)]));
    let whole = job.latents();
    let folder = JobFolder::open(job.folder.path());
    fs::remove_file(folder.result(Stage::Denoise).unwrap()).unwrap();

    let checkpoint = folder.section_checkpoint(0);
    // What a job that dies leaves.
    let of_dead = job.folder.path().join("of-dead.safetensors");
    let stop = |message: &EngineMessage, cancel: &CancelToken| {
        // The sixth may be under way when this is heard; its own message waits until it was.
        if matches!(message, EngineMessage::Step { step: 5, .. }) {
            fs::copy(&checkpoint, &of_dead).unwrap();
            cancel.cancel();
        }
    };
    let order = job.order(Stage::Denoise, false);
    let (done, output) = try_stage(&order, &stop);
    assert!(matches!(done, Err(EngineError::Cancelled)), "{what}");
    let num_made = output.steps.len() as u32;
    assert!((5..=6).contains(&num_made), "{what}");
    assert!(!folder.result(Stage::Denoise).unwrap().exists());

    let left = fs::read(&of_dead).unwrap();
    for (from, state) in [(num_made + 1, None), (5, Some(left))] {
        if let Some(state) = state {
            fs::remove_file(folder.result(Stage::Denoise).unwrap()).unwrap();
            fs::write(&checkpoint, state).unwrap();
        }
        let output = job.stage(Stage::Denoise, false);
        let steps: Vec<_> = (from..=7).map(|step| (step, 7)).collect();
        assert_eq!(output.steps, steps, "{what}");
        assert_eq!(job.latents(), whole, "{what}");
    }
    assert!(!folder.section_checkpoint(0).exists());
}

/// That every stage of a job stops when it is asked to, and leaves nothing.
pub(super) fn assert_stops(job: &Job) {
    for stage in Recipe::from_request(&job.request).stages {
        if matches!(stage, Stage::Unload | Stage::Save) {
            continue;
        }
        let cancel = CancelToken::default();
        cancel.cancel();
        let (done, _) = try_stage_with(&job.order(stage, false), &cancel, &|_, _| {});
        assert!(matches!(done, Err(EngineError::Cancelled)), "{stage:?}");
        let left = JobFolder::open(job.folder.path()).result(stage);
        assert!(left.is_none_or(|path| !path.exists()), "{stage:?}");
        job.stage(stage, false);
    }
}

pub(super) fn image(pixels: &Tensor) -> RgbPixels {
    let (height, width, _) = pixels.size3().unwrap();
    let rgb: Vec<u8> = pixels.flatten(0, -1).try_into().unwrap();
    RgbPixels::new(width as u32, height as u32, rgb).unwrap()
}

/// A run as it was recorded.
pub(super) struct Run {
    fixture: String,
    pub(super) facts: Value,
    tensors: BTreeMap<String, Tensor>,
}

impl Run {
    /// `fixture`: its path below `tests/fixtures`, without an ending.
    pub(super) fn open(fixture: String) -> Self {
        let file = fixtures().join(format!("{fixture}.safetensors"));
        let facts = json_of(format!("{fixture}.json"));
        let mut tensors = tensors_in(&file);
        for (twin, of) in facts["same"].as_object().unwrap() {
            let copy = tensors[of.as_str().unwrap()].shallow_clone();
            tensors.insert(twin.clone(), copy);
        }
        Self {
            fixture,
            facts,
            tensors,
        }
    }

    /// Pixels that the job is given, as they were opened.
    pub(super) fn given(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(&format!("{name}.source_u8"))
    }

    pub(super) fn tensor(&self, name: &str) -> &Tensor {
        &self.tensors[name]
    }

    fn limit_of(&self, tensor: &str) -> f64 {
        // A tensor that equals another one is recorded once.
        let recorded = self.facts["same"][tensor].as_str().unwrap_or(tensor);
        limit(&self.fixture, recorded, base_limit_of(tensor))
    }

    /// The names of all that was recorded.
    fn names(&self) -> BTreeSet<&str> {
        let unchecked = self.facts["unchecked"].as_array().unwrap().iter();
        let unchecked = unchecked.map(|name| name.as_str().unwrap());
        self.tensors
            .keys()
            .map(String::as_str)
            .chain(unchecked)
            .collect()
    }
}

/// The limits of `reference/README.md`, as relative distances, for a reference that is nearer to itself.
fn base_limit_of(name: &str) -> f64 {
    let last = name.rsplit('.').next().unwrap_or_default();
    if name.starts_with("tokenizer") || last.ends_with("ids") {
        return 0.0;
    }
    if name.starts_with("noise.") {
        return 1e-6;
    }
    match last {
        "source_u8" | "mask" | "guidance" | "timestep" | "timesteps" => 0.0,
        "sigmas" | "initial" => 1e-6,
        "cond" | "uncond" | "noise_pred" => 2e-5,
        "latents" | "final" | "output" | "pixels" => 3e-5,
        _ if name == "vae.decode.0.input" || last == "hidden_states" => 3e-5,
        // Encoded texts and input images.
        _ => 1e-5,
    }
}

/// Runs the job that `job` makes of a recorded run, and compares all that both recorded.
pub(super) fn check(fixture: &str, job: impl Fn(&Run) -> Job) {
    with_both_frequencies(|| check_once(fixture, &job));
}

fn check_once(fixture: &str, job: &dyn Fn(&Run) -> Job) {
    let run = Run::open(fixture.to_owned());
    let job = job(&run);
    let output = job.run(true);
    let found = job.captured();
    let names: BTreeSet<_> = found.keys().map(String::as_str).collect();
    let all = run.names();
    let missing: Vec<_> = all.difference(&names).collect();
    let extra: Vec<_> = names.difference(&all).collect();
    let holds = missing.is_empty() && extra.is_empty();
    assert!(holds, "{fixture}: no {missing:?}, but {extra:?}");
    for (key, expected) in &run.tensors {
        let found = &found[key];
        assert_eq!(found.kind(), expected.kind(), "{fixture}: {key}");
        let what = format!("{fixture}: {key}");
        if key != "output_u8" {
            assert_close(&what, found, expected, run.limit_of(key));
            continue;
        }
        let [(0, 1, bytes)] = &output.frames[..] else {
            panic!("{fixture}: not one image");
        };
        assert_eq!(*bytes, sent_bytes(&job, found), "{what}");
        assert_same_pixels(&what, found, expected);
    }
}

/// Bytes sent for the `decoded` ones, `(1, H, W, 3)`: those of the start image where a mask keeps it, blended where the
/// mask is gray.
fn sent_bytes(job: &Job, decoded: &Tensor) -> Vec<u8> {
    let request = &job.request;
    let fills = request.image_role == ImageRole::Canvas;
    let sent = match (&request.image, &request.mask) {
        (Some(_), Some(_)) if !fills => {
            let folder = JobFolder::open(job.folder.path());
            let opened = media::open_rgb(&folder.start_image()).unwrap();
            let opened = media::resize_lanczos(&opened, request.width, request.height).unwrap();
            let image = Tensor::from_slice(&opened.rgb).view_as(decoded);
            let mask = job_images::mask_of_job(&folder, request).unwrap().unwrap();
            let made = soft_mask(&mask.fitted, request.width, request.height).unwrap();
            // 1 1 h w -> 1 h w 1
            let made = made.permute([0, 2, 3, 1]);
            assert!(
                made.eq(0.0).any().int64_value(&[]) == 1
                    && made.gt(0.0).any().int64_value(&[]) == 1
            );
            let image = image.to_kind(Kind::Float);
            let blended = &image + (decoded.to_kind(Kind::Float) - &image) * made;
            blended.round().to_kind(Kind::Uint8)
        }
        _ => decoded.shallow_clone(),
    };
    // Alpha after all colours.
    let planes = sent.split(3, 3).into_iter().map(|it| it.flatten(0, -1));
    let planes: Vec<Tensor> = planes.collect();
    Tensor::cat(&planes, 0).try_into().unwrap()
}
