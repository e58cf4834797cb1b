[
  {
    "batch_size": 3,
    "dtype": "auto",
    "end_step": 18,
    "family": "flux",
    "fit": "stretch",
    "fps": 8.0,
    "guidance_scale": 7.5,
    "height": 384,
    "image_role": "base",
    "latent_rgb": null,
    "memory": {
      "keep_loaded": false
    },
    "model": "flux",
    "negative_prompt": "fog",
    "num_frames": 1,
    "num_steps": 19,
    "preview": "auto",
    "prompt": "a red boat",
    "sampler": "dpmpp_2m",
    "seed": 9007199254740993,
    "shift": 4.25,
    "sidecar": false,
    "sigma_schedule": "beta",
    "start_step": 2,
    "step_cache": {
      "kind": "tea_cache",
      "threshold": 0.2
    },
    "true_cfg_scale": 2.5,
    "vae_tile": 256,
    "width": 512
  }
]