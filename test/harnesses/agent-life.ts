/**
 * The requirements for every agent in every kind of sandbox: work, resume, respect a refusal, and report an error of
 * its provider.
 */
import { expect } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import type { LoginScene } from '../gateway/login-scene.ts'
import type { Service } from '../gateway/providers.ts'
import { DONE } from './agent-model.ts'
import type { FaultyAnswers } from './agent-providers.ts'
import { Editor } from './editor.ts'
import { AGENTS, type AgentName, expectRan, type Prompted, prompt } from './prompt-scene.ts'

/** Checks that the agent works in a sandbox that has it. `real` is the real credential of the user. */
export async function worksAndGoesOn(
  scene: LoginScene,
  name: AgentName,
  sandbox: string,
  real: string,
): Promise<readonly Prompted[]> {
  const proof = `proof-${name}.txt`
  const first = await prompt(scene, `RUN: echo made > ${proof}`, ['--harness', name, '--sandbox', sandbox])
  expect(first, JSON.stringify(first, null, 1)).toMatchObject({ code: 0 })
  expectRan(first, `echo made > ${proof}`)
  expect(first.said).toContain(DONE)
  const second = await prompt(scene, `RUN: echo more >> ${proof}`, ['--resume', first.runId])
  expect(second, JSON.stringify(second, null, 1)).toMatchObject({ code: 0, sandboxId: first.sandboxId })
  const { stdout } = await scene.home.client().sandboxes.exec(first.sandboxId, { argv: ['cat', proof] })
  expect(stdout.data).toBe('made\nmore\n')

  const calls = scene.providers.take().filter(({ service }) => service === AGENTS[name].service)
  expect(calls.length).toBeGreaterThan(2)
  for (const { status, headers } of calls) {
    expect(status).toBe(200)
    expect(JSON.stringify(headers)).toContain(real)
  }
  // Codex uses WebSocket wherever it is available.
  if (name === 'codex')
    for (const { path, headers } of calls)
      if (path === '/responses') expect(headers.upgrade).toBe('websocket')
  // The resumed run sends the earlier conversation to the model.
  const requests = calls.filter(({ body }) => body.includes(`echo more >> ${proof}`))
  expect(requests.some(({ body }) => body.includes(`echo made > ${proof}`))).toBe(true)
  return [first, second]
}

/**
 * Does the same with an editor, through `craik acp`. The editor approves commands, and another editor resumes the
 * session.
 */
export async function worksForEditor(
  scene: LoginScene,
  name: AgentName,
  sandbox: string,
): Promise<readonly unknown[]> {
  const proof = `edited-${name}.txt`
  const args = ['--harness', name, '--sandbox', sandbox, '--permissions', 'ask']
  const allOutput = (editor: Editor) => `${editor.stderr} ${JSON.stringify(editor.heard)}`
  await using first = new Editor(scene.home, args)
  await first.initialize()
  const { sessionId } = await first.begin(scene.home.folder)
  const made = await first.prompt(sessionId, `RUN: echo made > ${proof}`)
  expect(made, allOutput(first)).toEqual({ stopReason: 'end_turn' })
  expect(first.asked, allOutput(first)).toMatchObject([{ sessionId, toolCall: { kind: 'execute' } }])
  expect(first.textOf(sessionId), allOutput(first)).toContain(DONE)
  await first.hangUp()

  await using second = new Editor(scene.home, args)
  await second.initialize()
  await second.agent.request('session/load', { sessionId, cwd: scene.home.folder, mcpServers: [] })
  second.answer = 'reject'
  await second.prompt(sessionId, `RUN: echo no >> ${proof}`)
  second.answer = 'allow'
  const more = await second.prompt(sessionId, `RUN: echo more >> ${proof}`)
  expect(more, allOutput(second)).toEqual({ stopReason: 'end_turn' })
  const { stdout } = await scene.home.client().sandboxes.exec(sandbox, { argv: ['cat', proof] })
  expect(stdout.data, allOutput(second)).toBe('made\nmore\n')
  for (const { strange, reached } of [first, second]) expect([strange, reached]).toEqual([[], []])
  return [...first.heard, ...second.heard]
}

/** Checks that a command without permission has no effect. */
export async function isRefused(scene: LoginScene, name: AgentName, sandbox: string): Promise<Prompted> {
  const refused = await prompt(scene, 'RUN: echo no > refused.txt', [
    '--harness',
    name,
    '--sandbox',
    sandbox,
    '--permissions',
    'deny',
  ])
  const decided = refused.events.filter(({ type }) => type === 'permission')
  expect(decided, JSON.stringify(refused, null, 1)).toMatchObject([{ allowed: false }])
  const { exit_code } = await scene.home
    .client()
    .sandboxes.exec(sandbox, { argv: ['test', '-e', 'refused.txt'] })
  expect(exit_code).toBe(1)
  return refused
}

/** Checks that the user gets an error when a provider refuses a request, and never a success or a timeout. */
export async function checkProviderErrors(
  scene: LoginScene,
  answers: FaultyAnswers,
  name: AgentName,
  sandbox: string,
): Promise<readonly Prompted[]> {
  const service: Service = AGENTS[name].service
  const reported: Prompted[] = []
  for (const [status, code] of [
    [401, ERRORS.no_login.exit],
    [429, ERRORS.quota_exceeded.exit],
  ] as const) {
    answers.fail(service, status)
    const prompted = await prompt(scene, `RUN: echo ${status}`, [
      '--harness',
      name,
      '--sandbox',
      sandbox,
      '--timeout',
      '2m',
    ])
    answers.fail(service, undefined)
    expect({ status, ...prompted }, JSON.stringify(prompted, null, 1)).toMatchObject({ code })
    reported.push(prompted)
  }
  return reported
}
