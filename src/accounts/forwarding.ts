/** A login as it is, for a sandbox whose person chose to hand over the real one: the file that its program reads. */
import { CraikError } from '../errors.ts'
import type { Found } from './probe-result.ts'
import { hostsFile } from './sentinel-files.ts'

export interface ForwardedLogin {
  /** Relative to the home folder inside. */
  readonly path: string
  /** The name below `/run/secrets` that it goes in by. */
  readonly tmpfsName: string
  /** Byte for byte what the host's file holds. The caller wipes it after use. */
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
/** Where earlier tools looked: what is found there goes there. */
const EARLIER_GEMINI = '.config/gemini/credentials.json'

export async function forwardedLogin(found: Found, until: AbortSignal): Promise<ForwardedLogin> {
  const { account, login } = found
  const place = PLACES.find(([id]) => id.test(account.id))
  if (place === undefined)
    throw new CraikError('unavailable', `${account.id} is not a file that Craik can copy into a sandbox`, {
      hint: 'use the broker, which needs no file:  --credentials broker',
    })
  const [, usual, tmpfsName] = place
  const path = account.source.endsWith('gemini/credentials.json') ? EARLIER_GEMINI : usual
  if (account.family === 'github' && login.kind === 'key')
    return { path, tmpfsName, content: Buffer.from(hostsFile(account, await login.read(until))) }
  const snapshot = await login.vault?.read(until)
  if (snapshot !== undefined) return { path, tmpfsName, content: Buffer.from(snapshot.text) }
  throw new CraikError('unavailable', `${account.source} no longer contains a login`, {
    hint: 'list the logins:  craik accounts',
  })
}
