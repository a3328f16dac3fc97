"""OpenAI's Agents SDK: a coder whose tools are functions and another agent. `agents_sdk.py API whole|streamed TASK`."""

import asyncio
import sys

import tools
from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled


async def main(api: str, mode: str, task: str) -> None:
    set_default_openai_api(api)
    set_tracing_disabled(True)
    write, read, run = map(function_tool, (tools.write_file, tools.read_file, tools.run))
    reviewer = Agent(name="reviewer", instructions="You review code.", model="scripted", tools=[read])
    review = reviewer.as_tool(tool_name="review", tool_description="Ask for a review.")
    coder = Agent(name="coder", instructions="You write code.", model="scripted", tools=[write, run, review])
    if mode == "whole":
        print((await Runner.run(coder, task)).final_output)
        return
    streamed = Runner.run_streamed(coder, task)
    async for _ in streamed.stream_events():
        pass
    print(streamed.final_output)


asyncio.run(main(*sys.argv[1:]))
