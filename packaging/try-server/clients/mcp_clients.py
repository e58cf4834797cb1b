"""MCP: the official Python SDK over both transports, and the conformance suite."""

import asyncio
import json
import subprocess

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from .server import MODEL, environment

TOOLS = {
    "cancel", "edit_image", "generate_image", "generate_video", "interpolate", "job_status", "list_models", "upscale",
}
SCENARIOS = ["server-initialize", "ping", "tools-list", "dns-rebinding-protection", "server-sse-multiple-streams"]


def over_http(server):
    async def client():
        async with streamable_http_client(f"{server.url}/mcp") as streams:
            async with ClientSession(streams[0], streams[1]) as session:
                await drive(session, server.url)

    asyncio.run(client())


def over_stdio(server):
    home = server.home / "stdio"
    home.mkdir()
    parameters = StdioServerParameters(command=server.program, args=["mcp"], env=environment(home))

    async def client():
        async with stdio_client(parameters) as (read, write):
            async with ClientSession(read, write) as session:
                await drive(session, "file://")

    asyncio.run(client())


async def drive(session, links):
    await session.initialize()
    tools = {tool.name for tool in (await session.list_tools()).tools}
    assert tools == TOOLS, tools
    models = json.loads((await session.call_tool("list_models", {})).content[0].text)
    assert models["models"][0]["id"] == MODEL, models
    seen = []

    async def on_progress(progress, total, message):
        seen.append(progress)

    call = {"prompt": "a red ball", "model": MODEL, "seed": 3, "steps": 4, "width": 64, "height": 64}
    result = await session.call_tool("generate_image", call, progress_callback=on_progress)
    image, link, facts = result.content
    assert image.type == "image" and image.data.startswith("iVBOR"), image
    assert link.type == "resource_link" and str(link.uri).startswith(links), link
    assert seen and seen == sorted(seen), seen
    job = json.loads(facts.text)["job"]
    result = await session.call_tool("edit_image", {**call, "image": job, "prompt": "a blue ball"})
    assert result.content[0].type == "image", result
    result = await session.call_tool("upscale", {"source": image.data, "factor": 2})
    if links != "file://":
        assert result.content[0].type == "image", result
    wrong = await session.call_tool("generate_image", {"prompt": "x", "model": "nope"})
    assert "There is no model" in wrong.content[0].text, wrong
    video = await session.call_tool("generate_video", {"prompt": "a red ball", "seconds": 1})
    job = json.loads(video.content[0].text)["jobs"][0]
    await session.call_tool("job_status", {"job": job})
    await session.call_tool("cancel", {"job": job})
    for _ in range(200):
        status = json.loads((await session.call_tool("job_status", {"job": job})).content[0].text)["status"]
        if status == "cancelled":
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the cancelled job is {status}")


def conformance(server):
    # The other scenarios test features of a server that is written for the suite.
    for scenario in SCENARIOS:
        command = ["conformance", "server", "--url", f"{server.url}/mcp", "--scenario", scenario]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=server.home)
        assert done.returncode == 0, f"{scenario}: {done.stdout}{done.stderr}"
