/**
 * Checks the inbox of a login sandbox before Craik creates anything else. Removes a new inbox if the command then
 * fails.
 */
import { existsSync, rmdirSync } from 'node:fs'
import { relative } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { LoginSandboxSettings, TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import { formatRepeatCommand } from '../../login-sandbox/next-commands.ts'
import { resolveWorkspace } from '../../sandboxes/backends/process/workspace.ts'
import { openInbox } from '../../transcripts/export/own-folder.ts'
import type { CliContext } from '../context.ts'

interface MadeInbox extends Disposable {
  /** Keeps the inbox, because a sandbox needs it now. */
  keep(): void
}

/** Creates the inbox before there is anything to save. Refuses an inbox that programs in the sandbox could write to. */
export async function requireInbox(
  context: CliContext,
  settings: LoginSandboxSettings,
  typed: TypedOptions,
): Promise<MadeInbox> {
  const { inbox, workspace } = settings
  const way = relative(workspace, inbox)
  if (way === '' || (way !== '..' && !way.startsWith('../'))) {
    requireProject(context, settings, typed)
    throw new CraikError('usage', 'the inbox is in the workspace, where the sandbox could change it', {
      hint: `choose another folder:  ${formatRepeatCommand('up', settings, typed, { inbox: 'FOLDER' })}`,
    })
  }
  let isRetained = existsSync(inbox)
  await (await openInbox(inbox)).close()
  return {
    keep: () => {
      isRetained = true
    },
    [Symbol.dispose]: () => {
      if (!isRetained) removeEmpty(inbox)
    },
  }
}

/**
 * A home folder contains its inbox and is not a project. Choosing another inbox would lead to the next refusal, so this
 * one comes first.
 */
function requireProject(
  { home, environment }: CliContext,
  settings: LoginSandboxSettings,
  typed: TypedOptions,
): void {
  try {
    resolveWorkspace(settings.workspace, home.root, environment)
  } catch (error) {
    if (!(error instanceof CraikError)) throw error
    throw new CraikError(error.code, error.message, {
      hint: `choose a project folder, such as a repository:  ${formatRepeatCommand('up', settings, typed, { workspace: 'FOLDER' })}`,
      cause: error,
    })
  }
}

/** Keeps an inbox that another program has used meanwhile, because it is not empty. */
function removeEmpty(inbox: string): void {
  try {
    rmdirSync(inbox)
  } catch {
    // The command reports the error that it failed with before.
  }
}
