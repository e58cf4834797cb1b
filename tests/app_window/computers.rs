//! Other computers in the window: their models, jobs that go there, and what is wrong with a connection.

use safelight::computers::link::{ComputerFarEnd, ComputerLink, ComputerState};
use safelight::computers::{ComputerInfo, PROTOCOL, VERSION};
use safelight::window::computers::RemoteComputer;
use safelight::worker::WorkerEvent;

use crate::app_window::prelude::*;

fn info() -> ComputerInfo {
    ComputerInfo {
        protocol: PROTOCOL,
        version: VERSION.to_owned(),
        device: "AMD gfx1151".to_owned(),
        free_bytes: 90 << 30,
        total_bytes: 96 << 30,
        models: vec![spec()],
        loras: Vec::new(),
    }
}

fn connected() -> (Bench, ComputerFarEnd) {
    let mut bench = Bench::new();
    let (link, far) = ComputerLink::detached();
    let app = bench.app();
    app.cx.settings.computers.hosts = vec!["me@box".to_owned()];
    let computer = RemoteComputer::linked("me@box", Some(link));
    app.computers.list.push(computer);
    let state = ComputerState::Connected(Box::new(info()));
    far.states.send(state).unwrap();
    bench.settle();
    (bench, far)
}

#[test]
fn models_of_another_computer_are_listed_with_its_name_and_their_jobs_run_there() {
    let (mut bench, far) = connected();
    bench.use_model("Little World · on box");
    bench.write_prompt("a boat");
    bench.press("Generate");
    let mut sent = None;
    bench.until("a job is sent there", |_| {
        sent = far.worker.commands.try_recv().ok();
        sent.is_some()
    });
    let sent = sent.unwrap();
    assert_eq!(sent.request.computer(), Some("me@box"));
    bench.assert_no_job();
    let say = |update| {
        let event = WorkerEvent {
            id: sent.id,
            update,
        };
        far.worker.events.send(event).unwrap();
    };
    say(step_update(Stage::Denoise, 3, 12));
    let frames = vec![image(64, [10, 40, 30])];
    let output = output_file(sent.request.out(), frames, 8.0);
    say(JobUpdate::Ended(JobOutcome::Finished(output)));
    bench.until("the job has ended", |bench| {
        bench.app().queue.running.is_empty()
    });
    assert_eq!(bench.app().queue.results.len(), 1);
}

#[test]
fn a_computer_that_cannot_be_reached_says_why_and_is_tried_again_on_a_click() {
    let (mut bench, far) = connected();
    bench.press("Settings");
    bench.panels().settings.search = "computers".to_owned();
    bench.settle();
    bench.assert_shows("AMD gfx1151|1 model");
    let err = JobError::new(JobErrorKind::Network, "me@box does not answer").advise("Switch it on");
    far.states.send(ComputerState::Failed(err)).unwrap();
    bench.settle();
    bench.wait_for("me@box does not answer|Switch it on");
    bench.press("Reconnect: me@box");
    assert!(far.retries.try_recv().is_ok());
    // Its models stay: jobs wait for it.
    assert!(bench.app().cx.models.get("little-world@me@box").is_some());
    bench.press("Remove: me@box");
    bench.until("it is gone", |bench| bench.app().computers.list.is_empty());
    assert!(bench.app().cx.models.get("little-world@me@box").is_none());
}

#[test]
fn a_name_that_ssh_cannot_take_is_refused_in_its_field() {
    let (mut bench, _far) = connected();
    bench.press("Settings");
    bench.panels().settings.search = "computers".to_owned();
    bench.settle();
    bench.type_into("Computers: new", "-oProxyCommand=x");
    bench.press_key(Key::Enter);
    bench.assert_shows("as ssh takes it");
    assert_eq!(bench.app().cx.settings.computers.hosts, ["me@box"]);
}
