//! Under "Advanced": everything else that a model can be told.

use egui::{ComboBox, DragValue, Slider, SliderClamping, Ui};
use safelight_core::job::{GenerateForm, Sampler, SigmaSchedule, StepCache, StepCacheKind};
use safelight_core::model::ModelSpec;

use crate::app::commands::LibraryCommand;
use crate::ui::View;
use crate::ui::create::guidance::guidance_ui;
use crate::ui::widgets::{Own, default_row, field_error, field_note, own_row, wide_slider};

/// A tile of a size that suits most memory, for who turns tiles on.
const USUAL_TILE_PX: u32 = 512;

pub(super) fn advanced_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    steps_ui(ui, view.form, spec);
    said_ui(ui, view, &["steps"]);
    part_ui(ui, view, spec);
    said_ui(ui, view, &["start-step", "end-step"]);
    guidance_ui(ui, view.form, spec);
    said_ui(
        ui,
        view,
        &["guidance", "guidance-2", "true-cfg", "negative"],
    );
    sampler_ui(ui, view.form, spec);
    schedule_ui(ui, view.form);
    shift_ui(ui, view.form, spec);
    said_ui(ui, view, &["shift"]);
    if !spec.family.makes_pictures {
        fps_ui(ui, view, spec);
        said_ui(ui, view, &["fps"]);
    }
    tile_ui(ui, view, spec);
    said_ui(ui, view, &["vae-tile"]);
    if spec.section_order.is_some() {
        step_cache_ui(ui, view);
        said_ui(ui, view, &["step-cache"]);
    }
    if ui
        .button("Reset to the model's defaults")
        .on_hover_text("Everything but the prompt, the LoRAs, the pictures and the seed")
        .clicked()
    {
        view.push(LibraryCommand::ResetForm);
    }
}

/// What is wrong with fields, or will be changed.
pub(super) fn said_ui(ui: &mut Ui, view: &View<'_>, fields: &[&str]) {
    for field in fields {
        if let Some(message) = view.error_of(field) {
            field_error(ui, &message);
        }
        if let Some(message) = view.notice_of(field) {
            field_note(ui, &message);
        }
    }
}

fn steps_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let explanation = "How many times the picture is refined. More is slower and cleaner";
    let default = spec.defaults.sampling.num_steps;
    let before = form.sampling.num_steps;
    default_row(
        ui,
        ("Steps", "steps", explanation),
        &mut form.sampling.num_steps,
        (default, default.to_string()),
        |ui, label, num_steps| {
            let slider = Slider::new(num_steps, 1..=100).clamping(SliderClamping::Never);
            wide_slider(ui, slider, explanation).labelled_by(label);
        },
    );
    if form.sampling.num_steps != before {
        form.settle_part(spec);
    }
}

fn part_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation = format!(
        "Which part of the steps is made. Leaving early leaves noise in the {}, for another model to go on from; starting late begins from noise as if earlier steps were done",
        view.thing()
    );
    let num_steps = view.form.sampling_for(spec).num_steps;
    let sampling = &mut view.form.sampling;
    let part = (sampling.start_step.unwrap_or(0), sampling.end_step);
    let (mut start, mut end) = (part.0, part.1.unwrap_or(num_steps));
    let own = Own::of("made steps", &part, &(0, None), "all of them");
    let reset = own_row(ui, "Made steps", &explanation, &own, |ui, _| {
        ui.label("from");
        let response = ui
            .add(DragValue::new(&mut start).speed(0.1))
            .on_hover_text("The first step that is made, counted from 0")
            .accessible_name("Start step");
        if response.changed() {
            sampling.start_step = Some(start);
        }
        ui.label("up to");
        let response = ui
            .add(DragValue::new(&mut end).speed(0.1))
            .on_hover_text("The step before which to stop; the number of steps for all of them")
            .accessible_name("End step");
        if response.changed() {
            sampling.end_step = (end != num_steps).then_some(end);
        }
    });
    if reset {
        (sampling.start_step, sampling.end_step) = (None, None);
    }
}

fn sampler_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let default = spec.defaults.sampling.sampler;
    let text = |sampler: Sampler| {
        let text = sampler_text(sampler);
        if sampler == default {
            format!("{text}. The model's own, and the best choice when in doubt")
        } else {
            text.to_owned()
        }
    };
    choice_ui(
        ui,
        ("Sampler", "sampler", "How noise becomes a picture"),
        (&mut form.sampling.sampler, default),
        &Sampler::ALL.map(|sampler| (sampler, sampler.label(), text(sampler))),
    );
}

fn schedule_ui(ui: &mut Ui, form: &mut GenerateForm) {
    let text = |schedule| schedule_text(schedule).to_owned();
    choice_ui(
        ui,
        (
            "Schedule",
            "schedule",
            "How the noise levels of the steps are spaced",
        ),
        (&mut form.sampling.sigma_schedule, SigmaSchedule::default()),
        &SigmaSchedule::ALL.map(|schedule| (schedule, schedule.label(), text(schedule))),
    );
}

/// One of several, each with its name and what speaks for it.
fn choice_ui<T: Copy + PartialEq>(
    ui: &mut Ui,
    words: (&str, &'static str, &str),
    (value, default): (&mut Option<T>, T),
    choices: &[(T, &str, String)],
) {
    let (_, id, explanation) = words;
    let named = |value: T| choices.iter().find(|(choice, ..)| *choice == value);
    let own = named(default).map_or("", |(_, name, _)| name);
    default_row(ui, words, value, (default, own), |ui, label, value| {
        let (name, text) = named(*value).map_or(("", ""), |(_, name, text)| (*name, text.as_str()));
        ComboBox::from_id_salt(id)
            .selected_text(name)
            .width(ui.available_width())
            .show_ui(ui, |ui| {
                for (choice, name, text) in choices {
                    ui.selectable_value(value, *choice, *name)
                        .on_hover_text(text);
                }
            })
            .response
            .labelled_by(label)
            .on_hover_text(format!("{explanation}. {name}: {text}"));
    });
}

/// What speaks for a sampler.
fn sampler_text(sampler: Sampler) -> &'static str {
    match sampler {
        Sampler::UniPc => "Corrects itself by the steps before: clean in few of them",
        Sampler::UniPcBh1 => "UniPC with a gentler correction, for fewer than ten steps",
        Sampler::Euler => "The plain way: straight steps",
        Sampler::Heun => "Each step is checked and mended: better in each, but twice as slow",
        Sampler::DpmPp2m => "Looks one step back: smooth and sharp, as quick as Euler",
        Sampler::Lcm => "For models distilled to a few steps only: new noise between steps",
    }
}

fn schedule_text(schedule: SigmaSchedule) -> &'static str {
    match schedule {
        SigmaSchedule::Simple => "as the model was made for",
        SigmaSchedule::Beta => "more steps at both ends, for the composition and the details",
        SigmaSchedule::Karras => "more steps at low noise, for the details",
        SigmaSchedule::Exponential => "each step a fixed part of the noise before it",
    }
}

fn shift_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let explanation = "Where the steps are spent: higher on the composition, lower on the details";
    let default = spec.defaults.sampling.shift;
    let words = default.map_or_else(|| "the model's own".to_owned(), |shift| shift.to_string());
    let own = Own::of("shift", &form.sampling.shift, &default, words);
    let reset = own_row(ui, "Shift", explanation, &own, |ui, label| {
        let mut is_own = form.sampling.shift.is_some();
        let toggle = ui
            .checkbox(&mut is_own, "")
            .on_hover_text("Off: the model's own schedule")
            .accessible_name("Set the shift");
        if toggle.changed() {
            let (width, height) = form.shown_size(spec, None);
            let own = spec.defaults.shift_at(width, height).unwrap_or(3.0);
            form.sampling.shift = is_own.then_some(own);
        }
        match &mut form.sampling.shift {
            Some(shift) => {
                ui.add(
                    DragValue::new(shift)
                        .range(0.01..=100.0)
                        .speed(0.05)
                        .max_decimals(2),
                )
                .on_hover_text(explanation)
                .labelled_by(label);
            }
            None if spec.family.has_dynamic_shift => {
                ui.checkbox(&mut form.sampling.dynamic_shift, "by size").on_hover_text(
                    "More of the steps go into the composition the larger the picture or clip is, whatever the model's own schedule says",
                );
            }
            None => {
                ui.label("the model's own");
            }
        }
    });
    if reset {
        form.sampling.shift = default;
    }
}

fn fps_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation =
        "Frames a second of the written clip. It changes how fast it plays, not what is made";
    let clip_fps = view.app.inputs.clip().map(|clip| clip.info.fps);
    let default = spec.defaults.fps;
    let form = &mut *view.form;
    // The clip's rate is no choice of the user's.
    let mut rate = form.fps.filter(|_| clip_fps.is_none());
    default_row(
        ui,
        ("Frame rate", "frame rate", explanation),
        &mut rate,
        (default, default.to_string()),
        |ui, label, fps| {
            let mut shown = clip_fps.unwrap_or(*fps);
            let value = DragValue::new(&mut shown)
                .range(0.0..=240.0)
                .speed(0.1)
                .max_decimals(3)
                .suffix(" fps");
            ui.add_enabled(clip_fps.is_none(), value)
                .on_hover_text(explanation)
                .on_disabled_hover_text("The clip goes on at its own rate")
                .labelled_by(label);
            if clip_fps.is_none() {
                *fps = shown;
            }
        },
    );
    if clip_fps.is_none() {
        form.fps = rate;
    }
}

fn tile_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let (explanation, off, whole) = if spec.family.makes_pictures {
        (
            "The VAE turns latents into pixels piece by piece: needs much less memory and takes a little longer",
            "Off: the whole picture at once",
            "the whole picture",
        )
    } else {
        (
            "The VAE turns latents into frames piece by piece: needs much less memory and takes a little longer",
            "Off: whole frames at once",
            "whole frames",
        )
    };
    let form = &mut *view.form;
    let own = Own::of("VAE tiles", &form.vae_tile, &None, whole);
    let reset = own_row(ui, "VAE tiles", explanation, &own, |ui, _| {
        let mut is_tiled = form.vae_tile.is_some();
        let toggle = ui
            .checkbox(&mut is_tiled, "")
            .on_hover_text(off)
            .accessible_name("Use VAE tiles");
        if toggle.changed() {
            form.vae_tile = is_tiled.then_some(USUAL_TILE_PX);
        }
        match &mut form.vae_tile {
            Some(tile) => {
                let speed = f64::from(spec.limits.size_multiple.max(1)) / 4.0;
                ui.add(DragValue::new(tile).speed(speed).suffix(" px"))
                    .on_hover_text(explanation)
                    .accessible_name("VAE tile");
            }
            None => {
                ui.label(whole);
            }
        }
    });
    if reset {
        form.vae_tile = None;
    }
}

/// For models whose clips are made section by section.
fn step_cache_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation =
        "Skips steps that would change little: about twice as fast, with a loss. For drafts";
    let form = &mut *view.form;
    let own = Own::of("step cache", &form.step_cache, &None, "off");
    let reset = own_row(ui, "Step cache", explanation, &own, |ui, label| {
        let name = form.step_cache.map_or("Off", |cache| cache.kind.label());
        ComboBox::from_id_salt("step cache")
            .selected_text(name)
            .show_ui(ui, |ui| {
                ui.selectable_value(&mut form.step_cache, None, "Off");
                for kind in StepCacheKind::ALL {
                    let is_chosen = form.step_cache.is_some_and(|cache| cache.kind == kind);
                    if ui.selectable_label(is_chosen, kind.label()).clicked() {
                        form.step_cache = Some(kind.into());
                    }
                }
            })
            .response
            .labelled_by(label);
        if let Some(cache) = &mut form.step_cache {
            ui.add(
                DragValue::new(&mut cache.threshold)
                    .speed(0.005)
                    .range(StepCache::THRESHOLDS),
            )
            .on_hover_text(
                "How much may change before a step is computed: more is faster and worse",
            )
            .accessible_name("Step cache threshold");
        }
    });
    if reset {
        form.step_cache = None;
    }
}
