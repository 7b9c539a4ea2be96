/** Places as the language server tells them, in VS Code's types. */

import { Range } from "vscode";
import type { Range as ProtocolRange } from "./units";

export function asRange({ start, end }: ProtocolRange): Range {
  return new Range(start.line, start.character, end.line, end.character);
}
