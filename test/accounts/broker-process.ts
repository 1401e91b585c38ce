/** Runs a broker in a separate process. */
import { createBroker } from '../../src/accounts/broker.ts'
import { claudeCodeProbe } from '../../src/accounts/probes/claude-code.ts'
import { refreshInSubprocess } from '../../src/accounts/refresh/refresh-subprocess.ts'
import { type RefreshTask, refreshLogin } from '../../src/accounts/refresh/transaction.ts'
import { homeAt } from '../../src/store/home.ts'
import { callForEver, readInstructions } from './user-of-tokens.ts'

const instructions = readInstructions()
const { role, craikHome, userHome, tokenUrl, authority } = instructions
const never = new AbortController().signal
const here = (task: RefreshTask) => refreshLogin(task, AbortSignal.timeout(60_000))
const broker = createBroker({
  home: homeAt(craikHome),
  hostEnvironment: {
    userHome,
    environment: process.env,
    platform: 'linux',
    nowMs: () => Date.now(),
    mounted: async () => [],
  },
  overrides: async () => ({ 'claude-code': { token_url: tokenUrl } }),
  probes: [claudeCodeProbe],
  refresh: role === 'broker-apart' ? refreshInSubprocess : here,
  operator: 'local-user:tester',
  authorities: [authority],
  // The test's issuer lets tokens expire faster than any real one.
  freshMs: 0,
})
const generations = new Map<string, string>()
const tokenOf = (headers: Readonly<Record<string, string>>) => headers.authorization!.slice('Bearer '.length)

await callForEver(instructions, {
  async token() {
    const { headers, generation } = await broker.credential('claude-code', never)
    generations.set(tokenOf(headers), generation)
    return tokenOf(headers)
  },
  async getNewerToken(refused) {
    const next = await broker.renewAfterRefusal('claude-code', generations.get(refused)!, never)
    if (next === undefined) return undefined
    generations.set(tokenOf(next.headers), next.generation)
    return tokenOf(next.headers)
  },
})
