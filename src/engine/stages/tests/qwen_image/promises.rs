//! What jobs of Qwen-Image promise beside the right numbers.

use super::super::stills;
use super::*;

#[test]
fn every_picture_of_a_batch_is_the_one_that_its_seed_alone_makes() {
    stills::assert_batches(&job);
}

#[test]
fn what_a_mask_keeps_is_the_given_picture_to_the_byte_and_the_rest_is_made_anew() {
    stills::assert_mask_keeps(&job);
}

#[test]
fn a_job_goes_on_bit_for_bit_behind_its_last_step_when_cancelled_and_from_its_checkpoint_when_dead()
{
    for (guidance, sampler) in [(1.0, "euler"), (4.0, "dpmpp_2m")] {
        let facts = json!({"num_steps": 7, "batch_size": 2, "sampler": sampler, "guidance_scale": guidance});
        jobs::assert_goes_on(&job(&facts, None, None), sampler);
    }
}

#[test]
fn every_stage_stops_when_it_is_asked_to() {
    stills::assert_guided_stops(&job);
}

#[test]
fn a_streamed_job_makes_the_latents_of_one_that_stays_bit_for_bit() {
    stills::assert_streams(&job);
}

#[test]
fn a_strength_that_leaves_no_step_is_refused() {
    stills::assert_strength_leaves_steps(&job);
}

#[test]
fn every_picture_of_a_batch_that_is_edited_is_the_one_that_its_seed_alone_makes() {
    let seen = stills::pixels("seen", 24, 16);
    let made = |seed: u64, batch_size: u32| {
        let facts = json!({"seed": seed, "batch_size": batch_size, "num_steps": 1});
        let job = with_references(job_of("edit2511", &facts, None, None), &[&seen]);
        assert_eq!(job.run(false).frames.len(), batch_size as usize);
        job.latents()
    };
    let batch = made(7, 2);
    assert_eq!(batch.narrow(0, 1, 1), made(8, 1));
}

#[test]
fn what_edits_stops_when_it_is_asked_to() {
    let seen = stills::pixels("seen", 24, 16);
    let job = job_of("edit2511", &json!({"num_steps": 1}), None, None);
    jobs::assert_stops(&with_references(job, &[&seen]));
}

#[test]
fn one_step_and_every_sampler_make_a_picture() {
    for (sampler, num_steps) in [("euler", 1), ("unipc", 4), ("heun", 2), ("lcm", 2)] {
        let facts = json!({"num_steps": num_steps, "sampler": sampler, "guidance_scale": 4.0});
        let job = job(&facts, None, None);
        assert_eq!(job.run(false).frames.len(), 1, "{sampler}");
        let sum = job.latents().sum(Kind::Float).double_value(&[]);
        assert!(sum.is_finite(), "{sampler}");
    }
}
