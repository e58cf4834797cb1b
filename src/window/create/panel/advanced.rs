//! Section "Advanced": steps, guidance, sampler, scheduler and the other settings.

use egui::SliderClamping;
use safelight_core::job::prompt::PromptWeights;
use safelight_core::job::{SamplerKind, SecondPass, SigmaSchedule, StepCacheKind};

use crate::window::create::panel::guidance::{guidance_ui, guider_ui};
use crate::window::layout::prelude::*;

/// Sizes of tiles in pixels; a preset or a file may have others.
const TILES_PX: [u32; 2] = [256, 512];
/// Initial value for models without a shift.
const USUAL_SHIFT: f64 = 3.0;
const SHIFT_HOVER: &str =
    "Timestep shift: higher spends more steps on composition, lower on details";
const SHIFT_AUTO: &str = "Automatic";
const OFF: &str = "Off";
/// Factors of width and height in the form; the command line and files take any other.
const SECOND_PASS_SCALES: [f64; 4] = [1.25, 1.5, 2.0, 4.0];

pub(super) fn advanced_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec) {
    steps_ui(ui, view.form, spec);
    said_ui(ui, view, &["steps"]);
    part_ui(ui, view.form, spec);
    said_ui(ui, view, &["start-step", "end-step"]);
    guidance_ui(ui, view.form, spec);
    let fields = ["guidance", "guidance-2", "true-cfg", "negative"];
    said_ui(ui, view, &fields);
    guider_ui(ui, view.form, spec);
    said_ui(ui, view, &["guider", "guidance-range"]);
    sampler_ui(ui, view.form, spec);
    schedule_ui(ui, view.form);
    if spec.family.has_shift {
        shift_ui(ui, view.form, spec);
    }
    said_ui(ui, view, &["shift"]);
    if !spec.family.makes_images {
        fps_ui(ui, view, spec);
        said_ui(ui, view, &["fps"]);
    }
    tile_ui(ui, view.form);
    said_ui(ui, view, &["vae-tile"]);
    if spec.has_second_pass() {
        second_pass_ui(ui, view.form);
        said_ui(ui, view, &["second-pass", "second-strength"]);
    }
    if spec.family.has_prompt_weights {
        let default = view.app.cx.settings.models.prompt_weights;
        prompt_weights_ui(ui, view.form, default);
    }
    let step_caches = (spec.family.step_caches)(&spec.variant);
    if !step_caches.is_empty() {
        step_cache_ui(ui, view.form, step_caches);
        said_ui(ui, view, &["step-cache"]);
    }
    let hover = "Everything except the prompt, the LoRAs, the images and the seed";
    let button = hint_button(ui, "Reset to the model's defaults", hover);
    view.on_click(&button, LibraryCommand::ResetForm);
}

fn steps_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let hover = "How many times the result is refined. More is slower and cleaner";
    let before = form.sampling.num_steps;
    let (names, default) = (("Steps", "steps", hover), spec.defaults.sampling.num_steps);
    let (value, default) = (&mut form.sampling.num_steps, (default, default.to_string()));
    default_row(ui, names, value, default, |ui, label, num_steps| {
        let slider = Slider::new(num_steps, 1..=100).clamping(SliderClamping::Never);
        wide_slider(ui, slider, hover).labelled_by(label);
    });
    if form.sampling.num_steps != before {
        form.settle_part(spec);
    }
}

fn part_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let num_steps = form.sampling_for(spec).num_steps;
    let sampling = &mut form.sampling;
    let whole = (0, num_steps);
    let before = (
        sampling.start_step.unwrap_or(0),
        sampling.end_step.unwrap_or(num_steps),
    );
    let mut part = before;

    let hover = "Which part of the steps runs. Stopping early leaves noise, for another model to \
                continue; starting late begins from noise as if earlier steps had run";
    let names = ("Run steps", "the part of the steps", hover);
    let default = (whole, "all of them");
    own_row(ui, names, &mut part, default, |ui, _, part| {
        let hovers = [
            "The first step that runs, counted from 0",
            "The step to stop before. The number of steps runs all of them",
        ];
        let values = [&mut part.0, &mut part.1].map(|value| DragValue::new(value).speed(0.1));
        number_pair(ui, RUN_TO, ["Start step", "End step"], hovers, values);
    });
    if part != before {
        sampling.start_step = Some(part.0).filter(|start| *start != whole.0);
        sampling.end_step = Some(part.1).filter(|end| *end != whole.1);
    }
}

fn sampler_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let names = (
        "Sampler",
        "sampler",
        "Method that removes noise step by step",
    );
    let default = spec.defaults.sampling.sampler;
    let mut choices = SamplerKind::ALL.map(|it| (it, it.label(), sampler_text(it).to_owned()));
    for (_, _, text) in choices.iter_mut().filter(|it| it.0 == default) {
        text.push_str(". The model's default, and the best choice when in doubt");
    }
    choice_ui(ui, names, (&mut form.sampling.sampler, default), &choices);
}

fn sampler_text(sampler: SamplerKind) -> &'static str {
    match sampler {
        SamplerKind::UniPc => "Corrects itself with the steps before: clean in few steps",
        SamplerKind::UniPcBh1 => "UniPC with a gentler correction, for fewer than ten steps",
        SamplerKind::Euler => "The simplest: straight steps",
        SamplerKind::EulerAncestral => "Euler that adds new noise after each step: more varied",
        SamplerKind::Heun => "Checks and corrects each step: better steps, but twice as slow",
        SamplerKind::DpmPp2m => "Looks one step back: smooth and sharp, as fast as Euler",
        SamplerKind::DpmPp2mDiffusers => "As DPM++ 2M, with the formula of diffusers",
        SamplerKind::DpmPp2mSde => {
            "DPM++ 2M that adds new noise (plain, not from a Brownian tree): richer texture"
        }
        SamplerKind::DpmPpSde => {
            "New noise twice a step (plain, not from a Brownian tree): detailed, twice as slow"
        }
        SamplerKind::ResMultistep => "Looks one step back: precise in few steps, as fast as Euler",
        SamplerKind::Res2s => "Two calls a step: very precise, twice as slow (RES4LYF)",
        SamplerKind::ErSde => "Looks two steps back and adds new noise: detailed in few steps",
        SamplerKind::GradientEstimation => "Euler that goes further where the direction changes",
        SamplerKind::Lcm => "For models distilled to a few steps: adds new noise between steps",
    }
}

fn schedule_ui(ui: &mut Ui, form: &mut GenerateForm) {
    let text = |schedule| match schedule {
        SigmaSchedule::Model => "As the model was trained",
        SigmaSchedule::Simple => "Evenly spaced, then shifted: the usual choice in ComfyUI",
        SigmaSchedule::Normal => "As Simple, down to the smallest noise level",
        SigmaSchedule::SgmUniform => "As Normal, without its last noise level",
        SigmaSchedule::Beta => "More steps at both ends, for composition and details",
        SigmaSchedule::Beta57 => "As Beta, with more steps at low noise (RES4LYF)",
        SigmaSchedule::Karras => "More steps at low noise, for details",
        SigmaSchedule::Exponential => "Each step removes the same fraction of the noise",
        SigmaSchedule::KlOptimal => "Evenly spaced in the arctangent of the noise level",
        SigmaSchedule::BongTangent => "More steps at both ends, whatever the shift (RES4LYF)",
        SigmaSchedule::BetaDiffusers => "Beta between the model's own ends",
        SigmaSchedule::KarrasDiffusers => "Karras between the model's own ends",
        SigmaSchedule::ExponentialDiffusers => "Exponential between the model's own ends",
    };
    let names = (
        "Scheduler",
        "schedule",
        "How the noise levels of the steps are spaced",
    );
    let value = (&mut form.sampling.sigma_schedule, SigmaSchedule::default());
    let choices = SigmaSchedule::ALL.map(|schedule| (schedule, schedule.label(), text(schedule)));
    choice_ui(ui, names, value, &choices);
}

fn prompt_weights_ui(ui: &mut Ui, form: &mut GenerateForm, default: PromptWeights) {
    let hover = "Weights of words, such as (word:1.2)";
    let text = |rule| match rule {
        PromptWeights::Off => "Brackets are text",
        PromptWeights::Comfy => {
            "(word) multiplies the weight by 1.1, (word:1.2) sets it; write \\( for a bracket"
        }
        PromptWeights::A1111 => {
            "(word) and (word:1.2) multiply the weight, [word] divides it by 1.1; write \\( for a bracket"
        }
    };
    let names = ("Prompt weights", "prompt weights", hover);
    let choices = PromptWeights::ALL.map(|rule| (rule, rule.label(), text(rule)));
    choice_ui(
        ui,
        names,
        (&mut form.options.prompt_weights, default),
        &choices,
    );
}

pub(super) fn choice_ui<T: Copy + PartialEq>(
    ui: &mut Ui,
    names: (&str, &str, &str),
    (value, default): (&mut Option<T>, T),
    choices: &[(T, &str, impl AsRef<str>)],
) {
    let (_, id, hover) = names;
    let choices = choices.iter();
    let choices = choices.map(|(choice, name, text)| (*choice, *name, text.as_ref()));
    let named = |value: T| choices.clone().find(|(choice, ..)| *choice == value);
    let own = named(default).map_or("", |(_, name, _)| name);
    default_row(ui, names, value, (default, own), |ui, label, value| {
        let hover = match named(*value) {
            Some((_, name, text)) if !text.is_empty() => format!("{hover}. {name}: {text}"),
            _ => hover.to_owned(),
        };
        labelled_list(ui, (id, label, &hover), false, value, choices.clone());
    });
}

/// A list of choices after its label; with a number, as wide as leaves room for that.
fn labelled_list<'a, T: PartialEq, N: Into<String> + AsRef<str>>(
    ui: &mut Ui,
    (id, label, hover): (&str, Id, &str),
    has_number: bool,
    value: &mut T,
    choices: impl IntoIterator<Item = (T, N, &'a str)>,
) {
    let choices: Vec<_> = choices.into_iter().collect();
    let selected = choices.iter().find(|(choice, ..)| choice == value);
    let selected = selected.map_or(String::new(), |(_, name, _)| name.as_ref().to_owned());
    ui.scope(|ui| {
        if has_number {
            let gap = ui.spacing().item_spacing.x;
            ui.set_max_width(ui.available_width() - theme::VALUE_WIDTH - gap);
        }
        let list = list_box(ui, id, &selected);
        choose_from(list, ui, value, choices)
            .labelled_by(label)
            .on_hover_text(hover);
    });
}

/// A list whose first choice is none of the others. Returns whether another one was chosen.
fn off_list<T: Copy + PartialEq>(
    ui: &mut Ui,
    names: (&str, Id, &str),
    has_number: bool,
    value: &mut Option<T>,
    choices: impl IntoIterator<Item = (T, String, &'static str)>,
) -> bool {
    let before = *value;
    let choices = choices.into_iter();
    let choices = choices.map(|(choice, name, hover)| (Some(choice), name, hover));
    let choices = [(None, OFF.to_owned(), "")].into_iter().chain(choices);
    labelled_list(ui, names, has_number && before.is_some(), value, choices);
    *value != before
}

#[derive(Clone, Copy, PartialEq)]
enum ShiftChoice {
    Automatic,
    BySize,
    Fixed,
}

fn shift_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let default = spec.defaults.sampling.shift;
    let own = default.map_or_else(|| SHIFT_AUTO.to_owned(), |shift| shift.to_string());
    let (width, height) = form.shown_size(spec, None);
    let first = spec.defaults.shift_at(width, height).unwrap_or(USUAL_SHIFT);
    let sampling = &mut form.sampling;
    let is_dynamic = &mut sampling.dynamic_shift;
    let names = ("Shift", "shift", SHIFT_HOVER);
    let contents = |ui: &mut Ui, label, shift: &mut Option<f64>| {
        let before = match shift {
            Some(_) => ShiftChoice::Fixed,
            None if *is_dynamic => ShiftChoice::BySize,
            None => ShiftChoice::Automatic,
        };
        let by_size = "The larger the result, the more steps go into the composition";
        let own = "The model's own schedule";
        let mut choices = vec![(ShiftChoice::Automatic, SHIFT_AUTO, own)];
        if spec.family.has_dynamic_shift {
            choices.push((ShiftChoice::BySize, "By size", by_size));
        }
        choices.push((ShiftChoice::Fixed, "Fixed", "A number of your own"));
        let mut choice = before;
        let is_fixed = before == ShiftChoice::Fixed;
        let texts = ("shift", label, SHIFT_HOVER);
        labelled_list(ui, texts, is_fixed, &mut choice, choices);
        if choice != before {
            *shift = (choice == ShiftChoice::Fixed).then_some(first);
            *is_dynamic = choice == ShiftChoice::BySize;
        } else if let Some(shift) = shift {
            let value = DragValue::new(shift).range(0.01..=100.0).speed(0.05);
            number(ui, ui.available_width(), value.max_decimals(2))
                .on_hover_text(SHIFT_HOVER)
                .accessible_name("Shift value");
        }
    };
    if own_row(ui, names, &mut sampling.shift, (default, own), contents) {
        sampling.dynamic_shift = false;
    }
}

fn fps_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec) {
    // Uneven frames are resampled to any rate.
    let inputs = view.inputs();
    let video = inputs.video().filter(|video| !video.info.is_uneven);
    let video_fps = video.map(|video| video.info.fps);
    let hover =
        "Frames per second of the saved video. It changes how fast it plays, not what is made";
    let (names, default) = (("Frame rate", "frame rate", hover), spec.defaults.fps);
    let default = (default, default.to_string());
    let form = &mut *view.form;
    // The video's rate is not chosen by the user.
    let mut own_rate = form.fps.filter(|_| video_fps.is_none());
    default_row(ui, names, &mut own_rate, default, |ui, label, fps| {
        let mut shown = video_fps.unwrap_or(*fps);
        let value = DragValue::new(&mut shown)
            .range(0.0..=240.0)
            .speed(0.1)
            .max_decimals(3)
            .suffix(" fps");
        ui.add_enabled_ui(video_fps.is_none(), |ui| {
            number(ui, ui.available_width(), value)
                .on_hover_text(hover)
                .on_disabled_hover_text("The video continues at its own rate")
                .labelled_by(label);
        });
        if video_fps.is_none() {
            *fps = shown;
        }
    });
    if video_fps.is_none() {
        form.fps = own_rate;
    }
}

fn tile_ui(ui: &mut Ui, form: &mut GenerateForm) {
    let hover = "Decodes latents tile by tile: needs much less memory, slightly slower";
    let tile = &mut form.options.vae_tile;
    // One of another size came with a preset or a file.
    let other = tile.filter(|tile| !TILES_PX.contains(tile));
    let sizes = TILES_PX.into_iter().chain(other);
    let sizes = sizes.map(|pixels| (pixels, format!("{pixels} px"), ""));
    let names = ("Tiled VAE", "tiles", hover);
    own_row(ui, names, tile, (None, OFF), |ui, label, tile| {
        off_list(ui, ("tiles", label, hover), false, tile, sizes);
    });
}

/// `offered`: step caches that the model supports.
fn step_cache_ui(ui: &mut Ui, form: &mut GenerateForm, offered: &[StepCacheKind]) {
    let hover = "Reuses results of similar steps: up to 2× faster with some quality loss. For \
                 drafts. A job that was paused begins its steps again";
    let names = ("Step cache", "step cache", hover);
    let value = &mut form.options.step_cache;
    own_row(ui, names, value, (None, OFF), |ui, label, value| {
        let mut kind = value.map(|cache| cache.kind);
        let offered = offered.iter();
        let offered = offered.map(|kind| (*kind, kind.label().to_owned(), step_cache_text(*kind)));
        if off_list(ui, ("step-cache", label, hover), true, &mut kind, offered) {
            *value = kind.map(Into::into);
        } else if let Some(cache) = value {
            let interval = "One step of so many is computed: higher is faster and worse";
            let threshold =
                "How much may change before a step is computed: higher is faster and worse";
            let (name, hover, speed, decimals) = match cache.kind {
                StepCacheKind::TaylorSeer => ("Step cache interval", interval, 0.05, 0),
                _ => ("Step cache threshold", threshold, 0.005, 3),
            };
            let value = DragValue::new(&mut cache.threshold)
                .speed(speed)
                .max_decimals(decimals)
                .range(cache.kind.thresholds());
            number(ui, ui.available_width(), value)
                .on_hover_text(hover)
                .accessible_name(name);
        }
    });
}

fn step_cache_text(kind: StepCacheKind) -> &'static str {
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

fn second_pass_ui(ui: &mut Ui, form: &mut GenerateForm) {
    let hover = "Upscales the result and denoises it again for more detail. Takes as long as a \
                 result of that size, less what the strength saves";
    let names = ("Hires fix", "hires fix", hover);
    let value = &mut form.second_pass;
    own_row(ui, names, value, (None, OFF), |ui, label, value| {
        let before = *value;

        let mut scale = before.map(|pass| pass.scale);
        let other = scale.filter(|scale| !SECOND_PASS_SCALES.contains(scale));
        let scales = SECOND_PASS_SCALES.into_iter().chain(other);
        let scales = scales.map(|scale| (scale, format!("{scale}×"), ""));
        if off_list(ui, ("second-pass", label, hover), true, &mut scale, scales) {
            let strength = before.map_or(SecondPass::STRENGTH, |pass| pass.strength);
            *value = scale.map(|scale| SecondPass { scale, strength });
        } else if let Some(pass) = value {
            let hover = "Denoising strength of hires fix: 0.3 to 0.5 adds detail, more changes \
                         the image";
            let value = DragValue::new(&mut pass.strength).speed(0.01);
            number(ui, ui.available_width(), value.range(0.01..=1.0))
                .on_hover_text(hover)
                .accessible_name("Hires fix strength");
        }
    });
}
