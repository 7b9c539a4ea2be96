/** Finds the `ckwatch` command on this machine, or helps to install it. */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { commands, window, workspace } from "vscode";
import { INSTALLERS, candidates, installLine, isSource, isVersion, startOptions, type Executable, type Installer } from "./executable";

const run = promisify(execFile);
const TIMEOUT_MS = 20_000;
const WINDOWS = process.platform === "win32";

/** How every process of ours is started. */
export const OPTIONS = startOptions(process.execPath, process.env, WINDOWS);

/** The first candidate that says its version; undefined where there is none. Each failure goes to `log`. */
export async function findExecutable(log: (line: string) => void): Promise<Executable | undefined> {
  const surroundings = {
    setting: workspace.getConfiguration("ckwatch").get<string>("command", ""),
    folders: (workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath),
    home: homedir(),
    windows: WINDOWS,
  };
  for (const candidate of candidates(surroundings)) {
    const line = [candidate.command, ...candidate.args].join(" ");
    try {
      const { stdout } = await run(candidate.command, [...candidate.args, "--version"], { ...OPTIONS, timeout: TIMEOUT_MS });
      if (isVersion(stdout)) {
        log(`${line}: ${stdout.trim()}`);
        return candidate;
      }
      log(`${line}: not ckwatch`);
    } catch (reason) {
      log(`${line}: ${reason instanceof Error ? (reason.message.split("\n", 1)[0] ?? "") : String(reason)}`);
    }
  }
  return undefined;
}

/** Says that the command is missing, with what mends it. */
export async function offerInstallation(whenInstalled: () => Promise<void>): Promise<void> {
  const named = workspace.getConfiguration("ckwatch").get<string>("command", "");
  const message =
    named === ""
      ? "The ckwatch command was found neither on the PATH nor in the workspace's .venv."
      : `The setting ckwatch.command names “${named}”, which is no ckwatch command.`;
  const answer = await window.showWarningMessage(message, ...(named === "" ? ["Install…"] : []), "Open the Settings");
  if (answer === "Install…") {
    await install(whenInstalled);
  } else if (answer !== undefined) {
    await commands.executeCommand("workbench.action.openSettings", "ckwatch.command");
  }
}

/** Lets the user choose how, and types it into a terminal; starts the server when the user says that it is done. */
export async function install(whenInstalled: () => Promise<void>): Promise<void> {
  const there = await Promise.all(INSTALLERS.map(isThere));
  const choices = INSTALLERS.filter((_, index) => there[index]).map(({ line, description }) => ({ label: line, description }));
  if (choices.length === 0) {
    await window.showErrorMessage("Neither uv nor pipx nor Python was found. Install Python 3.11 or newer first.");
    return;
  }
  const choice = await window.showQuickPick(choices, { placeHolder: "How is it to be installed from its source?" });
  const folder = choice === undefined ? undefined : await sourceFolder();
  if (choice === undefined || folder === undefined) {
    return;
  }
  const terminal = window.createTerminal("Install ckwatch");
  terminal.show();
  terminal.sendText(installLine(choice.label, folder, WINDOWS));
  const done = await window.showInformationMessage("Start ckwatch when the terminal has finished.", "Start");
  if (done !== undefined) {
    await whenInstalled();
  }
}

/** The folder of ckwatch's source that the user names. */
async function sourceFolder(): Promise<string | undefined> {
  const title = "The folder of ckwatch's source";
  const [chosen] = (await window.showOpenDialog({ canSelectFiles: false, canSelectFolders: true, title })) ?? [];
  if (chosen === undefined) {
    return undefined;
  }
  const project = await readFile(join(chosen.fsPath, "pyproject.toml"), "utf8").catch(() => "");
  if (isSource(project)) {
    return chosen.fsPath;
  }
  await window.showErrorMessage(`${chosen.fsPath} is not the source of ckwatch: its pyproject.toml does not say so.`);
  return undefined;
}

async function isThere({ program }: Installer): Promise<boolean> {
  try {
    await run(program, ["--version"], { ...OPTIONS, timeout: TIMEOUT_MS });
    return true;
  } catch {
    return false;
  }
}
