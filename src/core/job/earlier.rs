//! Requests as earlier versions wrote them: the one picture that an editing model sees was the start picture then.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{GenerateForm, GenerateRequest, JobFolder};
use crate::model::ModelSpec;

impl Serialize for GenerateRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for GenerateRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        if let Some(fields) = value.as_object_mut()
            && fields
                .get("image_role")
                .is_some_and(|role| role == "reference")
        {
            fields.remove("image_role");
            if let Some(picture) = fields.remove("image").filter(|it| !it.is_null()) {
                fields.insert("references".to_owned(), vec![picture].into());
            }
        }
        Self::deserialize(value).map_err(D::Error::custom)
    }
}

impl GenerateForm {
    /// The form with its start picture where a model that edits sees it; `None` where that is right as it is.
    pub(crate) fn with_picture_seen(&self, spec: &ModelSpec) -> Option<Self> {
        let is_seen = spec.edits_reference() && self.references.is_empty();
        let picture = self.image.as_ref().filter(|_| is_seen)?;
        Some(Self {
            image: None,
            references: vec![picture.clone()],
            ..self.clone()
        })
    }
}

impl JobFolder {
    /// Puts the picture of such a job where it is looked for now, and drops what was made of it, which is made again.
    pub fn move_seen(&self, request: &GenerateRequest) -> std::io::Result<()> {
        let (before, now) = (self.start_picture(), self.reference(0));
        let is_moved = request.has_start() || request.references.len() != 1 || now.exists();
        if is_moved || !before.exists() {
            return Ok(());
        }
        if let Some(made) = self
            .result(super::Stage::EncodeImage)
            .filter(|it| it.exists())
        {
            std::fs::remove_file(made)?;
        }
        std::fs::rename(before, now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::{Stage, StartPicture};
    use crate::model::{InputUse, test_spec};

    fn editing() -> ModelSpec {
        let mut spec = test_spec();
        (spec.start_image, spec.limits.max_references) = (InputUse::No, 1);
        spec.family = crate::families::flux::FAMILY;
        spec
    }

    fn form() -> GenerateForm {
        let picture = StartPicture {
            path: "boat.png".into(),
            width: 64,
            height: 48,
        };
        GenerateForm {
            prompt: "make it red".to_owned(),
            image: Some(picture),
            num_frames: Some(1),
            out: "red.png".into(),
            ..GenerateForm::default()
        }
    }

    #[test]
    fn a_picture_that_was_edited_as_a_start_picture_is_seen_as_a_reference() {
        let request = form().validate(&editing()).unwrap().request;
        assert_eq!((&request.image, request.references.len()), (&None, 1));
        let mut written = serde_json::to_value(&request).unwrap();
        written["image_role"] = json!("reference");
        written["image"] = written["references"][0].take();
        written.as_object_mut().unwrap().remove("references");
        let again: GenerateRequest = serde_json::from_value(written).unwrap();
        assert_eq!(again.references, request.references);
        assert!(again.image.is_none());
        // One that begins from it keeps it, as does one that sees several.
        for change in [
            (|spec| spec.start_image = InputUse::Optional) as fn(&mut ModelSpec),
            |spec| spec.limits.max_references = 3,
        ] {
            let mut spec = editing();
            change(&mut spec);
            assert!(form().with_picture_seen(&spec).is_none());
        }
    }

    #[test]
    fn a_job_goes_on_with_the_picture_that_its_folder_has_as_a_start_picture() {
        let request = form().validate(&editing()).unwrap().request;
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::at(folder.path());
        let made = job.result(Stage::EncodeImage).unwrap();
        std::fs::write(job.start_picture(), b"picture").unwrap();
        std::fs::write(&made, b"latents").unwrap();
        for _ in 0..2 {
            job.move_seen(&request).unwrap();
            assert_eq!(std::fs::read(job.reference(0)).unwrap(), b"picture");
            assert!(!made.exists() && !job.start_picture().exists());
        }
    }
}
