//! The sizes at which published models are measured, from their headers.

use super::*;
use crate::memory::choices::{Choice, Latents, Shapes};

#[test]
fn the_sizes_of_a_model_come_from_its_header_and_its_job() {
    let flux = Case::flux("transformer dev", "BF16");
    let sizes = Shapes::of(&flux.weights, &flux.request(1024, 1024, 1)).unwrap();
    assert_eq!(
        (sizes.tokens, sizes.heads, sizes.head_width),
        (4096, 24, 128)
    );
    assert!(sizes.matrices.contains(&[21504, 3072]), "{sizes:?}");
    assert_eq!(sizes.latents, None, "a picture has no frames");
    assert_eq!(sizes.of_choice(Choice::Chunk), None);
    let small = Shapes::of(&flux.weights, &flux.request(512, 512, 1)).unwrap();
    assert!(small.tokens < sizes.tokens, "{small:?}");

    let wan = Case::wan(T2V_14B, "F16");
    let sizes = Shapes::of(&wan.weights, &wan.request(832, 480, 81)).unwrap();
    assert_eq!((sizes.heads, sizes.head_width), (40, 128));
    assert_eq!(sizes.tokens, 16384, "more would take long and tell no more");
    assert!(sizes.matrices.contains(&[13824, 5120]), "{sizes:?}");
    let latents = Latents {
        channels: 16,
        height: 60,
        width: 64,
    };
    assert_eq!(sizes.latents, Some(latents));
    let still = Shapes::of(&wan.weights, &wan.request(832, 480, 1)).unwrap();
    // Both passes of guidance go through together.
    assert_eq!((still.latents, still.tokens), (None, 4096));
}
