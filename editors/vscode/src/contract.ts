/** Names on which the extension, its manifest and the language server agree. */

/** The settings that are the server's; the others of the section are the editor's own. */
export const SERVER_SETTINGS = [
  "hints",
  "lenses",
  "hovers",
  "profile",
  "profileAgainst",
  "informationDiagnostics",
  "checkOnType",
  "hostCheckOnType",
  "buildFirst",
  "startDaemon",
  "shape",
  "cpp",
  "cppHints",
] as const;

export const EDITOR_SETTINGS = ["command", "linkedScrolling", "trace.server"] as const;

/** Commands that the server carries out. */
export const SERVER_COMMANDS = [
  "ckwatch.run",
  "ckwatch.build",
  "ckwatch.verify",
  "ckwatch.rank",
  "ckwatch.tune",
  "ckwatch.cancel",
  "ckwatch.setBaseline",
  "ckwatch.compare",
  "ckwatch.openSource",
  "ckwatch.openIsa",
  "ckwatch.openProfile",
  "ckwatch.chooseInstance",
  "ckwatch.trust",
  "ckwatch.restartDaemon",
] as const;

/** Commands that need more than the server, or that do without it. */
export const EDITOR_COMMANDS = ["ckwatch.showLog", "ckwatch.showOutput", "ckwatch.restartServer", "ckwatch.install"] as const;
