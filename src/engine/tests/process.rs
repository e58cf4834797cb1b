//! The engine as the process that it is: how it ends when the app does.
//!
//! What it computes is tested inside the crate, and how the app lives with it in the app's tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests make a HIP of it")]
#[path = "../../../tests/common/stubs.rs"]
mod stubs;

use std::io::BufReader;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use safelight_core::compute::conv_backends::{ConvBackend, ProbeLine, ProbeResult, ShapeClass};
use safelight_core::job::{JobErrorKind, JobId, Stage};
use safelight_core::memory::StageMemory;
use safelight_core::model::ModelFiles;
use safelight_core::protocol::{
    EngineCommand, EngineMessage, StageEnd, StageOrder, read_frame, write_frame,
};

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

fn engine(fault: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_safelight-engine"))
        .args(["--device", "cpu"])
        .env("SAFELIGHT_ENGINE_FAULT", fault)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn order(stage: Stage, folder: &Path, memory: StageMemory) -> EngineCommand {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan/pipeline");
    let request = serde_json::json!({
        "model": "tiny", "family": "wan", "files": ModelFiles::of_folder(&models).unwrap(), "out": "video.mp4", "fps": 24.0,
        "prompt": "", "negative_prompt": "", "width": 32, "height": 32, "num_frames": 1,
        "num_steps": 1, "guidance_scale": 1.0, "sampler": "unipc", "seed": 0,
    });
    EngineCommand::RunStage(Box::new(StageOrder {
        job: JobId(1),
        stage,
        folder: folder.to_owned(),
        request: serde_json::from_value(request).unwrap(),
        section: 0,
        first_frame: 0,
        memory,
        devices: 1,
        capture: false,
    }))
}

/// Runs a stage, and closes the engine's standard input at the first message that `is_time` for it, or when it died
/// before.
fn end_after(stage: Stage, fault: &str, is_time: fn(&EngineMessage) -> bool) -> Option<ExitStatus> {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine(fault);
    let mut input = engine.stdin.take().unwrap();
    let mut output = BufReader::new(engine.stdout.take().unwrap());
    write_frame(
        &mut input,
        &order(stage, folder.path(), StageMemory::default()),
        &[],
    )
    .unwrap();
    loop {
        match read_frame::<EngineMessage>(&mut output) {
            Ok(Some((message, _))) if !is_time(&message) => {}
            _ => break,
        }
    }
    drop(input);
    // Far longer than the engine takes: a limit for a broken one only.
    for _ in 0..600 {
        if let Some(status) = engine.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(50));
    }
    engine.kill().unwrap();
    engine.wait().unwrap();
    None
}

#[test]
fn idle_engine_process_exits_when_its_input_closes() {
    let status = end_after(Stage::Unload, "", |message| {
        matches!(message, EngineMessage::StageEnded(_))
    });
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

#[test]
fn an_engine_whose_stage_hangs_ends_with_its_input_and_runs_no_destructors() {
    // The pulse says that the stage runs.
    let status = end_after(Stage::Unload, "unload:hang", |message| {
        matches!(message, EngineMessage::Pulse { .. })
    });
    let signal = status.and_then(|status| status.signal());
    assert_eq!(signal, Some(SIGKILL), "{status:?}");
}

#[test]
fn a_fault_with_a_number_strikes_in_the_middle_of_its_stage() {
    // The networks look before each of their blocks.
    let status = end_after(Stage::EncodeText, "encode_text+2:abort", |message| {
        matches!(message, EngineMessage::StageEnded(_))
    });
    let signal = status.and_then(|status| status.signal());
    assert_eq!(signal, Some(SIGABRT), "{status:?}");
}

#[test]
fn a_probe_answers_one_line_for_a_backend_and_ends() {
    let arguments =
        "probe --device cpu --backend frames --shape large --convolutions videos --dtype f32";
    let probe = Command::new(env!("CARGO_BIN_EXE_safelight-engine"))
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert!(probe.status.success(), "{probe:?}");
    let answer = probe.stdout.split(|byte| *byte == b'\n').nth(1).unwrap();
    let line: ProbeLine = serde_json::from_slice(answer).unwrap();
    assert_eq!(line.backend, ConvBackend::Frames);
    assert_eq!(line.shape, ShapeClass::Large);
    assert!(matches!(line.result, ProbeResult::Right { .. }), "{line:?}");
}

/// Ends its process for every GPU but one, as HIPRTC 6.4.3 does for those that it does not know.
const COMPILER_OF_ONE_GPU: &str = r#"
#include <stdlib.h>
#include <string.h>
static const char *code = "code for gfx1151";
int hiprtcVersion(int *major, int *minor) { return *major = 9, *minor = 0; }
int hiprtcCreateProgram(void **program, const char *source, const char *name, int count, char **h, char **n) {
  *program = (void *)source;
  return !strstr(source, "KERNEL activate(");
}
int hiprtcCompileProgram(void *program, int count, char **options) {
  if (count == 0) return 6;
  if (strcmp(options[0], "--offload-arch=gfx1151")) abort();
  return 0;
}
int hiprtcGetProgramLogSize(void *program, size_t *size) { return *size = 12, 0; }
int hiprtcGetProgramLog(void *program, char *log) { return memcpy(log, "no GPU named", 12), 0; }
int hiprtcGetCodeSize(void *program, size_t *size) { return *size = strlen(code), 0; }
int hiprtcGetCode(void *program, char *bytes) { return memcpy(bytes, code, strlen(code)), 0; }
int hiprtcDestroyProgram(void **program) { return 0; }
"#;

#[test]
fn compile_kernels_command_aborts_in_its_own_process_for_an_unknown_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libhiprtc.so.7");
    stubs::compile(&library, COMPILER_OF_ONE_GPU, &[], false);
    let compile = |options: &[&str]| {
        let mut engine = Command::new(env!("CARGO_BIN_EXE_safelight-engine"));
        engine.arg("compile-kernels").arg(&library).arg("--");
        engine.args(options).output().unwrap()
    };
    let known = compile(&["--offload-arch=gfx1151", "-O3"]);
    assert!(known.status.success(), "{known:?}");
    assert_eq!(known.stdout, b"code for gfx1151");
    let unknown = compile(&["--offload-arch=gfx9999", "-O3"]);
    assert_eq!(unknown.status.signal(), Some(SIGABRT), "{unknown:?}");
    let refused = compile(&[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(said, "error: the compiler refused them: no GPU named\n");
}

#[test]
fn tensors_never_take_more_than_the_cap_and_the_next_stage_has_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = engine("");
    let mut input = engine.stdin.take().unwrap();
    let mut output = BufReader::new(engine.stdout.take().unwrap());
    let mut run = |cap_bytes| {
        let memory = StageMemory {
            cap_bytes,
            ..StageMemory::default()
        };
        let order = order(Stage::EncodeText, folder.path(), memory);
        write_frame(&mut input, &order, &[]).unwrap();
        loop {
            let (message, _) = read_frame::<EngineMessage>(&mut output).unwrap().unwrap();
            if let EngineMessage::StageEnded(end) = message {
                return end;
            }
        }
    };
    let StageEnd::Failed { error } = run(Some(20_000)) else {
        panic!("the embeddings alone take more");
    };
    assert_eq!(error.kind, JobErrorKind::OutOfMemory, "{error:?}");
    for cap in [None, Some(1 << 30)] {
        let end = run(cap);
        let StageEnd::Finished { peak_bytes, .. } = end else {
            panic!("there is room: {end:?}");
        };
        assert!(peak_bytes > 20_000);
    }
    drop(input);
    assert!(engine.wait().unwrap().success());
}
