/** Where the `ckwatch` command may be, in the order in which it is looked for. Nothing here touches the machine. */

import { posix, win32 } from "node:path";

export interface Executable {
  readonly command: string;
  readonly args: readonly string[];
}

export interface Surroundings {
  /** The setting `ckwatch.command`. */
  readonly setting: string;
  /** Absolute paths of the workspace folders. */
  readonly folders: readonly string[];
  readonly home: string;
  readonly windows: boolean;
}

/** The setting alone where it is set: who names a command does not want another one. */
export function candidates({ setting, folders, home, windows }: Surroundings): Executable[] {
  const named = setting.trim();
  if (named !== "") {
    return [{ command: expanded(named, folders[0] ?? "", home), args: [] }];
  }
  const inEnvironment = windows ? ".venv/Scripts/ckwatch.exe" : ".venv/bin/ckwatch";
  // with -P no types.py or pickle.py of the working folder is taken for Python's own
  const pythons = windows ? ["py", "python"] : ["python3", "python"];
  return [
    { command: "ckwatch", args: [] },
    ...folders.map((folder) => ({ command: `${folder}/${inEnvironment}`, args: [] })),
    ...pythons.map((python) => ({ command: python, args: ["-P", "-m", "ckwatch"] })),
  ];
}

function expanded(path: string, folder: string, home: string): string {
  const inHome = path === "~" || path.startsWith("~/") ? home + path.slice(1) : path;
  return inHome.replaceAll("${workspaceFolder}", folder).replaceAll("${userHome}", home);
}

/** How a process is started so that it runs nothing that lies in a workspace. */
export interface StartOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** In the folder of the editor's own program, which is no workspace, and with no part of PYTHONPATH that depends on the folder. */
export function startOptions(program: string, environment: StartOptions["env"], windows: boolean): StartOptions {
  const path = environment["PYTHONPATH"];
  return {
    cwd: (windows ? win32 : posix).dirname(program),
    env: path === undefined ? environment : { ...environment, PYTHONPATH: absoluteOnly(path, windows) },
  };
}

/** The absolute entries of a list of paths, undefined for none: an empty entry means the working folder. */
function absoluteOnly(list: string, windows: boolean): string | undefined {
  const paths = windows ? win32 : posix;
  const kept = list.split(paths.delimiter).filter((entry) => paths.isAbsolute(entry));
  return kept.length === 0 ? undefined : kept.join(paths.delimiter);
}

/** Whether the output of `--version` is that of ckwatch. */
export function isVersion(output: string): boolean {
  return /^ckwatch \d/.test(output);
}

export interface Installer {
  /** The program that has to be there. */
  readonly program: string;
  /** What is typed into a terminal, before the folder of the source. */
  readonly line: string;
  readonly description: string;
}

/**
 * Ways to install the command from its source, the best first. Never by its name alone: ckwatch is on no package index, and
 * what somebody puts there under its name would be installed.
 */
export const INSTALLERS: readonly Installer[] = [
  { program: "uv", line: "uv tool install", description: "in an environment of its own, by uv" },
  { program: "pipx", line: "pipx install", description: "in an environment of its own, by pipx" },
  { program: "python3", line: "python3 -m pip install --user", description: "among your Python's packages, by pip" },
];

/** The line that installs from the folder, for a shell. */
export function installLine(line: string, folder: string, windows: boolean): string {
  return windows ? `${line} "${folder}"` : `${line} '${folder.replaceAll("'", "'\\''")}'`;
}

/** Whether the text is that of ckwatch's pyproject.toml. */
export function isSource(project: string): boolean {
  return /^\s*name\s*=\s*"ckwatch"\s*$/m.test(project);
}
