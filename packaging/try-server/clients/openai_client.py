"""The openai package."""

import base64
import io
import time

from openai import BadRequestError, NotFoundError, OpenAI
from PIL import Image

from .server import MODEL

QUICK = {"steps": 4, "seed": 3}


def run(server):
    client = OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == [MODEL]
    answer = client.images.generate(model=MODEL, prompt="a red boat", size="64x64", n=2, extra_body=QUICK)
    images = [base64.b64decode(image.b64_json) for image in answer.data]
    assert len(images) == 2 and Image.open(io.BytesIO(images[0])).size == (64, 64)
    by_url = client.images.generate(
        model=MODEL, prompt="a red boat", size="64x64", response_format="url", extra_body=QUICK
    )
    assert client._client.get(by_url.data[0].url).content == images[0]

    events = list(client.images.generate(
        model=MODEL, prompt="a red boat", size="64x64", stream=True, partial_images=2, extra_body=QUICK
    ))
    kinds = [event.type for event in events]
    assert kinds[-1] == "image_generation.completed" and len(kinds) <= 3, kinds
    assert base64.b64decode(events[-1].b64_json) == images[0]

    edit(client, images[0])
    expect(NotFoundError, "There is no model", lambda: client.images.generate(model="nope", prompt="x"))
    expect(NotFoundError, "There is no model", lambda: client.models.retrieve("nope"))
    expect(BadRequestError, "n can be 1 to 10", lambda: client.images.generate(model=MODEL, prompt="x", n=99))
    expect(BadRequestError, "is no size", lambda: client.images.generate(model=MODEL, prompt="x", size="big"))
    videos(client)


def edit(client, png):
    image = named("image.png", png)
    mask = Image.new("RGBA", (64, 64), (0, 0, 0, 255))
    mask.paste((0, 0, 0, 0), (16, 16, 48, 48))
    written = io.BytesIO()
    mask.save(written, "PNG")
    answer = client.images.edit(model=MODEL, image=image, prompt="a blue boat", size="64x64", extra_body=QUICK)
    assert Image.open(io.BytesIO(base64.b64decode(answer.data[0].b64_json))).size == (64, 64)
    answer = client.images.edit(
        model=MODEL, image=named("image.png", png), mask=named("mask.png", written.getvalue()), prompt="a boat",
        size="64x64", extra_body=QUICK,
    )
    edited = Image.open(io.BytesIO(base64.b64decode(answer.data[0].b64_json)))
    assert edited.getpixel((0, 0)) == Image.open(io.BytesIO(png)).getpixel((0, 0)), "what the mask keeps is changed"


def videos(client):
    video = client.videos.create(model=MODEL, prompt="a red boat", seconds="1", size="64x64")
    end = time.time() + 120
    while video.status not in ("completed", "failed"):
        assert time.time() < end, video
        time.sleep(0.2)
        video = client.videos.retrieve(video.id)
    assert video.status == "completed", video
    assert client.videos.download_content(video.id).read()[4:8] == b"ftyp"
    assert video.id in [one.id for one in client.videos.list()]
    client.videos.delete(video.id)


def named(name, content):
    file = io.BytesIO(content)
    file.name = name
    return file


def expect(kind, text, call):
    try:
        call()
    except kind as err:
        assert text.lower() in str(err).lower(), err
    else:
        raise AssertionError(f"no error with {text!r}")
