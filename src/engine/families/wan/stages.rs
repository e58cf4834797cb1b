//! Wan's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::Stage;

use crate::bench::cases::Case;
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::families::wan::{self, Conditions, Expert, WanConfig};
use crate::families::{Done, EngineFamily};
use crate::stages::{StageContext, pictures};
use crate::store;
use crate::text::PromptEmbeds;

pub(crate) struct Wan;

impl EngineFamily for Wan {
    fn id(&self) -> &'static str {
        families::wan::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Done {
        let config = config(context)?;
        context.texts(|work| wan::encode_text(&config, work))
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Done {
        let config = config(context)?;
        context.tensor("image_latents", |work| {
            let folder = &context.folder();
            let (start, end) = pictures::frames_of_job(folder, work.request, work.capture)?;
            let end = end.as_ref().map(|end| &end.rgb[..]);
            wan::encode_image(&config, &start.rgb, end, work)
        })
    }

    fn encode_vision(&self, context: &StageContext<'_>) -> Done {
        let config = config(context)?;
        let (start, end) = pictures::of_job(&context.folder(), context.request())?;
        let pictures: Vec<_> = [Some(start), end]
            .into_iter()
            .flatten()
            .map(|picture| picture.fitted)
            .collect();
        context.tensor("image_embeds", |work| {
            wan::encode_vision(&config, &pictures, work)
        })
    }

    fn denoise(&self, context: &StageContext<'_>, stage: Stage) -> Done {
        let expert = match stage {
            Stage::DenoiseHigh => Expert::HighNoise,
            Stage::DenoiseLow => Expert::LowNoise,
            _ => Expert::Only,
        };
        let config = config(context)?;
        let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let image_latents = context.earlier(Stage::EncodeImage, |path| {
            store::read_one(path, "image_latents")
        })?;
        let image_embeds = context.earlier(Stage::EncodeVision, |path| {
            store::read_one(path, "image_embeds")
        })?;
        let conditions = Conditions {
            embeds: &embeds,
            image_latents: image_latents.as_ref(),
            image_embeds: image_embeds.as_ref(),
        };
        let resume = resume_point(context, expert);
        let state =
            context.part(|work| wan::denoise(&config, expert, &conditions, resume, work))?;
        let result = context.own_result();
        if expert == Expert::HighNoise {
            state.save(&result)
        } else {
            store::write_one(&result, "latents", &state.latents)
        }
    }

    fn decode(&self, context: &StageContext<'_>) -> Done {
        let config = config(context)?;
        let latents = store::read_one(&context.result(Stage::Denoise), "latents")?;
        context.part(|work| work.decoded(|work| wan::decode(&config, &latents, work)))
    }

    fn cases(&self) -> &'static [Case] {
        wan::CASES
    }
}

fn config(context: &StageContext<'_>) -> Result<WanConfig, EngineError> {
    WanConfig::read(&context.request().files)
}

/// Where an earlier run of this stage got to, else where the other expert did.
fn resume_point(context: &StageContext<'_>, expert: Expert) -> Option<DenoiseState> {
    let is_low = expert == Expert::LowNoise;
    let halfway = is_low.then(|| DenoiseState::load(&context.result(Stage::DenoiseHigh)).ok());
    let states = context.checkpoint().into_iter().chain(halfway.flatten());
    states.max_by_key(|state| state.step)
}
