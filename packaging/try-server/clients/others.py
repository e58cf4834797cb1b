"""SillyTavern's calls, and schemathesis."""

import base64
import subprocess

from .server import MODEL, Server

CHECKS = ",".join([
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection", "unsupported_method",
])


def sillytavern(server):
    """The requests of its extension `stable-diffusion`, in their order."""
    assert server.call("/sdapi/v1/options")[0] == 200
    status, models = server.call("/sdapi/v1/sd-models")
    assert status == 200 and [model["title"] for model in models] == [MODEL], models
    for path in ("samplers", "schedulers", "upscalers", "latent-upscale-modes", "sd-vae"):
        status, answer = server.call(f"/sdapi/v1/{path}")
        assert status == 200 and isinstance(answer, list), (path, answer)
    assert server.call("/sdapi/v1/options", {"sd_model_checkpoint": MODEL})[0] == 200
    assert server.call("/sdapi/v1/progress")[0] == 200
    status, answer = server.call("/sdapi/v1/txt2img", {
        "prompt": "a red boat", "negative_prompt": "", "sampler_name": "Euler", "scheduler": "normal", "steps": 4,
        "cfg_scale": 3, "width": 64, "height": 64, "restore_faces": False, "enable_hr": False, "hr_upscaler": "Latent",
        "hr_scale": 1, "hr_additional_modules": [], "denoising_strength": 0.7, "hr_second_pass_steps": 0, "seed": -1,
        "override_settings": {"CLIP_stop_at_last_layers": 1}, "override_settings_restore_afterwards": True,
        "clip_skip": 1, "save_images": True, "send_images": True, "do_not_save_grid": False,
        "do_not_save_samples": False,
    })
    assert status == 200, answer
    assert base64.b64decode(answer["images"][0]).startswith(b"\x89PNG")


def schemathesis(server):
    """Requests that wait for an image go to a server without models: hundreds of images would take hours."""
    waits = "(/v1/images/.*|/sdapi/v1/(txt2img|img2img))$"
    with Server(server.programs, server.home.parent / "queue") as other:
        check_document(other, "--exclude-path-regex", f"{waits}|/api/events")
    empty = server.home.parent / "empty"
    empty.mkdir()
    with Server(server.programs, server.home.parent / "no-models", assets=empty) as other:
        check_document(other, "--include-path-regex", waits)


def check_document(server, *paths):
    command = [
        "schemathesis", "run", f"{server.url}/openapi.json", "--checks", CHECKS, "--max-examples", "12", "--seed", "1",
        "--phases", "examples,coverage,fuzzing", "--request-timeout", "60", "--generation-database", "none",
        "--suppress-health-check", "all", "--workers", "1", *paths,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=server.home)
    assert done.returncode == 0, done.stdout[:6000] + done.stdout[-3000:] + done.stderr[-2000:]
