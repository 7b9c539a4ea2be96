/** The grammars, by the tokenizer that VS Code uses. C++ itself is VS Code's; a few rules stand in for it here. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test from "node:test";
import type { IRawGrammar } from "vscode-textmate";

const require = createRequire(import.meta.url);
const oniguruma = require("vscode-oniguruma") as typeof import("vscode-oniguruma");
const textmate = require("vscode-textmate") as typeof import("vscode-textmate");

const CPP: IRawGrammar = {
  scopeName: "source.cpp",
  patterns: [
    { begin: '"', end: '"', name: "string.quoted.double.cpp" },
    { begin: "//", end: "$", name: "comment.line.cpp" },
    { begin: "\\{", end: "\\}", name: "meta.block.cpp", patterns: [{ include: "$self" }] },
    { match: "\\b(int|return|namespace|using)\\b", name: "keyword.cpp" },
  ],
  repository: {} as IRawGrammar["repository"],
};

const FILES: Record<string, string> = {
  "source.cpp.jinja": "template",
  "source.toml.ckwatch": "kernel",
  "source.amdgpu": "isa",
};

const registry = new textmate.Registry({
  onigLib: oniguruma.loadWASM(readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"))).then(() => ({
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (text) => new oniguruma.OnigString(text),
  })),
  loadGrammar: (scope) => {
    const file = FILES[scope];
    return Promise.resolve(
      file === undefined
        ? scope === "source.cpp"
          ? CPP
          : null
        : textmate.parseRawGrammar(readFileSync(`syntaxes/${file}.tmLanguage.json`, "utf8"), `${file}.json`),
    );
  },
});

/** The scopes of `word`, in the order of its occurrences, as “outer inner”. */
async function scopes(scope: string, text: string, word: string): Promise<string[]> {
  const grammar = await registry.loadGrammar(scope);
  assert.ok(grammar !== null);
  const found: string[] = [];
  let state = textmate.INITIAL;
  for (const line of text.split("\n")) {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
    for (const { startIndex, endIndex, scopes } of tokens) {
      if (line.slice(startIndex, endIndex).trim() === word) {
        found.push(scopes.slice(1).join(" "));
      }
    }
    state = ruleStack;
  }
  return found;
}

const EXPRESSION = "meta.embedded.jinja meta.expression.jinja";
const STATEMENT = "meta.embedded.jinja meta.statement.jinja";

for (const [text, word, expected] of [
  ["int x = {{ MPerBlock }};", "int", "keyword.cpp"],
  ["int x = {{ MPerBlock }};", "MPerBlock", `${EXPRESSION} variable.other.jinja`],
  ["{{ a | length }}", "length", `${EXPRESSION} support.function.filter.jinja`],
  ["{{ a is not defined }}", "defined", `${EXPRESSION} support.function.test.jinja`],
  ["{{ def_kernel(inputs=[X]) }}", "def_kernel", `${EXPRESSION} support.function.hook.jinja`],
  ["{{ def_kernel(inputs=[X]) }}", "inputs", `${EXPRESSION} variable.parameter.jinja`],
  ["{{ instance.device_gemm(ds) }}", "device_gemm", `${EXPRESSION} entity.name.function.jinja`],
  ["{{ operation.accumulator }}", "operation", `${EXPRESSION} variable.language.jinja`],
  ['{{ {"a": {"b": 1}}}} int', "int", "keyword.cpp"],
  ['{{ "}}" }} int', "int", "keyword.cpp"],
  ["{%- macro gemm(a) -%}", "gemm", `${STATEMENT} entity.name.function.jinja`],
  ["{% set n = 3 %}", "n", `${STATEMENT} variable.other.definition.jinja`],
  ["{% set n = 3 %}", "3", `${STATEMENT} constant.numeric.jinja`],
  ['{% include "ck/x.j2" %}', "include", `${STATEMENT} keyword.control.jinja`],
  ['{% import "x.j2" as x with context %}', "context", `${STATEMENT} keyword.control.jinja`],
  ["{% if a and not b %}int{% endif %}", "and", `${STATEMENT} keyword.operator.word.jinja`],
  ["{#- {{ a }} int -#}", "{{ a }} int", "comment.block.jinja"],
  ["{#\nint\n#}", "int", "comment.block.jinja"],
  ["{% raw %}{{ int }}{% endraw %}", "{{ int }}", "meta.raw.jinja"],
  // inside of C++ constructs
  ['"a {{ b }} c"', "b", `string.quoted.double.cpp ${EXPRESSION} variable.other.jinja`],
  ["// see {{ name }}", "name", `comment.line.cpp ${EXPRESSION} variable.other.jinja`],
  ["{ return {{ n }}; }", "n", `meta.block.cpp ${EXPRESSION} variable.other.jinja`],
  ["{ {% if a %}\nreturn 1;\n{% endif %} }", "return", "meta.block.cpp keyword.cpp"],
] as const) {
  test(`template: ${word} in ${text}`, async () => {
    assert.deepEqual((await scopes("source.cpp.jinja", text, word))[0], expected);
  });
}

for (const [text, word, expected] of [
  ["[[instance]]", "instance", "entity.name.section.table.array.toml"],
  ["[operation]", "operation", "entity.name.section.table.toml"],
  ["MPerBlock = 128", "MPerBlock", "variable.other.key.toml"],
  ["MPerBlock = 128", "128", "constant.numeric.toml"],
  ["AddExtraM = false", "false", "constant.language.boolean.toml"],
  ['a = { dtype = "f16", layout = "row" }', "layout", "meta.inline-table.toml variable.other.key.toml"],
  ["l = [8, # k\n 32, 1]\nM = 3", "32", "meta.array.toml constant.numeric.toml"],
  ["l = [8,\n 32, 1]\nM = 3", "M", "variable.other.key.toml"],
  ['s = """\nMPerBlock = 1\n"""', "MPerBlock = 1", "string.quoted.triple.double.toml"],
  ['s = "open\nM = 3', "M", "variable.other.key.toml"],
] as const) {
  test(`kernel file: ${word} in ${text}`, async () => {
    assert.deepEqual((await scopes("source.toml.ckwatch", text, word))[0], expected);
  });
}

for (const [text, word, expected] of [
  ["\tv_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v4, a[0:15]  // 00001D00", "v_mfma_f32_32x32x8_f16", "keyword.control.matrix.amdgpu"],
  ["\tv_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v4", "a[0:15]", "variable.parameter.register.amdgpu"],
  ["\tbuffer_load_dwordx4 v[2:5], v1, s[8:11], 0 offen", "buffer_load_dwordx4", "support.type.memory.amdgpu"],
  ["\ts_waitcnt vmcnt(0)", "s_waitcnt", "keyword.control.flow.amdgpu"],
  ["\ts_add_u32 s0, s0, 0x40", "s_add_u32", "support.function.instruction.amdgpu"],
  ["\ts_add_u32 s0, s0, 0x40", "0x40", "constant.numeric.amdgpu"],
  ["  001b00  s_load_dwordx4 s[24:27], s[0:1], 0x10", "001b00", "constant.numeric.address.amdgpu"],
  ["<loop>:", "<loop>:", "entity.name.function.label.amdgpu"],
  ["; template line 12", "; template line 12", "comment.line.semicolon.amdgpu"],
] as const) {
  test(`ISA: ${word} in ${text}`, async () => {
    assert.deepEqual((await scopes("source.amdgpu", text, word))[0], expected);
  });
}
