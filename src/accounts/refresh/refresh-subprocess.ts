/** Refreshes a login in a separate process, which finishes even if this one is killed. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { hostEnvironment } from '../../lib/child.ts'
import { PINS_VARIABLE, pinPrograms } from '../../lib/host-programs.ts'
import { packageFile } from '../../lib/package-files.ts'
import type { RefreshRequest } from './refresh-request.ts'
import { refreshResult } from './refresh-request.ts'
import type { RefreshOutcome, RefreshTask } from './transaction.ts'

/** Longer than the longest time for which a program's lock counts as alive after its holder was killed. */
const DEADLINE_MS = 100_000
/** The caller stops waiting after this. The process itself stops earlier, at `DEADLINE_MS`. */
const GIVE_UP_MS = 110_000
const MAX_ANSWER_BYTES = 16_384

/** Variables that locate logins, set trusted certificates and reach the keychain. */
const PASSED_ON = [
  'CLAUDE_CONFIG_DIR',
  'CODEX_HOME',
  'GEMINI_CLI_HOME',
  'KIMI_CODE_HOME',
  'XDG_CONFIG_HOME',
  'XDG_DATA_HOME',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'NODE_COMPILE_CACHE',
  PINS_VARIABLE,
]

const HELPER = import.meta.url.endsWith('.ts') ? 'src/accounts/refresh/main.ts' : 'src/refresh-login.cjs'

export async function refreshInSubprocess(task: RefreshTask): Promise<RefreshOutcome> {
  const { environment, userHome, platform, overrides } = task.hostEnvironment
  const mounted = [...(await task.hostEnvironment.mounted())]
  const env: Record<string, string> = hostEnvironment(environment)
  for (const name of PASSED_ON) if (environment[name]) env[name] = environment[name]
  env[PINS_VARIABLE] ??= JSON.stringify(pinPrograms(environment))
  const child = spawn(process.execPath, [fileURLToPath(packageFile(HELPER))], {
    cwd: '/',
    env,
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const { promise, resolve } = Promise.withResolvers<RefreshOutcome>()
  const fail = (reason: string) => resolve({ outcome: 'failed', reason })
  const timer = setTimeout(() => fail('refreshing it took too long'), GIVE_UP_MS)
  let answer = ''
  child.on('error', () => fail('the process that refreshes it could not be started'))
  child.stdin.on('error', () => {})
  child.stdout.on('data', (chunk: Buffer) => {
    if (answer.length < MAX_ANSWER_BYTES) answer += chunk.toString()
  })
  child.on('close', () => {
    const parsed = refreshResult.safeParse(parse(answer))
    if (parsed.success) resolve(parsed.data)
    else fail('the process that refreshes it ended without an answer')
  })
  const request: RefreshRequest = {
    craikHome: task.home.root,
    mounted,
    userHome,
    platform,
    overrides,
    accountId: task.accountId,
    unwanted: task.unwanted,
    deadlineMs: DEADLINE_MS,
    ...(task.authorities && { authorities: [...task.authorities] }),
  }
  child.stdin.end(JSON.stringify(request))
  try {
    return await promise
  } finally {
    clearTimeout(timer)
    child.unref()
    child.stdout.destroy()
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
