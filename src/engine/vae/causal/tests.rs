//! Convolutions over time: every decomposition gives what the definition gives, and the backend chooses among them.

use super::*;
use crate::closeness::distance;
use crate::drawn::drawn;

/// Both decompositions of one convolution.
fn both(size: &[i64]) -> [CausalConv3d; 2] {
    let (weight, bias) = (drawn(size), drawn(&size[..1]));
    [ConvForm::Volumes, ConvForm::Images]
        .map(|form| CausalConv3d::of_tensors(&weight, bias.shallow_clone(), form))
}

#[test]
fn per_frame_2d_convolutions_match_the_3d_convolution() {
    for (size, frames, stride) in [
        ([7, 5, 3, 3, 3], 6, 1),
        ([4, 96, 3, 3, 3], 3, 1),
        ([3, 2, 3, 1, 1], 7, 2),
        ([5, 3, 1, 3, 3], 2, 1),
        ([2, 4, 3, 3, 3], 1, 1),
    ] {
        let [volumes, images] = both(&size);
        let xs = drawn(&[frames, 9, 13, size[1]]);
        let expected = volumes.convolve(&xs, stride);
        let off = distance(&images.convolve(&xs, stride), &expected);
        // Without vectors MKL's sums of 2592 products are 9e-7 from exact ones either way, with them 3e-7.
        assert!(off < 3e-6, "{size:?}: off by {off}");
    }
}

#[test]
fn a_video_in_chunks_is_the_same_by_images_and_by_volumes() {
    let [volumes, images] = both(&[6, 5, 3, 3, 3]);
    let (mut before, mut after) = (None, None);
    for frames in [1, 4, 1, 2, 4] {
        let xs = drawn(&[frames, 5, 7, 5]);
        let expected = volumes.forward(&xs, &mut before);
        let off = distance(&images.forward(&xs, &mut after), &expected);
        assert!(off < 1e-6, "{frames} frames: off by {off}");
    }
}

#[test]
fn backend_selects_the_convolution_form_on_gpus_but_not_on_cpu() {
    use ConvBackend::{Direct, Frames, NoMiopen};
    use ConvForm::{Images, Mixed, Planes, Volumes};
    for (form, backend, is_rocm, inputs, frames, expected) in [
        // What was measured on an H200.
        (Mixed, Direct, false, 96, 4, Images),
        (Mixed, Direct, false, 192, 4, Volumes),
        (Mixed, Direct, false, 384, 1, Volumes),
        (Mixed, NoMiopen, false, 192, 4, Volumes),
        (Mixed, Frames, false, 192, 4, Images),
        (Mixed, Frames, false, 384, 1, Images),
        // What a probe found on an AMD GPU.
        (Mixed, Direct, true, 96, 4, Volumes),
        (Mixed, NoMiopen, true, 96, 4, Volumes),
        (Mixed, Frames, true, 192, 1, Images),
        // On the CPU there is nothing to choose.
        (Planes, Direct, false, 96, 4, Planes),
        (Planes, Frames, false, 96, 4, Planes),
        (Images, Direct, false, 192, 4, Images),
    ] {
        let found = form.of_layer(backend, is_rocm, inputs, frames);
        let case = (form, backend, is_rocm, inputs, frames);
        assert_eq!(found, expected, "{case:?}");
    }
}
