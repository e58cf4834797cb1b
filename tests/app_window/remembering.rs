//! What the window remembers: it outlives a close and a crash.

use crate::app_window::prelude::*;

#[test]
fn what_was_written_is_there_again_after_a_close_and_after_a_crash() {
    let mut bench = Bench::new();
    bench.write_prompt("a red boat");
    let mut bench = bench.reopened();
    assert_eq!(bench.form().prompt, "a red boat");
    bench.write_prompt(" at sea");
    // It is on the disk a moment later, whatever happens then.
    let path = bench.paths().state_file();
    bench.until("it is written", |_| {
        fs::read_to_string(&path).is_ok_and(|text| text.contains("at sea"))
    });
    let written = bench.form().prompt.clone();
    let mut bench = bench.restarted();
    assert_eq!(bench.form().prompt, written);
}
