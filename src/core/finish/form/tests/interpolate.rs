//! Requests for more frames per second, and the sentences for what cannot be made.

use super::super::*;
use super::{Refusals, assert_refused, network_of, write_three};
use crate::job::Stage;
use crate::media::{RgbPixels, write_png};

fn form(folder: &Path) -> PostprocessForm {
    let source = folder.join("video.gif");
    write_three(&source);
    PostprocessForm {
        source,
        network: network_of("rife/shapes.json", "4.25", folder),
        options: PostprocessOptions::Interpolate(NewRate::Times(2)),
        out: folder.join("smooth.webp"),
        is_out_automatic: false,
        dtype: DtypeChoice::Auto,
        memory: MemoryOptions::default(),
        crf: 16,
    }
}

#[test]
fn interpolation_request_has_the_new_frame_count_and_round_trips_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let form = form(folder.path());
    for (rate, num_frames, fps) in [
        (NewRate::Times(2), 6, 20.0),
        (NewRate::Times(4), 12, 40.0),
        (NewRate::Fps(25.0), 8, 25.0),
    ] {
        let options = PostprocessOptions::Interpolate(rate);
        let request = PostprocessForm {
            options,
            ..form.clone()
        }
        .validate()
        .unwrap();
        let found = (request.after.num_frames, request.after.fps);
        assert_eq!(found, (num_frames, fps));
        assert_eq!((request.after.width, request.before.num_frames), (30, 3));
        let retiming = FrameRetiming::between(&request.before, &request.after);
        assert_eq!(retiming.num_frames(), num_frames);
    }
    let request = form.validate().unwrap();
    assert_eq!(request.stage(), Stage::Interpolate);
    assert_eq!(request.title(), "20 frames a second: video.gif");
    let json = serde_json::to_value(&request).unwrap();
    assert_eq!(json["work"], "interpolate");
    let again: PostprocessRequest = serde_json::from_value(json).unwrap();
    assert_eq!(again, request);
}

#[test]
fn invalid_interpolation_requests_are_refused_before_processing() {
    let folder = tempfile::tempdir().unwrap();
    let good = form(folder.path());
    let one = folder.path().join("one.png");
    write_png(&one, &RgbPixels::from_fn(8, 8, |_, _| [9; 3]).unwrap()).unwrap();
    let pickle = folder.path().join("flownet.pkl");
    std::fs::write(&pickle, b"\x80\x02").unwrap();
    let refusals: Refusals<'_> = &[
        (
            &|form| form.options = PostprocessOptions::Interpolate(NewRate::Fps(10.0)),
            "the video has 10 frames a second already: choose more",
        ),
        (
            &|form| form.source.clone_from(&one),
            "this is a single image…",
        ),
        (
            &|form| form.network.clone_from(&pickle),
            "this is a pickle file…",
        ),
    ];
    assert_refused(&good, refusals);
    let other = PostprocessForm {
        network: one,
        ..good
    };
    let other = other.validate().unwrap_err().summary;
    assert!(other.contains("one.png"), "{other}");
}
