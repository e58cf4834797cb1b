//! A job that waits for other programs says so, and can be told to go on.

use safelight_core::job_update::MemoryWait;

use crate::app_window::prelude::*;

const SENTENCE: &str =
    "Waiting for memory: other programs use 14.0 GiB of 16.0 GiB. The job continues by itself.";

#[test]
fn job_waiting_for_memory_shows_why_and_can_continue_immediately() {
    let (mut bench, sent) = Bench::at_work();
    bench.say_stage(sent.id, Stage::Denoise);
    assert!(!bench.has_label("Continue now"));
    let crowded = MemoryWait {
        is_for_jobs: false,
        is_device: false,
        others_bytes: 14 << 30,
        limit_bytes: 16 << 30,
    };
    bench.say(sent.id, JobUpdate::Waiting(crowded));
    bench.assert_shows(SENTENCE);
    bench.press("Continue now");
    assert!(sent.cancel.waits_no_more() && !sent.cancel.is_cancelled());
    bench.say_stage(sent.id, Stage::Denoise);
    assert!(!bench.has(SENTENCE));
    assert!(!bench.has_label("Continue now"));
}
