//! Time of the window's thread for a frame while a job runs, with 5,000 results in the gallery and 500 jobs in
//! the queue: `cargo bench --bench window`.
//!
//! A frame is what the program itself does for it: events and commands, panels, the accessibility tree and the
//! triangles. Drawing those is the graphics card's, and is not counted. Prints one JSON object a scene.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and may end where its ground is missing"
)]

#[expect(dead_code, unused_imports, reason = "the tests use all of it")]
#[path = "../tests/app_window/harness.rs"]
mod harness;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::{Bench, SentJob, image, output, sample, spec};
use rustix::time::{ClockId, clock_gettime};
use safelight::window::commands::{AppCommand, MaskCommand};
use safelight::window::create::choices::{InputSlot, MaskOf};
use safelight::window::library::models::FoundModels;
use safelight::window::mask::panel::MAX_BRUSH;
use safelight::window::queue::ResultItem;
use safelight::window::state::MainPage;
use safelight::worker::WorkerEvent;
use safelight_core::job::{JobId, Stage, Video};
use safelight_core::job_update::{JobOutcome, JobUpdate, PreviewFrame};
use safelight_core::media::{RgbPixels, VideoOptions, write_video};
use safelight_core::model::InputUse;
use safelight_core::settings::AppPaths;
use serde_json::json;

const NUM_RESULTS: usize = 5_000;
const NUM_WAITING: u64 = 500;
const NUM_FRAMES: u64 = 400;
/// Results of this session.
const NUM_IN_STRIP: u64 = 200;
/// Frames in which a job's result appears.
const NUM_ENDING: u64 = 60;

/// Images of a running job.
#[derive(Clone, Copy)]
enum Shows {
    /// Rough images of this size, and as many as a video has latent frames.
    Previews(u32, u32, u32),
    /// Decoded frames of this size.
    Frames(u32, u32),
}

const LINEAR: Shows = Shows::Previews(104, 60, 21);
const SCENES: [(&str, MainPage, Shows); 7] = [
    ("linear previews of a video", MainPage::Watch, LINEAR),
    (
        "sharp previews of 1024x1024",
        MainPage::Watch,
        Shows::Previews(1024, 1024, 1),
    ),
    (
        "decoded frames of 1280x720",
        MainPage::Watch,
        Shows::Frames(1280, 720),
    ),
    ("gallery", MainPage::Gallery, LINEAR),
    ("settings", MainPage::Settings, LINEAR),
    ("models", MainPage::Models, LINEAR),
    (
        "the largest brush on a mask of 4096x4096",
        MainPage::Mask,
        LINEAR,
    ),
];

fn main() {
    // Without it this is `cargo test`, which builds benchmarks but wants nothing of them.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    fill(&home.path().join("videos/Safelight"));
    let paths = AppPaths::under(home.path());
    // The scene of a mask needs a model that takes one.
    let mut model = spec();
    model.mask = InputUse::Optional;
    let mut bench = Bench::with(|startup| {
        startup.paths = Some(paths);
        startup.models = Some(FoundModels {
            specs: vec![model],
            ..FoundModels::default()
        });
    });
    let sent = bench.start_job();
    let job = {
        bench.press("Generate");
        bench.app().queue.waiting[0].clone()
    };
    for number in 1..NUM_WAITING {
        let mut job = job.clone();
        job.id = JobId(number);
        let request = job.request.generate_mut().expect("it generates");
        request.prompt = format!("wish {number}");
        bench.app().queue.waiting.push_back(job);
    }
    bench.app().queue.is_open = true;
    bench.app().cx.push(AppCommand::Show(MainPage::Gallery));
    bench.until("all results are read", |bench| {
        let listing = bench.app().gallery.listing.as_ref();
        listing.is_some_and(|listing| listing.num_unread == 0 && !listing.is_looking)
    });
    for (name, page, shows) in SCENES {
        if page == MainPage::Mask {
            begin_stroke(&mut bench);
        } else {
            bench.app().cx.push(AppCommand::Show(page));
            bench.settle();
        }
        tell(
            name,
            (0..NUM_FRAMES).map(|turn| frame(&mut bench, &sent, turn, shows)),
        );
    }
    fill_strip(&mut bench, &sent);
    bench.app().cx.push(AppCommand::Show(MainPage::Watch));
    bench.settle();
    let frames = (0..NUM_FRAMES).map(|turn| frame(&mut bench, &sent, turn, LINEAR));
    tell("200 results in the strip", frames);
    let made = {
        let frames = vec![image(2048, [9, 90, 40])];
        let mut made = output(&sent, 1);
        made.video = Arc::new(Video { frames, fps: 1.0 });
        made
    };
    let event = WorkerEvent {
        id: sent.id,
        update: JobUpdate::Ended(JobOutcome::Finished(made)),
    };
    bench.far.events.send(event).unwrap();
    let frames = (0..NUM_ENDING).map(|_| timed(&mut bench));
    tell("a job with an image of 2048x2048 ends", frames);
}

/// Prints durations and processor times of a scene's frames.
fn tell(scene: &str, frames: impl Iterator<Item = (Duration, Duration)>) {
    let (mut times, mut busy): (Vec<Duration>, Vec<Duration>) = frames.unzip();
    times.sort_unstable();
    busy.sort_unstable();
    let millis = |time: Duration| (time.as_secs_f64() * 1e5).round() / 100.0;
    let line = json!({
        "scene": scene,
        "frames": times.len(),
        "median_ms": millis(times[times.len() / 2]),
        "p99_ms": millis(times[times.len() * 99 / 100]),
        "worst_ms": millis(*times.last().unwrap()),
        "worst_cpu_ms": millis(*busy.last().unwrap()),
        "results": NUM_RESULTS,
        "waiting": NUM_WAITING,
    });
    println!("{line}");
}

/// As many results of this session as are kept.
fn fill_strip(bench: &mut Bench, sent: &SentJob) {
    for number in 0..NUM_IN_STRIP {
        let item = ResultItem {
            id: JobId(1_000_000 + number),
            request: sent.request.clone().into(),
            output: output(sent, 1),
            is_in_memory: true,
        };
        drop(bench.app().queue.keep(item));
    }
}

/// Files as Safelight writes them.
fn fill(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let settings = json!({
        "app": "Safelight",
        "request": { "model": "little-world", "prompt": "a red boat", "negative_prompt": "", "seed": 7 },
    });
    let options = VideoOptions {
        settings: Some(settings.to_string()),
        ..VideoOptions::default()
    };
    let frame = RgbPixels::from_fn(256, 256, |x, y| [x as u8, y as u8, 99]).unwrap();
    let first = folder.join("0000.png");
    write_video(&first, &[frame], options).unwrap();
    let bytes = fs::read(first).unwrap();
    for number in 1..NUM_RESULTS {
        fs::write(folder.join(format!("{number:04}.png")), &bytes).unwrap();
    }
}

/// Opens a large mask and puts the largest brush down on it.
fn begin_stroke(bench: &mut Bench) {
    let image = bench.image_file("large.png", 4096, 4096);
    bench.drop_file(&image);
    bench.until("the image is there", |bench| {
        bench.app().inputs.get(InputSlot::Start).is_some()
    });
    bench.app().cx.push(MaskCommand::Open(MaskOf::Start));
    bench.until("it can be painted on", |bench| {
        bench.app().cx.page == MainPage::Mask
    });
    bench.panels().mask.diameter = MAX_BRUSH;
    let pos = egui::pos2(700.0, 300.0);
    bench.harness.hover_at(pos);
    bench.harness.step();
    bench.harness.event(egui::Event::PointerButton {
        pos,
        button: egui::PointerButton::Primary,
        pressed: true,
        modifiers: egui::Modifiers::NONE,
    });
    // One frame asks for the stroke, the next one begins it.
    bench.harness.step();
    bench.harness.step();
    let editor = bench.app().masking.editor.as_ref();
    assert!(editor.unwrap().is_painting());
}

/// Processor time of this thread.
fn busy_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Duration and processor time of one frame with a worker's messages, and with a wheel that turns over the page or a
/// brush that paints.
fn frame(bench: &mut Bench, sent: &SentJob, turn: u64, shows: Shows) -> (Duration, Duration) {
    let say = |update| {
        let event = WorkerEvent {
            id: sent.id,
            update,
        };
        bench.far.events.send(event).unwrap();
    };
    if turn == 0 {
        say(JobUpdate::Stage {
            stage: Stage::Denoise,
            section: 0,
            resumed: false,
        });
    }
    say(sample(turn as f64 / 10.0, 600, 400, 500, 1024));
    let colour = [turn as u8, 90, 40];
    let frame = |index, count, width, height| PreviewFrame {
        index,
        count,
        image: Arc::new(RgbPixels::from_fn(width, height, |_, _| colour).unwrap()),
    };
    match shows {
        Shows::Previews(width, height, count) if turn.is_multiple_of(6) => {
            say(JobUpdate::Step {
                stage: Stage::Denoise,
                step: (turn / 6) as u32,
                num_steps: (NUM_FRAMES / 6) as u32 + 1,
                secs_left: 9.0,
            });
            for index in 0..count {
                say(JobUpdate::Preview(frame(index, count, width, height)));
            }
        }
        Shows::Frames(width, height) if turn.is_multiple_of(6) => {
            let count = (NUM_FRAMES / 6) as u32 + 1;
            let index = (turn / 6) as u32;
            say(JobUpdate::Frame(frame(index, count, width, height)));
        }
        _ => {}
    }
    let is_painting = bench.app().cx.page == MainPage::Mask;
    let input = bench.harness.input_mut();
    // Back and forth where it paints; elsewhere it rests, and the wheel turns.
    let away = if is_painting { turn % 20 } else { 0 };
    let pointer = egui::pos2(700.0 + 10.0 * away as f32, 300.0);
    input.events.push(egui::Event::PointerMoved(pointer));
    if !is_painting {
        input.events.push(egui::Event::MouseWheel {
            unit: egui::MouseWheelUnit::Point,
            delta: egui::vec2(0.0, if turn % 200 < 100 { -60.0 } else { 60.0 }),
            phase: egui::TouchPhase::Move,
            modifiers: egui::Modifiers::NONE,
            source: egui::MouseWheelSource::Wheel,
        });
    }
    timed(bench)
}

/// Duration and processor time of the next frame.
fn timed(bench: &mut Bench) -> (Duration, Duration) {
    let (begin, begin_busy) = (Instant::now(), busy_time());
    bench.harness.step();
    let shapes = bench.harness.output().shapes.clone();
    bench.harness.ctx.tessellate(shapes, 1.0);
    let busy = busy_time().saturating_sub(begin_busy);
    (begin.elapsed(), busy)
}
