//! Requests for more frames per second, and the sentences for what cannot be made.

use std::collections::BTreeMap;

use super::super::*;
use crate::job::Stage;
use crate::media::{ClipOptions, RgbPixels, write_clip, write_png};

/// RIFE 4.25 of `tests/fixtures/rife` as a file whose numbers are all 0.
fn network(folder: &Path) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/rife");
    let text = std::fs::read(fixtures.join("shapes.json")).unwrap();
    let all: BTreeMap<String, BTreeMap<String, Vec<usize>>> =
        serde_json::from_slice(&text).unwrap();
    let zeros = vec![0_u8; 1 << 20];
    let tensors = all["4.25"].iter().map(|(key, shape)| {
        let bytes = &zeros[..4 * shape.iter().product::<usize>()];
        let dtype = safetensors::Dtype::F32;
        let view = safetensors::tensor::TensorView::new(dtype, shape.clone(), bytes);
        (key.clone(), view.unwrap())
    });
    let path = folder.join("rife.safetensors");
    safetensors::serialize_to_file(tensors, None, &path).unwrap();
    path
}

fn form(folder: &Path) -> PostprocessForm {
    let source = folder.join("clip.gif");
    let frames = [10, 200, 90].map(|grey| RgbPixels::from_fn(30, 20, |_, _| [grey; 3]).unwrap());
    let options = ClipOptions {
        fps: 10.0,
        ..ClipOptions::default()
    };
    write_clip(&source, &frames, options).unwrap();
    PostprocessForm {
        source,
        network: network(folder),
        wish: PostprocessOptions::Interpolate(NewRate::Times(2)),
        out: folder.join("smooth.webp"),
        is_out_automatic: false,
        dtype: DtypeChoice::Auto,
        memory: MemoryOptions::default(),
        crf: 16,
    }
}

#[test]
fn a_request_says_how_many_frames_there_will_be_and_is_kept_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let form = form(folder.path());
    for (rate, num_frames, fps) in [
        (NewRate::Times(2), 6, 20.0),
        (NewRate::Times(4), 12, 40.0),
        (NewRate::Fps(25.0), 8, 25.0),
    ] {
        let request = PostprocessForm {
            wish: PostprocessOptions::Interpolate(rate),
            ..form.clone()
        };
        let request = request.validate().unwrap();
        assert_eq!(
            (request.after.num_frames, request.after.fps),
            (num_frames, fps)
        );
        assert_eq!((request.after.width, request.before.num_frames), (30, 3));
        let retiming = FrameRetiming::between(&request.before, &request.after);
        assert_eq!(retiming.num_frames(), num_frames);
    }
    let request = form.validate().unwrap();
    assert_eq!(request.stage(), Stage::Interpolate);
    assert_eq!(request.title(), "20 frames a second: clip.gif");
    let json = serde_json::to_value(&request).unwrap();
    assert_eq!(json["work"], "interpolate");
    let again: PostprocessRequest = serde_json::from_value(json).unwrap();
    assert_eq!(again, request);
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_computed() {
    let folder = tempfile::tempdir().unwrap();
    let good = form(folder.path());
    let refused = |change: &dyn Fn(&mut PostprocessForm)| {
        let mut form = good.clone();
        change(&mut form);
        form.validate().unwrap_err().summary
    };
    let slow = refused(&|form| form.wish = PostprocessOptions::Interpolate(NewRate::Fps(10.0)));
    assert_eq!(slow, "the clip has 10 frames a second already: choose more");
    let one = folder.path().join("one.png");
    write_png(&one, &RgbPixels::from_fn(8, 8, |_, _| [9; 3]).unwrap()).unwrap();
    let single = refused(&|form| form.source.clone_from(&one));
    assert!(single.starts_with("this is a single picture"), "{single}");
    let pickle = folder.path().join("flownet.pkl");
    std::fs::write(&pickle, b"\x80\x02").unwrap();
    let pickle = refused(&|form| form.network.clone_from(&pickle));
    assert!(pickle.starts_with("this is a pickle file"), "{pickle}");
    let other = refused(&|form| form.network.clone_from(&one));
    assert!(other.contains("one.png"), "{other}");
}
