/** Other `*.j2` files of a ckwatch workspace, which templates include, are templates as well. */

import { FileType, Uri, languages, workspace, type Disposable, type TextDocument } from "vscode";

export function recogniseIncludedTemplates(): Disposable {
  workspace.textDocuments.forEach((document) => void recognise(document));
  return workspace.onDidOpenTextDocument((document) => void recognise(document));
}

async function recognise(document: TextDocument): Promise<void> {
  const unclaimed = document.languageId === "plaintext" && document.uri.scheme === "file" && document.uri.path.endsWith(".j2");
  if (unclaimed && (await isInWorkspace(document.uri))) {
    await languages.setTextDocumentLanguage(document, "ckwatch-template");
  }
}

async function isInWorkspace(uri: Uri): Promise<boolean> {
  const top = workspace.getWorkspaceFolder(uri)?.uri.path ?? "/";
  for (let folder = Uri.joinPath(uri, ".."); ; folder = Uri.joinPath(folder, "..")) {
    if (await isFile(Uri.joinPath(folder, "ckwatch.toml"))) {
      return true;
    }
    if (folder.path === top || folder.path === "/") {
      return false;
    }
  }
}

async function isFile(uri: Uri): Promise<boolean> {
  try {
    return ((await workspace.fs.stat(uri)).type & FileType.File) !== 0;
  } catch {
    return false;
  }
}
