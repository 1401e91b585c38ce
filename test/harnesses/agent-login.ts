/**
 * An agent whose login has expired on the host: Craik refreshes it without an effect on the sandbox, or reports it to
 * the user.
 */
import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import type { LoginScene } from '../gateway/login-scene.ts'
import { DONE } from './agent-model.ts'
import { AGENTS, type AgentName, type Prompted, prompt } from './prompt-scene.ts'

export type LoginName = Exclude<AgentName, 'opencode'>

const HOUR_MS = 3_600_000
/** The command or choice that error messages suggest after a login has ended. */
const LOG_IN: Readonly<Record<LoginName, string>> = {
  'claude-code': 'claude /login',
  codex: 'codex login',
  gemini: 'Login with Google',
  kimi: 'kimi login',
}

/**
 * Checks that the issuer rotates both tokens once. They are in the user's own file and nowhere in the sandbox (`hunt`
 * checks that).
 */
export async function isRenewed(scene: LoginScene, name: LoginName, sandbox: string): Promise<Prompted> {
  const { issuer } = scene
  const { login, service } = AGENTS[name]
  const before = issuer.refreshes.length
  const old = scene.logIn(login, -HOUR_MS)
  expect(issuer.isAlive(old.access)).toBe(false)
  scene.providers.take()
  const renewed = await prompt(scene, 'RUN: echo renewed', ['--harness', name, '--sandbox', sandbox])
  expect(renewed, JSON.stringify(renewed, null, 1)).toMatchObject({ code: 0 })
  expect(renewed.said).toContain(DONE)
  expect(issuer.refreshes.slice(before)).toMatchObject([{ fields: { refresh_token: old.refresh } }])
  const [access, refresh] = issuer.issued.slice(-2)
  const file = readFileSync(scene.fileOf(login), 'utf8')
  expect(file).toContain(access)
  expect(file).toContain(refresh)
  expect(file).not.toContain(old.access)
  expect(file).not.toContain(old.refresh)
  const calls = scene.providers.take().filter((call) => call.service === service)
  expect(calls.length).toBeGreaterThan(0)
  for (const { status, headers } of calls) {
    expect(status).toBe(200)
    expect(JSON.stringify(headers)).toContain(access)
  }
  return renewed
}

/**
 * Checks that the user gets the error and the command in time. The second prompt starts nothing, because Craik has
 * recorded the end of the login. Prompts work again after the user logs in.
 */
export async function checkEndedLogin(
  scene: LoginScene,
  name: LoginName,
  sandbox: string,
): Promise<readonly Prompted[]> {
  const { login } = AGENTS[name]
  const ask = (text: string) =>
    prompt(scene, text, ['--harness', name, '--sandbox', sandbox, '--timeout', '1m'])
  const { access } = scene.logIn(login, -HOUR_MS)
  scene.issuer.broken = { status: 400, text: '{"error":"invalid_grant"}' }
  const found = await ask('RUN: echo no > ended.txt')
  const known = await ask('RUN: echo no > ended.txt')
  scene.issuer.broken = undefined
  for (const reported of [found, known]) {
    expect(reported, JSON.stringify(reported, null, 1)).toMatchObject({ code: ERRORS.no_login.exit })
    expect(reported.stderr).toMatch(new RegExp(`^craik: ${name}: the login in \\S+ has ended`))
    expect(reported.stderr).toContain(LOG_IN[name])
    expect(reported.stderr).not.toContain(access)
  }
  expect(known.events).toEqual([])
  scene.logIn(login)
  const again = await ask('RUN: echo again')
  expect(again, JSON.stringify(again, null, 1)).toMatchObject({ code: 0 })
  return [found, known, again]
}
