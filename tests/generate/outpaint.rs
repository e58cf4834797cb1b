//! Extending a picture on the command line: what is refused, before anything is made or kept.

use crate::generate::prelude::*;

#[test]
fn what_cannot_be_extended_is_refused_and_leaves_no_file() {
    let home = Home::new();
    let sides = "expected pixels for sides such as left=128,top=64";
    for (outpaint, expected) in [
        ("left=64", "give the picture to extend with --image"),
        ("left", sides),
        ("overlap=4", sides),
    ] {
        let output = run(home.generate().args(["--outpaint", outpaint]));
        assert_ne!(output.status.code(), Some(0), "{outpaint}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{outpaint}: {said}");
    }
    assert!(home.job_folders().is_empty());
    let kept = fs::read_dir(home.path().join("data/safelight/masks"));
    assert!(kept.is_err(), "a picture was written for a refused job");
}
