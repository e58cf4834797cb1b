//! Every sampler in the loop: progress in steps, parts of the schedule, saved states.

use safelight_core::job::{SamplerKind, SigmaSchedule};

use super::*;

#[test]
fn every_sampler_counts_steps_and_goes_on_bit_for_bit() {
    for sampler in SamplerKind::ALL {
        let mut run = Run::open("text_to_video");
        run.request.sampling.sampler = sampler;
        run.request.sampling.num_steps = 9;
        let keeper = Keeper::default();
        let whole = run
            .denoise(None, &mut StageCapture::off(), &keeper)
            .unwrap();
        let told: Vec<_> = (1..=9).map(|step| (step, 9)).collect();
        assert_eq!(keeper.steps.take(), told, "{}", sampler.name());
        let states = keeper.states.take();
        assert_eq!(states.len(), 2, "{}", sampler.name());
        for state in states {
            let again = run.denoise(Some(state), &mut StageCapture::off(), &NoHooks);
            assert!(again.unwrap().equal(&whole), "{}", sampler.name());
        }
    }
}

#[test]
fn every_sampler_walks_the_sigma_schedule_that_is_asked_for() {
    for sampler in SamplerKind::ALL {
        let mut run = Run::open("text_to_video");
        (run.request.sampling.sampler, run.request.sampling.num_steps) = (sampler, 9);
        let mut walks: Vec<Vec<f32>> = Vec::new();
        for schedule in SigmaSchedule::ALL {
            run.request.sampling.sigma_schedule = schedule;
            let solver = new_solver(&run.config.scheduler, &run.request).unwrap();
            assert_eq!(solver.num_steps(), 9);
            let sigmas = solver.sigmas().to_vec();
            assert!(!walks.contains(&sigmas), "{schedule:?}");
            walks.push(sigmas);
            let latents = run
                .denoise(None, &mut StageCapture::off(), &NoHooks)
                .unwrap();
            let is_finite = bool::try_from(latents.isfinite().all()).unwrap();
            assert!(is_finite, "{} {schedule:?}", sampler.name());
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
        let keeper = Keeper::default();
        let folder = tempfile::tempdir().unwrap();
        let mut record = StageCapture::stage(folder.path(), "denoise").unwrap();
        drop(run.denoise(None, &mut record, &keeper).unwrap());
        record.finish().unwrap();
        assert_eq!(keeper.steps.take(), [(1, 3), (2, 3), (3, 3)]);
        let found = tensor_files::read(&folder.path().join("capture.denoise.safetensors")).unwrap();
        let found: BTreeMap<_, _> = found.into_iter().collect();
        let noise = run.get("latents.initial");
        let calls = solver.all_calls();
        let sigma = f64::from(solver.sigmas()[calls.start]);
        assert!(found["latents.initial"].equal(&(noise * sigma)));
        let made: Vec<_> = found
            .keys()
            .filter(|key| key.ends_with("noise_pred"))
            .collect();
        let expected: Vec<_> = calls
            .map(|call| format!("step.{call:02}.noise_pred"))
            .collect();
        assert!(made.into_iter().eq(&expected), "{}", sampler.name());
    }
    let mut run = Run::open("text_to_video");
    (
        run.request.sampling.start_step,
        run.request.sampling.end_step,
    ) = (3, Some(3));
    let refused = new_solver(&run.config.scheduler, &run.request)
        .err()
        .unwrap();
    assert!(refused.to_string().contains("from 3 to 3"), "{refused}");
}
