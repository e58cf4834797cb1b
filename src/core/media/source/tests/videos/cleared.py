"""Makes an animated WebP with rectangles that move over a transparent background: each frame clears its own."""
from PIL import Image
frames = []
for n in range(3):
    frame = Image.new("RGBA", (32, 16))
    frame.paste((220, 30, 30, 200), (8 * n, 0, 8 * n + 8, 16))
    frames.append(frame)
frames[0].save("cleared.webp", save_all=True, append_images=frames[1:], lossless=True, duration=100)
