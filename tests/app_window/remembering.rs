//! What the window remembers: it outlives a close and a crash.

use std::fs;

use safelight::app::commands::AppCommand;
use safelight::app::queue::commands::QueueCommand;
use safelight_core::settings::Paths;

use crate::harness::Bench;

#[test]
fn what_was_written_is_there_again_after_a_close_and_after_a_crash() {
    let mut bench = Bench::new();
    bench.write_prompt("a red boat");
    let mut bench = Bench::in_home(bench.close(), |_| {});
    assert_eq!(bench.app().state.form.prompt, "a red boat");
    bench.write_prompt(" at sea");
    // It is on the disk a moment later, whatever happens then.
    let path = Paths::under(bench.home.path()).state_file();
    bench.until("it is written", |_| {
        fs::read_to_string(&path).is_ok_and(|text| text.contains("at sea"))
    });
    let written = bench.app().state.form.prompt.clone();
    let mut bench = Bench::in_home(bench.die(), |_| {});
    assert_eq!(bench.app().state.form.prompt, written);
}

#[test]
fn while_a_job_is_changed_the_form_that_is_remembered_is_ones_own() {
    let mut bench = Bench::new();
    bench.app().state.form.prompt = "my own".into();
    bench.start_job();
    bench.app().state.form.prompt = "a job".into();
    bench.press("Generate");
    bench.app().state.form.prompt = "my own".into();
    let job = bench.app().queue.waiting[0].id;
    let edit = QueueCommand::Edit(job);
    bench.app().push(AppCommand::Queue(edit));
    bench.until("it is changed", |bench| {
        bench.app().state.form.prompt == "a job"
    });
    let mut bench = Bench::in_home(bench.close(), |_| {});
    assert_eq!(bench.app().state.form.prompt, "my own");
}
