/**
 * Builds what a login sandbox gets whenever the user enters it: the settings of the agents for the gateway, and the
 * environment for git.
 */
import { Readable } from 'node:stream'
import type { Account } from '../../accounts/account.ts'
import { selectPreferredAccounts } from '../../accounts/sentinel-files.ts'
import { HARNESSES } from '../../harnesses/all.ts'
import { type Harness, type HarnessContext, loginFor } from '../../harnesses/harness.ts'
import { newId } from '../../lib/ids.ts'
import type { SandboxBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { runJob } from '../../sdk/run-job.ts'
import { GATEWAY_PORT, INSIDE } from '../../sidecar/protocol.ts'
import type { CliContext } from '../context.ts'

const GATEWAY = `http://127.0.0.1:${GATEWAY_PORT}`
const MAX_SAID = 4096
const DEADLINE_MS = 60_000

function agents(): readonly Harness[] {
  return Object.values(HARNESSES).filter(({ logins }) => logins.length > 0)
}

function contextOf(harness: Harness, accounts: readonly Account[]): HarnessContext {
  const login = loginFor(harness, selectPreferredAccounts(accounts))
  return { gateway: GATEWAY, login, model: undefined, trustsProject: true }
}

/** Returns the variables for every command, in addition to those that the sandbox has already. */
export function commandEnvironment(
  sandbox: Pick<SandboxBody, 'name'>,
  accounts: readonly Account[],
  author: { readonly name: string; readonly email: string } | undefined,
): Record<string, string> {
  return {
    // These are variables, because a repository's own settings would override those of the home.
    ...(author && {
      GIT_AUTHOR_NAME: author.name,
      GIT_AUTHOR_EMAIL: author.email,
      GIT_COMMITTER_NAME: author.name,
      GIT_COMMITTER_EMAIL: author.email,
    }),
    ...Object.assign({}, ...agents().map((harness) => harness.environment(contextOf(harness, accounts)))),
    CRAIK_SANDBOX_NAME: sandbox.name,
  }
}

/** Returns the settings for agents that have none yet. */
export function agentSettings(
  accounts: readonly Account[],
): readonly { readonly path: string; readonly content: string }[] {
  return agents().flatMap((harness) => harness.settings(contextOf(harness, accounts)))
}

/**
 * Runs a script of Craik over the boundary, as the user of the sandbox. Returns undefined on success, otherwise the
 * last line that the script wrote to stderr. A failure does not prevent the user from entering, because programs in the
 * sandbox can change the home in any way.
 */
export async function runScript(
  context: CliContext,
  client: ApiClient,
  sandbox: SandboxBody,
  script: string,
): Promise<string | undefined> {
  let output = ''
  const { result } = await runJob(
    client,
    sandbox.id,
    { kind: 'exec', argv: ['/bin/sh', '-s'], stdin: true, cwd: INSIDE.home, timeout_ms: DEADLINE_MS },
    {
      jobId: newId('job', context.clock.nowMs()),
      signal: context.signal,
      stdin: Readable.from([Buffer.from(script)]),
      onStderr: (chunk) => {
        output = `${output}${chunk.toString()}`.slice(-MAX_SAID)
      },
    },
  )
  if (result.outcome === 'exited' && result.exitCode === 0) return undefined
  return (
    output
      .trim()
      .split('\n')
      .at(-1)
      ?.replace(/^craik: /, '')
      .slice(0, 300) || 'the script failed'
  )
}
