/** Where the inbox of a login's sandbox is: found good before anything is made, and made for nothing that is refused. */
import { existsSync, rmdirSync } from 'node:fs'
import { relative } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { LoginSandboxSettings, Typed } from '../../login-sandbox/login-sandbox-settings.ts'
import { craikAgain } from '../../login-sandbox/next-commands.ts'
import { resolveWorkspace } from '../../sandboxes/backends/process/workspace.ts'
import { openInbox } from '../../transcripts/export/own-folder.ts'
import type { CliContext } from '../context.ts'

interface MadeInbox extends Disposable {
  /** There is a sandbox that needs it: it stays. */
  keep(): void
}

/** What is to be saved has a place before there is anything to be saved, and not one that the inside can write to. */
export async function requireInbox(
  context: CliContext,
  settings: LoginSandboxSettings,
  typed: Typed,
): Promise<MadeInbox> {
  const { inbox, workspace } = settings
  const way = relative(workspace, inbox)
  if (way === '' || (way !== '..' && !way.startsWith('../'))) {
    requireProject(context, settings, typed)
    throw new CraikError('usage', 'the inbox is in the workspace, where the sandbox could change it', {
      hint: `choose another folder:  ${craikAgain('up', settings, typed, { inbox: 'FOLDER' })}`,
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

/** A home holds its inbox, and is no project: whoever chose another inbox would be refused again. */
function requireProject(
  { home, environment }: CliContext,
  settings: LoginSandboxSettings,
  typed: Typed,
): void {
  try {
    resolveWorkspace(settings.workspace, home.root, environment)
  } catch (error) {
    if (!(error instanceof CraikError)) throw error
    throw new CraikError(error.code, error.message, {
      hint: `choose a project folder, such as a repository:  ${craikAgain('up', settings, typed, { workspace: 'FOLDER' })}`,
      cause: error,
    })
  }
}

/** One that somebody used meanwhile is not empty, and stays. */
function removeEmpty(inbox: string): void {
  try {
    rmdirSync(inbox)
  } catch {
    // What it was made for is what failed, and is told.
  }
}
