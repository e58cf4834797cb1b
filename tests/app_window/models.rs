//! The model picker: what each model needs and weighs, and those that cannot be used.

use crate::app_window::prelude::*;

#[test]
fn model_field_shows_its_inputs_and_size() {
    use InputUse::{No, Optional, Required};
    for (start, end, needs) in [
        (No, No, "text"),
        (Optional, No, "text or image"),
        (Required, No, "image"),
        (Required, Optional, "image, or first and last"),
        (Required, Required, "first and last image"),
    ] {
        let bench = Bench::of(ModelSpec {
            start_image: start,
            end_image: end,
            ..pair_spec()
        });
        bench.assert_shows(&format!("Wan I2V  ·  {needs}  ·  38 MiB"));
    }
}

#[test]
fn incomplete_models_are_reported_on_the_models_page_only() {
    let missing = "Wan 2.1 lacks its VAE: get wan_2.1_vae.safetensors";
    let missing = JobError::new(JobErrorKind::BadModel, missing)
        .advise("Put it beside the transformer")
        .detail("looked in models/vae");
    let mut bench = Bench::with(|startup| {
        startup.models = Some(FoundModels {
            problems: vec![missing],
            ..found(vec![spec()])
        });
    });
    // It is said on the page of models, not in the form and not over the image.
    assert!(!bench.has("get wan_2.1_vae.safetensors") && !bench.has_cards());
    bench.press("1 incomplete model");
    assert_eq!(bench.app().cx.page, MainPage::Models);
}
