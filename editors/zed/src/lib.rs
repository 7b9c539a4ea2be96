//! Starts `ckwatch lsp` from the PATH of the worktree. Everything that is shown comes from it.

use zed_extension_api::{self as zed, LanguageServerId, Result};

struct Ckwatch;

impl zed::Extension for Ckwatch {
    fn new() -> Self {
        Self
    }

    fn language_server_command(
        &mut self,
        _server: &LanguageServerId,
        worktree: &zed::Worktree,
    ) -> Result<zed::Command> {
        let command = worktree.which("ckwatch").ok_or_else(|| {
            "ckwatch is not on the PATH: install it from a clone, uv tool install ./ckwatch"
                .to_string()
        })?;
        Ok(zed::Command {
            command,
            args: vec!["lsp".to_string()],
            env: worktree.shell_env(),
        })
    }

    fn language_server_workspace_configuration(
        &mut self,
        _server: &LanguageServerId,
        worktree: &zed::Worktree,
    ) -> Result<Option<zed::serde_json::Value>> {
        let settings = zed::settings::LspSettings::for_worktree("ckwatch", worktree)?.settings;
        Ok(Some(
            zed::serde_json::json!({ "ckwatch": settings.unwrap_or_default() }),
        ))
    }
}

zed::register_extension!(Ckwatch);
