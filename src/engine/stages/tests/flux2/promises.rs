//! What jobs of FLUX.2 promise beside the right numbers.

use super::super::stills;
use super::*;

fn distilled(facts: &Value, image: Option<&Tensor>, mask: Option<&Tensor>) -> Job {
    job("distilled", facts, image, mask)
}

fn base(facts: &Value, image: Option<&Tensor>, mask: Option<&Tensor>) -> Job {
    job("base", facts, image, mask)
}

#[test]
fn every_picture_of_a_batch_is_the_one_that_its_seed_alone_makes() {
    stills::assert_batches(&base);
}

#[test]
fn what_a_mask_keeps_is_the_given_picture_to_the_byte_and_the_rest_is_made_anew() {
    stills::assert_mask_keeps(&distilled);
}

#[test]
fn a_job_goes_on_bit_for_bit_behind_its_last_step_when_cancelled_and_from_its_checkpoint_when_dead()
{
    for (variant, guidance, sampler) in [("distilled", 1.0, "euler"), ("base", 4.0, "dpmpp_2m")] {
        let facts = json!({"num_steps": 7, "batch_size": 2, "sampler": sampler, "guidance_scale": guidance});
        let job = job(variant, &facts, None, None);
        jobs::assert_goes_on(&job, variant);
    }
}

#[test]
fn every_stage_stops_when_it_is_asked_to() {
    stills::assert_guided_stops(&base);
}

#[test]
fn a_streamed_job_makes_the_latents_of_one_that_stays_bit_for_bit() {
    stills::assert_streams(&base);
}

#[test]
fn a_strength_that_leaves_no_step_is_refused() {
    stills::assert_strength_leaves_steps(&distilled);
}
