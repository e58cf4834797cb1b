//! Every sampler in the loop: progress in steps, parts of the schedule, saved states.

use safelight_core::job::{SamplerKind, SigmaSchedule};

use super::*;

#[test]
fn every_sampler_reports_its_steps_and_resumes_bit_for_bit() {
    for sampler in SamplerKind::ALL {
        let mut run = Run::open("text_to_video");
        run.request.sampling.sampler = sampler;
        run.request.sampling.num_steps = 9;
        let (_, recorder) = run.assert_resumes(sampler.name());
        recorder.assert_steps(9, sampler.name());
        assert_eq!(recorder.states.take().len(), 2, "{}", sampler.name());
    }
}

#[test]
fn every_sampler_supports_every_sigma_schedule() {
    for sampler in SamplerKind::ALL {
        let mut run = Run::open("text_to_video");
        (run.request.sampling.sampler, run.request.sampling.num_steps) = (sampler, 9);
        let mut walks: Vec<Vec<f32>> = Vec::new();
        for schedule in SigmaSchedule::ALL {
            run.request.sampling.sigma_schedule = schedule;
            let solver = new_solver(&run.config.scheduler, &run.request).unwrap();
            assert_eq!(solver.num_steps(), 9);
            let sigmas = solver.sigmas().to_vec();
            // The model's own is ComfyUI's simple with UniPC, and its normal with Euler.
            let may_repeat = matches!(schedule, SigmaSchedule::Simple | SigmaSchedule::Normal);
            assert!(
                may_repeat || !walks.contains(&sigmas),
                "{sampler} {schedule:?}"
            );
            walks.push(sigmas);
            if schedule == SigmaSchedule::Model || sampler == SamplerKind::Euler {
                let is_finite = bool::try_from(run.latents().isfinite().all()).unwrap();
                assert!(is_finite, "{sampler} {schedule:?}");
            }
        }
    }
}

#[test]
fn a_part_of_the_schedule_begins_and_ends_at_its_own_noise() {
    for sampler in SamplerKind::ALL {
        let mut run = Run::open("text_to_video");
        run.request.sampling.sampler = sampler;
        run.request.sampling.num_steps = 8;
        run.request.sampling.start_step = 2;
        run.request.sampling.end_step = Some(5);
        let solver = new_solver(&run.config.scheduler, &run.request).unwrap();
        let recorder = HookRecorder::default();
        let ((), found) = recorded(|capture| {
            let done = run.denoise_part(Expert::Only, None, capture, &recorder);
            assert!(done.is_some());
        });
        recorder.assert_steps(3, sampler.name());
        let noise = run.get("latents.initial");
        let calls = solver.all_calls();
        let sigma = f64::from(solver.sigmas()[calls.start]);
        assert!(found["latents.initial"].equal(&(noise * sigma)));
        let made = found.keys().filter(|key| key.ends_with("noise_pred"));
        let expected = calls.map(|call| format!("step.{call:02}.noise_pred"));
        assert!(made.cloned().eq(expected), "{}", sampler.name());
    }
    let mut run = Run::open("text_to_video");
    let sampling = &mut run.request.sampling;
    (sampling.start_step, sampling.end_step) = (3, Some(3));
    let refused = new_solver(&run.config.scheduler, &run.request).err();
    let refused = refused.unwrap().to_string();
    assert!(refused.contains("from 3 to 3"), "{refused}");
}
