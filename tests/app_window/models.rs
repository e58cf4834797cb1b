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
