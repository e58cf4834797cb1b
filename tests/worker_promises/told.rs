//! What a job is told of the engine that it got.

use super::*;

pub(crate) fn warnings(updates: &[JobUpdate]) -> Vec<&str> {
    let told = updates.iter().filter_map(|update| match update {
        JobUpdate::Warning(text) => Some(text.as_str()),
        _ => None,
    });
    told.collect()
}

#[test]
fn every_job_that_the_cpu_computes_in_the_place_of_a_gpu_says_so_once() {
    let rig = Rig::new(|_, _| Act::Work);
    let problem = "libtorch_hip.so could not be loaded: libhipblas.so.3 is missing";
    *rig.gpu_problem.lock().unwrap() = Some(problem.to_owned());
    for _ in 0..2 {
        let (updates, outcome) = rig.run();
        let expected = format!("The CPU computes, which is slow: {problem}");
        assert_eq!(warnings(&updates), [expected.as_str()]);
        let output = finished(outcome);
        assert_eq!(output.warnings, [expected]);
    }
    let launches = rig.launches.load(Ordering::Relaxed);
    assert_eq!(
        launches, 1,
        "the second job is told of the engine that it found"
    );
}
