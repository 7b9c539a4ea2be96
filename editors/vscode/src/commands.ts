/** The commands of the palette, lenses, menus and the tree. Most are the server's. */

import { commands, window, type Disposable } from "vscode";
import { argumentOf, type Argument } from "./arguments";
import { SERVER_COMMANDS } from "./contract";
import { install } from "./search";
import type { Server } from "./server";
import { showView } from "./views";
import { viewOf } from "./virtual";

export function registerCommands(server: Server): Disposable[] {
  return [
    ...SERVER_COMMANDS.map((command) => commands.registerCommand(command, (given: unknown) => forward(server, command, given))),
    commands.registerCommand("ckwatch.showLog", () => showLog(server)),
    commands.registerCommand("ckwatch.showOutput", () => {
      server.output.show(true);
    }),
    commands.registerCommand("ckwatch.restartServer", () => server.restart()),
    commands.registerCommand("ckwatch.install", () => install(() => server.start())),
  ];
}

async function forward(server: Server, command: string, given: unknown): Promise<unknown> {
  try {
    const answer = await server.execute(command, argumentOf(given, active(server)));
    const uri = viewIn(server, answer);
    if (uri !== undefined) {
      await showView(uri, false);
    }
    return answer;
  } catch (reason) {
    void window.showErrorMessage(reason instanceof Error ? reason.message : String(reason));
    return undefined;
  }
}

/** What the active editor shows; in a view, the unit whose view it is. */
function active(server: Server): Argument {
  const uri = window.activeTextEditor?.document.uri;
  if (uri === undefined) {
    return {};
  }
  const view = viewOf(uri);
  return { uri: server.written(uri), ...(view === undefined ? {} : { unit: view.unit }) };
}

function viewIn(server: Server, answer: unknown): ReturnType<Server["uri"]> {
  const uri = typeof answer === "object" && answer !== null && "uri" in answer ? answer.uri : undefined;
  const parsed = typeof uri === "string" ? server.uri(uri) : undefined;
  return parsed !== undefined && viewOf(parsed) !== undefined ? parsed : undefined;
}

/** The server shows the daemon's log; what cannot be asked for is told by the output of the server itself. */
async function showLog(server: Server): Promise<void> {
  if (server.state !== "running") {
    server.output.show(true);
    return;
  }
  try {
    await server.execute("ckwatch.showLog", active(server));
  } catch (reason) {
    server.output.error(String(reason));
    server.output.show(true);
  }
}
