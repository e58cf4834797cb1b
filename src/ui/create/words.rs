//! The words of the form: every label, hover and note of it, as whole sentences, so that they can be translated.
//!
//! What core says of a field that is wrong comes from there. Nothing is drawn here.

use safelight_core::job::{GuiderKind, Sampler, SeedMode, SigmaSchedule, StepCacheKind};
use safelight_core::model::ModelSpec;
use safelight_core::units::{seconds_text, size_text};

use crate::app::inputs::parked::Parked;

/// How many times as large.
pub(super) fn times(scale: f64) -> String {
    format!("{scale}×")
}

/// A number of frames a second, as people write it.
pub(super) fn rate(fps: f64) -> f64 {
    (fps * 100.0).round() / 100.0
}

/// One of two sentences: for models of pictures, or of clips.
pub(super) fn of<'a>(makes_pictures: bool, picture: &'a str, clip: &'a str) -> &'a str {
    if makes_pictures { picture } else { clip }
}

// The whole form.
pub(super) const CLEAR: &str = "Clear form";
pub(super) const CLEAR_HOVER: &str = "Empty the prompt, the pictures, the mask and the LoRAs, and set everything else to the model's defaults";
pub(super) const RESET_ALL: &str = "Reset to the model's defaults";
pub(super) const RESET_ALL_HOVER: &str =
    "Everything except the prompt, the LoRAs, the pictures and the seed";
pub(super) const ADVANCED: &str = "Advanced";
pub(super) const ADVANCED_HOVER: &str =
    "Everything else that the model can be told, such as steps, guidance and sampler";
pub(super) const REMOVE: &str = "Remove";
pub(super) const REMOVE_HOVER: &str = "Take it out of the form. Files on the disk stay";
pub(super) const CHOOSE: &str = "Choose…";
pub(super) const PAINT: &str = "Paint…";
pub(super) const SWITCH: &str = "Switch";

/// Why something in the form is not used by the chosen model.
pub(super) fn parked(why: Parked, makes_pictures: bool) -> &'static str {
    match why {
        Parked::StartPicture if makes_pictures => {
            "This model makes pictures from text only. The start picture is kept."
        }
        Parked::StartPicture => "This model makes clips from text only. The start picture is kept.",
        Parked::EndPicture => "This model does not use end pictures. The end picture is kept.",
        Parked::Mask => "This model does not use masks. The mask is kept.",
        Parked::MaskWithoutPicture => "A mask needs a start picture. The mask is kept.",
        Parked::MaskWithoutClip => "A mask needs a clip to change. The mask is kept.",
        Parked::Clip => "This model cannot extend a clip. The clip is kept.",
        Parked::References => "This model does not use reference pictures. They are kept.",
        Parked::Controls => "This model does not use control pictures. They are kept.",
        Parked::PromptPictures => "This model does not read pictures as prompts. They are kept.",
    }
}

pub(super) fn parked_control_mask(is_of_network: bool) -> &'static str {
    if is_of_network {
        "This ControlNet takes no mask. The mask of the control picture is kept."
    } else {
        "This model takes no mask of a control picture. The mask is kept."
    }
}

pub(super) fn parked_lora(name: &str) -> String {
    format!("The LoRA {name} is not for this model. It is kept.")
}

pub(super) fn parked_several(count: usize) -> String {
    format!("This model does not use {count} things in the form. They are kept.")
}

pub(super) fn cannot_extend(model: &str, other: &str) -> String {
    format!("{model} cannot continue a clip. Use {other}.")
}

pub(super) fn switch_hover(other: &str) -> String {
    format!("Choose {other}. The clip and the prompt stay")
}

// The model.
pub(super) const MODEL: &str = "Model";
pub(super) const MODEL_HOVER: &str =
    "The model that makes the result. Folders with more models are added in the settings";
pub(super) const MODELS_LOADING: &str = "Looking for models…";
pub(super) const CHOOSE_MODEL: &str = "Choose a model";
pub(super) const ALL_MODELS_HOVER: &str =
    "All models: what they are, whether they fit, what is missing";
pub(super) const PROBLEMS_HOVER: &str = "What is missing or wrong, and what to do";
pub(super) const COPY_PROBLEMS: &str = "Copy what is wrong with models";
pub(super) const COPY_PROBLEMS_HOVER: &str = "Copy details for a bug report";
/// What models say that have none.
pub(super) const NO_LICENCE: &str = "not stated";
pub(super) const NO_MODEL: &str = "No model was found";
pub(super) const NO_MODEL_ADVICE: &str = "Safelight comes with one, but its assets folder is missing. Install Safelight again, or add a folder with models in the settings.";
pub(super) const OPEN_SETTINGS: &str = "Open settings…";
pub(super) const LOOK_AGAIN: &str = "Look again";
pub(super) const LOOK_AGAIN_HOVER: &str = "Look for models again";
pub(super) const GET_MODEL: &str = "Get a model…";
pub(super) const GET_MODEL_HOVER: &str = "Models that can be downloaded";
pub(super) const SEARCHED: &str = "These folders were searched";

pub(super) fn problems(count: usize) -> String {
    match count {
        1 => "1 model cannot be used".to_owned(),
        count => format!("{count} models cannot be used"),
    }
}

pub(super) fn searched(folder: &str, exists: bool) -> String {
    if exists {
        folder.to_owned()
    } else {
        format!("{folder} (not there)")
    }
}

pub(super) fn model_hover(spec: &ModelSpec, needs: &str) -> String {
    let (about, licence) = (&spec.description, &spec.licence);
    let (bytes, folder) = (size_text(spec.bytes), spec.folder.display());
    if spec.family.makes_pictures {
        format!(
            "{about}\nMakes pictures from {needs}\nLicence: {licence}\n{bytes} on disk: {folder}"
        )
    } else {
        format!("{about}\nMakes clips from {needs}\nLicence: {licence}\n{bytes} on disk: {folder}")
    }
}

// Size, length, number, seed.
pub(super) const SIZE: &str = "Size";
pub(super) const CUSTOM: &str = "Custom…";
pub(super) const WIDTH: &str = "Width";
pub(super) const HEIGHT: &str = "Height";
pub(super) const LENGTH: &str = "Length";
pub(super) const LENGTH_HOVER: &str = "How long the clip is. One frame is a picture";
pub(super) const SECTIONS_HOVER: &str = "How long the clip is. It is made section by section, and each can be watched as soon as it is done";
pub(super) const ONE_PICTURE: &str = "A single picture";
pub(super) const ORDER: &str = "Order";
pub(super) const ORDER_HOVER: &str =
    "Which section is made first. Models are made for one order; their files do not say which";
pub(super) const HOW_MANY: &str = "How many";
pub(super) const BATCH_HOVER: &str =
    "How many pictures are made at once, each with the next seed. More at once need more memory";
pub(super) const REPEATS_HOVER: &str =
    "How many are made one after the other, each with the next seed";
pub(super) const SEED: &str = "Seed";
pub(super) const SEED_MODE: &str = "Seed mode";
pub(super) const ROLL: &str = "Roll a new seed";
pub(super) const ROLL_HOVER: &str = "Another random seed";

pub(super) fn size_hover(makes_pictures: bool) -> &'static str {
    of(
        makes_pictures,
        "Width and height of the picture in pixels. Larger takes longer and needs more memory",
        "Width and height of the clip in pixels. Larger takes longer and needs more memory",
    )
}

pub(super) fn size(width: u32, height: u32) -> String {
    format!("{width} × {height}")
}

pub(super) fn size_of_picture(width: u32, height: u32) -> String {
    format!("Like the picture  {width} × {height}")
}

pub(super) fn size_of_clip(width: u32, height: u32) -> String {
    format!("Like the clip  {width} × {height}")
}

/// The model's default, where another size follows the picture.
pub(super) fn own_size(width: u32, height: u32) -> String {
    format!("The model's own  {width} × {height}")
}

pub(super) fn custom_size(width: u32, height: u32) -> String {
    format!("Custom  {width} × {height}")
}

/// A size by its aspect, or by the one that it comes near.
pub(super) fn aspect_size(
    name: &str,
    (across, down): (u32, u32),
    (width, height): (u32, u32),
    is_exact: bool,
) -> String {
    if is_exact {
        format!("{name} {across}:{down}   {width} × {height}")
    } else {
        format!("Near {across}:{down}   {width} × {height}")
    }
}

pub(super) fn multiple_of(multiple: u32) -> String {
    format!("In pixels, a multiple of {multiple}")
}

pub(super) fn frames_of(stride: u32) -> String {
    format!("A multiple of {stride}, plus one")
}

pub(super) fn frames(count: u32) -> String {
    format!("{count} frames")
}

pub(super) fn sections(count: u32, secs: f64, fps: f64) -> String {
    let (secs, fps) = (seconds_text(secs), rate(fps));
    match count {
        1 => format!("1 section, {secs} at {fps} frames a second"),
        count => format!("{count} sections, {secs} at {fps} frames a second"),
    }
}

pub(super) fn length(secs: f64, fps: f64) -> String {
    format!("{} at {} frames a second", seconds_text(secs), rate(fps))
}

pub(super) fn longer(more: f64, all: f64, fps: f64) -> String {
    let (more, all) = (seconds_text(more), seconds_text(all));
    format!("{more} more, {all} in all at {} frames a second", rate(fps))
}

pub(super) fn seed_hover(makes_pictures: bool) -> &'static str {
    of(
        makes_pictures,
        "The start of the random numbers. The same seed and settings make the same picture",
        "The start of the random numbers. The same seed and settings make the same clip",
    )
}

pub(super) fn seed_mode(mode: SeedMode, makes_pictures: bool) -> &'static str {
    match (mode, makes_pictures) {
        (SeedMode::Random, true) => "Every new picture gets a new seed",
        (SeedMode::Random, false) => "Every new clip gets a new seed",
        (SeedMode::Fixed, true) => "Every picture uses this seed, until you change it",
        (SeedMode::Fixed, false) => "Every clip uses this seed, until you change it",
        (SeedMode::Increment, true) => "Every new picture gets the next higher number",
        (SeedMode::Increment, false) => "Every new clip gets the next higher number",
    }
}

// Advanced.
pub(super) const STEPS: &str = "Steps";
pub(super) const STEPS_HOVER: &str =
    "How many times the result is refined. More is slower and cleaner";
pub(super) const RUN_STEPS: &str = "Run steps";
pub(super) const RUN_STEPS_HOVER: &str = "Which part of the steps runs. Stopping early leaves noise, for another model to continue; starting late begins from noise as if earlier steps had run";
/// Fields, as a screen reader says them behind "Reset".
pub(super) const RUN_STEPS_FIELD: &str = "the part of the steps";
pub(super) const FPS_FIELD: &str = "frame rate";
pub(super) const STEP_CACHE_FIELD: &str = "step cache";
pub(super) const HOW_MANY_FIELD: &str = "how many";
pub(super) const RUN_TO: &str = "to";
pub(super) const RUN_ALL: &str = "all of them";
pub(super) const START_STEP: &str = "Start step";
pub(super) const START_STEP_HOVER: &str = "The first step that runs, counted from 0";
pub(super) const END_STEP: &str = "End step";
pub(super) const END_STEP_HOVER: &str =
    "The step to stop before. The number of steps runs all of them";
pub(super) const GUIDANCE: &str = "Guidance";
pub(super) const GUIDANCE_HOVER: &str = "CFG scale: how strictly the prompt is followed. Above 1 each step takes twice as long; too high looks harsh";
pub(super) const DISTILLED_HOVER: &str = "How strictly the prompt is followed. The model was trained with this number, so it costs no time; too high looks harsh";
pub(super) const CFG: &str = "CFG scale";
pub(super) const CFG_HOVER: &str = "True classifier-free guidance, which steers away from the negative prompt. Above 1 each step takes twice as long";
pub(super) const CFG_HINT: &str = "1 = off; higher values use the negative prompt";
pub(super) const GUIDANCE_HIGH: &str = "Guidance, high noise";
pub(super) const GUIDANCE_LOW: &str = "Guidance, low noise";
pub(super) const HIGH_NOISE: &str = "High noise";
pub(super) const HIGH_NOISE_HOVER: &str =
    "How strictly the expert for composition and motion follows the prompt";
pub(super) const LOW_NOISE: &str = "Low noise";
pub(super) const LOW_NOISE_HOVER: &str = "How strictly the expert for details follows the prompt";
pub(super) const GUIDER: &str = "Guider";
pub(super) const GUIDER_HOVER: &str =
    "How the model's answers become one step: that to the prompt, and others to steer away from";
pub(super) const ZERO_STEPS: &str = "Steps left out";
pub(super) const ZERO_STEPS_HOVER: &str =
    "The first steps change nothing, because guidance is least sure there";
pub(super) const ETA: &str = "Parallel part";
pub(super) const ETA_HOVER: &str = "How much stays of the guidance that only makes the picture harsher: 0 removes it, 1 keeps all of it";
pub(super) const LONGEST: &str = "Largest change";
pub(super) const LONGEST_HOVER: &str =
    "How far guidance may push a step; large results need more, and 0 sets no limit";
pub(super) const MOMENTUM: &str = "Momentum";
pub(super) const MOMENTUM_HOVER: &str = "How much of the earlier steps' guidance is added: below 0 it is taken off, which gives each step a fresh direction";
pub(super) const SKIPPED_BLOCKS: &str = "Blocks";
pub(super) const SKIPPED_BLOCKS_HOVER: &str = "Which blocks of the transformer the extra pass skips: numbers from 0 with commas between them. Blocks near the first third, such as 9 or 10, are the usual choice";
pub(super) const SKIP_SCALE: &str = "Skip scale";
pub(super) const SKIP_SCALE_HOVER: &str = "How far each step moves away from the answer with skipped blocks: higher is firmer, and too high looks harsh";
pub(super) const SKIPPED_PART: &str = "Skipping part";
pub(super) const SKIPPED_PART_HOVER: &str = "The part of the steps with the extra pass, from 0 to 1; its first step runs without. Each step with it takes one more pass";
pub(super) const SKIPPED_FROM: &str = "Skipping from";
pub(super) const SKIPPED_TO: &str = "Skipping to";
pub(super) const GUIDED_PART: &str = "Guided part";
pub(super) const GUIDED_PART_HOVER: &str = "The part of the steps in which guidance acts, from 0 to 1. Steps outside it take half the time";
pub(super) const GUIDED_PART_FIELD: &str = "the guided part";
pub(super) const GUIDED_ALL: &str = "all steps";
pub(super) const GUIDED_FROM: &str = "Guided from";
pub(super) const GUIDED_TO: &str = "Guided to";
pub(super) const SAMPLER: &str = "Sampler";
pub(super) const SAMPLER_HOVER: &str = "How noise becomes a picture";
pub(super) const SCHEDULE: &str = "Scheduler";
pub(super) const SCHEDULE_HOVER: &str = "How the noise levels of the steps are spaced";
pub(super) const SHIFT: &str = "Shift";
pub(super) const SHIFT_HOVER: &str =
    "Where the steps are spent: higher on the composition, lower on details";
pub(super) const SHIFT_AUTO: &str = "Automatic";
pub(super) const SHIFT_AUTO_HOVER: &str = "The model's own schedule";
pub(super) const SHIFT_BY_SIZE: &str = "By size";
pub(super) const SHIFT_BY_SIZE_HOVER: &str =
    "The larger the result, the more steps go into the composition";
pub(super) const SHIFT_FIXED: &str = "Fixed";
pub(super) const SHIFT_FIXED_HOVER: &str = "A number of your own";
pub(super) const SHIFT_VALUE: &str = "Shift value";
pub(super) const FPS: &str = "Frame rate";
pub(super) const FPS_HOVER: &str =
    "Frames per second of the saved clip. It changes how fast it plays, not what is made";
pub(super) const FPS_OF_CLIP: &str = "The clip continues at its own rate";
pub(super) const TILES: &str = "Decode in tiles";
pub(super) const TILES_HOVER: &str =
    "Turns latents into pixels piece by piece: needs much less memory and takes a little longer";
pub(super) const TILES_OFF: &str = "Off";
pub(super) const SECOND_PASS: &str = "Second pass";
pub(super) const SECOND_PASS_FIELD: &str = "second pass";
pub(super) const SECOND_PASS_HOVER: &str = "Enlarges what is made and runs the model on it again, for more details (hires fix). Takes as long as a result of that size, less what the strength saves";
pub(super) const SECOND_PASS_OFF: &str = "Off";
pub(super) const SECOND_STRENGTH: &str = "Second pass strength";
pub(super) const SECOND_STRENGTH_HOVER: &str =
    "How much the second pass makes anew: 0.3 to 0.5 adds details, more changes the picture";
pub(super) const STEP_CACHE: &str = "Step cache";
pub(super) const STEP_CACHE_HOVER: &str = "Skips steps that would change little: up to twice as fast, with some loss. For drafts. A job that was paused begins its steps again";
pub(super) const STEP_CACHE_OFF: &str = "Off";
pub(super) const THRESHOLD: &str = "Step cache threshold";
pub(super) const THRESHOLD_HOVER: &str =
    "How much may change before a step is computed: higher is faster and worse";
pub(super) const INTERVAL: &str = "Step cache interval";
pub(super) const INTERVAL_HOVER: &str =
    "One step of so many is computed: higher is faster and worse";

/// What speaks for a step cache.
pub(super) fn step_cache(kind: StepCacheKind) -> &'static str {
    match kind {
        StepCacheKind::TeaCache => "Skips a step while the input of the network has hardly moved",
        StepCacheKind::MagCache => {
            "Skips steps that are known to add nearly the same as the one before"
        }
        StepCacheKind::FirstBlock => {
            "Runs the first block of each step, and the others only when it gives something new"
        }
        StepCacheKind::TaylorSeer => {
            "Computes one step of several, and guesses those between from the last two"
        }
    }
}

pub(super) fn tile(pixels: u32) -> String {
    format!("{pixels} px")
}

pub(super) fn two_scales(high: f64, low: f64) -> String {
    format!("{high} and {low}")
}

pub(super) fn choice_hover(about: &str, name: &str, text: &str) -> String {
    format!("{about}. {name}: {text}")
}

pub(super) fn own_sampler(text: &str) -> String {
    format!("{text}. The model's default, and the best choice when in doubt")
}

/// What speaks for a sampler.
pub(super) fn sampler(sampler: Sampler) -> &'static str {
    match sampler {
        Sampler::UniPc => "Corrects itself with the steps before: clean in few steps",
        Sampler::UniPcBh1 => "UniPC with a gentler correction, for fewer than ten steps",
        Sampler::Euler => "The simplest: straight steps",
        Sampler::Heun => "Checks and corrects each step: better steps, but twice as slow",
        Sampler::DpmPp2m => "Looks one step back: smooth and sharp, as fast as Euler",
        Sampler::Lcm => "For models distilled to a few steps: adds new noise between steps",
    }
}

/// What speaks for a guider.
pub(super) fn guider(guider: GuiderKind) -> &'static str {
    match guider {
        GuiderKind::Cfg => "The difference of both answers, times the scale",
        GuiderKind::CfgZero => {
            "Scales the negative answer to fit, and leaves out the first steps: better composition with the same time"
        }
        GuiderKind::Apg => {
            "Takes out what only makes the picture harsher: natural colours at high scales"
        }
        GuiderKind::SkipLayers => {
            "Steers away from a worse answer, made without some blocks: firmer bodies and structure for one more pass (skip-layer guidance)"
        }
    }
}

pub(super) fn schedule(schedule: SigmaSchedule) -> &'static str {
    match schedule {
        SigmaSchedule::Simple => "As the model was trained",
        SigmaSchedule::Beta => "More steps at both ends, for composition and details",
        SigmaSchedule::Karras => "More steps at low noise, for details",
        SigmaSchedule::Exponential => "Each step removes the same fraction of the noise",
    }
}
