/** A real login, for a sandbox that runs with `--credentials forward`: the file that its program reads. */
import { CraikError } from '../errors.ts'
import { logInAgain } from './log-in-again.ts'
import type { Found } from './probe-result.ts'
import { hostsFile } from './sentinel-files.ts'

export interface ForwardedLogin {
  /** Relative to the sandbox home. */
  readonly path: string
  /** Its file name below `/run/secrets`, on its way into the sandbox. */
  readonly tmpfsName: string
  /** The bytes of the host's file, unchanged. The caller wipes them after use. */
  readonly content: Buffer
}

const PLACES: readonly (readonly [id: RegExp, path: string, tmpfsName: string])[] = [
  [/^claude-code$/, '.claude/.credentials.json', 'anthropic_token'],
  [/^codex(?:\/|$)/, '.codex/auth.json', 'openai_token'],
  [/^gemini$/, '.gemini/oauth_creds.json', 'gemini_token'],
  [/^kimi$/, '.kimi-code/credentials/kimi-code.json', 'kimi_token'],
  [/^opencode\//, '.local/share/opencode/auth.json', 'openrouter_token'],
  [/^github$/, '.config/gh/hosts.yml', 'gh_token'],
]
/** The path that earlier tools used. A login that was found there goes to the same path in the sandbox. */
const EARLIER_GEMINI = '.config/gemini/credentials.json'

export async function readForwardedLogin(found: Found, until: AbortSignal): Promise<ForwardedLogin> {
  const { account, login } = found
  const place = PLACES.find(([id]) => id.test(account.id))
  if (place === undefined)
    throw new CraikError(
      'unavailable',
      `cannot forward the login ${account.id}: it is not in a file that Craik can copy into a sandbox`,
      { hint: 'give the sandbox a placeholder credential instead:  --credentials broker' },
    )
  const [, usual, tmpfsName] = place
  const path = account.source.endsWith('gemini/credentials.json') ? EARLIER_GEMINI : usual
  if (account.family === 'github' && login.kind === 'key')
    return { path, tmpfsName, content: Buffer.from(hostsFile(account, await login.read(until))) }
  const snapshot = await login.vault?.read(until)
  if (snapshot !== undefined) return { path, tmpfsName, content: Buffer.from(snapshot.text) }
  throw new CraikError('unavailable', `${account.source} no longer contains the login ${account.id}`, {
    hint: logInAgain(account.id),
  })
}
