[
  {
    "batch_size": 1,
    "dtype": "auto",
    "end_step": 15,
    "family": "flux",
    "fit": "crop",
    "fps": 8.0,
    "guidance_scale": 6.5,
    "height": 352,
    "image_role": "base",
    "latent_rgb": null,
    "memory": {
      "keep_loaded": false
    },
    "model": "flux",
    "negative_prompt": "",
    "num_frames": 1,
    "num_steps": 17,
    "preview": "auto",
    "prompt": "a boat",
    "sampler": "dpmpp_2m",
    "seed": 7,
    "shift": 1.25,
    "sidecar": false,
    "sigma_schedule": "beta",
    "start_step": 0,
    "step_cache": {
      "kind": "tea_cache",
      "threshold": 0.2
    },
    "strength": 0.35,
    "vae_tile": 320,
    "width": 640
  },
  {
    "batch_size": 1,
    "dtype": "auto",
    "family": "flux",
    "fit": "crop",
    "fps": 8.0,
    "guidance_scale": 6.5,
    "height": 880,
    "image_role": "base",
    "latent_rgb": null,
    "memory": {
      "keep_loaded": false
    },
    "model": "flux",
    "negative_prompt": "",
    "num_frames": 1,
    "num_steps": 17,
    "preview": "auto",
    "prompt": "a boat",
    "sampler": "dpmpp_2m",
    "seed": 7,
    "sidecar": false,
    "sigma_schedule": "beta",
    "start_step": 0,
    "strength": 0.35,
    "width": 1184
  }
]