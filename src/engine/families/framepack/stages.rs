//! FramePack's stages: which function makes which result, of which files.

use std::fs;

use safelight_core::families;
use safelight_core::job::Stage;
use tch::Tensor;

use crate::error::EngineError;
use crate::families::EngineFamily;
use crate::families::framepack::{self, GivenImages, SectionInputs, SectionLatents};
use crate::stages::{StageContext, job_images};
use crate::tensor_files;
use crate::text::PromptEmbeds;
use crate::work::StageWork;

pub(crate) struct FramePackFamily;

impl EngineFamily for FramePackFamily {
    fn id(&self) -> &'static str {
        families::framepack::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        context.texts(framepack::encode_text)
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        let folder = context.folder();
        let images = context.part(|work| framepack::encode_image(&folder, work))?;
        images.save(&context.own_result())
    }

    fn encode_vision(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        context.tensor("image_embeds", |work| {
            framepack::encode_vision(&context.folder(), work)
        })
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Result<(), EngineError> {
        let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let images = GivenImages::load(&context.result(Stage::EncodeImage))?;
        let image_embeds =
            tensor_files::read_one(&context.result(Stage::EncodeVision), "image_embeds")?;
        let earlier = (0..context.order.section)
            .map(|section| latents_of(context, section))
            .collect::<Result<Vec<_>, _>>()?;
        let given = SectionInputs {
            embeds: &embeds,
            images: &images,
            image_embeds: &image_embeds,
            earlier: &earlier,
        };
        let resume = context.checkpoint();
        context.tensor("latents", |work| framepack::denoise(&given, resume, work))
    }

    fn decode(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        let section = context.order.section;
        let images = GivenImages::load(&context.result(Stage::EncodeImage))?;
        let newest = (section.saturating_sub(2)..=section)
            .rev()
            .map(|section| latents_of(context, section))
            .collect::<Result<Vec<_>, _>>()?;
        let overlap = |section| framepack::overlap_file(&context.order.folder, section);
        // Whatever is wrong with that file, its frames can be made again.
        let before = section.checked_sub(1).map(overlap);
        let before = before.and_then(|path| tensor_files::read_one(&path, "frames").ok());
        let sections = context.request().sections;
        let lead = sections.map_or(1, |sections| sections.lead);
        // A record of the whole video begins with them each time.
        let given = if section == 0 || context.order.capture {
            end_of_video(context)?
        } else {
            None
        };
        let latents = SectionLatents {
            lead: &images.lead(i64::from(lead)),
            newest: &newest,
            overlap: before,
            given,
        };
        let decode = |work: &mut StageWork<'_>| framepack::decode(section, &latents, work);
        let kept = context.part(|work| work.decoded(decode))?;
        if let Err(err) = tensor_files::write_one(&overlap(section), "frames", &kept) {
            tracing::warn!("the frames for the next section could not be kept: {err}");
        }
        if let Some(old) = section.checked_sub(2) {
            fs::remove_file(overlap(old)).ok(); // Of no use any more, and gone with the folder anyway.
        }
        Ok(())
    }
}

fn latents_of(context: &StageContext<'_>, section: u32) -> Result<Tensor, EngineError> {
    tensor_files::read_one(&context.section_result(Stage::Denoise, section), "latents")
}

/// The frames of a video that is gone on from which its first section joins: `(1, 3, n, H, W)`
fn end_of_video(context: &StageContext<'_>) -> Result<Option<Tensor>, EngineError> {
    let shared = context.request().lead_frames() as i64;
    if shared <= 1 {
        return Ok(None);
    }
    let seen = job_images::seen_of_job(&context.folder(), context.request())?;
    let all = |seen: &Tensor| seen.size()[2];
    Ok(seen
        .filter(|seen| all(seen) >= shared)
        .map(|seen| seen.narrow(2, all(&seen) - shared, shared)))
}
