/** A user with a login, and prompts to the real agents. The agents call the models of the tests through the gateway. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text as readAll } from 'node:stream/consumers'
import { expect } from 'vitest'
import type { CommandResult } from '../craik.ts'
import { LoginScene, type Program } from '../gateway/login-scene.ts'
import type { Answerer, Service } from '../gateway/providers.ts'
import { shareHarnesses } from '../harness-image.ts'
import type { HomeInstance } from '../sandbox-home.ts'
import { selfSigned } from '../wire/certificate.ts'

/** How a user logs in for each agent, and the service that it calls then. */
export const AGENTS = {
  'claude-code': { login: 'claude', service: 'anthropic' },
  codex: { login: 'codex', service: 'codex' },
  gemini: { login: 'gemini', service: 'code-assist' },
  kimi: { login: 'kimi', service: 'kimi' },
  opencode: { key: 'OPENROUTER_API_KEY', service: 'openrouter' },
} as const satisfies Record<
  string,
  { readonly service: Service; readonly login?: Program; readonly key?: string }
>
export type AgentName = keyof typeof AGENTS

interface PromptEventLine {
  readonly type: string
  readonly [name: string]: unknown
}

export interface Prompted {
  readonly code: number | null
  readonly stderr: string
  readonly events: readonly PromptEventLine[]
  readonly said: string
  readonly runId: string
  readonly sandboxId: string
}

/** Opens a scene in which the agents are already installed. */
export async function openPrompts(instance: HomeInstance, answers: Answerer): Promise<LoginScene> {
  const scene = await LoginScene.open(instance, selfSigned(['127.0.0.1']), answers)
  await shareHarnesses(scene.home.home)
  return scene
}

/** Logs the user in for that agent. Returns the real credential, which must not be anywhere else afterwards. */
export async function logInFor(scene: LoginScene, name: AgentName): Promise<string> {
  const agent: { readonly login?: Program; readonly key?: string; readonly service: Service } = AGENTS[name]
  if (agent.login !== undefined) return scene.logIn(agent.login).access
  return scene.setKey(agent.key!, agent.service)
}

export async function prompt(scene: LoginScene, text: string, args: readonly string[]): Promise<Prompted> {
  return parsePrompted(await scene.home.run(['prompt', text, ...args], { timeoutMs: 150_000 }))
}

export interface Prompting {
  interrupt(): void
  readonly ended: Promise<Prompted>
}

/** Starts a prompt without waiting for its end. */
export function beginPrompt(scene: LoginScene, text: string, args: readonly string[]): Prompting {
  const { program, folder: cwd, environment: env, user } = scene.home
  const child = spawn(program.node, [program.main, 'prompt', text, ...args], {
    cwd,
    env,
    ...user,
    timeout: 150_000,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const reply = Promise.all([readAll(child.stdout), readAll(child.stderr), once(child, 'close')])
  return {
    interrupt: () => void child.kill('SIGINT'),
    ended: reply.then(([stdout, stderr, [code]]) => parsePrompted({ code, stdout, stderr })),
  }
}

function parsePrompted({ code, stdout, stderr }: CommandResult): Prompted {
  const events = stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as PromptEventLine)
  const started = events.find(({ type }) => type === 'started')
  return {
    code,
    stderr,
    events,
    said: events.map(({ type, text: words }) => (type === 'text' ? String(words) : '')).join(''),
    runId: String(started?.run_id ?? ''),
    sandboxId: String(started?.sandbox_id ?? ''),
  }
}

/** Checks what one of the prompt's tools did, as the agent reported it. */
export function expectRan(prompted: Prompted, command: string): void {
  const last = prompted.events.findLast(
    ({ type, title }) => type === 'tool' && String(title).includes(command),
  )
  expect(last, JSON.stringify(prompted, null, 1)).toMatchObject({ status: 'completed' })
}
