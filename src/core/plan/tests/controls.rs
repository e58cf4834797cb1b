//! ControlNets in the plan: their weights and what they make on their way, beside the transformer.

use super::image_families::{sdxl, z_image};
use super::{Case, card};
use crate::families::flux::tests::files::shapes;
use crate::families::sdxl::tests::own as sdxl_shapes;
use crate::families::z_image::tests::own;
use crate::job::Stage;

/// Numbers of a FLUX.1 ControlNet's embedders of timestep, pooled text and guidance, which stay in f32.
const EXACT: u64 = (256 + 768 + 256) * 3072 + 3 * 3072 + 3 * (3072 * 3072 + 3072);

#[test]
fn a_controlnet_is_in_the_plan_once_for_all_its_controls_and_streams_with_the_transformer() {
    let z_image = z_image("transformer", "BF16");
    let flux = Case::flux("transformer dev", "BF16");
    let (of_z_image, of_flux) = (own("control 2.1"), shapes("controlnet union"));
    let of_sdxl = sdxl_shapes("controlnet union");
    let flux_bytes = 6_603_913_216 + 2 * EXACT;
    for (name, mut case, network, bytes, [small, large]) in [
        (
            "Z-Image",
            z_image,
            of_z_image,
            2 * 3_356_225_792_u64,
            [16, 24],
        ),
        ("Flux", flux, of_flux, flux_bytes, [24, 48]),
        (
            "SDXL",
            sdxl("unet", "BF16"),
            of_sdxl,
            2_512_411_680,
            [6, 16],
        ),
    ] {
        let request = case.request(1024, 1024, 1);
        let of = |case: &Case, gib: u64| {
            let plan = case.plan(&request, card(gib));
            assert!(plan.fits(), "{name} {gib}: {}", plan.verdict.text);
            *plan.of_stage(Stage::Denoise).unwrap()
        };
        let plain = of(&case, 48);
        case.take_controls(&network);
        let with = of(&case, 48);
        assert_eq!(with.weights_bytes - plain.weights_bytes, bytes, "{name}");
        let more = with.activation_bytes as f64 / plain.activation_bytes as f64;
        assert!((1.05..2.5).contains(&more), "{name}: {more}");
        let is_streamed = [small, large].map(|gib| of(&case, gib).is_streamed());
        assert_eq!(is_streamed, [true, false], "{name}");
    }
}
