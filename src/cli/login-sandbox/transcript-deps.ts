/**
 * Locates the conversations of a login sandbox: in its volume, read on the host, with the same scope in every command.
 */
import { join } from 'node:path'
import { createMirroredHome } from '../../login-sandbox/keep/mirrored-home.ts'
import { LLM_STATE } from '../../login-sandbox/keep/mirrors.ts'
import { sandboxNameOf, volumesOf } from '../../login-sandbox/login-names.ts'
import type { TranscriptSource } from '../../transcripts/source.ts'
import type { CliContext } from '../context.ts'

interface TranscriptContext {
  readonly source: TranscriptSource
  readonly scope: string
  readonly sandbox: string
}

/** Also works for a sandbox that is stopped or removed. */
export function transcriptDeps(
  { home, signal }: Pick<CliContext, 'home' | 'signal'>,
  login: string,
  onProblem?: (path: string, problem: string) => void,
): TranscriptContext {
  const { name } = volumesOf(login).find(({ at }) => at === LLM_STATE)!
  return {
    source: createMirroredHome(join(home.volumes, name), { signal, ...(onProblem && { onProblem }) }),
    scope: `login/${login}`,
    sandbox: sandboxNameOf(login),
  }
}
