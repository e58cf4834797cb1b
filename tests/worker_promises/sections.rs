//! Videos that are made section by section: they grow on the disk and on the screen, stay when the job is cancelled,
//! and go on after an engine or the whole program died.

use std::thread;
use std::time::Duration;

use Stage::{Decode, Denoise, Unload};
use safelight_core::families::framepack;
use safelight_core::job::{SectionOrder, Video, VideoSections};
use safelight_core::job_update::SectionMade;

use crate::worker_promises::prelude::*;

impl WorkerHarness {
    pub(crate) fn resume(&self, folder: &Path) -> (Vec<JobUpdate>, JobOutcome) {
        self.resume_to(folder, |_| {})
    }

    /// The same with something changed in its request.
    pub(crate) fn resume_to(
        &self,
        folder: &Path,
        change: impl FnOnce(&mut GenerateRequest),
    ) -> (Vec<JobUpdate>, JobOutcome) {
        let mut request = JobFolder::open(folder).request().unwrap();
        change(request.generate_mut().unwrap());
        JobFolder::open(folder).keep_request(&request).unwrap();
        self.send(request, DeviceChoice::Auto, Some(folder.to_owned()));
        self.hear()
    }
}

/// Makes a request one of a window of 2: 8 frames a section, and 5 that two share.
pub(crate) fn in_sections(count: u32, order: SectionOrder) -> impl FnOnce(&mut GenerateRequest) {
    move |request| {
        let sections = VideoSections {
            count,
            window: 2,
            order,
            lead: 1,
        };
        request.family = framepack::FAMILY;
        request.num_frames = sections.num_frames();
        request.sections = Some(sections);
    }
}

fn sections_of(updates: &[JobUpdate]) -> Vec<&SectionMade> {
    let made = updates.iter().filter_map(|update| match update {
        JobUpdate::Section(made) => Some(made),
        _ => None,
    });
    made.collect()
}

fn greys(video: &Video) -> Vec<u8> {
    video.frames.iter().map(|frame| frame.rgb[0]).collect()
}

fn range(section: u8, frames: std::ops::Range<u8>) -> Vec<u8> {
    frames.map(|index| section * 90 + index).collect()
}

#[test]
fn video_grows_back_to_front_and_is_saved_after_every_section() {
    let rig = WorkerHarness::working();
    let (updates, outcome) = rig.run_with(in_sections(3, SectionOrder::Original));
    let output = finished(outcome);
    let made = sections_of(&updates);
    let counts: Vec<_> = made
        .iter()
        .map(|made| (made.section, made.count, made.video.frames.len()))
        .collect();
    assert_eq!(counts, [(0, 3, 5), (1, 3, 13), (2, 3, 25)]);
    assert!(made.iter().all(|made| made.path == output.path()));
    assert_eq!(greys(&made[0].video), range(0, 0..5));
    // All that the first section had is blended with the second's.
    assert_eq!(greys(&made[1].video), range(1, 0..13));
    let third = [range(2, 0..17), range(1, 5..13)].concat();
    assert_eq!(greys(&output.video), third);
    assert_eq!(media::open_video(output.path()).unwrap().frames.len(), 25);
    assert_eq!(rig.job_folders(), 0);
}

#[test]
fn a_video_grows_front_to_back_for_f1() {
    let rig = WorkerHarness::working();
    let (updates, outcome) = rig.run_with(in_sections(2, SectionOrder::F1));
    let output = finished(outcome);
    assert_eq!(greys(&sections_of(&updates)[0].video), range(0, 0..9));
    let both = [range(0, 0..4), range(1, 0..13)].concat();
    assert_eq!(greys(&output.video), both);
}

#[test]
fn the_video_so_far_can_be_played_from_its_file_while_the_next_section_is_made() {
    let rig = WorkerHarness::new(nth(Stage::Denoise, 2, Act::UntilCancelled));
    let out = rig.folder.path().join("video.mp4");
    let cancel = rig.submit_with(DeviceChoice::Auto, in_sections(4, SectionOrder::Original));
    wait_for_frames(&out, 13);
    cancel.cancel();
    let (_, outcome) = rig.hear();
    let JobOutcome::Kept(output) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(output.path(), out);
    assert_eq!(output.video.frames.len(), 13);
    assert_eq!(media::open_video(&out).unwrap().frames.len(), 13);
    assert_eq!(rig.job_folders(), 0, "nothing is left but the video");
}

fn wait_for_frames(path: &Path, num_frames: usize) {
    for _ in 0..1000 {
        // A file that is there at all is whole.
        if path.exists() && media::open_video(path).unwrap().frames.len() == num_frames {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the video never had {num_frames} frames");
}

#[test]
fn a_job_that_is_cancelled_before_its_first_section_is_there_leaves_nothing() {
    let rig = WorkerHarness::new(nth(Stage::Denoise, 0, Act::UntilCancelled));
    let cancel = rig.submit_with(DeviceChoice::Auto, in_sections(2, SectionOrder::F1));
    rig.wait_for(Stage::Denoise);
    cancel.cancel();
    let (_, outcome) = rig.hear();
    assert!(matches!(outcome, JobOutcome::Cancelled), "{outcome:?}");
    assert!(!rig.folder.path().join("video.mp4").exists());
}

#[test]
fn an_engine_that_dies_costs_the_running_section_alone() {
    // A new engine proves once more that it holds no transformer.
    for (dying, time, again) in [
        (Denoise, 2, &[(Denoise, 2)][..]),
        (Unload, 1, &[(Unload, 1)]),
        (Decode, 1, &[(Unload, 1), (Decode, 1)]),
    ] {
        let rig = WorkerHarness::new(nth(dying, time, Act::Die));
        let output = rig.finishes(in_sections(3, SectionOrder::Original));
        let third = [range(2, 0..17), range(1, 5..13)].concat();
        assert_eq!(greys(&output.video), third, "{dying:?}");
        let orders = rig.sections.lock().unwrap();
        for order in orders.iter() {
            let times = orders.iter().filter(|other| *other == order).count();
            assert_eq!(times, 1 + usize::from(again.contains(order)), "{order:?}");
        }
    }
}

#[test]
fn a_long_job_may_lose_an_engine_in_one_section_and_another_in_a_later_one_but_not_two_in_one() {
    let dies_at = |times: &'static [u32]| {
        let count = AtomicU32::new(0);
        WorkerHarness::new(move |_, asked| {
            let is_denoise = asked == Stage::Denoise;
            let dies = is_denoise && times.contains(&count.fetch_add(1, Ordering::Relaxed));
            if dies { Act::Die } else { Act::Work }
        })
    };
    // The second section's first try, and the third one's.
    dies_at(&[1, 3]).finishes(in_sections(3, SectionOrder::F1));
    let err = dies_at(&[1, 2]).fails(in_sections(3, SectionOrder::F1));
    assert!(err.kept.is_some(), "what was finished is kept");
}

#[test]
fn job_resumes_from_its_last_section_after_a_program_restart() {
    let rig = WorkerHarness::new(nth(Stage::Denoise, 2, Act::Fail));
    rig.fails(in_sections(4, SectionOrder::Original));
    let folder = only_job(&rig.folder.path().join("jobs")).path().to_owned();

    let next = WorkerHarness::in_folder(rig.folder, |_, _| Act::Work);
    let (updates, outcome) = next.resume(&folder);
    let output = finished(outcome);
    // What was denoised is only decoded again.
    let expected = [
        [(Decode, 0), (Unload, 1), (Decode, 1)],
        [(Denoise, 2), (Unload, 2), (Decode, 2)],
        [(Denoise, 3), (Unload, 3), (Decode, 3)],
    ];
    assert_eq!(*next.sections.lock().unwrap(), expected.concat());
    assert_eq!(sections_of(&updates).len(), 4);
    assert_eq!(output.video.frames.len(), 33);
    assert!(!folder.exists());
}

#[test]
fn a_section_without_all_its_frames_is_never_called_finished() {
    let rig = WorkerHarness::new(nth(Stage::Decode, 1, Act::LoseFrames));
    let err = rig.fails(in_sections(3, SectionOrder::Original));
    let text = "expected 13 decoded frames of section 2 and 5 before, found 3 and 5";
    assert_eq!(err.summary, text);
}

#[test]
fn the_time_left_counts_the_sections_that_are_still_to_come() {
    let rig = WorkerHarness::new(nth(Stage::Denoise, 0, Act::GoOn));
    let (updates, _) = rig.run_with(in_sections(3, SectionOrder::F1));
    let first = updates.iter().find_map(|update| match update {
        JobUpdate::Step {
            stage: Stage::Denoise,
            step: 22,
            num_steps,
            secs_left,
        } => Some((*num_steps, *secs_left)),
        _ => None,
    });
    let (num_steps, secs_left) = first.expect("no second step was told");
    // 18 more of 50 ms here, and as long as all of this stage twice more.
    assert_eq!(num_steps, 40);
    assert!((2.0..9.0).contains(&secs_left), "{secs_left}");
}
