"""LangGraph by LangChain's agent: a coder whose tools are functions and another graph. Called as `agents_sdk.py`."""

import sys

import tools
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


def main(api: str, mode: str, task: str) -> None:
    model = ChatOpenAI(model="scripted", use_responses_api=api == "responses", streaming=mode == "streamed")
    reviewer = create_agent(model, [tool(tools.read_file)])

    @tool
    def review(asked: str) -> str:
        """Ask for a review."""
        return reviewer.invoke({"messages": [("user", asked)]})["messages"][-1].text

    coder = create_agent(model, [tool(tools.write_file), tool(tools.run), review])
    print(coder.invoke({"messages": [("user", task)]})["messages"][-1].text)


main(*sys.argv[1:])
