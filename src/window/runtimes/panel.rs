//! Runtimes (libtorch): the card that offers one, and their section in the settings.

use crate::runtimes::{
    InstallProgress, PreviousRuntime, RuntimeAdvice, RuntimeBuild, RuntimeKind, RuntimeOverview,
    RuntimeRefusal, RuntimeRow, folder,
};
use crate::window::layout::prelude::*;
use crate::window::runtimes::{RuntimeState, RuntimeTask};

const DONE: &str = "The new libtorch is installed. The next job uses it";
const GET_HOVER: &str =
    "Download it, run the self-test and use it. The current runtime stays installed";
const USE: &str = "Use it";
const USE_HOVER: &str =
    "Try whether it computes right, and use it. The one in use stays on the disk";
const NEVER_ON_AMD: &str = "Safelight has not yet run on any AMD GPU.";
/// Setting below which the section is shown.
pub(crate) const KEY: &str = "runtime.libtorch";

pub(crate) fn card_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(advice) = view.app.runtimes.advice().cloned() else {
        return;
    };
    let is_done = view.app.runtimes.has_changed();
    let (text, colour) = match advice.idle_gpu() {
        _ if is_done => (DONE.to_owned(), palette(ui).good),
        Some(gpu) => (
            format!("{}: Safelight runs on the CPU", gpu.name),
            palette(ui).amber,
        ),
        None => return,
    };
    wide_frame(ui, card(ui, colour), |ui| {
        ui.strong(text);
        match &advice {
            _ if is_done => {}
            RuntimeAdvice::Get { build, .. } => {
                let folder = view.app.cx.paths.as_ref().map(folder).unwrap_or_default();
                let folder = folder.join(&build.id).display().to_string();
                let (name, licences) = (&build.name, &build.licences);
                let size = size_text(build.download_mb * 1_000_000);
                let text = format!(
                    "{name} serves it: about {size} to download into {folder}. Licences: {licences}."
                );
                wide_note(ui, &text, NoteTone::Plain);
                let note = "It is tried in a process of its own before jobs get it. The one in use \
                           stays on the disk.";
                wide_note(ui, note, NoteTone::Hint);
                if build.kind == RuntimeKind::Rocm {
                    wide_note(ui, NEVER_ON_AMD, NoteTone::Hint);
                }
                follow_ui(ui, view, "Get it", GET_HOVER);
            }
            RuntimeAdvice::Use { id, .. } => {
                let text = format!("The libtorch “{id}” on this disk serves it.");
                wide_note(ui, &text, NoteTone::Plain);
                follow_ui(ui, view, USE, USE_HOVER);
            }
            RuntimeAdvice::Repair { refusal, .. } => repair_ui(ui, view, refusal),
            RuntimeAdvice::NoGpu | RuntimeAdvice::CpuChosen | RuntimeAdvice::Served { .. } => {}
        }
        let hover = "See in the settings what is on this disk and what fits this machine";
        let button = ui.link("All runtimes").on_hover_text(hover);
        view.on_click(&button, SettingsCommand::Show(KEY));
    });
    ui.add_space(theme::GAP);
}

/// Beside what the status line says of the device: that a GPU is idle, and the way to the card.
pub(crate) fn idle_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let is_wanted = !view.app.runtimes.has_changed() && view.app.cx.page != MainPage::Welcome;
    let Some(gpu) = view.app.runtimes.idle_gpu().filter(|_| is_wanted) else {
        return;
    };
    let text = RichText::new(format!("{} is not used", gpu.name)).small();
    let button = Button::new(text.color(palette(ui).amber)).frame_when_inactive(false);
    let button = ui
        .add(button)
        .on_hover_text("See how jobs get onto this GPU");
    view.on_click(&button, AppCommand::Show(MainPage::Welcome));
}

fn follow_ui(ui: &mut Ui, view: &mut UiContext<'_>, name: &str, hover: &str) {
    failure_ui(ui, view);
    if view.app.runtimes.is_busy() {
        progress_ui(ui, view);
    } else {
        let button = hint_button(ui, name, hover);
        view.on_press(&button, |app| app.runtimes.follow(&app.cx));
    }
}

fn begin(view: &mut UiContext<'_>, task: RuntimeTask) {
    view.set(move |app| app.runtimes.begin(task, &app.cx));
}

fn install(view: &mut UiContext<'_>, build: &RuntimeBuild) {
    let build = build.clone();
    view.set(move |app| app.runtimes.install(build, &app.cx));
}

fn failure_ui(ui: &mut Ui, view: &UiContext<'_>) {
    if let RuntimeState::Failed(err) = &view.app.runtimes.state {
        wide_note(ui, &sentence(&err.summary), NoteTone::Error);
        wide_note(ui, &err.advice, NoteTone::Plain);
    }
}

/// Progress of the task, with the button that stops it: on the right, away from the button that started it, so that a
/// double click does not hit it.
fn progress_ui(ui: &mut Ui, view: &UiContext<'_>) {
    let work = &view.app.runtimes.work;
    if work.is_stopping() {
        wide_note(ui, "Stopping…", NoteTone::Hint);
        return;
    }
    let mut share = None;
    let text = match work.progress.as_ref() {
        Some(&InstallProgress::Fetching {
            done_bytes,
            total_bytes,
        }) => {
            share = Some(done_bytes as f32 / total_bytes.max(1) as f32);
            format!("{} of {}", size_text(done_bytes), size_text(total_bytes))
        }
        Some(InstallProgress::Unpacking { .. }) => "Unpacking…".to_owned(),
        Some(InstallProgress::Comparing { .. }) => "Verifying files…".to_owned(),
        Some(InstallProgress::Trying) => "Trying whether it computes right…".to_owned(),
        Some(InstallProgress::Asking { .. }) | None => "Asking for sizes…".to_owned(),
    };
    ui.horizontal(|ui| {
        ui.small(text);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let hover = "What was downloaded is kept for the next time";
            if hint_button(ui, "Cancel", hover).clicked() {
                work.stop();
            }
        });
    });
    if let Some(share) = share {
        thin_progress(ui, share);
    }
}

fn repair_ui(ui: &mut Ui, view: &mut UiContext<'_>, refusal: &RuntimeRefusal) {
    wide_note(ui, &sentence(&refusal.what), NoteTone::Plain);
    wide_note(ui, &refusal.advice, NoteTone::Plain);
    if !refusal.command.is_empty() {
        copy_command_ui(ui, view, &refusal.command, "Copy the command that helps");
    }
}

/// Button with a shell command, which it copies.
pub(crate) fn copy_command_ui(ui: &mut Ui, view: &mut UiContext<'_>, command: &str, name: &str) {
    let copy = Button::new(with_icon(icons::COPY, command));
    let hover = "Copy this command, and run it in a terminal";
    if pressed(ui.add(copy), hover, name) {
        view.push(DesktopCommand::CopyText(command.to_owned()));
    }
}

/// Returns whether the section is meant by these words of a search, in lower case.
fn is_meant(search: &str) -> bool {
    let mut wanted = search.split_whitespace();
    wanted.all(|word| {
        "runtimes libtorch gpu rocm cuda cpu device engine install use check repair delete remove \
        go back"
            .contains(word)
    })
}

/// `search`: what is looked for in the settings. The answer is whether it was shown.
pub(crate) fn section_ui(ui: &mut Ui, view: &mut UiContext<'_>, search: &str) -> bool {
    if !is_meant(search) {
        return false;
    }
    ui.add_space(theme::GAP);
    ui.strong("Runtimes");
    ui.separator();
    let note = "A runtime is a folder with libtorch, which computes the jobs.";
    wide_note(ui, note, NoteTone::Hint);
    let Some(overview) = view.app.runtimes.overview.clone() else {
        wide_note(ui, "Looking at this machine…", NoteTone::Hint);
        return true;
    };
    let here = overview.here.iter().map(|row| &row.found.id);
    let mut shown = here.chain(overview.offers.iter().map(|build| &build.id));
    // One that is deleted has no row any more.
    if !shown.any(|id| is_about(view, id)) {
        ended_ui(ui, view);
    }
    for row in &overview.here {
        row_ui(ui, view, row);
    }
    if overview.here.is_empty() {
        wide_note(ui, "No runtime was found.", NoteTone::Warning);
    }
    if let Some(before) = overview.previous()
        && !view.app.runtimes.is_busy()
    {
        let id = &before.found.id;
        let hover = "Try the runtime that jobs used before the one in use, and use it again";
        if hint_button(ui, &format!("Go back to {id}"), hover).clicked() {
            begin(view, RuntimeTask::Use(id.clone()));
        }
    }
    fitting_ui(ui, view, &overview);
    true
}

fn ended_ui(ui: &mut Ui, view: &UiContext<'_>) {
    failure_ui(ui, view);
    let runtimes = &view.app.runtimes;
    if runtimes.state != RuntimeState::Done {
        return;
    }
    let text = match &runtimes.task {
        Some(RuntimeTask::Get { .. } | RuntimeTask::Use(_)) => DONE.to_owned(),
        Some(RuntimeTask::Check(id)) => format!("The check passed: {id} computes right."),
        Some(RuntimeTask::Remove(id)) => format!("Deleted: {id}."),
        None => return,
    };
    wide_note(ui, &text, NoteTone::Good);
}

fn is_about(view: &UiContext<'_>, id: &str) -> bool {
    let task = view.app.runtimes.task.as_ref();
    task.is_some_and(|it| it.id() == id)
}

fn frame(ui: &Ui) -> Frame {
    filled_frame(palette(ui).panel, theme::RADIUS, theme::SMALL_GAP)
}

fn row_ui(ui: &mut Ui, view: &mut UiContext<'_>, row: &RuntimeRow) {
    let found = &row.found;
    wide_frame(ui, frame(ui), |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.strong(&found.id);
            if found.is_used {
                state_chip(ui, "in use", NoteTone::Good);
            } else if found.is_previous() {
                ui.weak(RichText::new("used before").small());
            }
        });
        let facts = facts_text(row.kind, row.version.as_deref(), &row.targets, row.bytes);
        wide_note(ui, &facts, NoteTone::Plain);
        if let Some(device) = &row.device {
            let text = format!("When it was last checked it computed on {device}");
            wide_note(ui, &text, NoteTone::Plain);
        }
        let folder = found.runtime.folder.display().to_string();
        wide_note(ui, &folder, NoteTone::Hint);
        for concern in &row.concerns {
            wide_note(ui, &sentence(concern), NoteTone::Warning);
        }
        task_ui(ui, view, &found.id, |ui, view| {
            ui.horizontal_wrapped(|ui| buttons_ui(ui, view, row));
        });
        question_ui(ui, view, row);
    });
}

/// Progress or end of the task of this runtime, and the buttons, which are disabled while another task runs.
fn task_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    id: &str,
    buttons: impl FnOnce(&mut Ui, &mut UiContext<'_>),
) {
    let is_busy = view.app.runtimes.is_busy();
    match (is_about(view, id), is_busy) {
        (true, true) => return progress_ui(ui, view),
        (true, false) => ended_ui(ui, view),
        (false, _) => {}
    }
    ui.add_enabled_ui(!is_busy, |ui| buttons(ui, view));
}

fn facts_text(kind: RuntimeKind, version: Option<&str>, targets: &[String], bytes: u64) -> String {
    let kind = match kind {
        RuntimeKind::Cpu => "CPU",
        RuntimeKind::Cuda => "CUDA",
        RuntimeKind::Rocm => "ROCm",
    };
    let version = version.unwrap_or("version unknown");
    let mut facts = vec![kind.to_owned(), format!("libtorch {version}")];
    if !targets.is_empty() {
        facts.push(targets.join(" "));
    }
    facts.push(size_text(bytes));
    facts.join(" · ")
}

fn buttons_ui(ui: &mut Ui, view: &mut UiContext<'_>, row: &RuntimeRow) {
    let (found, id) = (&row.found, &row.found.id);
    if !found.is_used && pressed(ui.button(USE), USE_HOVER, format!("Use {id}")) {
        begin(view, RuntimeTask::Use(id.clone()));
    }
    let has_failed =
        matches!(view.app.runtimes.state, RuntimeState::Failed(_)) && is_about(view, id);
    let build = row.build.as_ref();
    let hover = "Download the files that are missing or damaged, try whether it computes right, \
                and use it";
    if let Some(build) = build.filter(|_| has_failed || row.is_incomplete)
        && pressed(ui.button("Repair"), hover, format!("Repair {id}"))
    {
        install(view, build);
    }
    let hover = "Compare its files with those that were installed, and a matrix product, a \
                convolution and attention with the CPU, in a process of its own";
    if pressed(ui.button("Check"), hover, format!("Check {id}")) {
        begin(view, RuntimeTask::Check(id.clone()));
    }
    if found.is_own && !found.is_used {
        let is_kept = found.before == PreviousRuntime::Kept;
        let kept =
            "Kept until a job has finished on the runtime in use, so that you can go back to it";
        let button = ui.add_enabled(!is_kept, Button::new("Delete…"));
        let button = button.on_disabled_hover_text(kept);
        let hover = "Delete its folder. Another runtime is used";
        if pressed(button, hover, format!("Delete {id}")) {
            view.panels.settings.deleted_runtime = Some(id.clone());
        }
    }
}

fn question_ui(ui: &mut Ui, view: &mut UiContext<'_>, row: &RuntimeRow) {
    let id = &row.found.id;
    if view.panels.settings.deleted_runtime.as_ref() != Some(id) {
        return;
    }
    let is_possible = row.found.can_be_removed() && !view.app.runtimes.is_busy();
    ui.horizontal_wrapped(|ui| {
        ui.label(format!("Delete {id} and free {}?", size_text(row.bytes)));
        let remove = ui.add_enabled(is_possible, Button::new("Delete it"));
        if remove.on_hover_text("It can be installed again").clicked() {
            begin(view, RuntimeTask::Remove(id.clone()));
            view.panels.settings.deleted_runtime = None;
        }
        let keep = ui.button("Keep it").on_hover_text("Delete nothing");
        if keep.clicked() {
            view.panels.settings.deleted_runtime = None;
        }
    });
}

fn fitting_ui(ui: &mut Ui, view: &mut UiContext<'_>, overview: &RuntimeOverview) {
    let is_refused = matches!(overview.advice, RuntimeAdvice::Repair { .. });
    if overview.offers.is_empty() && !is_refused {
        if overview.machine.gpus.is_empty() && overview.advice == RuntimeAdvice::NoGpu {
            wide_note(ui, "No GPU was found: jobs run on the CPU.", NoteTone::Hint);
        }
        return;
    }
    ui.add_space(theme::SMALL_GAP);
    ui.weak("For this machine");
    if let RuntimeAdvice::Repair { refusal, .. } = &overview.advice {
        wide_frame(ui, frame(ui), |ui| repair_ui(ui, view, refusal));
    }
    for build in &overview.offers {
        offer_ui(ui, view, build);
    }
}

fn offer_ui(ui: &mut Ui, view: &mut UiContext<'_>, build: &RuntimeBuild) {
    wide_frame(ui, frame(ui), |ui| {
        ui.strong(&build.name);
        let size = size_text(build.download_mb * 1_000_000);
        let text = format!("About {size} to download. Licences: {}.", build.licences);
        wide_note(ui, &text, NoteTone::Plain);
        if build.kind == RuntimeKind::Rocm {
            wide_note(ui, NEVER_ON_AMD, NoteTone::Hint);
        }
        task_ui(ui, view, &build.id, |ui, view| {
            let name = format!("Install {}", build.name);
            if pressed(ui.button("Install"), GET_HOVER, name) {
                install(view, build);
            }
        });
    });
}
