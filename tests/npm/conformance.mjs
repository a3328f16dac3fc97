// node conformance.mjs GATEWAY CELLS: a line of JSON for each SDK, dialect, engine, cell and shape.
// CELLS: {"vllm": {"text": {"told": {…}}, "overflow": {"fails": ["…"], "status": 400}}}; a cell's model is `vllm-text`.
// What fails has to fail with an error of the SDK's own that has one of these words: one of its parser's is none.

import { isDeepStrictEqual } from "node:util";
import { clients } from "./clients.mjs";

const [base, json] = process.argv.slice(2);
const cells = JSON.parse(json);
const TEXT_ALONE = new Set(["text", "refusal", "length", "overflow", "broken"]);

async function tried(ask, errors, cell, expected, model, stream) {
  let told;
  try {
    told = await ask(model, stream);
  } catch (error) {
    const status = error.status ?? error.statusCode;
    const why = `${error.constructor.name} ${status}: ${error.message}`.slice(0, 300);
    const own = errors.some((known) => error instanceof known);
    const meant = cell.fails?.some((words) => error.message.includes(words));
    return { ok: Boolean(own && meant && (cell.status === undefined || status === cell.status)), why };
  }
  if (cell.fails !== undefined) return { ok: false, why: `no error, but ${JSON.stringify(told)}` };
  return { ok: isDeepStrictEqual(told, expected), why: JSON.stringify(told) };
}

for (const [sdk, { errors, readsNoThoughts = false, ...dialects }] of Object.entries(clients(base)))
  for (const [dialect, ask] of Object.entries(dialects))
    for (const [engine, named] of Object.entries(cells))
      for (const [name, cell] of Object.entries(named)) {
        if (dialect === "completions" && !TEXT_ALONE.has(name)) continue;
        const expected = readsNoThoughts ? { ...cell.told, reasoning: "" } : cell.told;
        for (const stream of [false, true]) {
          const result = await tried(ask, errors, cell, expected, `${engine}-${name}`, stream);
          console.log(JSON.stringify({ sdk, dialect, engine, cell: name, stream, ...result }));
        }
      }
