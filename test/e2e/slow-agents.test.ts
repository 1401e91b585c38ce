/**
 * The real agents on a host so busy that each reads its prompt late. Craik stops none of them before it has recorded
 * the prompt.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import type { LoginScene } from '../gateway/login-scene.ts'
import { HARNESSES_MS } from '../harness-image.ts'
import { FaultyAnswers } from '../harnesses/agent-providers.ts'
import {
  AGENTS,
  type AgentName,
  beginPrompt,
  logInFor,
  openPrompts,
  type Prompted,
} from '../harnesses/prompt-scene.ts'
import type { LiveSandbox } from '../sandbox-home.ts'

const NAMES = Object.keys(AGENTS) as AgentName[]
const PROGRAMS: Readonly<Record<AgentName, string>> = {
  'claude-code': 'claude-agent-acp',
  codex: 'codex-acp',
  gemini: 'gemini',
  kimi: 'kimi',
  opencode: 'opencode',
}
/** Longer than Craik needs to detect a refused login, and shorter than it waits for an agent to stop. */
const PROMPT_DELAY_MS = 2500
const START_LIMIT_MS = 90_000

/**
 * Returns a program that runs the agent and passes on each prompt late. While `~/refused` exists, the program also
 * makes model calls with a wrong login.
 */
const delayingProgram = (name: AgentName) => `#!/opt/craik/node
const { spawn } = process.getBuiltinModule('node:child_process')
const { existsSync, writeFileSync } = process.getBuiltinModule('node:fs')
const { setTimeout: sleep } = process.getBuiltinModule('node:timers/promises')
const lines = process.getBuiltinModule('node:readline').createInterface({ input: process.stdin })
const program = '/opt/craik-harnesses/${name}/bin/${PROGRAMS[name]}'
const agent = spawn(program, process.argv.slice(2), { stdio: ['pipe', 'inherit', 'inherit'] })
agent.on('exit', (code) => process.exit(code ?? 1))
agent.stdin.on('error', () => {})
const refused = () => fetch('http://127.0.0.1:8118/v1/messages', {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'x-api-key': 'wrong', 'anthropic-version': '2023-06-01' },
  body: JSON.stringify({ model: 'x', max_tokens: 1, messages: [{ role: 'user', content: 'x' }] }),
})
let passed = (async () => {})()
lines.on('line', (line) => {
  passed = passed.then(async () => {
    if (JSON.parse(line).method === 'session/prompt') {
      writeFileSync('/workspace/home/held', '')
      const endsMs = performance.now() + ${PROMPT_DELAY_MS}
      while (performance.now() < endsMs) {
        if (existsSync('/workspace/home/refused')) await refused()
        await sleep(50)
      }
    }
    agent.stdin.write(line + '\\n')
  })
})
lines.on('close', () => passed.then(() => agent.stdin.end()))
`

let scene: LoginScene
let box: LiveSandbox
beforeAll(async () => {
  scene = await openPrompts({ identity: 'root' }, new FaultyAnswers().answer)
  for (const name of NAMES) await logInFor(scene, name)
  box = await scene.create(['--harness', 'all', '--memory', '4g', '--pids', '512'])
  for (const name of NAMES)
    await sh('mkdir -p ~/.local/bin && printf %s "$1" >"$0" && chmod +x "$0"', [
      `/workspace/home/.local/bin/${PROGRAMS[name]}`,
      delayingProgram(name),
    ])
}, HARNESSES_MS)
afterAll(() => scene?.[Symbol.asyncDispose]())

async function sh(script: string, args: readonly string[] = []): Promise<void> {
  expect(await box.exec(['sh', '-c', script, ...args])).toMatchObject({ code: 0 })
}

/** Starts a prompt, and waits until the program holds back the prompt from the agent. */
async function ask(name: AgentName, text: string) {
  await sh('rm -f ~/held')
  const requested = beginPrompt(scene, text, ['--harness', name, '--sandbox', box.id])
  const isOver = requested.ended.then(() => true)
  for (const endsMs = performance.now() + START_LIMIT_MS; performance.now() < endsMs; ) {
    if ((await box.exec(['test', '-e', '/workspace/home/held'])).code === 0) return requested
    if (await Promise.race([isOver, sleep(100, false)])) break
  }
  throw new Error(`the agent got no prompt: ${JSON.stringify(await requested.ended)}`)
}

/** Checks that the exported conversation of the run's session contains the prompt. */
async function expectExported(prompted: Prompted, text: string): Promise<void> {
  const message = JSON.stringify(prompted, null, 1)
  const { agent_session } = await scene.home.json<{ readonly agent_session: string | null }>([
    'run',
    'show',
    prompted.runId,
    '--format',
    'json',
  ])
  expect(agent_session, message).not.toBeNull()
  const rows = await scene.home.json<readonly { readonly id: string; readonly path: string }[]>([
    'transcripts',
    'export',
    '--sandbox',
    box.id,
    '--inbox',
    scene.home.path('inbox'),
    '--format',
    'json',
  ])
  const row = rows.find(({ id }) => id === agent_session)
  expect(row, message).toBeDefined()
  expect(readFileSync(row!.path, 'utf8')).toContain(text)
}

it.each(NAMES)('%s records a prompt that Craik gives up', async (name) => {
  await sh('touch ~/refused')
  const text = `RUN: echo given up > ${name}.txt`
  const prompted = await (await ask(name, text)).ended
  await sh('rm ~/refused')
  expect(prompted, JSON.stringify(prompted, null, 1)).toMatchObject({ code: ERRORS.no_login.exit })
  await expectExported(prompted, text)
})
