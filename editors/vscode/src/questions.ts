/** Questions of the server: a notification with buttons, or a list where there are more than a notification can hold. */

import { window } from "vscode";
import { MessageType, type MessageActionItem, type ShowMessageRequestParams } from "vscode-languageclient";

const BUTTONS = 3;

export async function ask({ type, message, actions = [] }: ShowMessageRequestParams): Promise<MessageActionItem | null> {
  if (actions.length > BUTTONS) {
    const chosen = await window.showQuickPick(
      actions.map((action) => ({ label: action.title, action })),
      { placeHolder: message, ignoreFocusOut: true },
    );
    return chosen?.action ?? null;
  }
  switch (type) {
    case MessageType.Error:
      return (await window.showErrorMessage(message, ...actions)) ?? null;
    case MessageType.Warning:
      return (await window.showWarningMessage(message, ...actions)) ?? null;
    default:
      return (await window.showInformationMessage(message, ...actions)) ?? null;
  }
}
