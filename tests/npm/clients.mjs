// Each SDK, asked for one model, whole or streamed: what it parsed, in one form for all of them.
// { text, reasoning, calls: [[name, arguments]], finish: "stop" | "tool" | "length" | "refusal", tokens }

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, StreamProviderError, generateText, jsonSchema, streamText, tool } from "ai";

globalThis.AI_SDK_LOG_WARNINGS = false;

const PROMPT = "Hello?";
const SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const WEATHER = { name: "get_weather", description: "The weather in a city." };

const FINISHES = {
  stop: "stop", end_turn: "stop", completed: "stop",
  tool_calls: "tool", tool_use: "tool", "tool-calls": "tool",
  content_filter: "refusal", refusal: "refusal", "content-filter": "refusal",
  length: "length", max_tokens: "length", max_output_tokens: "length",
};

function said({ text, reasoning = "", calls = [], finish, tokens }) {
  return { text: text ?? "", reasoning, calls, finish: FINISHES[finish] ?? `? ${finish}`, tokens };
}

// ---- openai

function openai(base) {
  const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
  return {
    errors: [OpenAI.APIError],
    chat: (model, stream) => chat(client, { model, ...CHAT }, stream),
    responses: (model, stream) => responses(client, { model, ...RESPONSES }, stream),
    completions: (model, stream) => completions(client, { model, prompt: PROMPT, max_tokens: 200 }, stream),
  };
}

const CHAT = {
  messages: [{ role: "user", content: PROMPT }],
  tools: [{ type: "function", function: { ...WEATHER, parameters: SCHEMA } }],
};

async function chat(client, asked, stream) {
  let reasoning = "";
  let answer;
  if (stream) {
    const events = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } });
    // The SDK's own accumulator knows no thoughts.
    events.on("chunk", (chunk) => (reasoning += thought(chunk.choices[0]?.delta)));
    answer = await events.finalChatCompletion();
  } else {
    answer = await client.chat.completions.create(asked);
    reasoning = thought(answer.choices[0].message);
  }
  const [{ message, finish_reason: finish }] = answer.choices;
  const calls = (message.tool_calls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
  return said({ text: message.content, reasoning, calls, finish, tokens: answer.usage.completion_tokens });
}

const thought = (of) => of?.reasoning ?? of?.reasoning_content ?? "";

const RESPONSES = { input: PROMPT, tools: [{ type: "function", ...WEATHER, parameters: SCHEMA, strict: false }] };

async function responses(client, asked, stream) {
  const answer = stream ? await client.responses.stream(asked).finalResponse() : await client.responses.create(asked);
  const of = (type) => answer.output.filter((item) => item.type === type);
  const calls = of("function_call").map((call) => [call.name, JSON.parse(call.arguments)]);
  return said({
    text: answer.output_text,
    reasoning: of("reasoning").flatMap((item) => item.content ?? item.summary ?? []).map((part) => part.text).join(""),
    calls,
    finish: calls.length ? "tool_calls" : answer.incomplete_details?.reason ?? answer.status,
    tokens: answer.usage.output_tokens,
  });
}

async function completions(client, asked, stream) {
  if (!stream) {
    const { choices: [{ text, finish_reason: finish }], usage } = await client.completions.create(asked);
    return said({ text, finish, tokens: usage.completion_tokens });
  }
  let [text, finish, tokens] = ["", null, null];
  const chunks = await client.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } });
  for await (const { choices: [choice], usage } of chunks) {
    text += choice?.text ?? "";
    finish = choice?.finish_reason ?? finish;
    tokens = usage?.completion_tokens ?? tokens;
  }
  return said({ text, finish, tokens });
}

// ---- @anthropic-ai/sdk

function anthropic(base) {
  const client = new Anthropic({ baseURL: base, apiKey: "none", maxRetries: 0 });
  return {
    errors: [Anthropic.APIError],
    messages: async (model, stream) => {
      const asked = {
        model,
        max_tokens: 200,
        messages: [{ role: "user", content: PROMPT }],
        tools: [{ ...WEATHER, input_schema: SCHEMA }],
      };
      const answer = stream ? await client.messages.stream(asked).finalMessage() : await client.messages.create(asked);
      const of = (type) => answer.content.filter((block) => block.type === type);
      return said({
        text: of("text").map((block) => block.text).join(""),
        reasoning: of("thinking").map((block) => block.thinking).join(""),
        calls: of("tool_use").map((block) => [block.name, block.input]),
        finish: answer.stop_reason,
        tokens: answer.usage.output_tokens,
      });
    },
  };
}

// ---- ai, with each of its providers

function vercel(name, model, { tools = true } = {}) {
  return {
    errors: [APICallError, StreamProviderError],
    [name]: async (id, stream) => {
      const asked = { model: model(id), prompt: PROMPT, maxOutputTokens: 200, maxRetries: 0 };
      if (tools) asked.tools = { get_weather: tool({ ...WEATHER, inputSchema: jsonSchema(SCHEMA) }) };
      return toldBy(stream ? await drained(streamText({ ...asked, onError: () => {} })) : await generateText(asked));
    },
  };
}

async function toldBy(answer) {
  const [text, reasoning, calls, finish, usage] = await Promise.all([
    answer.text, answer.reasoningText, answer.toolCalls, answer.finishReason, answer.usage,
  ]);
  return said({
    text,
    reasoning: reasoning ?? "",
    calls: calls.map((call) => [call.toolName, call.input]),
    finish,
    tokens: usage.outputTokens,
  });
}

// An error is a part of the stream: one of a status, or one that the provider made of an event.
async function drained(answer) {
  for await (const part of answer.fullStream) if (part.type === "error") throw part.error;
  return answer;
}

export function clients(base) {
  const settings = { baseURL: `${base}/v1`, apiKey: "none" };
  const compatible = createOpenAICompatible({ ...settings, name: "gateway", includeUsage: true });
  return {
    openai: openai(base),
    "@anthropic-ai/sdk": anthropic(base),
    "@ai-sdk/openai": {
      // Of a chat it reads none, of a response summaries alone.
      readsNoThoughts: true,
      ...vercel("chat", createOpenAI(settings).chat),
      ...vercel("responses", createOpenAI(settings).responses),
      ...vercel("completions", createOpenAI(settings).completion, { tools: false }),
    },
    "@ai-sdk/openai-compatible": {
      ...vercel("chat", compatible.chatModel),
      ...vercel("completions", compatible.completionModel, { tools: false }),
    },
    "@ai-sdk/anthropic": vercel("messages", createAnthropic(settings)),
  };
}
